"""The memory that a comparison by the grid engine needs at its peak, from the sizes of its grids alone."""

from __future__ import annotations

import math
from typing import NamedTuple

LARGE_PIXELS = 1 << 20  # of a work grid: problems on larger ones are solved in turns, and freed memory is returned
LARGEST_FACTOR = 64


class BytesPerPx(NamedTuple):
    """Bytes for each pixel (voxel) of the canvas, of the work grid, and of each mask on the work grid."""

    canvas: int
    work: int
    with_mass: int


# Upper bounds of the peaks of fresh processes, on images of 1024^2 to 3072^2 px and volumes of 96^3 to 320^3 voxels of which 1 %
# to 50 % have mass, in 1 to 900 pieces: 1.00 to 1.45 times the peak (docs/volumes.md).
SIDE_BY_SIDE = BytesPerPx(
    50, 465, 650
)  # the pair and its self-problems at the same time, on work grids up to LARGE_PIXELS
IN_TURNS = BytesPerPx(40, 270, 270)
BYTES_PER_CANVAS_PX = 90  # of the maps of a result: 55 to 80 while it is made, 90 while its page is drawn


def comparison_bytes(canvas_px: int, work_px: int, n_with_mass: int) -> int:
    """Bytes at the peak, beyond those of the two masks and of the libraries.

    Parameters
    ----------
    canvas_px : int
        Pixels (voxels) of the canvas.
    work_px : int
        Of the work grid: the box around both masks, divided by the downsample factor.
    n_with_mass : int
        Work pixels with mass, source and target together.
    """
    per = SIDE_BY_SIDE if work_px <= LARGE_PIXELS else IN_TURNS
    while_solving = per.canvas * canvas_px + per.work * work_px + per.with_mass * n_with_mass
    return max(while_solving, BYTES_PER_CANVAS_PX * canvas_px)


def factor_that_fits(
    canvas_px: int, work_px: int, n_with_mass: int, n_axes: int, factor: int, available: int
) -> int | None:
    """The smallest larger downsample factor whose comparison fits into `available` bytes; None if there is none.

    `work_px` and `n_with_mass` are those at `factor`.
    """
    for larger in range(factor + 1, LARGEST_FACTOR + 1):
        shrink = factor / larger
        # Pixels at the outline of a mask have mass too: those of a thin mask shrink like its outline.
        work, with_mass = (
            math.ceil(px * shrink**power) for px, power in ((work_px, n_axes), (n_with_mass, n_axes - 1))
        )
        if comparison_bytes(canvas_px, work, min(with_mass, 2 * work)) <= available:
            return larger
    return None

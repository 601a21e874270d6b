"""Memory of a volume: what a comparison needs is known before it starts, and what does not fit is refused."""

from __future__ import annotations

import math

from pairframe.errors import FrameError
from pairframe.notices import Notice, warning
from pairframe.parallel.memory import available_bytes

# Measured at 160^3 to 384^3 with balls, tubes and rods (docs/volumes.md), and rounded up.
BYTES_PER_CANVAS_VOXEL, BYTES_PER_WORK_VOXEL, BYTES_PER_VOXEL_WITH_MASS = 30, 240, 210
LARGE_SHARE = 0.5  # of the free memory: a larger comparison is announced


def volume_bytes(canvas_shape: tuple[int, ...], work_shape: tuple[int, ...], n_with_mass: int) -> int:
    """Bytes that a comparison of two volumes by the grid engine needs at its peak.

    Parameters
    ----------
    canvas_shape : (Zc, Yc, Xc)
        Of the volumes.
    work_shape : (Zw, Yw, Xw)
        Of the box around both masks, divided by the downsample factor.
    n_with_mass : int
        Work voxels with mass, source and target together.
    """
    return (
        BYTES_PER_CANVAS_VOXEL * math.prod(canvas_shape)
        + BYTES_PER_WORK_VOXEL * math.prod(work_shape)
        + BYTES_PER_VOXEL_WITH_MASS * n_with_mass
    )


def check_volume_memory(
    canvas_shape: tuple[int, ...], work_shape: tuple[int, ...], n_with_mass: int, factor: int
) -> Notice | None:
    """A notice about a comparison that takes most of the memory; an error if there is not enough for it.

    `factor` is the downsample factor, from which one that fits is suggested.
    """
    needed, available = volume_bytes(canvas_shape, work_shape, n_with_mass), available_bytes()
    words = f"about {needed / 1e9:.3g} GB of memory for a canvas of {' x '.join(map(str, canvas_shape))} voxels"
    if needed <= LARGE_SHARE * available:
        return None
    canvas = BYTES_PER_CANVAS_VOXEL * math.prod(canvas_shape)
    room = available - canvas
    fix = "crop the volumes, or use a machine with more memory"
    if room > 0:
        fix = f"use downsample_factor={max(factor + 1, math.ceil(factor * ((needed - canvas) / room) ** (1 / 3)))}, or {fix}"
    if needed > available:
        raise FrameError(
            "volumes whose comparison fits into memory",
            f"{words}, {n_with_mass} of them with mass, but only {available / 1e9:.3g} GB are free",
            fix,
        )
    return warning("memory", f"the comparison needs {words}, and {available / 1e9:.3g} GB are free", fix)

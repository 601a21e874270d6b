"""Where the mass of the source went, as arrows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from pairframe.frame import Box, tight_box
from pairframe.report.figures.axes import title
from pairframe.report.style import SMALLEST_SPEED_PX, SOURCE_COLOUR, TARGET_COLOUR, rgb, round_length
from pairframe.report.view import frame_box, has_moved, in_frame, lifted, outline, show
from pairframe.results import TransportResult
from pairframe.results.formatting import in_words, percent
from pairframe.types import Bool, Float, Index

if TYPE_CHECKING:
    from matplotlib.axes import Axes

N_ARROWS = 14  # along the longer side of the moved mass
CLOSEST_ARROWS = 1 / 48  # of the frame's longer side: a small object has fewer arrows so that they do not overlap
FEWEST_ARROWS = 10  # unless the object is too small
MOST_MAGNIFICATION = 50.0


def velocity_arrows(result: TransportResult, ax: Axes) -> Axes:
    """Displacement of the source's mass as arrows where it is known, with the outline of the target.

    Arrows are drawn to scale. If they would be too short to see, all are longer by one factor, which the title
    states. If nothing moved, the source is an outline too.
    """
    left = lifted(result, result.work.mass_source) * has_moved(result)
    show(result, 1 - 0.35 * (1 - rgb(SOURCE_COLOUR)) * (left > 0)[..., None], ax)
    outline(result, result.work.mass_target, ax, TARGET_COLOUR)
    if not has_moved(result):
        outline(result, result.work.mass_source, ax, SOURCE_COLOUR)
        return title(ax, "moved: nothing")
    field_px = in_frame(result, result.field_in_frame) / result.units.px_size
    ys, xs, step = _arrow_grid(np.isfinite(field_px[..., 0]))
    dy, dx = field_px[ys, xs].T
    factor = _magnification(np.hypot(dy, dx), step)
    corner = frame_box(result)
    # Width in inches: the same thickness in panels of any size.
    ax.quiver(
        xs + corner.x0 + 0.5,
        ys + corner.y0 + 0.5,
        dx,
        dy,
        angles="xy",
        scale_units="xy",
        scale=1 / factor,
        units="inches",
        width=0.014,
        color="black",
        minlength=0.5,
    )
    unit = result.units.length_text
    scale = "arrows to scale" if factor == 1 else f"arrows {factor:g} times longer"
    return title(
        ax,
        f"stayed or moved: {percent(result.total_mass_moved, result.M_source)} of the source",
        f"{in_words(result.mean_displacement_um)} {unit} on average; {scale}",
    )


def _arrow_grid(known: Bool) -> tuple[Index, Index, int]:
    """Rows and columns of an even grid over the known pixels (H, W), of which there are some, and its step in px."""
    box = tight_box(known)
    assert box is not None
    least = max(1, round(max(box.shape) / N_ARROWS))
    step = max(least, math.ceil(CLOSEST_ARROWS * max(known.shape)))
    ys, xs = _grid_points(box, step)
    while known[ys, xs].sum() < FEWEST_ARROWS and step > least:
        step = max(least, step // 2)
        ys, xs = _grid_points(box, step)
    on = known[ys, xs]
    if not on.any():  # the grid may miss thin or scattered objects
        ys, xs = np.nonzero(known)
        every = max(1, ys.size // N_ARROWS)
        return ys[::every], xs[::every], step
    return ys[on], xs[on], step


def _grid_points(box: Box, step: int) -> Index:
    """(2, N) rows and columns of every `step`-th pixel of a box, as far inside it as the step allows."""
    first_y, first_x = (start + min(step, side) // 2 for start, side in zip(box.lo, box.shape, strict=True))
    return np.mgrid[first_y : box.hi[0] : step, first_x : box.hi[1] : step].reshape(2, -1)


def _magnification(lengths_px: Float, step_px: int) -> float:
    """One factor for all arrows, 1 unless they would be too short to see."""
    longest = float(np.quantile(lengths_px, 0.95))
    if longest < SMALLEST_SPEED_PX or longest >= 0.5 * step_px:
        return 1.0
    return max(1.0, round_length(min(step_px / longest, MOST_MAGNIFICATION)))

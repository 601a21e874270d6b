"""The pair frame as a picture: canvas, crop, work grid, bucket."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pairframe.frame import Box, BoxYX, GridTransform
from pairframe.report.style import BUCKET_COLOUR, CROP_COLOUR, SOURCE_COLOUR, TARGET_COLOUR, add_scale_bar
from pairframe.report.view import tint

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_GRID_LINES = 160


def frame_overview(
    transform: GridTransform, mask_a: NDArray[np.generic], mask_b: NDArray[np.generic], ax: Axes
) -> Axes:
    """Both masks on the canvas, the crop, the work grid, and the bucket where there is one.

    Parameters
    ----------
    transform : GridTransform
        The pair's frame.
    mask_a, mask_b : (Hc, Wc)
        Source and target; positive pixels are drawn.
    """
    h, w = transform.canon_shape_hw
    ax.imshow(tint(np.asarray(mask_a) > 0, np.asarray(mask_b) > 0), extent=(0, w, h, 0), interpolation="nearest")
    crop, s = transform.pair_crop_box_yx, transform.downsample_factor
    _draw_work_grid(ax, crop, s)
    _draw_box(ax, crop, CROP_COLOUR, "pair crop")
    bottom, right = max(h, crop.y1), max(w, crop.x1)
    if transform.work_shape_hw != transform.work_valid_box_yx.shape:
        hw, ww = transform.work_shape_hw
        y0, x0 = transform.work_to_canon_yx((0, 0))
        bucket = BoxYX(y0, y0 + hw * s, x0, x0 + ww * s)
        _draw_box(ax, bucket, BUCKET_COLOUR, f"bucket {hw} x {ww}", linestyle="--")
        bottom, right = max(bottom, bucket.y1), max(right, bucket.x1)
    ax.plot([0, w, w, 0, 0], [0, 0, h, h, 0], color="0.4", lw=1, label="canvas")
    margin = 0.02 * max(bottom, right)
    strip = 0.06 * max(bottom, right)  # under everything, for the scale bar: no line runs through its words
    ax.set_xlim(-margin, right + margin)
    ax.set_ylim(bottom + margin + strip, -margin)
    ax.set_aspect("equal")
    for colour, name in ((SOURCE_COLOUR, "source"), (TARGET_COLOUR, "target")):
        ax.fill([], [], color=colour, alpha=0.6, label=name)
    ax.set_xlabel("x (canonical pixels)")
    ax.set_ylabel("y (canonical pixels)")
    unit = transform.units.length_text
    ax.set_title(
        f"pair frame: crop {crop.h} x {crop.w} px, s = {s}, "
        f"work grid {transform.work_valid_box_yx.h} x {transform.work_valid_box_yx.w} of {transform.work_px_size_um:g} {unit}"
    )
    add_scale_bar(ax, transform.units, (strip, right), (bottom + margin / 2, 0.0))
    ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False)
    return ax


def _draw_box(ax: Axes, box: Box, colour: str, label: str, linestyle: str = "-") -> None:
    ys, xs = [box.y0, box.y0, box.y1, box.y1, box.y0], [box.x0, box.x1, box.x1, box.x0, box.x0]
    ax.plot(xs, ys, color=colour, lw=2, linestyle=linestyle, label=label)


def _draw_work_grid(ax: Axes, crop: Box, s: int) -> None:
    """The work pixels' edges; every k-th only when they would turn into a grey sheet."""
    every = s * max(1, -(-max(crop.h, crop.w) // (s * MAX_GRID_LINES)))
    ys, xs = np.arange(crop.y0, crop.y1 + 1, every), np.arange(crop.x0, crop.x1 + 1, every)
    label = "work grid" if every == s else f"work grid (every {every // s}th line)"
    ax.hlines(ys, crop.x0, crop.x1, color="0.35", lw=0.3, label=label)
    ax.vlines(xs, crop.y0, crop.y1, color="0.35", lw=0.3)

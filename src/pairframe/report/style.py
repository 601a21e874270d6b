"""What all pictures share: colours, units in words, scale bars, figures without a screen."""

from __future__ import annotations

import io
import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from pairframe.types import Float
from pairframe.units import Units

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure


# Okabe and Ito's palette, which is colour-blind safe.
SOURCE_COLOUR = "#0072B2"
TARGET_COLOUR = "#E69F00"
CROP_COLOUR = "#D55E00"
BUCKET_COLOUR = "#009E73"
CREATED_COLOUR = "#009E73"
DESTROYED_COLOUR = "#D55E00"
MOVED_COLOUR = "#8A8A8A"
WARNING_COLOUR = "#B03000"

# From white to dark: small values look small, also in greyscale.
CREATED_MAP = ("created", ("#FFFFFF", "#7FD0B8", "#009E73", "#00412F"))
DESTROYED_MAP = ("destroyed", ("#FFFFFF", "#F3B58A", "#D55E00", "#5A2700"))
SPEED_MAP, COST_MAP = "viridis", "magma_r"

TITLE_SIZE, SMALL_SIZE = 10, 8
NOTEBOOK_DPI = 90
# Canonical px: the colour scale of a pair that did not move must not zoom into rounding errors.
SMALLEST_SPEED_PX = 0.05


@lru_cache(maxsize=8)
def colour_map(colours: str | tuple[str, tuple[str, ...]]) -> Colormap:
    """A colour map by its name, or made from (name, colours); NaN is transparent."""
    import matplotlib
    from matplotlib.colors import LinearSegmentedColormap

    if isinstance(colours, str):
        return matplotlib.colormaps[colours].with_extremes(bad=(0, 0, 0, 0))
    made = LinearSegmentedColormap.from_list(colours[0], list(colours[1]))
    return made.with_extremes(bad=(0, 0, 0, 0))


def rgb(colour: str) -> Float:
    """(3,) in 0..1 of a ``#RRGGBB`` colour."""
    return np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])


def new_figure(width_in: float, height_in: float) -> Figure:
    """A figure of that size in inches, without a screen, in constrained layout. Notebooks show it."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure = _shown_figure()(figsize=(width_in, height_in), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


@lru_cache(maxsize=1)
def _shown_figure() -> type[Figure]:
    """matplotlib's own figures are shown only if pyplot made them or has been set up for the notebook."""
    from matplotlib.figure import Figure

    class ShownFigure(Figure):
        def _repr_png_(self) -> bytes:
            content = io.BytesIO()
            self.savefig(content, format="png", dpi=NOTEBOOK_DPI, facecolor="white")
            return content.getvalue()

    return ShownFigure


# --- scale bars ------------------------------------------------------------------------------


def round_length(target: float) -> float:
    """The largest of 1, 2 or 5 times a power of ten that is not above `target` (> 0)."""
    # 5 um at 0.2 um/px must not become 2 um because 0.2 * 25 rounds to just below 5.
    target *= 1 + 1e-9
    power: float = 10.0 ** math.floor(math.log10(target))
    return power * max(m for m in (1, 2, 5) if m * power <= target)


def add_scale_bar(
    ax: Axes, units: Units, shape_hw: tuple[float, float], corner_yx: tuple[float, float] = (0.0, 0.0)
) -> Axes:
    """A scale bar of a round length, at most a fifth of the width, in the lower right corner."""
    h, w = shape_hw
    length = round_length(0.2 * w * units.px_size)
    length_px = length / units.px_size
    x1, y = corner_yx[1] + 0.97 * w, corner_yx[0] + 0.95 * h
    ax.plot([x1 - length_px, x1], [y, y], color="black", lw=3, solid_capstyle="butt")
    ax.annotate(
        f"{length:g} {units.length_text}",
        (x1 - length_px / 2, y),
        xytext=(0, 3),
        textcoords="offset points",
        ha="center",
        va="bottom",
    )
    return ax


def add_scale_bar_below(ax: Axes, units: Units, left_right_px: tuple[float, float]) -> Axes:
    """A scale bar below the lower left corner, where it hides nothing."""
    from matplotlib.transforms import ScaledTranslation

    left, right = left_right_px
    length = round_length(max(0.2 * (right - left), 1e-300) * units.px_size)
    length_px = length / units.px_size
    below = ax.get_xaxis_transform() + ScaledTranslation(0, -6 / 72, ax.figure.dpi_scale_trans)
    ends = [left, left + length_px]
    ax.plot(ends, [0, 0], color="black", lw=3, solid_capstyle="butt", transform=below, clip_on=False)
    ax.annotate(
        f"{length:g} {units.length_text}",
        (ends[1], 0),
        xycoords=below,
        xytext=(4, 0),
        textcoords="offset points",
        ha="left",
        va="center",
        fontsize=SMALL_SIZE,
        annotation_clip=False,
    )
    return ax

"""What all pictures share: colours, units in words, scale bars, figures without a screen."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

Float = NDArray[np.float64]

# Okabe and Ito's palette: told apart by (nearly) everybody.
SOURCE_COLOUR = "#0072B2"
TARGET_COLOUR = "#E69F00"
CROP_COLOUR = "#D55E00"
BUCKET_COLOUR = "#009E73"
CREATED_COLOUR = "#009E73"
DESTROYED_COLOUR = "#D55E00"
MOVED_COLOUR = "#8A8A8A"
WARNING_COLOUR = "#B03000"

# From white, so that little of something looks like little, to dark, so that it also reads in grey.
CREATED_MAP = ("created", ("#FFFFFF", "#7FD0B8", "#009E73", "#00412F"))
DESTROYED_MAP = ("destroyed", ("#FFFFFF", "#F3B58A", "#D55E00", "#5A2700"))
SPEED_MAP, COST_MAP = "viridis", "magma_r"

TITLE_SIZE, SMALL_SIZE = 10, 8
LEAST_PERCENT = 1e-3  # below it there is no telling how much
ROUNDING = 1e-9  # of a whole: a sum of many pixels is not more exact


@lru_cache(maxsize=8)
def colour_map(colours: str | tuple[str, tuple[str, ...]]) -> Colormap:
    """A colour map by its name, or made from (name, colours); what is no number gets no colour."""
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
    """A figure of that size in inches that needs no screen and keeps its parts from touching."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width_in, height_in), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


# --- numbers and units -----------------------------------------------------------------------


def length_unit(px_size_um: float) -> str:
    """``µm``, or ``px`` when a pixel counts as 1: of a frame alone nobody knows more, and no picture invents it."""
    return "px" if px_size_um == 1.0 else "µm"


def minus(text: str) -> str:
    """A number in text with the sign that figures and pages use: U+2212, as on the axes of every plot, never a hyphen."""
    return text.replace("-", "\N{MINUS SIGN}")


def in_words(value: float) -> str:
    """Four digits, with separators instead of exponents as long as a person can read it: ``267,100``, ``<0.001``."""
    if not math.isfinite(value) or value == 0:
        return minus(f"{value:g}")
    if 0 < value < 1e-3:
        return "<0.001"
    if not 1e-3 <= abs(value) < 1e12:
        return minus(f"{value:.3g}")
    decimals = max(0, 3 - math.floor(math.log10(abs(value))))
    rounded = round(value, 3 - math.floor(math.log10(abs(value))))
    text = minus(f"{rounded:,.{decimals}f}")
    return text.rstrip("0").rstrip(".") if "." in text else text


def percent(part: float, whole: float) -> str:
    """A share (of a whole > 0) as a person writes it; ``100%`` is said of all of it only, and of rounding errors."""
    return f"{percent_digits(100 * part / whole)}%"


def percent_digits(share_percent: float) -> str:
    """Three digits of a percentage, and more to tell nearly all from all: ``42.6``, ``99.96``, ``>99.999``."""
    missing = abs(100 - share_percent)
    if 0 < share_percent <= 100 * ROUNDING:
        return "0"
    if 0 < share_percent < LEAST_PERCENT:
        return f"<{LEAST_PERCENT:g}"
    if missing <= 100 * ROUNDING:
        return "100"
    if missing < LEAST_PERCENT:
        return ">99.999" if share_percent < 100 else "<100.001"
    if missing < 1:
        return f"{share_percent:.{-math.floor(math.log10(missing))}f}".rstrip("0").rstrip(".")
    return minus(f"{share_percent:.3g}") if abs(share_percent) < 1e3 else in_words(share_percent)


# --- scale bars ------------------------------------------------------------------------------


def round_length(target: float) -> float:
    """The largest of 1, 2 or 5 times a power of ten that is not above `target` (> 0)."""
    # 5 um at 0.2 um/px must not become 2 um because 0.2 * 25 is a hair below 5.
    target *= 1 + 1e-9
    power: float = 10.0 ** math.floor(math.log10(target))
    return power * max(m for m in (1, 2, 5) if m * power <= target)


def add_scale_bar(
    ax: Axes, px_size_um: float, shape_hw: tuple[float, float], corner_yx: tuple[float, float] = (0.0, 0.0)
) -> Axes:
    """A bar of a round length, at most a fifth of the width of what is seen, in its lower right corner."""
    h, w = shape_hw
    length = round_length(0.2 * w * px_size_um)
    length_px = length / px_size_um
    x1, y = corner_yx[1] + 0.97 * w, corner_yx[0] + 0.95 * h
    ax.plot([x1 - length_px, x1], [y, y], color="black", lw=3, solid_capstyle="butt")
    ax.annotate(
        f"{length:g} {length_unit(px_size_um)}",
        (x1 - length_px / 2, y),
        xytext=(0, 3),
        textcoords="offset points",
        ha="center",
        va="bottom",
    )
    return ax


def add_scale_bar_below(ax: Axes, px_size_um: float, left_right_px: tuple[float, float], unit: str = "") -> Axes:
    """The same bar under the lower left corner, where it hides nothing, whatever is painted above it."""
    from matplotlib.transforms import ScaledTranslation

    left, right = left_right_px
    length = round_length(max(0.2 * (right - left), 1e-300) * px_size_um)
    length_px = length / px_size_um
    below = ax.get_xaxis_transform() + ScaledTranslation(0, -6 / 72, ax.figure.dpi_scale_trans)
    ends = [left, left + length_px]
    ax.plot(ends, [0, 0], color="black", lw=3, solid_capstyle="butt", transform=below, clip_on=False)
    ax.annotate(
        f"{length:g} {unit or length_unit(px_size_um)}",
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

"""How the source was stretched, and where it grew: three maps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pairframe.report.figures.axes import colour_bar, title
from pairframe.report.style import SMALL_SIZE, colour_map
from pairframe.report.view import frame_box, in_frame, outline, show
from pairframe.results import TransportResult
from pairframe.results.formatting import in_words
from pairframe.results.strain_maps import anisotropy_of_steps, rim_of
from pairframe.types import Bool, Float

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CHANGE_MAP = "RdBu_r"
STRETCH_MAP = "YlGnBu"
LEAST_SCALE = 0.01  # the ends of the colours, so that rounding errors do not fill them
LEAST_TICK = 0.01  # of anisotropy that is drawn as a tick
N_TICKS = 18  # along the longer side
_SHARE_IN_SCALE = 0.9  # a few pixels at the outline may be beyond the ends
_PALE = 0.3  # opacity of the rim


def areal_expansion_map(result: TransportResult, ax: Axes) -> Axes:
    """Change of areas in percent, on the source; blank where unknown."""
    values = 100 * in_frame(result, result.areal_expansion)
    rim = _rim(result)
    _change(result, values, ax, "%", 100 * LEAST_SCALE, rim)
    return title(ax, "areal expansion", f"median {_typical(values[~rim])} %{_about_rim(result, rim)}")


def anisotropy_map(result: TransportResult, ax: Axes) -> Axes:
    """How uneven the stretch is, as the ratio of the larger to the smaller one, with ticks along the larger one."""
    logarithm, rim = in_frame(result, result.anisotropy), _rim(result)
    ratio, most = np.exp(logarithm), float(np.exp(_scale(logarithm[~rim], LEAST_SCALE)))
    image = show(result, ratio, ax, cmap=colour_map(STRETCH_MAP), vmin=1.0, vmax=most, alpha=_alpha(rim))
    outline(result, result.work.mass_source, ax)
    is_clear = logarithm > np.maximum(LEAST_TICK, in_frame(result, anisotropy_of_steps(result)))
    _ticks(result, is_clear & ~rim, ax)
    colour_bar(image, ax, "long / short", goes_on=True)
    return title(ax, "anisotropy of the stretch", "ticks: larger stretch, beyond steps")


def local_growth_map(result: TransportResult, ax: Axes) -> Axes:
    """Local growth rate in percent, on the source; no pixel can lose more than 100 %."""
    with np.errstate(over="ignore"):
        values = 100 * np.expm1(in_frame(result, result.local_growth_rate))
    # Growth at the rim is meant: least motion puts it there.
    _change(result, values, ax, "%", 100 * LEAST_SCALE, lowest=-100.0)
    return title(ax, "growth", "mass that descends from each pixel, over its own")


def strain_figure(result: TransportResult, figure: Figure) -> Figure:
    """Three panels: areal expansion, anisotropy, growth."""
    crop = result.transform.pair_crop_box_yx
    shape = (3, 1) if crop.w > 2.2 * crop.h else (1, 3)
    for panel, ax in zip(
        (areal_expansion_map, anisotropy_map, local_growth_map), np.ravel(figure.subplots(*shape)), strict=True
    ):
        panel(result, ax)
    figure.suptitle(_hypothesis(result), fontsize=SMALL_SIZE + 2)
    return figure


def strain_size_in(result: TransportResult, width_in: float = 14.0) -> tuple[float, float]:
    """Width and height in inches of a figure that `strain_figure` fills well."""
    crop = result.transform.pair_crop_box_yx
    rows, columns = (3, 1) if crop.w > 2.2 * crop.h else (1, 3)
    width_in = 9.0 if columns == 1 else width_in
    return width_in, min(30.0, rows * (min(5.0, (width_in / columns - 1.0) * crop.h / crop.w) + 0.85) + 0.5)


def _hypothesis(result: TransportResult) -> str:
    names = set(result.config.penalties_ab)
    if names == {"balanced"}:
        return (
            "even growth: all mass is stretched alike. Another hypothesis gives another map; masks alone cannot decide"
        )
    if "kl" in names:
        return (
            f"between even growth and least motion (kl, reach {in_words(result.reach_um)} {result.units.length_text})"
        )
    return "least motion: only outlines are known, and this is no measured tissue. Growth inside is drawn at the edge"


def _change(
    result: TransportResult,
    values: Float,
    ax: Axes,
    unit: str,
    least: float,
    rim: Bool | None = None,
    lowest: float = -np.inf,
) -> None:
    from matplotlib.colors import TwoSlopeNorm

    most = _scale(values if rim is None else values[~rim], least)
    least_shown = max(-most, lowest)
    norm = TwoSlopeNorm(0.0, least_shown, most)
    alpha = None if rim is None else _alpha(rim)
    image = show(result, values, ax, cmap=colour_map(CHANGE_MAP), norm=norm, alpha=alpha)
    outline(result, result.work.mass_source, ax)
    # Round numbers of the longer half would leave the shorter one without any.
    ticks = None if least_shown == -most else (least_shown, 0.0, _round_down(0.5 * most), _round_down(most))
    colour_bar(image, ax, unit, ticks=ticks)


def _rim(result: TransportResult) -> Bool:
    """Pixels of the frame that are drawn pale."""
    rim: Bool = in_frame(result, result.transform.rasterize_to_canon(rim_of(result).astype(np.float64))) > 0
    return rim


def _alpha(rim: Bool) -> Float | None:
    """Pale in the rim; None if there is none."""
    return np.where(rim, _PALE, 1.0) if rim.any() else None


def _about_rim(result: TransportResult, rim: Bool) -> str:
    if rim.any():
        return "; pale: rim of two blurs"
    return "; thin: steps show" if result.work.mass_source.any() else ""


def _round_down(value: float) -> float:
    """To two digits, so that it stays below the end of a colour bar."""
    unit = 10.0 ** (np.floor(np.log10(value)) - 1)
    return float(np.floor(value / unit) * unit)


def _scale(values: Float, least: float) -> float:
    known = np.abs(values[np.isfinite(values)])
    known = known[known > least]  # growth at a rim fills few pixels, which should set the scale
    return max(least, float(np.quantile(known, _SHARE_IN_SCALE))) if known.size else least


def _typical(values: Float) -> str:
    known = values[np.isfinite(values)]
    return f"{round(float(np.median(known)), 2) + 0.0:+.2f}".replace("-", "−") if known.size else "–"


def _ticks(result: TransportResult, where: Bool, ax: Axes) -> None:
    step = max(1, round(max(where.shape) / N_TICKS))
    ys, xs = np.mgrid[step // 2 : where.shape[0] : step, step // 2 : where.shape[1] : step].reshape(2, -1)
    angle = np.radians(in_frame(result, result.stretch_direction_deg)[ys, xs])
    on = np.isfinite(angle) & where[ys, xs]
    dx, dy = 0.35 * step * np.cos(angle[on]), -0.35 * step * np.sin(angle[on])
    corner = frame_box(result)
    x, y = xs[on] + corner.x0 + 0.5, ys[on] + corner.y0 + 0.5
    ax.plot([x - dx, x + dx], [y - dy, y + dy], color="black", lw=1.2)

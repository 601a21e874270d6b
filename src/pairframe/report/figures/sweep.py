"""A sweep in one figure: the answer against reach or blur, and small maps below."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from pairframe.report.style import (
    CREATED_COLOUR,
    DESTROYED_COLOUR,
    MOVED_COLOUR,
    SMALL_SIZE,
    SOURCE_COLOUR,
    TITLE_SIZE,
)
from pairframe.report.view import compose
from pairframe.results.formatting import in_words, percent_digits
from pairframe.results.sweep import Sweep, SweepPoint
from pairframe.units import pretty

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_MAPS = 5
CHARACTERS_PER_IN = 13
_PLATEAU_COLOUR = "#E8F0F7"
_LINES = ("-", "--", ":", "-.")  # one per blur, if both lengths were swept


def sweep_figure(sweep: Sweep, figure: Figure) -> Figure:
    """Created and destroyed, moved, and mean displacement against the reach (or the blur); maps of a few points below.

    The shaded band is the plateau and the vertical line the recommended value.
    """
    points = sweep.at() if len(sweep.reaches_um) > 1 else sweep.points
    shown = _spread(points)
    top, bottom = np.ravel(figure.subfigures(2, 1, height_ratios=_height_ratios(points[0])))  # type: ignore[arg-type]
    axes = top.subplots(1, 3)
    _shares(sweep, axes[0])
    _moved(sweep, axes[1])
    _displacement(sweep, axes[2])
    full = max(float((point.mass_arrived + point.mass_created).max()) for point in shown)
    full = max(full, float(max(point.mass_destroyed.max() for point in shown)))
    by_reach = len(sweep.reaches_um) > 1
    for point, ax in zip(shown, np.atleast_1d(bottom.subplots(1, len(shown))), strict=True):
        _map(sweep, point, ax, full, by_reach=by_reach)
    bottom.suptitle("grey: kept or moved, green: created, orange: destroyed", fontsize=SMALL_SIZE)
    words = textwrap.fill(pretty(sweep.recommendation), int(CHARACTERS_PER_IN * figure.get_figwidth()))
    figure.suptitle(words, fontsize=SMALL_SIZE + 2, parse_math=False)
    return figure


def sweep_size_in(sweep: Sweep, width_in: float = 12.0) -> tuple[float, float]:
    """Width and height in inches of a figure that `sweep_figure` fills well."""
    top, bottom = _height_ratios(sweep.points[0], width_in)
    return width_in, top + bottom + 0.6


def _height_ratios(point: SweepPoint, width_in: float = 12.0) -> tuple[float, float]:
    """Heights of the plots and of the maps, inches."""
    height, width = point.mass_created.shape
    return 3.2, min(4.0, (width_in / MOST_MAPS - 0.2) * height / width) + 0.8


def _spread(points: Sequence[SweepPoint]) -> list[SweepPoint]:
    """The first, the last and a few between."""
    places = np.unique(np.linspace(0, len(points) - 1, min(MOST_MAPS, len(points))).round().astype(int))
    return [points[place] for place in places]


# --- plots -----------------------------------------------------------------------------------


def _shares(sweep: Sweep, ax: Axes) -> None:
    growth = sweep.points[0].growth_percent
    net = 100 * growth / (100 + growth) if growth > 0 else abs(growth)  # of the target; a loss, of the source
    _lines(sweep, ax, lambda point: point.percent_destroyed, DESTROYED_COLOUR, "destroyed, % of the source", lw=4.0)
    _lines(sweep, ax, lambda point: point.percent_created, CREATED_COLOUR, "created, % of the target")
    what = "net growth" if growth >= 0 else "net loss"
    ax.axhline(net, color="black", lw=1, ls=(0, (4, 3)), label=f"{what}, {percent_digits(net)} %")
    ax.set_ylim(bottom=min(0.0, ax.get_ylim()[0]))
    ax.legend(frameon=False, fontsize=SMALL_SIZE)
    _finish(sweep, ax, "created and destroyed", "%")


def _moved(sweep: Sweep, ax: Axes) -> None:
    _lines(sweep, ax, lambda point: point.percent_moved, MOVED_COLOUR, "moved")
    ax.set_ylim(-3, 103)
    if len(sweep.blurs_um) > 1 and len(sweep.reaches_um) > 1:
        unit = sweep.units.length_text
        for number, blur in enumerate(sweep.blurs_um):
            ax.plot([], [], color="0.3", ls=_LINES[number % len(_LINES)], label=f"blur {in_words(blur)} {unit}")
        ax.legend(frameon=False, fontsize=SMALL_SIZE)
    _finish(sweep, ax, "kept or moved", "% of the source")


def _displacement(sweep: Sweep, ax: Axes) -> None:
    _lines(sweep, ax, lambda point: point.mean_displacement_um, SOURCE_COLOUR, "mean displacement")
    ax.set_ylim(bottom=0.0)
    _finish(sweep, ax, "mean displacement of the moved mass", sweep.units.length_text)


def _lines(
    sweep: Sweep, ax: Axes, value: Callable[[SweepPoint], float], colour: str, label: str, lw: float = 1.5
) -> None:
    """One line, or one per blur if both lengths were swept; a wide one shows below another of the same values."""
    style = {"color": colour, "marker": "o", "ms": 2.5 + lw, "lw": lw}
    if len(sweep.reaches_um) == 1:
        x = [point.blur_um for point in sweep.points]
        ax.plot(x, [value(point) for point in sweep.points], label=label, **style)  # type: ignore[arg-type]
        return
    for number, blur in enumerate(sweep.blurs_um):
        points = sweep.at(blur)
        ax.plot(
            [point.reach_um for point in points],
            [value(point) for point in points],
            label=label if number == 0 else None,
            ls=_LINES[number % len(_LINES)],
            **style,  # type: ignore[arg-type]
        )


def _finish(sweep: Sweep, ax: Axes, title: str, unit: str) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    advice, by_reach = sweep.advice, len(sweep.reaches_um) > 1
    values = sweep.reaches_um if by_reach else sweep.blurs_um
    chosen = advice.reach_um if by_reach else advice.blur_um
    if advice.plateau_um is not None:
        ax.axvspan(*advice.plateau_um, color=_PLATEAU_COLOUR, lw=0, zorder=0)
    if chosen is not None:
        ax.axvline(chosen, color="0.4", lw=1, zorder=0.5)
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(FixedLocator(values[:: 1 + (len(values) - 1) // 6]))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{float(f'{value:.3g}'):g}"))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xlabel(f"{'reach' if by_reach else 'blur'} ({sweep.units.length_text})", fontsize=SMALL_SIZE)
    ax.set_ylabel(unit, fontsize=SMALL_SIZE)
    ax.tick_params(labelsize=SMALL_SIZE)
    ax.grid(True, color="0.92", lw=0.6)
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_title(title, fontsize=TITLE_SIZE)


def _map(sweep: Sweep, point: SweepPoint, ax: Axes, full: float, *, by_reach: bool) -> None:
    arrived, created, destroyed = (
        mass.astype(np.float64) for mass in (point.mass_arrived, point.mass_created, point.mass_destroyed)
    )
    ax.imshow(compose(arrived, created, destroyed, full), interpolation="nearest")
    ax.set_xticks([])
    ax.set_yticks([])
    for spine in ax.spines.values():
        spine.set_color("0.6")
    length = point.reach_um if by_reach else point.blur_um
    name, unit = "reach" if by_reach else "blur", sweep.units.length_text
    moved = "nothing moved"
    if not math.isnan(point.mean_displacement_um):
        moved = f"moved by {in_words(point.mean_displacement_um)} {unit}"
    ax.set_title(f"{name} {in_words(length)} {unit}\n{moved}", fontsize=SMALL_SIZE)

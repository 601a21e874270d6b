"""Figures of an analysis: mean fields, deviations, distances and hot spots."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from pairframe.analysis.analyze import LEVEL, CohortAnalysis, Comparison
from pairframe.analysis.distances import Distances
from pairframe.analysis.fields import MeanField
from pairframe.analysis.grid import AnalysisGrid
from pairframe.report.style import (
    CREATED_MAP,
    DESTROYED_MAP,
    SMALL_SIZE,
    SPEED_MAP,
    TITLE_SIZE,
    add_scale_bar_below,
    colour_map,
    new_figure,
    round_length,
)
from pairframe.types import Bool, Float

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

__all__ = ["deviation_figure", "distance_figure", "hotspot_figure", "mean_field_figure"]

Window = tuple["slice[int, int, None]", "slice[int, int, None]"]

# Okabe and Ito's, the dark ones first.
GROUP_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
GROUP_MARKERS = "osD^vP*X"
MOST_GROUPS, MOST_BINS = 8, 8
N_ARROWS = 14
MOST_MAGNIFICATION = 50.0
# Lower limits of full colour, so that rounding errors stay white: mass per pixel, and canonical px.
LEAST_MASS, LEAST_SPEED_PX = 0.01, 0.05
_NAME_LENGTH = 28


def group_name(text: str) -> str:
    """A name for titles: short, not empty, and without a leading underscore, which would hide it from a legend."""
    shown = text if text.isprintable() else ascii(text)
    shown = f" {shown}" if shown.startswith("_") else shown.strip() or "(no name)"
    return shown if len(shown) <= _NAME_LENGTH else shown[: _NAME_LENGTH - 1] + "…"


# --- mean fields -----------------------------------------------------------------------------


def mean_field_figure(analysis: CohortAnalysis, what: str) -> Figure:
    """Mean field of every group (rows) in every time bin (columns); `what` is velocity, created or destroyed."""
    members, grid = analysis.members, analysis.grid
    groups, n_bins = members.groups[:MOST_GROUPS], min(members.n_bins, MOST_BINS)
    cells = [analysis.mean_fields[group, number] for group in groups for number in range(n_bins)]
    window = _window(cells)
    values, colours = _MEAN_MAPS[what]
    top = max((float(np.nanmax(values(cell))) for cell in cells if np.isfinite(values(cell)).any()), default=0.0)
    top = max(top, LEAST_SPEED_PX * grid.px_size_um if what == "velocity" else LEAST_MASS)
    style: dict[str, Any] = {"cmap": colour_map(colours), "vmin": 0.0, "vmax": top}
    figure = new_figure(*_size_in(window, len(groups), n_bins))
    axes = figure.subplots(len(groups), n_bins, squeeze=False)
    image, factor = None, _magnification(cells, grid, window) if what == "velocity" else 1.0
    for row, group in enumerate(groups):
        for number in range(n_bins):
            ax, cell = axes[row][number], analysis.mean_fields[group, number]
            picture = values(cell)
            image = _show(analysis, np.where(picture > 0, picture, np.nan), window, ax, **style)
            if what == "velocity":
                _arrows(cell, grid, window, factor, ax)
            pairs = f"{cell.n_pairs} pair{'s' * (cell.n_pairs != 1)}"
            title = f"{group_name(group)}\n{_bin_name(analysis, number)}{pairs}"
            ax.set_title(title, fontsize=SMALL_SIZE + 1, parse_math=False)
    unit = members.length_units.length_text if what == "velocity" else "mass per pixel"
    if image is not None:
        bar = figure.colorbar(image, ax=axes, shrink=0.8, pad=0.01)
        longer = f"; arrows {factor:g} times longer" if factor > 1 else ""
        bar.set_label(f"{'displacement' if what == 'velocity' else what} ({unit}){longer}", fontsize=SMALL_SIZE)
        bar.ax.tick_params(labelsize=SMALL_SIZE)
    return figure


def _speed(cell: MeanField) -> Float:
    speed: Float = np.hypot(cell.velocity_um[..., 0], cell.velocity_um[..., 1])
    return speed


def _created(cell: MeanField) -> Float:
    return cell.created


def _destroyed(cell: MeanField) -> Float:
    return cell.destroyed


_MEAN_MAPS: dict[str, tuple[Callable[[MeanField], Float], str | tuple[str, tuple[str, ...]]]] = {
    "velocity": (_speed, SPEED_MAP),
    "created": (_created, CREATED_MAP),
    "destroyed": (_destroyed, DESTROYED_MAP),
}


def _bin_name(analysis: CohortAnalysis, number: int) -> str:
    members = analysis.members
    if members.time_column is None:
        return ""
    low, high = members.bin_edges[number : number + 2]
    return f"{group_name(members.time_column)} {low:.3g} to {high:.3g}, "


def _arrows(cell: MeanField, grid: AnalysisGrid, window: Window, factor: float, ax: Axes) -> None:
    """Displacements, `factor` times longer, a few along the longer side."""
    field, step = cell.velocity_um[window], _arrow_step(window)
    ys, xs = np.mgrid[step // 2 : field.shape[0] : step, step // 2 : field.shape[1] : step].reshape(2, -1)
    on = np.isfinite(field[ys, xs]).all(axis=-1)
    ys, xs = ys[on], xs[on]
    if ys.size:
        dy, dx = field[ys, xs].T / grid.px_size_um
        where = ((xs + window[1].start + 0.5) * grid.block_px, (ys + window[0].start + 0.5) * grid.block_px)
        style: dict[str, Any] = {
            "angles": "xy",
            "scale_units": "xy",
            "scale": 1 / factor,
            "units": "inches",
            "width": 0.014,
            "minlength": 0.3,
        }
        ax.quiver(*where, dx, dy, color="white", edgecolor="black", linewidth=0.4, **style)


def _arrow_step(window: Window) -> int:
    """Blocks from one arrow to the next."""
    return max(1, math.ceil(max(part.stop - part.start for part in window) / N_ARROWS))


def _magnification(cells: list[MeanField], grid: AnalysisGrid, window: Window) -> float:
    """A round factor for all panels with which the longer displacements reach the next arrow; never below 1."""
    speeds = np.concatenate([_speed(cell)[cell.n_known > 0] for cell in cells])
    typical = float(np.quantile(speeds, 0.8)) if speeds.size else 0.0
    wanted = _arrow_step(window) * grid.block_um / typical if typical > 0 else 1.0
    return round_length(min(wanted, MOST_MAGNIFICATION)) if wanted > 1 else 1.0


# --- deviations ------------------------------------------------------------------------------


def deviation_figure(analysis: CohortAnalysis) -> Figure:
    """Deviation of each pair from the mean field of the reference: RMSE and cosine, over time or by group."""
    members, unit = analysis.members, analysis.members.length_units.length_text
    over_time = members.time_column is not None and len({member.time for member in members.members}) > 1
    figure = new_figure(9.0, 3.6)
    panels = figure.subplots(1, 2)
    names = (("velocity_rmse_um", f"RMSE of the displacement ({unit})"), ("velocity_cosine", "cosine"))
    rng = np.random.default_rng(0)
    for ax, (name, label) in zip(panels, names, strict=True):
        for number, group in enumerate(members.groups[:MOST_GROUPS]):
            own = [member for member in members.members if member.group == group]
            values = np.array([getattr(analysis.deviations[member.pair_id], name) for member in own])
            if over_time:
                where = np.array([member.time for member in own])
                _unit_lines(ax, where, values, [member.unit for member in own], number)
            else:
                where = number + rng.uniform(-0.15, 0.15, len(own))
            style: dict[str, Any] = {
                "color": _colour(number),
                "marker": _marker(number),
                "s": 22,
                "linewidths": 0.4,
                "edgecolors": "white",
            }
            ax.scatter(where, values, zorder=3, label=group_name(group), **style)
        _plain_axes(ax, label)
        if over_time and members.time_column is not None:
            ax.set_xlabel(group_name(members.time_column), fontsize=SMALL_SIZE, parse_math=False)
        else:
            ax.set_xticks(range(len(members.groups[:MOST_GROUPS])), list(map(group_name, members.groups[:MOST_GROUPS])))
            _no_maths(ax)
    panels[0].set_ylim(bottom=0)
    panels[1].axhline(1.0, color="0.7", lw=0.8)
    _legend(panels[1])
    return figure


def _unit_lines(ax: Axes, times: Float, values: Float, units: list[str], number: int) -> None:
    for unit in dict.fromkeys(units):
        on = np.array([name == unit for name in units])
        order = np.argsort(times[on], kind="stable")
        ax.plot(times[on][order], values[on][order], color=_colour(number), lw=0.7, alpha=0.5)


# --- distances -------------------------------------------------------------------------------


def distance_figure(analysis: CohortAnalysis, distances: Distances) -> Figure:
    """Masks as points in a plane that approximates their distances, and the matrix of distances."""
    members, unit = analysis.members, analysis.members.length_units.length_text
    by_id = {member.pair_id: member for member in members.members}
    own = [by_id[name] for name in distances.pair_ids]
    figure = new_figure(9.6, 4.0)
    left, right = figure.subplots(1, 2, width_ratios=(1.15, 1.0))
    points = distances.embedding.coordinates
    for number, group in enumerate(members.groups[:MOST_GROUPS]):
        on = np.array([member.group == group for member in own])
        for name in dict.fromkeys(member.unit for member in own if member.group == group):
            track = sorted((i for i, member in enumerate(own) if member.unit == name), key=lambda i: own[i].time)
            if members.time_column is not None and members.unit_column is not None:
                left.plot(*points[track].T, color=_colour(number), lw=0.7, alpha=0.5)
        style: dict[str, Any] = {
            "color": _colour(number),
            "marker": _marker(number),
            "s": 30,
            "linewidths": 0.4,
            "edgecolors": "white",
        }
        left.scatter(*points[on].T, zorder=3, label=group_name(group), **style)
    left.set_aspect("equal", adjustable="datalim")
    _plain_axes(left, f"second axis ({unit})")
    left.set_xlabel(f"first axis ({unit})", fontsize=SMALL_SIZE)
    held = distances.embedding.explained
    words = f"the plane explains {held:.0%}" if math.isfinite(held) else "all are equal"
    left.set_title(f"source masks; {words}", fontsize=TITLE_SIZE)
    _legend(left)
    order = sorted(range(len(own)), key=lambda i: (members.groups.index(own[i].group), own[i].unit, own[i].time))
    matrix, most = distances.distance_um[np.ix_(order, order)], float(distances.distance_um.max())
    image = right.imshow(matrix, cmap="magma", vmin=0.0, vmax=most or 1.0, interpolation="nearest")
    sizes = np.cumsum([sum(member.group == group for member in own) for group in members.groups])
    for edge in sizes[:-1]:
        right.axhline(edge - 0.5, color="white", lw=1.2)
        right.axvline(edge - 0.5, color="white", lw=1.2)
    middles = (np.concatenate([[0], sizes[:-1]]) + sizes) / 2 - 0.5
    shown = list(map(group_name, members.groups))
    right.set_xticks(middles, shown, fontsize=SMALL_SIZE)
    right.set_yticks(middles, shown, fontsize=SMALL_SIZE, rotation=90, va="center")
    right.tick_params(length=0)
    _no_maths(right)
    right.set_title("distances, by group", fontsize=TITLE_SIZE)
    bar = figure.colorbar(image, ax=right, shrink=0.85)
    bar.set_label(unit, fontsize=SMALL_SIZE)
    bar.ax.tick_params(labelsize=SMALL_SIZE)
    return figure


# --- hot spots -------------------------------------------------------------------------------


def hotspot_figure(analysis: CohortAnalysis, comparison: Comparison) -> Figure:
    """Group minus reference; blocks that differ are framed, others are faint."""
    grid, unit = analysis.grid, analysis.members.length_units.length_text
    window = _window(list(analysis.mean_fields.values()))
    wide = _size_in(window, 1, 1)[0] > 3.4
    figure = new_figure(*_size_in(window, 3 if wide else 1, 1 if wide else 3, extra_in=1.2))
    panels = figure.subplots(3 if wide else 1, 1 if wide else 3, squeeze=False).ravel()
    for ax, found in zip(panels, comparison.hotspots, strict=True):
        least = LEAST_SPEED_PX * grid.px_size_um if found.name == "speed_um" else LEAST_MASS
        most = max(least, float(np.nanmax(np.abs(found.difference)))) if found.n_tested else least
        hot = found.hot(LEVEL)
        alpha = np.where(hot, 1.0, 0.35)[window]
        style: dict[str, Any] = {"cmap": colour_map("PuOr_r"), "vmin": -most, "vmax": most}
        image = _show(analysis, found.difference, window, ax, alpha=alpha, **style)
        _frame_blocks(hot, grid.block_px, ax)
        name, of = ("displacement", unit) if found.name == "speed_um" else (found.name, "mass per pixel")
        detail = f"{int(hot.sum())} of {found.n_tested} blocks at q ≤ {LEVEL:g}"
        ax.set_title(
            f"{name}: {group_name(comparison.group)} − {group_name(analysis.members.reference)}\n{detail}",
            fontsize=SMALL_SIZE + 1,
            parse_math=False,
        )
        bar = figure.colorbar(image, ax=ax, shrink=0.85, pad=0.01)
        bar.set_label(of, fontsize=SMALL_SIZE)
        bar.ax.tick_params(labelsize=SMALL_SIZE)
    return figure


def _frame_blocks(hot: Bool, block_px: int, ax: Axes) -> None:
    from matplotlib.collections import LineCollection

    mask = np.pad(hot, 1)
    y, x = np.argwhere(mask[1:, 1:-1] != mask[:-1, 1:-1]).T
    level = np.stack([np.stack([x, y], axis=-1), np.stack([x + 1, y], axis=-1)], axis=1)
    y, x = np.argwhere(mask[1:-1, 1:] != mask[1:-1, :-1]).T
    upright = np.stack([np.stack([x, y], axis=-1), np.stack([x, y + 1], axis=-1)], axis=1)
    ax.add_collection(
        LineCollection(list(np.concatenate([level, upright]) * block_px), colors="black", linewidths=0.6), autolim=False
    )


# --- parts -----------------------------------------------------------------------------------


def _window(cells: list[MeanField]) -> Window:
    """The part of the canvas with any mass, with a margin."""
    h, w = cells[0].n_known.shape
    seen = np.zeros((h, w), bool)
    for cell in cells:
        seen |= (cell.n_known > 0) | (np.nan_to_num(cell.created) > 1e-6) | (np.nan_to_num(cell.destroyed) > 1e-6)
    rim = max(1, max(h, w) // 40)
    return _span(np.asarray(seen.any(axis=1)), rim), _span(np.asarray(seen.any(axis=0)), rim)


def _span(seen: Bool, rim: int) -> slice[int, int, None]:
    """From the first to the last true entry, with a margin; everything if there is none."""
    on = np.flatnonzero(seen)
    if on.size == 0:
        return slice(0, seen.size, None)
    return slice(max(0, int(on[0]) - rim), min(seen.size, int(on[-1]) + 1 + rim), None)


def _size_in(window: Window, n_rows: int, n_columns: int, extra_in: float = 1.0) -> tuple[float, float]:
    h, w = (part.stop - part.start for part in window)
    width = min(4.2, max(1.6, 11.0 / n_columns), max(1.3, 3.2 * w / h))
    return width * n_columns + extra_in, (width * h / w + 0.65) * n_rows


def _show(analysis: CohortAnalysis, picture: Float, window: Window, ax: Axes, **style: Any) -> AxesImage:
    """Part of the analysis grid, in canonical pixels, y down; NaN is shown as nothing."""
    grid = analysis.grid
    top, bottom, left, right = (edge * grid.block_px for part in window for edge in (part.start, part.stop))
    image = ax.imshow(picture[window], extent=(left, right, bottom, top), interpolation="nearest", **style)
    ax.set_xlim(left, right)
    ax.set_ylim(bottom, top)
    ax.set_xticks([])
    ax.set_yticks([])
    for spine in ax.spines.values():
        spine.set_color("0.6")
    add_scale_bar_below(ax, analysis.members.length_units, (left, right))
    return image


def _colour(number: int) -> str:
    return GROUP_COLOURS[number % len(GROUP_COLOURS)]


def _marker(number: int) -> str:
    return GROUP_MARKERS[number % len(GROUP_MARKERS)]


def _plain_axes(ax: Axes, label: str) -> None:
    ax.set_ylabel(label, fontsize=SMALL_SIZE)
    ax.tick_params(labelsize=SMALL_SIZE)
    ax.grid(True, color="0.92", lw=0.6)
    ax.spines[["top", "right"]].set_visible(False)


def _legend(ax: Axes) -> None:
    for text in ax.legend(frameon=False, fontsize=SMALL_SIZE, loc="best").get_texts():
        text.set_parse_math(False)


def _no_maths(ax: Axes) -> None:
    """Show dollar signs in names as they are."""
    for text in (*ax.get_xticklabels(), *ax.get_yticklabels()):
        text.set_parse_math(False)


Draw = Callable[[], "Figure"]


def figures_of(analysis: CohortAnalysis) -> dict[str, Draw]:
    """Functions that draw each picture, by file name."""
    found: dict[str, Draw] = {
        f"mean_{what}": lambda what=what: mean_field_figure(analysis, what)  # type: ignore[misc]
        for what in _MEAN_MAPS
    }
    found["deviations"] = lambda: deviation_figure(analysis)
    for number, comparison in enumerate(analysis.comparisons):
        found[f"hotspots_{number}"] = lambda comparison=comparison: hotspot_figure(analysis, comparison)  # type: ignore[misc]
    distances = analysis.distances
    if distances is not None:
        found["distances"] = lambda: distance_figure(analysis, distances)
    return found

"""Growth curves: area, created, destroyed and flicker, and speeds of a series over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pairframe.report.style import (
    CREATED_COLOUR,
    DESTROYED_COLOUR,
    MOVED_COLOUR,
    SMALL_SIZE,
    SOURCE_COLOUR,
    TARGET_COLOUR,
    TITLE_SIZE,
    WARNING_COLOUR,
    new_figure,
)
from pairframe.units import pretty

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_CURVES, MOST_NAMED = 60, 10


def series_figure(rows: pd.DataFrame) -> Figure:
    """Four panels of one series, from its rows of `series_table`; frames with a flag are ringed, those left out are crossed."""
    figure = new_figure(10.4, 6.8)
    (area, books), (speed, divergence) = figure.subplots(2, 2)
    length = pretty(rows["length_unit"].iloc[0])
    surface, unit = f"{length}²", str(rows["time_unit"].iloc[0])
    kept = rows[~rows["left_out"]]
    _area(area, rows, kept, surface)
    _books(books, kept, surface)
    _speed(speed, kept, "displacement_speed", SOURCE_COLOUR, per_time(length, unit), "displacement speed")
    _speed(divergence, kept, "divergence_speed", TARGET_COLOUR, per_time(length, unit), "divergence speed")
    for ax in (area, books, speed, divergence):
        ax.set_xlabel(time_label(unit))
        ax.grid(alpha=0.25)
        ax.set_xlim(*_span(rows["time"].to_numpy()))
    return figure


def series_overview(table: pd.DataFrame) -> Figure:
    """The areas of all series over time, relative to their first frame."""
    figure = new_figure(10.4, 4.2)
    ax = figure.subplots()
    groups = list(table.groupby("series", sort=False))
    for name, rows in groups[:MOST_CURVES]:
        kept = rows[~rows["left_out"]]
        label = str(name)[:24].replace("$", r"\$").lstrip("_")
        ax.plot(kept["time"], kept["net_growth_percent"], lw=1.2, alpha=0.8, label=label)
        odd = rows[rows["flags"].notna()]
        _ring(ax, odd["time"], odd["net_growth_percent"], 6)
    if 1 < len(groups) <= MOST_NAMED:
        ax.legend(frameon=False, fontsize=SMALL_SIZE)
    ax.axhline(0, color="0.6", lw=0.8)
    unit = str(table["time_unit"].iloc[0])
    ax.set(xlabel=time_label(unit), ylabel="net growth since the first frame, %")
    more = f" (the first {MOST_CURVES} of {len(groups)})" if len(groups) > MOST_CURVES else ""
    marks = "rings: flagged frames" + (" (dots: of unknown area)" if table["area_um2"].isna().any() else "")
    ax.set_title(f"net growth of every series{more}; {marks}", fontsize=TITLE_SIZE)
    ax.grid(alpha=0.25)
    return figure


def time_label(unit: str) -> str:
    """A label of a time axis."""
    return "frame number" if unit == "frame" else f"time, {unit}"


def per_time(quantity: str, unit: str) -> str:
    """A quantity per unit of time: ``um/h``; without a time, per frame number, which may go up in steps of two."""
    return f"{quantity} per frame number" if unit == "frame" else f"{quantity}/{unit}"


def _area(ax: Axes, rows: pd.DataFrame, kept: pd.DataFrame, surface: str) -> None:
    ax.plot(kept["time"], kept["area_um2"], ".-", color=MOVED_COLOUR, lw=1, label="area")
    known = kept["area_um2"].dropna()
    start = known.iloc[0] if len(known) else np.nan
    ax.plot(kept["time"], start + kept["lasting_growth_um2"], color=SOURCE_COLOUR, lw=2, label="without flicker")
    if "area_um2_smooth" in kept:
        ax.plot(kept["time"], kept["area_um2_smooth"], "--", color="black", lw=1.2, label="area, smoothed")
    odd = rows[rows["flags"].notna() & ~rows["left_out"]]
    _ring(ax, odd["time"], odd["area_um2"], 9, "flagged")
    out = rows[rows["left_out"]]
    ax.plot(out["time"], out["area_um2"], "x", ms=8, color=WARNING_COLOUR, label="left out" if len(out) else None)
    ax.set_ylabel(f"area, {surface}")
    ax.set_title("area", fontsize=TITLE_SIZE)
    ax.legend(frameon=False, fontsize=SMALL_SIZE)


def _ring(ax: Axes, times: pd.Series, values: pd.Series, size: float, label: str | None = None) -> None:
    """Rings around flagged frames; at the lower edge of the panel, filled, where the value is unknown."""
    unknown = values.isna()
    if not unknown.all():
        ax.plot(times[~unknown], values[~unknown], "o", ms=size, mfc="none", mec=WARNING_COLOUR, label=label)
    if unknown.any():
        ax.plot(
            times[unknown],
            np.full(int(unknown.sum()), 0.03),
            "o",
            ms=0.7 * size,
            color=WARNING_COLOUR,
            label=None if label is None else f"{label}, area unknown",
            transform=ax.get_xaxis_transform(),
            clip_on=False,
        )


def _parted(kept: pd.DataFrame, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Times and a running total with a gap at every unknown step, and no point between two of them."""
    unknown = kept["created_um2"].isna().to_numpy(copy=True)
    unknown[:1] = False  # no step leads to the first frame
    times, total = kept["time"].to_numpy(), kept[name].to_numpy(dtype=float, copy=True)
    leads_nowhere = np.append(unknown[1:], True)
    total[unknown & leads_nowhere] = np.nan
    at = np.flatnonzero(unknown)
    return np.insert(times, at, times[at]), np.insert(total, at, np.nan)


def _books(ax: Axes, kept: pd.DataFrame, surface: str) -> None:
    curves = (
        ("created_total_um2", CREATED_COLOUR, "created", "created_total_se_um2"),
        ("destroyed_total_um2", DESTROYED_COLOUR, "destroyed", "destroyed_total_se_um2"),
        ("flicker_total_um2", "#7A4FA3", "flicker", None),
    )
    for name, colour, label, error in curves:
        ax.plot(*_parted(kept, name), ".-", color=colour, lw=1.5, label=label)
        if error is not None and error in kept:
            low, high = (kept[name] + sign * 1.96 * kept[error] for sign in (-1, 1))
            ax.fill_between(kept["time"], low.clip(lower=0), high, color=colour, alpha=0.18, lw=0)
    ax.plot(kept["time"], kept["net_growth_um2"], "-", color="black", lw=1, label="net growth")
    ax.axhline(0, color="0.6", lw=0.8)
    ax.set_ylabel(f"since the first frame, {surface}")
    unknown = int(kept["created_um2"].iloc[1:].isna().sum())
    title = "created, destroyed and net growth, running totals"
    if unknown:
        title = f"running totals ({unknown} of {len(kept) - 1} steps have no result)"
    ax.set_title(title, fontsize=TITLE_SIZE)
    ax.legend(frameon=False, fontsize=SMALL_SIZE)


def _speed(ax: Axes, kept: pd.DataFrame, name: str, colour: str, unit: str, title: str) -> None:
    column = f"{name}_um_per_time"
    values = kept[column].to_numpy()
    low, high = f"{name}_low_um_per_time", f"{name}_high_um_per_time"
    if low in kept and kept[low].notna().any():
        ends = np.nan_to_num(np.stack([values - kept[low], kept[high] - values]))
        ax.errorbar(kept["time"], values, np.maximum(ends, 0.0), fmt=".-", color=colour, lw=1, capsize=2)
    else:
        ax.plot(kept["time"], values, ".-", color=colour, lw=1)
    if f"{column}_smooth" in kept:
        ax.plot(kept["time"], kept[f"{column}_smooth"], "--", color="black", lw=1.2)
    ax.set_ylabel(unit)  # the title says of what
    ax.set_title(f"{title} (step into each frame)", fontsize=TITLE_SIZE)
    highest = ax.dataLim.y1  # with error bars; the automatic limit leaves room relative to the spread, not to zero
    ax.set_ylim(0, 1.08 * highest if np.isfinite(highest) and highest > 0 else None)


def _span(times: np.ndarray) -> tuple[float, float]:
    low, high = float(np.min(times)), float(np.max(times))
    room = 0.03 * (high - low) or 0.5
    return low - room, high + room

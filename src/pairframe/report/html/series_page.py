"""The page of one series, and the page that lists all of them; names are escaped, numbers have units."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pairframe._version import __version__
from pairframe.report.figures.series import per_time, time_label
from pairframe.report.html.assets import render
from pairframe.results.formatting import number
from pairframe.units import pretty

if TYPE_CHECKING:
    import pandas as pd

_SHOWN = {
    "area_um2": "area",
    "net_growth_percent": "net growth, %",
    "created_um2": "created",
    "destroyed_um2": "destroyed",
    "flicker_created_um2": "flicker",
    "displacement_speed_um_per_time": "displacement speed",
    "divergence_speed_um_per_time": "divergence speed",
}


@dataclass(frozen=True)
class SeriesLink:
    """The name of the page of a series, and of the series."""

    page: str
    name: str

    @property
    def title(self) -> str:
        """A heading, also for a series without a name."""
        return self.name or "series"


def summaries_of(table: pd.DataFrame) -> list[dict[str, Any]]:
    """One summary per series: frames, duration, net growth, flicker and mean speed."""
    found = []
    for name, rows in table.groupby("series", sort=False):
        kept = rows[~rows["left_out"]]
        last = kept.iloc[-1]
        times = kept["time"].to_numpy()
        moves, durations = kept["mean_displacement_um"].to_numpy()[1:], np.diff(times)
        of_measured = float(durations[np.isfinite(moves)].sum())
        ends = kept[kept["area_um2"].notna()].iloc[[0, -1]] if kept["area_um2"].notna().any() else kept.iloc[[0, -1]]
        first_area, last_area = (float(area) for area in ends["area_um2"])
        between = float(ends["time"].iloc[1] - ends["time"].iloc[0])
        can_grow = first_area > 0 and last_area > 0 and between > 0
        rate = math.log(last_area / first_area) / between if can_grow else math.nan
        created, flicker = float(last["created_total_um2"]), float(last["flicker_total_um2"])
        stayed = float(last["lasting_created_total_um2"])
        came = flicker + stayed
        found.append(
            {
                "series": str(name),
                "frames": len(rows),
                "steps": len(kept) - 1,
                "unknown_steps": int(kept["created_um2"].iloc[1:].isna().sum()),
                "duration": float(times[-1] - times[0]),
                "time_unit": str(last["time_unit"]),
                "area_first_um2": first_area,
                "area_last_um2": last_area,
                "has_last_area": bool(kept["area_um2"].notna().iloc[-1]),
                "area_last_frame": ends["frame"].iloc[1],
                "net_growth_um2": float(ends["net_growth_um2"].iloc[1]),
                "net_growth_percent": float(ends["net_growth_percent"].iloc[1]),
                "growth_rate_per_time": rate,
                "created_um2": created,
                "destroyed_um2": float(last["destroyed_total_um2"]),
                "flicker_um2": flicker,
                "lasting_created_um2": stayed,
                "flicker_percent_of_all_that_came": 100 * flicker / came if came > 0 else 0.0,
                "outline_flicker_um2": float(last["outline_flicker_total_um2"]),
                "mean_displacement_speed_um_per_time": float(np.nansum(moves)) / of_measured
                if of_measured > 0
                else math.nan,
                "flagged_frames": int(rows["flags"].notna().sum()),
                "left_out_frames": int(rows["left_out"].sum()),
            }
        )
    return found


def duration_words(summary: Mapping[str, Any]) -> str:
    """How long a series is: " over 1.5 h"; without a time only if frame numbers are missing."""
    unit, duration = summary["time_unit"], summary["duration"]
    if unit != "frame":
        return f" over {number(duration)} {unit}"
    return "" if duration == summary["frames"] - 1 else f" over {number(duration)} frame numbers"


def page_of_series(
    rows: pd.DataFrame,
    link: SeriesLink,
    rule: Mapping[Any, Any],
    *,
    before: SeriesLink | None,
    after: SeriesLink | None,
    pair_pages: Mapping[str, str],
    has_film: bool,
    has_movie: bool,
    note: str | None,
) -> str:
    """HTML of a series, from its rows of the table.

    Parameters
    ----------
    rule : mapping
        ``attrs`` of the table.
    pair_pages : mapping of pair_id to str
        Addresses of the pages of pairs.
    note : str, optional
        Why there is no film.
    """
    (summary,) = summaries_of(rows)
    length, unit = pretty(str(rows["length_unit"].iloc[0])), str(rows["time_unit"].iloc[0])
    units = {"_um2": f", {length}²", "_um_per_time": f", {per_time(length, unit)}"}
    heads = [
        words + next((text for end, text in units.items() if name.endswith(end)), "") for name, words in _SHOWN.items()
    ]
    records = rows.to_dict("records")
    odd = [row for row in records if isinstance(row["flags"], str)]
    return render(
        "series.html",
        "analysis.js",
        title=link.title,
        page=link.page,
        before=before,
        after=after,
        rule=rule,
        tiles=_tiles(summary, length),
        has_film=has_film,
        has_movie=has_movie,
        has_bars="created_low_um2" in rows,
        note=note,
        time_unit=unit,
        flagged=[{**row, "time": number(float(row["time"]))} for row in odd],
        heads=["frame", time_label(unit), *heads],
        rows=[
            {
                "link": pair_pages.get(str(row["pair_id"])),
                "cells": [row["frame"], *((row[name], number(float(row[name]))) for name in ("time", *_SHOWN))],
            }
            for row in records
        ],
    )


def index_page(table: pd.DataFrame, title: str, links: Sequence[SeriesLink], has_report: bool) -> str:
    """HTML of the list of all series."""
    pages = {link.name: link.page for link in links}
    summaries = summaries_of(table)
    length, unit = pretty(str(table["length_unit"].iloc[0])), str(table["time_unit"].iloc[0])
    shown = {
        "frames": "frames",
        "duration": f"duration, {'frame numbers' if unit == 'frame' else unit}",
        "net_growth_percent": "net growth, %",
        "growth_rate_per_time": f"growth rate, {per_time('1', unit)}",
        "flicker_um2": f"came and went again (flicker), {length}²",
        "lasting_created_um2": f"came and stayed, {length}²",
        "mean_displacement_speed_um_per_time": f"displacement speed, {per_time(length, unit)}",
        "unknown_steps": "steps without a result",
        "flagged_frames": "flagged frames",
        "left_out_frames": "left out",
    }
    column = table.attrs["time_column"]
    return render(
        "series_index.html",
        "analysis.js",
        title=title,
        has_report=has_report,
        rule=table.attrs,
        clock=f"the column {column}, in {unit}"
        if column
        else ("frame numbers, because no time is known" if unit == "frame" else f"in {unit}"),
        heads=[("series", "text"), *((words, "number") for words in shown.values())],
        rows=[
            {
                "name": one["series"] or "series",
                "page": pages.get(one["series"]),
                "cells": [(one[name], number(one[name])) for name in shown],
            }
            for one in summaries
        ],
        n_without_page=len(summaries) - len(links),
        made_at=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        pairframe_version=__version__,
    )


def _tiles(summary: Mapping[str, Any], length: str) -> list[dict[str, str]]:
    unit = summary["time_unit"]
    steps, measured = summary["steps"], summary["steps"] - summary["unknown_steps"]
    in_all, over = ("in all", "") if measured == steps else (f"in {measured} of {steps} steps",) * 2
    # A long unit goes under the number.
    speed_unit, speed = (length, "per frame number") if unit == "frame" else (per_time(length, unit), "speed")
    values = (
        (
            "",
            f"{summary['frames']}",
            f"frames{duration_words(summary)}",
        ),
        (
            "um",
            f"{number(summary['net_growth_percent'])} %",
            f"net growth: {number(summary['net_growth_um2'])} {length}²"
            + ("" if summary["has_last_area"] else f" (until frame {summary['area_last_frame']})"),
        ),
        ("created", f"{number(summary['created_um2'])} {length}²", f"created {in_all}"),
        ("destroyed", f"{number(summary['destroyed_um2'])} {length}²", f"destroyed {in_all}"),
        (
            "",
            f"{number(summary['flicker_um2'])} {length}²",
            f"came and went again (flicker), beside {number(summary['lasting_created_um2'])} {length}² that came and stayed; "
            "in aligned series, jitter of pose and resampling shows as flicker",
        ),
        (
            "way",
            f"{number(summary['mean_displacement_speed_um_per_time'])} {speed_unit}",
            f"mean displacement {speed} {over}".rstrip(),
        ),
        *([("odd", f"{steps - measured}", "steps without a result")] if measured < steps else []),
        ("odd" if summary["flagged_frames"] else "good", f"{summary['flagged_frames']}", "flagged frames"),
    )
    return [{"kind": kind, "value": value, "name": name} for kind, value, name in values]

"""`pairframe series`: growth curves of the series in a folder of results, as a table and as pages."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from pairframe.analysis.series import series_table
from pairframe.cli.output import check_results_folder, check_writable
from pairframe.cli.terminal import activity, output, print_places, say, visible
from pairframe.plain_json import plain
from pairframe.report.html.series_page import duration_words, summaries_of
from pairframe.report.html.series_write import write_series
from pairframe.results.formatting import number
from pairframe.units import pretty

if TYPE_CHECKING:
    import pandas as pd

MOST_LINES = 20
BROKEN = ("failed", "gap", "not_certified")  # flags of frames whose step is not known for certain


@dataclass(frozen=True)
class SeriesJob:
    """The arguments of `pairframe series`; see `series_table`."""

    out: Path
    series: tuple[str, ...] = ()
    time: str | None = None
    time_unit: str | None = None
    frame_interval_min: float | None = None
    flicker_frames: int = 3
    leave_out: tuple[str, ...] = ()
    smooth_frames: float | None = None
    movies: int = 12


def run_series(job: SeriesJob, *, as_json: bool = False, quiet: bool = False) -> None:
    """Read the series, write tables and pages, print a line per series, and link them from the report.

    Exit code 1 if a pair of them failed, is missing or did not converge, as after `pairframe run`.
    """
    check_results_folder(job.out)
    check_writable(job.out)
    with activity(quiet=quiet or as_json) as now:
        now.step("reading the results")
        table = series_table(
            job.out,
            series=job.series or None,
            time=job.time,
            time_unit=job.time_unit,
            frame_interval_min=job.frame_interval_min,
            flicker_frames=job.flicker_frames,
            leave_out=job.leave_out,
            smooth_frames=job.smooth_frames,
            progress=now.step,
        )
        page = write_series(table, job.out, max_movies=job.movies, jobs=None, progress=now.step)
        if (job.out / "report.html").is_file():
            from pairframe.report.html import write_report

            write_report(job.out)
    summaries = summaries_of(table)
    if as_json:
        typer.echo(json.dumps(plain({"rule": table.attrs, "series": summaries}), allow_nan=False))
    elif not quiet:
        _print(job, table, summaries, page)
    without = table[[any(flag in BROKEN for flag in str(flags).split("; ")) for flags in table["flags"]]]
    if len(without):
        unknown = sum(one["unknown_steps"] for one in summaries)
        missing = (
            f"; the changes in {unknown} of them are missing from the totals (net growth comes from the areas)"
            if unknown
            else ""
        )
        say(
            f"pairframe: {len(without)} of {len(table) - len(summaries)} steps have no certified comparison{missing}. "
            "To fix: see the flags, and run the cohort with --retry-failed"
        )
        raise typer.Exit(1)


def _print(job: SeriesJob, table: pd.DataFrame, summaries: list[dict[str, Any]], page: Path) -> None:
    surface = f"{pretty(table.attrs['length_unit'])}²"
    for one in summaries[:MOST_LINES]:
        name = f"{visible(one['series'])}: " if one["series"] else ""
        came = f"{number(one['lasting_created_um2'])} {surface} came and stayed"
        flicker = f"{came}, {number(one['flicker_um2'])} {surface} came and went again (flicker)"
        words = f"{one['frames']} frames{duration_words(one)}, net growth {number(one['net_growth_percent'])} %"
        steps = one["steps"]
        of = f" in the {steps - one['unknown_steps']} of {steps} steps with a result" if one["unknown_steps"] else ""
        typer.echo(f"{name}{words}, {flicker}{of}")
    if len(summaries) > MOST_LINES:
        typer.echo(f"and {len(summaries) - MOST_LINES} more series")
    odd = table[table["flags"].notna()]
    for row in odd.head(MOST_LINES).to_dict("records"):
        left = " (left out)" if row["left_out"] else ""
        say(f"flagged{left}: series {row['series']!r}, frame {row['frame']}: {visible(row['reason'])}")
    if len(odd) > MOST_LINES:
        say(f"and {len(odd) - MOST_LINES} more flagged frames: see series.json")
    if table.attrs["time_unit"] == "frame":
        say(
            "notice: no time is known, so speeds are per frame number; --frame-interval MIN or --time COLUMN changes it"
        )
    if table.attrs["length_unit"] == "px":
        say(f"notice: no pixel size is known, so lengths are in {pretty('px')}")
    print_places(output(), {"series": page, "table": job.out / "series.csv", "rules": job.out / "series.json"})

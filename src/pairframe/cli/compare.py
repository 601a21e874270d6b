"""`pairframe compare`: compare one pair, save the result, draw it and print a summary."""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pairframe import checks, files
from pairframe.axis.table import PROFILES_NAME, axis_rows, with_rows_of
from pairframe.cli.flows import flows_between_masks, region_labels
from pairframe.cli.output import Draft, check_new_folder, drafted
from pairframe.cli.summary import as_table, headline, summary_json, summary_lines
from pairframe.cli.terminal import Activity, activity, output, print_places, say, say_warnings, visible
from pairframe.cohort.inputs.interval import checked_frame_interval
from pairframe.engines import Status
from pairframe.errors import ArgumentError, PairframeError
from pairframe.pipeline import compare, sweep
from pairframe.problem import TransportConfig
from pairframe.regions.keep import keep_flows, read_flows
from pairframe.report.figures import summary_figure, summary_size_in, write_movie
from pairframe.report.html import write_report
from pairframe.report.html.pictures import drawn_png
from pairframe.report.view import UNFINISHED
from pairframe.results import ResultStore, Sweep, TransportResult, disk
from pairframe.results.schema import Row, check_pair_id
from pairframe.units import pretty

if TYPE_CHECKING:
    import pandas as pd

PICTURES = ("report.html", "summary.png", "movie.gif")


@dataclass(frozen=True)
class CompareJob:
    """The arguments of `pairframe compare`.

    Attributes
    ----------
    source, target : str
        Masks as `read_mask` names them.
    frame_interval_min : float, optional
        Minutes between the two frames.
    with_report : bool
        Also draw: page, figure and movie.
    regions : (str, str), optional
        Label images of source and target for a flow table; "own" for the labels of the mask itself.
    with_axis : bool
        Also sum the changes along the body axis.
    with_sweep : bool
        Add a sweep over reaches to the page.
    """

    source: str
    target: str
    out: Path
    config: TransportConfig
    pair_id: str = "pair"
    frame_interval_min: float | None = None
    overwrite: bool = False
    with_report: bool = True
    regions: tuple[str, str] | None = None
    with_axis: bool = False
    with_sweep: bool = False

    def __post_init__(self) -> None:
        with checks.naming("pair_id"):
            check_pair_id(self.pair_id)
        if self.frame_interval_min is not None:
            checked_frame_interval(self.frame_interval_min)
        if self.with_sweep and not self.with_report:
            raise ArgumentError("--sweep with a report", "--no-report", "use pairframe sweep instead", "sweep")

    @property
    def files(self) -> dict[str, str]:
        """What is written, by what it is."""
        drawn = dict(zip(("report", "figure", "movie"), PICTURES, strict=True)) if self.with_report else {}
        flows = {} if self.regions is None else {"flows": "flows.csv"}
        along = {"axis profile": PROFILES_NAME} if self.with_axis else {}
        names = {**drawn, **along, "summary": "summary.json", **flows, "table": "results.parquet", "maps": "maps.zarr"}
        return {what: str(self.out / name) for what, name in names.items()}


def run_compare(job: CompareJob, *, as_json: bool = False, quiet: bool = False) -> None:
    """Compare, keep, draw, tell; exit code 1 when the answer is not certified."""
    check_new_folder(job.out, overwrite=job.overwrite)
    with activity(quiet=quiet) as now:
        started = time.perf_counter()
        now.step("reading and solving")
        labels = None if job.regions is None else region_labels(job.source, job.target, job.regions, job.config)
        with say_warnings():
            result = compare(
                job.source, job.target, job.config, progress=lambda record: now.solving(record, job.config.tol)
            )
        seconds = time.perf_counter() - started
        flows = None
        if labels is not None:
            now.step("reading the flows")
            flows = flows_between_masks(result, job.source, job.target, labels)
        found = None
        if job.with_sweep:
            now.step("sweeping")
            config = replace(job.config, error_bars=False, rim_um=None, rim_correlation_um=None)
            found = sweep(
                job.source, job.target, config, on_point=lambda done, total: now.step("sweeping", done, total)
            )
        text = _write(job, result, seconds, now, flows, found)
    if as_json:
        typer.echo(text)
    elif not quiet:
        _tell(job, result, seconds, found)
    if not quiet and result.units.in_px:
        say("pairframe: no pixel size is known, so lengths are in pixels; use --px-size-um for µm")
    if not quiet and not job.with_report:
        _tell_stale(job.out)
    if result.status != Status.converged and (as_json or quiet):
        say(f"pairframe: {result.status}: {result.status.advice}")
    if result.status in UNFINISHED:
        raise typer.Exit(1)


def _write(
    job: CompareJob,
    result: TransportResult,
    seconds: float,
    now: Activity,
    flows: pd.DataFrame | None = None,
    found: Sweep | None = None,
) -> str:
    """Keep the result with its summary, figure and movie, all at once; then draw the pages. Returns the summary."""
    store = ResultStore(job.out)
    extra = {} if job.frame_interval_min is None else {"frame_interval_min": job.frame_interval_min}

    def maps() -> Row:
        return store.write_maps(result, job.pair_id, source=job.source, target=job.target, seconds=seconds, extra=extra)

    kept: Draft | None = None
    summary = b""
    had_report = (job.out / "report.html").is_file()
    try:
        with drafted(store) as kept:
            now.step("writing the result")
            kept.write(maps)
            text = summary_json(kept.rows[0], files=job.files)
            with disk.write_errors(job.out):
                files.replace_file(kept.folder / "summary.json", f"{text}\n".encode())
                if flows is not None:
                    keep_flows(kept.folder, {job.pair_id: flows}, before=read_flows(job.out))
                _write_profile(job, result, kept.folder)
                if job.with_report:
                    summary = _draw(job, result, kept.folder, now)
            kept.keep()
        if job.with_report:
            write_report(
                job.out,
                title=_title(job, store),
                summaries={job.pair_id: summary},
                sweeps=None if found is None else {job.pair_id: found},
                progress=now.step,
            )
    except (KeyboardInterrupt, PairframeError, OSError):
        if kept is not None and kept.is_kept:
            _tell_what_is_there(job, kept, had_report=had_report)
        raise
    return text


def _write_profile(job: CompareJob, result: TransportResult, folder: Path) -> None:
    """The profile along the body axis; without, rows of an earlier comparison of this name are removed."""
    rows = axis_rows(result, job.pair_id)[0] if job.with_axis else None
    content = with_rows_of(job.out, job.pair_id, rows)
    if content is not None:
        files.replace_file(folder / PROFILES_NAME, content)
    if rows is not None and rows["note"].notna().any():
        say(f"pairframe: body axis: {rows['note'].iloc[0]}")


def _draw(job: CompareJob, result: TransportResult, folder: Path, now: Activity) -> bytes:
    """The figure and the movie of this pair, under names that stay. Returns the figure, which the report shows too."""
    now.step("drawing the figure")
    draw = partial(summary_figure, frame_interval_min=job.frame_interval_min)
    summary = drawn_png(result, draw, summary_size_in(result))
    files.replace_file(folder / "summary.png", summary)
    now.step("drawing the movie")
    write_movie(result, folder / "movie.gif")
    return summary


def _title(job: CompareJob, store: ResultStore) -> str | None:
    """After the masks when the report shows them alone; after the folder when it shows other pairs as well."""
    if len(store.pair_ids()) > 1:
        return None
    return f"{Path(job.source).name} → {Path(job.target).name}".encode("utf-8", "replace").decode()


def _tell_what_is_there(job: CompareJob, kept: Draft, *, had_report: bool) -> None:
    """Somebody or something stopped the writing: what is new, what is old, and how to finish."""
    new = "the result and summary.json are"
    if job.with_report:
        new = "the result, summary.json, summary.png and movie.gif are"
    if not kept.is_complete:
        new = "the result alone, not all of the files beside it, is"
    line = f"pairframe: {new} complete in {str(job.out)!r}"
    if job.with_report:
        pages = "report.html and its pages are still those from before" if had_report else "there is no report yet"
        line += f", but {pages}. To finish: pairframe report {shlex.quote(str(job.out))}"
    say(line)


def _tell_stale(out: Path) -> None:
    """Without a report, pictures from before show another result."""
    stale = [name for name in PICTURES if (out / name).is_file()]
    if stale:
        say(
            f"pairframe: {', '.join(stale)} in {str(out)!r} {'is' if len(stale) == 1 else 'are'} from before this comparison; "
            "leave out --no-report to draw them again"
        )


def _tell(job: CompareJob, result: TransportResult, seconds: float, found: Sweep | None) -> None:
    from rich.text import Text

    console = output()
    console.print(headline(result, job.source, job.target), soft_wrap=True)
    console.print()
    console.print(as_table(summary_lines(result, frame_interval_min=job.frame_interval_min, seconds=seconds)))
    for notice in result.notices:
        style = "bold red" if notice.is_warning else "yellow"
        console.print(Text(f"{notice.severity}: {visible(str(notice))}", style=style), soft_wrap=True)
    if found is not None:
        console.print(visible(pretty(f"sweep: {found.recommendation}")), soft_wrap=True)
    console.print()
    print_places(console, job.files)

"""`pairframe compare`: one pair, kept, drawn and told."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from pathlib import Path

import typer

from pairframe.cli.output import check_new_folder, keep, replace_by, replace_file
from pairframe.cli.summary import as_table, has_pixel_size, headline, summary_json, summary_lines
from pairframe.cli.terminal import Activity, activity, output, print_places, say, visible
from pairframe.errors import InputError, PairframeError
from pairframe.pipeline import compare
from pairframe.problem import TransportConfig
from pairframe.report.figures import new_figure, summary_figure, summary_size_in, write_movie
from pairframe.report.html import write_report
from pairframe.report.view import UNFINISHED
from pairframe.results import ResultStore, TransportResult
from pairframe.results.schema import Row, check_pair_id

DPI = 110


@dataclass(frozen=True)
class CompareJob:
    """What `pairframe compare` was asked to do.

    Attributes
    ----------
    source, target : str
        Masks as `read_mask` names them.
    frame_interval_min : float, optional
        Minutes between the two frames.
    with_report : bool
        Also draw: page, figure and movie.
    """

    source: str
    target: str
    out: Path
    config: TransportConfig
    pair_id: str = "pair"
    frame_interval_min: float | None = None
    overwrite: bool = False
    with_report: bool = True

    def __post_init__(self) -> None:
        check_pair_id(self.pair_id)
        interval = self.frame_interval_min
        if interval is not None and not (math.isfinite(interval) and interval > 0):
            raise InputError(
                "a positive, finite --frame-interval in minutes", repr(interval), "e.g. --frame-interval 5"
            )

    @property
    def files(self) -> dict[str, str]:
        """What is written, by what it is."""
        drawn = {"report": "report.html", "figure": "summary.png", "movie": "movie.gif"} if self.with_report else {}
        names = {**drawn, "summary": "summary.json", "table": "results.parquet", "maps": "maps.zarr"}
        return {what: str(self.out / name) for what, name in names.items()}


def run_compare(job: CompareJob, *, as_json: bool = False, quiet: bool = False) -> None:
    """Compare, keep, draw, tell; exit code 1 when the answer is not certified."""
    check_new_folder(job.out, overwrite=job.overwrite)
    with activity(quiet=quiet) as now:
        started = time.perf_counter()
        now.step("reading and solving")
        result = compare(
            job.source, job.target, job.config, progress=lambda record: now.solving(record, job.config.tol)
        )
        seconds = time.perf_counter() - started
        now.step("writing the result")
        row = _keep(job, result, seconds)
        text = summary_json(row, frame_interval_min=job.frame_interval_min, files=job.files)
        replace_file(job.out / "summary.json", f"{text}\n".encode())
        if job.with_report:
            _draw(job, result, row, now)
    if as_json:
        typer.echo(text)
    elif not quiet:
        _tell(job, result, seconds)
    if not quiet and not has_pixel_size(result):
        say("pairframe: no pixel size was found, so lengths are in pixels; give --px-size-um for µm")
    if result.status in UNFINISHED:
        if as_json or quiet:
            say(f"pairframe: {result.status}: {result.status.advice}")
        raise typer.Exit(1)


def _keep(job: CompareJob, result: TransportResult, seconds: float) -> Row:
    store = ResultStore(job.out)
    extra = {} if job.frame_interval_min is None else {"frame_interval_min": job.frame_interval_min}

    def write() -> Row:
        return store.write_maps(result, job.pair_id, source=job.source, target=job.target, seconds=seconds, extra=extra)

    return keep(store, [write])[0]


def _draw(job: CompareJob, result: TransportResult, row: Row, now: Activity) -> None:
    """The pages, and beside them the figure and the movie of this pair under names that stay."""
    try:
        now.step("drawing the report")
        title = f"{Path(job.source).name} → {Path(job.target).name}"
        write_report(
            job.out,
            title=title.encode("utf-8", "replace").decode(),
            progress=lambda done, total, pair_id: now.step("drawing the report", done, total, pair_id),
        )
        drawn = job.out / "pairs" / str(row["maps_group"]) / "summary.png"
        if drawn.is_file():
            replace_file(job.out / "summary.png", drawn.read_bytes())
        else:  # a large cohort: its report draws none
            replace_by(job.out / "summary.png", lambda path: _save_summary(result, path))
        now.step("drawing the movie")
        replace_by(job.out / "movie.gif", lambda path: write_movie(result, path))
    except (KeyboardInterrupt, PairframeError, OSError):
        say(f"pairframe: the result itself is complete, in {str(job.out)!r}; `pairframe report` draws its pages")
        raise


def _save_summary(result: TransportResult, path: Path) -> None:
    summary_figure(result, new_figure(*summary_size_in(result))).savefig(path, dpi=DPI, format="png")


def _tell(job: CompareJob, result: TransportResult, seconds: float) -> None:
    from rich.text import Text

    console = output()
    console.print(headline(result, job.source, job.target), soft_wrap=True)
    console.print()
    console.print(as_table(summary_lines(result, frame_interval_min=job.frame_interval_min, seconds=seconds)))
    for notice in result.notices:
        console.print(Text(f"notice: {visible(notice)}", style="yellow"), soft_wrap=True)
    console.print()
    print_places(console, job.files)

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
from pairframe.axis.profile import RadialBy
from pairframe.axis.table import PROFILES_NAME, RADIAL_NAME
from pairframe.cli.compare_options import CompareOptions
from pairframe.cli.flows import flows_between_masks, region_labels
from pairframe.cli.images_only import refuse_pair_of_volumes
from pairframe.cli.output import Draft, check_new_folder, drafted
from pairframe.cli.profiles import check_profiles, head_of, write_pair_profiles
from pairframe.cli.summary import as_table, headline, summary_json, summary_lines
from pairframe.cli.terminal import Activity, activity, output, print_places, say, say_warnings, visible
from pairframe.cohort.inputs.interval import checked_frame_interval
from pairframe.engines import Status
from pairframe.errors import ArgumentError, PairframeError
from pairframe.masks import Mask
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
    axis_head : str, optional
        A landmark at the head, on the canvas of the source.
    bins : int, optional
        Of the profiles.
    radial : {"centre", "outline", "angle"}, optional
        Also sum the changes around the centre.
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
    axis_head: str | None = None
    bins: int | None = None
    radial: RadialBy | None = None
    with_sweep: bool = False

    def __post_init__(self) -> None:
        with checks.naming("pair_id"):
            check_pair_id(self.pair_id)
        if self.frame_interval_min is not None:
            checked_frame_interval(self.frame_interval_min)
        if self.with_sweep and not self.with_report:
            raise ArgumentError("--sweep with a report", "--no-report", "use pairframe sweep instead", "sweep")
        check_profiles(axis=self.with_axis, axis_head=self.axis_head, bins=self.bins, radial=self.radial)

    @classmethod
    def of(cls, options: CompareOptions, config: TransportConfig) -> CompareJob:
        """From the command line."""
        return cls(
            source=options.source,
            target=options.target,
            out=options.out,
            config=config,
            pair_id=options.pair_id,
            frame_interval_min=options.frame_interval_min,
            overwrite=options.overwrite,
            with_report=options.report,
            regions=options.regions if any(options.regions) else None,
            with_axis=options.axis,
            axis_head=options.axis_head,
            bins=options.bins,
            radial=options.radial,  # type: ignore[arg-type]
            with_sweep=options.sweep,
        )

    @property
    def files(self) -> dict[str, str]:
        """What is written, by what it is."""
        drawn = dict(zip(("report", "figure", "movie"), PICTURES, strict=True)) if self.with_report else {}
        flows = {} if self.regions is None else {"flows": "flows.csv"}
        along = {"axis profile": PROFILES_NAME} if self.with_axis else {}
        along |= {} if self.radial is None else {"radial profile": RADIAL_NAME}
        names = {**drawn, **along, "summary": "summary.json", **flows, "table": "results.parquet", "maps": "maps.zarr"}
        return {what: str(self.out / name) for what, name in names.items()}


def run_compare(job: CompareJob, *, as_json: bool = False, quiet: bool = False) -> None:
    """Compare, keep, draw, tell; exit code 1 when the answer is not certified."""
    refuse_pair_of_volumes(
        job.source,
        job.target,
        job.config,
        axis=job.with_axis,
        radial=job.radial,
        regions=job.regions,
        sweep=job.with_sweep,
    )
    check_new_folder(job.out, overwrite=job.overwrite)
    with activity(quiet=quiet) as now:
        started = time.perf_counter()
        now.step("reading and solving")
        labels = None if job.regions is None else region_labels(job.source, job.target, job.regions, job.config)
        head = None if job.axis_head is None else head_of(job.axis_head, job.source, job.config)
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
        text = _write(job, result, seconds, now, flows, found, head)
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
    head: Mask | None = None,
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
                write_pair_profiles(
                    result,
                    job.pair_id,
                    job.out,
                    kept.folder,
                    axis=job.with_axis,
                    head=head,
                    bins=job.bins,
                    radial=job.radial,
                )
                if job.with_report:
                    summary = _draw(job, result, kept.folder, now)
            kept.keep()
        if job.with_report:
            write_report(
                job.out,
                title=_title(job, store),
                summaries={job.pair_id: summary},
                results={job.pair_id: result},
                sweeps=None if found is None else {job.pair_id: found},
                progress=now.step,
            )
    except (KeyboardInterrupt, PairframeError, OSError):
        if kept is not None and kept.is_kept:
            _tell_what_is_there(job, kept, had_report=had_report)
        raise
    return text


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

"""`pairframe run`: compare a cohort and show the progress, or estimate what it takes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import typer

from pairframe.axis.table import PROFILES_NAME, RADIAL_NAME
from pairframe.cli.arguments import arguments_for
from pairframe.cli.columns import column_map
from pairframe.cli.flows import write_cohort_flows
from pairframe.cli.images_only import refuse_for_volumes
from pairframe.cli.profiles import check_profiles, write_cohort_profiles
from pairframe.cli.run_options import RunOptions
from pairframe.cli.terminal import say, visible
from pairframe.cohort import CohortSummary, PairTask, read_tasks, run_cohort
from pairframe.cohort.inputs.interval import with_frame_interval
from pairframe.cohort.run.estimate import Estimate, estimate
from pairframe.cohort.run.progress import CohortProgress, ProgressCallback, duration, shown_progress
from pairframe.errors import WorkerError
from pairframe.parallel.threads import n_cores
from pairframe.problem import TransportConfig
from pairframe.regions.keep import FLOWS_CSV
from pairframe.results import ResultStore

SHOWN_FIRST = 10  # pairs that a dry run lists, and the last one


def run_run(options: RunOptions, config: TransportConfig) -> None:
    """Run the cohort, or estimate what it takes.

    Exit code 1 if a pair failed, is not certified or cannot be read any more, or if the workers were lost.
    """
    manifest, columns = options.one_manifest(), column_map(vars(options), _structures(options))
    wanted = {"axis": options.axis, "axis_head": options.axis_head, "bins": options.bins, "radial": options.radial}
    check_profiles(**wanted)  # type: ignore[arg-type]
    tasks = read_tasks(manifest, options.pairing, options.axes, columns, config.volume)
    refuse_for_volumes(
        tasks,
        config,
        axis=options.axis,
        radial=options.radial,
        regions=options.regions,
        region=options.region,
    )
    if options.dry_run:
        tasks = with_frame_interval(tasks, options.frame_interval_min)
        _print_pairs(tasks)
        for notice in dict.fromkeys(notice for task in tasks for notice in task.notices):
            typer.echo(f"{notice.severity:<10} {visible(str(notice))}")
        found = estimate(tasks, config=config, **arguments_for(estimate, options, "manifest", "pairing"))
        _print_estimate(found, on_cluster=options.client is not None)
        return
    try:
        with shown_progress(quiet=options.quiet) as show:
            arguments = arguments_for(run_cohort, options, "manifest")
            summary = run_cohort(manifest, config=config, columns=columns, progress=show, **arguments)
            jobs = options.jobs or n_cores()
            if options.regions or options.region:
                write_cohort_flows(tasks, options.out, config, options.region, jobs=jobs)
            write_cohort_profiles(tasks, options.out, show, jobs=jobs, **wanted)  # type: ignore[arg-type]
            page = _write_report(options.out, show) if options.report else None
    except KeyboardInterrupt:
        say("pairframe: stopped; run the same command again to resume")
        raise
    except WorkerError as error:  # neither bad input nor bad usage: the run can be resumed
        say(f"pairframe: {error}")
        raise typer.Exit(1) from error
    if not options.quiet:
        _print_summary(options.out, summary, page)
    if summary.failed or summary.uncertified or summary.unreachable:
        raise typer.Exit(1)


def _structures(options: RunOptions) -> list[str]:
    """The columns of a table of frames with further masks."""
    head = [] if options.axis_head is None or options.axis_head in options.region else [options.axis_head]
    return [*options.region, *head]


def _write_report(out: Path, show: ProgressCallback) -> Path | None:
    """Write the report of the folder, showing progress; None if the folder holds no results."""
    from pairframe.report.html import write_report

    if not ResultStore(out).exists():
        return None
    began = time.monotonic()

    def show_drawn(_task: str, done: int, total: int, _pair_id: str = "", /) -> None:
        show(CohortProgress("report", done, 0, 0, total, time.monotonic() - began))

    return write_report(out, progress=show_drawn)


def _print_summary(out: Path, summary: CohortSummary, page: Path | None) -> None:
    words = [f"{summary.done} done in {duration(summary.seconds)}"]
    if summary.skipped:
        words.append(f"{summary.skipped} skipped (already done)")
    words.append(f"{summary.failed} failed")
    typer.echo(f"pairs: {', '.join(words)}")
    if summary.reach is not None:
        typer.echo(
            f"reach: {summary.reach.reach_um:.4g} {summary.reach.unit} for all pairs, the typical length of the objects at the first "
            "run into this folder; --reach-um changes it"
        )
    if summary.failed:
        typer.echo("failed: see the columns error and advice; --retry-failed tries these pairs again")
    if summary.unreachable:
        typer.echo(
            f"kept: {summary.unreachable} pairs keep their earlier results; their masks are missing or unreadable"
        )
    if summary.uncertified:
        typer.echo(f"not certified: {summary.uncertified} pairs did not converge; see the columns status and advice")
    if summary.warned:
        pairs = "pair was" if summary.warned == 1 else "pairs were"
        typer.echo(
            f"read this: {summary.warned} {pairs} solved exactly, but with warnings; see the column warnings and the report"
        )
    typer.echo(f"table: {visible(str(out / 'results.parquet'))}")
    for what, name in (("flows", FLOWS_CSV), ("axis", PROFILES_NAME), ("radial", RADIAL_NAME)):
        if (out / name).is_file():
            typer.echo(f"{what}: {visible(str(out / name))}")
    if page is not None:
        typer.echo(f"report: {visible(str(out / page.name))}")


def _print_pairs(tasks: Sequence[PairTask]) -> None:
    """Print the first pairs and the last one, so that a wrong pairing is noticed before anything is solved."""
    left_out = len(tasks) - SHOWN_FIRST - 1
    shown = tasks if left_out <= 0 else tasks[:SHOWN_FIRST]
    lines = [_pair_line(task) for task in shown]
    if left_out > 0:
        lines += [f"... {left_out} more", _pair_line(tasks[-1])]
    for line in lines:
        typer.echo(f"pair       {line}")


def _pair_line(task: PairTask) -> str:
    return visible(f"{task.pair_id}: {task.source.named} -> {task.target.named}")


def _print_estimate(found: Estimate, *, on_cluster: bool) -> None:
    typer.echo(f"pairs      {found.pairs}, {found.todo} to do")
    if found.unreadable:
        typer.echo(f"           {found.unreadable} of {found.looked_at} checked pairs cannot be read")
    if found.buckets:
        shapes = ", ".join(f"{count} in {height} x {width}" for (height, width), count in found.buckets)
        typer.echo(f"buckets    {shapes} work pixels")
        option = ",".join(f"{height}x{width}" for (height, width), _ in found.buckets)
        typer.echo(f"           --crop-policy bucketed --bucket-shapes {option}")
    if found.seconds_per_pair is None or found.seconds is None:
        why = "none of the checked pairs could be solved" if found.todo else "no pairs left to solve"
        typer.echo(f"estimates  none: {why}")
        return
    assert found.disk_bytes is not None
    workers = "worker" if on_cluster else f"{found.jobs} jobs"
    if found.memory_bytes is not None:
        typer.echo(f"memory     {_megabytes(found.memory_bytes)} per worker")
    typer.echo(
        f"disk       {_megabytes(found.disk_bytes)} for the maps, in {found.files} {'file' if found.files == 1 else 'files'}"
    )
    total = found.seconds * found.jobs if on_cluster else found.seconds
    typer.echo(
        f"time       {found.seconds_per_pair:.2g} s per pair ({found.calibrated} solved as a test); "
        f"{duration(total)} {'on one' if on_cluster else 'with'} {workers}"
    )
    typer.echo("nothing was written")


def _megabytes(size_bytes: float) -> str:
    return f"{size_bytes / 1e9:.1f} GB" if size_bytes >= 1e9 else f"{size_bytes / 1e6:.1f} MB"

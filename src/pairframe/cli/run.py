"""`pairframe run`: a cohort, with its progress; or what it would do."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from pairframe.cli.terminal import say, visible
from pairframe.cohort import CohortSummary, PairTask, read_tasks, run_cohort
from pairframe.cohort.estimate import Estimate, estimate
from pairframe.cohort.interval import with_frame_interval
from pairframe.cohort.progress import duration, shown_progress
from pairframe.errors import ClusterError, InputError, ManifestError, WorkerDiedError
from pairframe.problem import TransportConfig

SHOWN_FIRST = 10  # pairs that a dry run lists, and the last one


@dataclass(frozen=True)
class RunJob:
    """What `pairframe run` was asked to do; see `run_cohort`. `frame_interval_min` are minutes from a frame to the next."""

    manifest: str
    out: Path
    config: TransportConfig
    pairing: str = "consecutive"
    jobs: int | None = None
    dask: str | None = None
    retry_failed: bool = False
    overwrite: bool = False
    with_report: bool = True
    frame_interval_min: float | None = None

    def __post_init__(self) -> None:
        interval = self.frame_interval_min
        if interval is not None and not (math.isfinite(interval) and interval > 0):
            raise InputError(
                "a positive, finite --frame-interval in minutes", repr(interval), "e.g. --frame-interval 5"
            )


def one_manifest(words: Sequence[str]) -> str:
    """The manifest on the command line. Several words are a pattern without quotes, which the shell has resolved."""
    if len(words) == 1:
        return words[0]
    folders = {Path(word).parent for word in words}
    suffixes = {Path(word).suffix for word in words}
    folder = folders.pop() if len(folders) == 1 else Path("masks")
    pattern = folder / f"*{suffixes.pop() if len(suffixes) == 1 else '.png'}"
    raise ManifestError(
        "one manifest, folder or pattern",
        f"{len(words)} words, {words[0]!r} to {words[-1]!r}",
        "if the shell made them of a pattern, put it in single quotes, "
        f"such as {shlex.quote(str(pattern))}, or give the folder, {shlex.quote(str(folder))}",
    )


def run_run(job: RunJob, *, dry_run: bool = False, quiet: bool = False) -> None:
    """Run it, or tell what it would do. Exit code 1 when pairs failed or are not certified, or the workers were lost."""
    if dry_run:
        tasks = with_frame_interval(read_tasks(job.manifest, job.pairing), job.frame_interval_min)
        _tell_pairs(tasks)
        found = estimate(tasks, job.out, job.config, jobs=job.jobs, retry_failed=job.retry_failed)
        _tell_estimate(found, on_cluster=job.dask is not None)
        return
    try:
        with shown_progress(quiet=quiet) as show:
            summary = run_cohort(
                job.manifest,
                job.out,
                job.config,
                pairing=job.pairing,
                jobs=job.jobs,
                client=job.dask,
                retry_failed=job.retry_failed,
                overwrite=job.overwrite,
                report=job.with_report,
                frame_interval_min=job.frame_interval_min,
                progress=show,
            )
    except KeyboardInterrupt:
        say("pairframe: stopped; the same command goes on from what is kept")
        raise
    except (ClusterError, WorkerDiedError) as error:  # neither input nor usage: it can be resumed
        say(f"pairframe: {error}")
        raise typer.Exit(1) from error
    if not quiet:
        _tell(job, summary)
    if summary.failed or summary.uncertified or summary.unreachable:
        raise typer.Exit(1)


def _tell(job: RunJob, summary: CohortSummary) -> None:
    words = [f"{summary.done} done in {duration(summary.seconds)}"]
    if summary.skipped:
        words.append(f"{summary.skipped} were there")
    words.append(f"{summary.failed} failed")
    typer.echo(f"pairs: {', '.join(words)}")
    if summary.failed:
        typer.echo("failed: the columns error and advice say why; --retry-failed tries unchanged ones again")
    if summary.unreachable:
        typer.echo(
            f"kept: {summary.unreachable} pairs whose masks are missing now or cannot be read keep the results they had"
        )
    if summary.uncertified:
        typer.echo(
            f"not certified: {summary.uncertified} pairs did not converge; the columns status and advice say more"
        )
    typer.echo(f"table: {visible(str(job.out / 'results.parquet'))}")
    if summary.report is not None:
        typer.echo(f"report: {visible(str(job.out / summary.report.name))}")


def _tell_pairs(tasks: Sequence[PairTask]) -> None:
    """The first pairs and the last one, a line each: whether the right frames meet is seen before anything is solved."""
    left_out = len(tasks) - SHOWN_FIRST - 1
    shown = tasks if left_out <= 0 else tasks[:SHOWN_FIRST]
    lines = [_pair_line(task) for task in shown]
    if left_out > 0:
        lines += [f"... {left_out} more", _pair_line(tasks[-1])]
    for line in lines:
        typer.echo(f"pair       {line}")


def _pair_line(task: PairTask) -> str:
    return visible(f"{task.pair_id}: {task.source.named} -> {task.target.named}")


def _tell_estimate(found: Estimate, *, on_cluster: bool) -> None:
    typer.echo(f"pairs      {found.pairs}, {found.todo} to do")
    if found.unreadable:
        typer.echo(f"           of {found.looked_at} that were looked at, {found.unreadable} would fail")
    if found.buckets:
        shapes = ", ".join(f"{count} in {height} x {width}" for (height, width), count in found.buckets)
        typer.echo(f"buckets    {shapes} work pixels")
        option = ",".join(f"{height}x{width}" for (height, width), _ in found.buckets)
        typer.echo(f"           --crop-policy bucketed --bucket-shapes {option}")
    if found.seconds_per_pair is None or found.seconds is None:
        why = "of those looked at none could be solved" if found.todo else "no pair was left to solve"
        typer.echo(f"estimates  none: {why}")
        return
    assert found.memory_bytes is not None and found.disk_bytes is not None  # noqa: PT018 (they come together)
    workers = "worker" if on_cluster else f"{found.jobs} jobs"
    typer.echo(f"memory     {_megabytes(found.memory_bytes)} per worker")
    typer.echo(f"disk       {_megabytes(found.disk_bytes)} for the maps")
    total = found.seconds * found.jobs if on_cluster else found.seconds
    typer.echo(
        f"time       {found.seconds_per_pair:.2g} s per pair ({found.calibrated} were solved); "
        f"{duration(total)} {'on one' if on_cluster else 'with'} {workers}"
    )
    typer.echo("nothing was written")


def _megabytes(size_bytes: float) -> str:
    return f"{size_bytes / 1e9:.1f} GB" if size_bytes >= 1e9 else f"{size_bytes / 1e6:.1f} MB"

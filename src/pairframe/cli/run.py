"""`pairframe run`: a cohort, with its progress; or what it would do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import typer

from pairframe.cli.terminal import say, visible
from pairframe.cohort import CohortSummary, run_cohort
from pairframe.cohort.estimate import Estimate, estimate
from pairframe.cohort.progress import duration, shown_progress
from pairframe.errors import ClusterError, WorkerDiedError
from pairframe.problem import TransportConfig


@dataclass(frozen=True)
class RunJob:
    """What `pairframe run` was asked to do; see `run_cohort`."""

    manifest: str
    out: Path
    config: TransportConfig
    pairing: str = "consecutive"
    jobs: int | None = None
    dask: str | None = None
    retry_failed: bool = False
    overwrite: bool = False
    with_report: bool = True


def run_run(job: RunJob, *, dry_run: bool = False, quiet: bool = False) -> None:
    """Run it, or tell what it would do. Exit code 1 when pairs failed or are not certified, or the workers were lost."""
    if dry_run:
        _tell_estimate(
            estimate(
                job.manifest,
                job.out,
                job.config,
                pairing=job.pairing,
                jobs=job.jobs,
                retry_failed=job.retry_failed,
            ),
            on_cluster=job.dask is not None,
        )
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
                progress=show,
            )
    except KeyboardInterrupt:
        say("pairframe: stopped; what was done is kept, and the same command goes on from here")
        raise
    except (ClusterError, WorkerDiedError) as error:  # neither input nor usage: it can be resumed
        say(f"pairframe: {error}")
        raise typer.Exit(1) from error
    if not quiet:
        _tell(job, summary)
    if summary.failed or summary.uncertified:
        raise typer.Exit(1)


def _tell(job: RunJob, summary: CohortSummary) -> None:
    words = [f"{summary.done} done in {duration(summary.seconds)}"]
    if summary.skipped:
        words.append(f"{summary.skipped} were there")
    words.append(f"{summary.failed} failed")
    typer.echo(f"pairs: {', '.join(words)}")
    if summary.failed:
        typer.echo("failed: the columns error and advice say why; --retry-failed tries unchanged ones again")
    if summary.uncertified:
        typer.echo(
            f"not certified: {summary.uncertified} pairs did not converge; the columns status and advice say more"
        )
    typer.echo(f"table: {visible(str(job.out / 'results.parquet'))}")
    if summary.report is not None:
        typer.echo(f"report: {visible(str(job.out / summary.report.name))}")


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
        typer.echo("estimates  none: no pair was left to solve")
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

"""`run_cohort`: plan, compare, write the table, remove leftovers."""

from __future__ import annotations

import os
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from pairframe import checks
from pairframe.cohort.inputs.columns import ColumnMap
from pairframe.cohort.inputs.interval import with_frame_interval
from pairframe.cohort.inputs.sources import Manifest, read_tasks
from pairframe.cohort.inputs.tasks import check_volume_settings
from pairframe.cohort.run.chunks import cut_into_chunks
from pairframe.cohort.run.cohort_reach import CohortReach, record_reach, settle_reach, with_reach
from pairframe.cohort.run.cohort_rim import with_rim
from pairframe.cohort.run.dask_executor import AnyClient, DaskExecutor
from pairframe.cohort.run.events import Stopped
from pairframe.cohort.run.executor import Executor
from pairframe.cohort.run.interrupt import stop_on_interrupt
from pairframe.cohort.run.job import Job
from pairframe.cohort.run.local_executor import LocalExecutor
from pairframe.cohort.run.mark import RunMark
from pairframe.cohort.run.orphans import remove_orphans
from pairframe.cohort.run.plan import Plan, check_labels, make_plan
from pairframe.cohort.run.progress import MaskScan, ProgressCallback, progress_if_watched
from pairframe.cohort.run.table_writer import TableWriter
from pairframe.cohort.run.tally import Tally
from pairframe.cohort.run.work_queue import WorkQueue
from pairframe.engines.registry import check_engine
from pairframe.errors import CohortError
from pairframe.parallel.threads import n_cores
from pairframe.problem import TransportConfig
from pairframe.results import ResultStore


@dataclass(frozen=True)
class CohortSummary:
    """How a run ended.

    Attributes
    ----------
    done : int
        Pairs solved in this run.
    failed : int
        Pairs of the manifest without a result, whether they failed now or before.
    skipped : int
        Pairs that were done already, from the same content.
    unreachable : int
        Skipped pairs whose masks are missing now or cannot be read.
    uncertified : int
        Pairs with a result that did not converge, now or before; counted in `done` or `skipped` too.
    seconds : float
        Of this run.
    reach : CohortReach, optional
        The reach of all pairs, if none was given.
    warned : int
        Pairs solved in this run whose notices should be read before their numbers are used.
    """

    done: int
    failed: int
    skipped: int
    uncertified: int
    seconds: float
    unreachable: int = 0
    reach: CohortReach | None = None
    warned: int = 0


def run_cohort(
    manifest: Manifest,
    out: str | os.PathLike[str],
    config: TransportConfig | None = None,
    *,
    pairing: str = "consecutive",
    axes: str | None = None,
    columns: ColumnMap | None = None,
    jobs: int | None = None,
    client: AnyClient | str | None = None,
    retry_failed: bool = False,
    overwrite: bool = False,
    frame_interval_min: float | None = None,
    progress: ProgressCallback | bool | None = None,
) -> CohortSummary:
    """Compare many pairs into one folder of results. Run again, it compares only pairs that are missing or have changed.

    Parameters
    ----------
    manifest, pairing, axes, columns
        See `read_tasks`.
    out : path
        Folder of results; see `ResultStore`. Nothing outside of it is written.
    jobs : int, optional
        Worker processes on this machine, with one thread each; None: one per core. They import the main module: a script
        needs ``if __name__ == "__main__":`` around its calls.
    client : distributed.Client or address, optional
        Use the workers of a Dask cluster instead; all of them must see the masks and `out` under the same names.
    retry_failed : bool
        Also repeat pairs whose masks or config were at fault and have not changed since.
    overwrite : bool
        Write into a folder that holds other files.
    frame_interval_min : float, optional
        Minutes from a frame to the next: every row has the minutes between its two frames in a column of this name;
        see `with_frame_interval`.
    progress : callable (CohortProgress) or bool, optional
        Called about twice a second. None: a bar if a person is watching, on a terminal or in a notebook. True: always,
        as lines in a log file. False: nothing.

    Notes
    -----
    A pair that cannot be compared is a row with ``status="failed"``. Ctrl-C finishes the running pairs, writes the table
    and raises `KeyboardInterrupt`; a second one ends at once. `pairframe.report.html.write_report` writes the report.
    """
    config = checked_config(config)
    n_jobs = checked_jobs(jobs)
    if client is not None and jobs is not None:
        raise CohortError("either jobs or a cluster", "both", "leave jobs out: the cluster has its own workers")
    tasks = with_frame_interval(read_tasks(manifest, pairing, axes, columns, config.volume), frame_interval_min)
    check_volume_settings(tasks, config)
    config = with_rim(config, tasks)
    store = ResultStore(Path(out).absolute())
    store.create(overwrite=overwrite)
    began = time.monotonic()
    with (
        RunMark(store.out) as mark,
        stop_on_interrupt(mark.stop) as is_stopping,
        progress_if_watched(progress) as show,
    ):
        is_fresh = not store.exists()  # all pairs are to do: labels are checked while workers start
        if not is_fresh:
            check_labels(tasks, store)
        scan = MaskScan(show, is_stopping)
        reach = settle_reach(config, tasks, store, scan)
        if isinstance(reach, Stopped):
            raise KeyboardInterrupt
        if reach is not None:
            record_reach(store, reach)
        config = with_reach(config, reach)
        plan = make_plan(tasks, store, config, retry_failed=retry_failed, scan=scan)
        if isinstance(plan, Stopped):
            raise KeyboardInterrupt
        tally = Tally(plan, len(tasks), is_stopping, show)
        writer = TableWriter(store, [task.pair_id for task in tasks])
        writer.add(*plan.relabelled)
        job = Job(config, store.out, mark.token)
        try:
            if plan.todo and not is_stopping():
                with _executor(job, min(n_jobs, len(plan.todo)), client) as executor:
                    if is_fresh:
                        check_labels(tasks, store)
                    _compare_all(plan, job, executor, scan, tally, writer)
        finally:
            writer.flush()
        remove_orphans(store, {task.pair_id for task in tasks})
        if is_stopping():
            raise KeyboardInterrupt
        tally.check_complete()
    seconds = time.monotonic() - began
    return CohortSummary(
        tally.done, tally.failed, tally.skipped, tally.uncertified, seconds, len(plan.unreachable), reach, tally.warned
    )


def _executor(job: Job, jobs: int, client: AnyClient | str | None) -> Executor:
    return LocalExecutor(job, jobs) if client is None else DaskExecutor(job, client)


def _compare_all(plan: Plan, job: Job, executor: Executor, scan: MaskScan, tally: Tally, writer: TableWriter) -> None:
    chunks = cut_into_chunks(plan.todo, executor.n_workers, job.config, scan)
    if isinstance(chunks, Stopped):
        return
    queue = WorkQueue(chunks, job.is_wanted)
    with closing(executor.events(queue, scan.is_stopping)) as events:
        for event in events:
            for row in queue.resolve(event):
                tally.count(row)
                writer.add(row)
            writer.flush_when_due()
            tally.show_progress()


def checked_config(config: TransportConfig | None) -> TransportConfig:
    if config is None:
        config = TransportConfig()
    if not isinstance(config, TransportConfig):
        raise CohortError("a TransportConfig", type(config).__name__, "write TransportConfig(blur_um=2.0, ...)")
    check_engine(config.backend)  # a missing one would fail every pair
    return config


def checked_jobs(jobs: int | None) -> int:
    if jobs is None:
        return n_cores()
    return checks.integer(jobs, "jobs", 1, fix="e.g. 2, or None for all cores", error=CohortError)

"""`run_cohort`: plan, solve, write down, tidy up, report."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType

from pairframe.cohort.cluster import AnyClient, connected, dask_rows, n_threads_of
from pairframe.cohort.interval import with_frame_interval
from pairframe.cohort.job import Job
from pairframe.cohort.local import local_rows
from pairframe.cohort.mark import RunMark
from pairframe.cohort.plan import Plan, check_labels, make_plan
from pairframe.cohort.portions import cut_into_chunks
from pairframe.cohort.progress import CohortProgress, Looking, ProgressCallback
from pairframe.cohort.sources import Manifest, read_tasks
from pairframe.cohort.tidy import remove_orphans
from pairframe.cohort.work_queue import WorkQueue
from pairframe.engines import Status
from pairframe.engines.registry import check_engine
from pairframe.engines.threads import n_cores
from pairframe.errors import CohortError, StoreError, StoreLockedError, StoreWriteError
from pairframe.problem import TransportConfig
from pairframe.results import ResultStore
from pairframe.results.schema import FAILED, Row

Rows = Iterator[Row | None]
_COMMIT_EVERY_S, _COMMIT_AT_LAST_S = 1.0, 30.0
_COMMIT_SHARE = 0.02  # of the time may go into writing the table: the disk is busy then, and workers wait for it
_UNFINISHED = {str(Status.max_iterations), str(Status.impossible)}


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
        Pairs with a result from the same content, which was kept.
    unreachable : int
        Those of them whose masks are missing now or cannot be read.
    uncertified : int
        Pairs with a result that did not converge, now or before; counted in `done` or `skipped` too.
    seconds : float
        Of this run, without the report.
    report : Path or None
        The page, when one was written.
    """

    done: int
    failed: int
    skipped: int
    uncertified: int
    seconds: float
    report: Path | None = None
    unreachable: int = 0


def run_cohort(
    manifest: Manifest,
    out: str | os.PathLike[str],
    config: TransportConfig | None = None,
    *,
    pairing: str = "consecutive",
    jobs: int | None = None,
    client: AnyClient | str | None = None,
    retry_failed: bool = False,
    overwrite: bool = False,
    report: bool = True,
    frame_interval_min: float | None = None,
    progress: ProgressCallback | None = None,
) -> CohortSummary:
    """Compare many pairs into one folder of results; run again, it does what is missing, changed or was cut off.

    Parameters
    ----------
    manifest, pairing
        See `read_tasks`.
    out : path
        Folder of results; see `ResultStore`. Of the masks and this folder nothing else is touched.
    jobs : int, optional
        Worker processes on this machine, with one thread each; None: one per core. They import the main module: a script
        needs ``if __name__ == "__main__":`` around its calls.
    client : distributed.Client or address, optional
        Use the workers of a Dask cluster instead; all of them see the masks and `out` under the same names.
    retry_failed : bool
        Also do pairs again that failed by their own fault and have not changed since.
    overwrite : bool
        Write into a folder that holds other things.
    report : bool
        Write ``report.html`` at the end.
    frame_interval_min : float, optional
        Minutes from a frame to the next: every row carries the minutes between its two frames in a column of this name;
        see `with_frame_interval`.
    progress : callable (CohortProgress), optional
        Told about twice a second.

    Notes
    -----
    A pair that cannot be compared is a row with ``status="failed"``. Ctrl-C finishes the running pairs, writes down what
    was done and raises `KeyboardInterrupt`; a second one ends at once.
    """
    config = checked_config(config)
    n_jobs = checked_jobs(jobs)
    if client is not None and jobs is not None:
        raise CohortError("either jobs or a cluster", "both", "leave jobs out: the cluster has its own workers")
    tasks = with_frame_interval(read_tasks(manifest, pairing), frame_interval_min)
    store = ResultStore(Path(out).absolute())
    store.create(overwrite=overwrite)
    began = time.monotonic()
    with RunMark(store.out) as mark, _stop_on_interrupt(mark.stop) as is_stopping:
        check = partial(check_labels, tasks, store)
        is_fresh = client is None and not store.exists()  # all pairs are to do: workers may start meanwhile
        if not is_fresh:
            check()
        looking = Looking(progress, is_stopping)
        plan = make_plan(tasks, store, config, retry_failed=retry_failed, looking=looking)
        tally = _Tally(plan, len(tasks), is_stopping, progress)
        writer = _Writer(store, [task.pair_id for task in tasks])
        writer.add(*plan.relabelled)
        job = Job(config, store.out, mark.token)
        try:
            for row in _rows(plan, job, n_jobs, client, looking, check if is_fresh else lambda: None):
                if row is not None:
                    tally.count(row)
                    writer.add(row)
                writer.flush_when_due()
                tally.tell()
        finally:
            writer.flush()
        remove_orphans(store, {task.pair_id for task in tasks})
        if is_stopping():
            raise KeyboardInterrupt
        tally.check_all_there()
    seconds = time.monotonic() - began
    page = _report(store, progress) if report else None
    return CohortSummary(
        tally.done, tally.failed, tally.skipped, tally.uncertified, seconds, page, len(plan.unreachable)
    )


def _rows(
    plan: Plan,
    job: Job,
    jobs: int,
    client: AnyClient | str | None,
    looking: Looking,
    check: Callable[[], None],
) -> Rows:
    is_stopping = looking.is_stopping
    if not plan.todo or is_stopping():  # Ctrl-C while files were read: no worker need start
        return
    if client is None:
        queue = WorkQueue(())

        def prepare() -> None:
            check()  # before masks are looked at, which may take long
            queue.fill(cut_into_chunks(plan.todo, jobs, job.config, looking))

        yield from local_rows(queue, job, min(jobs, len(plan.todo)), is_stopping, prepare)
        return
    with connected(client) as cluster:
        queue = WorkQueue(cut_into_chunks(plan.todo, max(4, n_threads_of(cluster)), job.config, looking))
        if not is_stopping():
            yield from dask_rows(queue, job, cluster, is_stopping)


class _Writer:
    """Commits rows in batches: every commit writes the whole table, so the larger it is, the rarer they are.

    In a thread, because workers that have finished their portion wait for the next one. Rows are kept until they are known to be
    written. They arrive as they are done, large pairs first; the table has them in the `order` of the manifest.
    """

    def __init__(self, store: ResultStore, order: list[str]) -> None:
        self._store, self._order = store, order
        self._rows: list[Row] = []
        self._going: Future[float] | None = None
        self._n_going = 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="pairframe-commit")
        self._next_at = time.monotonic() + _COMMIT_EVERY_S

    def add(self, *rows: Row) -> None:
        self._rows.extend(rows)

    def flush_when_due(self) -> None:
        if self._going is not None and self._going.done():
            self._settle()
        if self._going is None and self._rows and time.monotonic() >= self._next_at:
            self._n_going = len(self._rows)
            self._going = self._thread.submit(self._commit, self._rows[:])

    def flush(self) -> None:
        """The last one, in this thread, so that Ctrl-C can end it; an error is told."""
        try:
            if self._going is not None:
                self._settle()
        finally:
            self._thread.shutdown(wait=False)
            self._commit(self._rows)  # also what a commit may have written that ended badly: twice is once

    def _commit(self, rows: list[Row]) -> float:
        began = time.monotonic()
        self._store.commit(rows, order=self._order)
        return time.monotonic() - began

    def _settle(self) -> None:
        """Wait for the commit on the way. What it could not write the last flush will tell, if it must."""
        assert self._going is not None
        going, self._going = self._going, None
        try:
            wait_s = min(max(_COMMIT_EVERY_S, going.result() / _COMMIT_SHARE), _COMMIT_AT_LAST_S)
            del self._rows[: self._n_going]
        except (StoreWriteError, StoreLockedError):
            wait_s = _COMMIT_AT_LAST_S
        self._next_at = time.monotonic() + wait_s


class _Tally:
    """Counts, and tells."""

    def __init__(
        self, plan: Plan, total: int, is_stopping: Callable[[], bool], progress: ProgressCallback | None
    ) -> None:
        self._total, self._is_stopping, self._progress = total, is_stopping, progress
        self._began, self._told_at = time.monotonic(), 0.0
        self.failed_before = sum(status == FAILED for status in plan.kept.values())
        self.skipped = len(plan.kept) - self.failed_before
        self.uncertified = sum(status in _UNFINISHED for status in plan.kept.values())
        self.done = self.failed_now = 0

    @property
    def failed(self) -> int:
        return self.failed_before + self.failed_now

    def count(self, row: Row) -> None:
        is_failed = row["status"] == FAILED
        self.failed_now += is_failed
        self.done += not is_failed
        self.uncertified += row["status"] in _UNFINISHED

    def tell(self) -> None:
        now = time.monotonic()
        is_end = self.done + self.failed + self.skipped == self._total
        if self._progress is not None and (is_end or now - self._told_at > 0.4):
            self._told_at = now
            phase = "stopping" if self._is_stopping() else "solving"
            kept = self.skipped + self.failed_before
            self._progress(CohortProgress(phase, self.done, self.failed_now, kept, self._total, now - self._began))

    def check_all_there(self) -> None:
        missing = self._total - self.done - self.failed - self.skipped
        if missing:
            raise StoreError(
                "the mark of this run to stay in the folder of results",
                f"{missing} pairs not done, because somebody removed it",
                "run the same command again",
            )


@contextmanager
def _stop_on_interrupt(stop: Callable[[], None]) -> Iterator[Callable[[], bool]]:
    """The first Ctrl-C calls `stop` and is remembered; the second one is an exception at once."""
    asked: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False  # signals reach only the main thread
        return

    def handle(number: int, _frame: FrameType | None) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)
        stop()

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield lambda: bool(asked)
    finally:
        signal.signal(signal.SIGINT, before)


def _report(store: ResultStore, progress: ProgressCallback | None) -> Path | None:
    from pairframe.report.html import write_report

    began = time.monotonic()

    def tell(done: int, total: int, _pair_id: str) -> None:
        if progress is not None:
            progress(CohortProgress("report", done, 0, 0, total, time.monotonic() - began))

    return write_report(store.out, progress=tell) if store.exists() else None


def checked_config(config: TransportConfig | None) -> TransportConfig:
    if config is None:
        config = TransportConfig()
    if not isinstance(config, TransportConfig):
        raise CohortError("a TransportConfig", type(config).__name__, "write TransportConfig(blur_um=2.0, ...)")
    check_engine(config.backend)  # one that is not there would fail every pair
    return config


def checked_jobs(jobs: int | None) -> int:
    if jobs is not None and (isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < 1):
        raise CohortError("jobs to be an integer >= 1, or None for all cores", repr(jobs), "e.g. jobs=2")
    return n_cores() if jobs is None else jobs

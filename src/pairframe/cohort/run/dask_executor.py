"""Workers of a Dask cluster. They read masks and write maps on a shared file system; only rows are sent."""

from __future__ import annotations

import pkgutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pairframe import files
from pairframe._version import __version__
from pairframe.cohort.run.events import Chunk, ChunkLost, ChunkReturned, Event, Heartbeat, PairFinished
from pairframe.cohort.run.executor import Executor
from pairframe.cohort.run.job import Job
from pairframe.cohort.run.mark import is_going_on
from pairframe.cohort.run.mask_cache import MaskCache
from pairframe.cohort.run.work_queue import WorkQueue
from pairframe.errors import CohortError, MissingExtraError, WorkerError
from pairframe.results import ResultStore, disk

# Of the module distributed, which has no types: Client and Future.
AnyClient = Any
AnyFuture = Any

_HEARTBEAT_S = 0.5
_CHECK_EVERY_S = 5.0  # for new workers
_VISIBLE_WITHIN_S = 20.0  # a network file system may be late
_STRAGGLERS_S = 120.0  # for chunks that run although their results are no longer needed
_RETRIES = 2  # of a chunk whose worker could not begin it
_MIN_WORKERS = 4
_MAX_LOST = 5  # in a row, of workers that end when they load pairframe: the others would too
_VERSION = "pairframe:__version__"
RESUME = "start the scheduler and its workers, and run the same command again; finished pairs are kept"


@contextmanager
def _connected(client: AnyClient | str) -> Iterator[AnyClient]:
    """A usable client; one that was made here from an address is closed at the end."""
    try:
        import distributed
    except ImportError as error:
        raise MissingExtraError(
            "Dask for a run on a cluster", "no distributed", "pip install 'pairframe[dask]'"
        ) from error
    if not isinstance(client, str):
        if not isinstance(client, distributed.Client) or client.asynchronous:
            raise WorkerError("a distributed.Client, or an address", type(client).__name__, "write Client(address)")
        yield client
        return

    class OwnClient(distributed.Client):
        def start(self, **options: Any) -> None:
            try:
                super().start(**options)  # type: ignore[no-untyped-call]
            except BaseException:
                self.close()  # type: ignore[no-untyped-call]  # otherwise the end of the process waits for it
                raise

    try:
        own = OwnClient(client, set_as_default=False)  # type: ignore[no-untyped-call]
    except Exception as error:  # distributed raises errors of many classes for an address that it cannot use
        kind = WorkerError if isinstance(error, OSError) else CohortError
        raise kind(
            "the address of a Dask scheduler", f"{client!r}: {error}", "for instance --dask tcp://127.0.0.1:8786"
        ) from error
    try:
        yield own
    finally:
        with suppress(OSError, TimeoutError):  # the scheduler is gone
            own.close()  # type: ignore[no-untyped-call]


class DaskExecutor(Executor):
    """Workers of a Dask cluster, which may die and join at any time.

    Parameters
    ----------
    job : Job
    client : distributed.Client or str
        Or the address of the scheduler.
    """

    def __init__(self, job: Job, client: AnyClient | str) -> None:
        self._job, self._address = job, client
        self._connection = ExitStack()
        self._client: AnyClient = None
        self._checked: set[str] = set()  # addresses of workers that can do the job
        self._lost: set[str] = set()  # those in a row that ended before they answered

    def __enter__(self) -> Self:
        self._client = self._connection.enter_context(_connected(self._address))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    @property
    def n_workers(self) -> int:
        """Threads of the cluster now; at least a few, because a cluster may start its workers later."""
        return max(_MIN_WORKERS, self._n_threads())

    def _n_threads(self) -> int:
        with _connection_errors():
            return int(sum(self._client.nthreads().values()))

    def events(self, queue: WorkQueue, is_stopping: Callable[[], bool]) -> Generator[Event]:
        import distributed

        wait: Any = distributed.wait
        client = self._client
        yield from self._wait_for_workers(is_stopping)
        in_flight: dict[AnyFuture, Chunk] = {}
        checked_at, limit = 0.0, 0
        try:
            while True:
                with _connection_errors():
                    if time.monotonic() - checked_at > _CHECK_EVERY_S:
                        if not is_stopping():
                            self._check_new_workers()
                        checked_at, limit = time.monotonic(), 2 * max(1, self._n_threads())
                    while len(in_flight) < limit and not is_stopping() and (chunk := queue.take()):
                        in_flight[client.submit(_compare_chunk, self._job, chunk, pure=False, retries=_RETRIES)] = chunk
                    if not in_flight:
                        break
                    with suppress(TimeoutError, CancelledError), client.as_current():  # the states below show which
                        wait(list(in_flight), timeout=_HEARTBEAT_S, return_when="FIRST_COMPLETED")
                    finished = [future for future in in_flight if future.status not in ("pending", "lost")]
                for future in finished:
                    with _connection_errors():
                        events = _events_of(future, in_flight[future])
                    if events is not None:
                        del in_flight[future]
                        yield from events
                yield Heartbeat()
            yield from self._wait_for_stragglers()
        finally:
            with suppress(OSError, TimeoutError, RuntimeError):  # the client may be closed
                client.cancel(list(in_flight))

    def _wait_for_stragglers(self) -> Iterator[Heartbeat]:
        """Wait until no worker writes maps of this run.

        If a worker dies between sending a result and the scheduler hearing that it has arrived, the scheduler starts the
        chunk again elsewhere, and a chunk that has begun cannot be cancelled. Its maps must be there before those without
        a row are removed.
        """
        give_up_at = time.monotonic() + _STRAGGLERS_S
        while time.monotonic() < give_up_at:
            with _connection_errors():
                workers = [address for address in self._client.nthreads() if address in self._checked]
                answers = self._answers(workers, _n_running, self._job.token)  # one that does not answer has ended
            if not any(answers.values()):
                return
            time.sleep(0.1)
            yield Heartbeat()

    # --- workers -----------------------------------------------------------------------------

    def _wait_for_workers(self, is_stopping: Callable[[], bool]) -> Iterator[Heartbeat]:
        """Wait for the first workers; refuse those that could only fail."""
        with _connection_errors():
            self._check_scheduler()
            # Without a task, an adaptive cluster starts no worker. A task of ours would end a worker without pairframe.
            demand = self._client.submit(time.sleep, 0, pure=False)
        try:
            while not (is_stopping() or self._checked):
                with _connection_errors():
                    with suppress(TimeoutError):
                        self._client.wait_for_workers(1, timeout=_HEARTBEAT_S)
                    self._check_new_workers()
                yield Heartbeat()
        finally:
            with suppress(OSError, TimeoutError, RuntimeError):  # the client may be closed
                self._client.cancel([demand])

    def _check_scheduler(self) -> None:
        """Check that the scheduler can load pairframe: it reads every task before it passes it on."""
        try:
            self._client.run_on_scheduler(pkgutil.resolve_name, _VERSION)
        except OSError:
            raise
        except Exception as error:  # of any class: it was raised by an import
            raise _not_installed("the scheduler", error) from error

    def _check_new_workers(self) -> None:
        """Check that new workers have this version and see the folder of results."""
        job = self._job
        new = [address for address in self._client.nthreads() if address not in self._checked]
        # This function of the standard library can be sent to a worker that has no pairframe.
        versions = self._answers(new, pkgutil.resolve_name, _VERSION)
        for address, version in versions.items():
            if version != __version__:
                raise WorkerError(
                    f"pairframe {__version__} on every worker", f"{version} on {address}", "install the same version"
                )
        for address, sees_folder in self._answers(list(versions), _sees_folder, job.out, job.token).items():
            if not sees_folder and job.is_wanted():
                raise WorkerError(
                    "a folder of results that every worker sees",
                    f"{str(job.out)!r}, which {address} does not see",
                    "choose a folder on a file system that all machines share",
                )
            self._checked.add(address)
            self._lost.clear()

    def _answers(self, workers: list[str], function: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
        """Answers by address; a worker that ended before it could answer has none."""
        if not workers:
            return {}
        answers = self._client.run(function, *arguments, workers=workers, on_error="return")
        for address, answer in answers.items():
            if isinstance(answer, OSError):
                self._lost.add(address)  # it may stay in the list for a while
                if len(self._lost) >= _MAX_LOST:
                    raise WorkerError(
                        "workers that can load pairframe",
                        f"{len(self._lost)} in a row that ended first; the last was {address}",
                        "read the logs of the workers",
                    )
            elif isinstance(answer, Exception):
                raise _not_installed(address, answer)
        return {address: answer for address, answer in answers.items() if not isinstance(answer, OSError)}


def _not_installed(where: str, error: Exception) -> WorkerError:
    return WorkerError(
        f"pairframe {__version__} on the scheduler and every worker",
        f"{type(error).__name__} on {where}: {error}",
        f"pip install 'pairframe[dask]=={__version__}' there",
    )


def _events_of(future: AnyFuture, chunk: Chunk) -> list[Event] | None:
    """Events of a task that ended; None if its result was lost with a worker: Dask computes it again."""
    if future.status == "cancelled":
        raise CancelledError
    if future.status == "error":
        error = future.exception()
        return [ChunkLost(chunk, (), f"the cluster gave up this pair: {type(error).__name__}: {error}", is_final=True)]
    try:
        finished: list[PairFinished] = future.result(timeout=60)
    except TimeoutError:
        return None
    rest = chunk[len(finished) :]
    return [*finished, ChunkReturned(rest)] if rest else list(finished)


@contextmanager
def _connection_errors() -> Iterator[None]:
    try:
        yield
    except (CancelledError, OSError) as error:  # a closed connection and a timeout are OSErrors
        raise WorkerError(
            "a Dask scheduler that keeps running", f"a lost connection ({type(error).__name__}: {error})", RESUME
        ) from error


# --- in a worker -----------------------------------------------------------------------------


def _compare_chunk(job: Job, chunk: Chunk) -> list[PairFinished]:
    """All events of a chunk at once; its maps are on the disk by then.

    The table may be written on another machine, which cannot flush what this one has in memory.
    """
    with _counted(job.token):
        events = list(job.compare_chunk(chunk, _process_cache()))
        maps = ResultStore(job.out).maps_path
        groups = [event.row["maps_group"] for event in events]
        files.flush_all([disk.group_file(maps, group) for group in groups if group is not None])
    return events


_running: Counter[str] = Counter()  # chunks of this process that are being compared, by the token of their run
_running_lock = threading.Lock()


@contextmanager
def _counted(token: str) -> Iterator[None]:
    with _running_lock:
        _running[token] += 1
    try:
        yield
    finally:
        with _running_lock:
            _running[token] -= 1


def _n_running(token: str) -> int:
    """The number of chunks of that run in this worker."""
    return _running[token]


@cache
def _process_cache() -> MaskCache:
    """One per process: Dask calls a function for every chunk, and files are to be hashed once for all of them."""
    return MaskCache()


def _sees_folder(out: Path, token: str) -> bool:
    """Whether a worker sees the folder of this run."""
    give_up_at = time.monotonic() + _VISIBLE_WITHIN_S
    while not (sees := is_going_on(out, token)) and time.monotonic() < give_up_at:
        time.sleep(0.5)
    return sees

"""Workers of a Dask cluster. They see the masks and the folder of results as we do; only rows travel."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pairframe._version import __version__
from pairframe.cohort.job import Job, run_chunk
from pairframe.cohort.mark import is_going_on
from pairframe.cohort.plan import Chunk
from pairframe.cohort.work_queue import WorkQueue
from pairframe.errors import ClusterError, MissingExtraError
from pairframe.results.schema import Row

# Of the module distributed, which has no types: Client and Future.
AnyClient = Any
AnyFuture = Any

_TICK_S = 0.5
_LOOK_EVERY_S = 5.0  # workers come and go
_SEE_WITHIN_S = 20.0  # a network file system may be late
_RETRIES = 2  # of a portion whose worker could not even begin it
RESUME = "start the scheduler and its workers, and run the same command again: what was done is kept"


@contextmanager
def connected(client: AnyClient | str) -> Iterator[AnyClient]:
    """A client that can be used; one that was made here from an address is closed again."""
    try:
        import distributed
    except ImportError as error:
        raise MissingExtraError(
            "Dask for a run on a cluster", "no distributed", "pip install 'pairframe[dask]'"
        ) from error
    if not isinstance(client, str):
        if not isinstance(client, distributed.Client) or client.asynchronous:
            raise ClusterError("a distributed.Client, or an address", type(client).__name__, "write Client(address)")
        yield client
        return
    try:
        own: AnyClient = distributed.Client(
            client,  # type: ignore[no-untyped-call]
            set_as_default=False,
        )
    except (OSError, ValueError) as error:
        raise ClusterError(
            "the address of a Dask scheduler", f"{client!r}: {error}", "for instance --dask tcp://127.0.0.1:8786"
        ) from error
    try:
        yield own
    finally:
        with suppress(OSError, TimeoutError):  # nobody there any more
            own.close()


def n_threads_of(client: AnyClient) -> int:
    """Tasks that the cluster can do at a time just now."""
    with _lost_is_our_error():
        return int(sum(client.nthreads().values()))


def dask_rows(queue: WorkQueue, job: Job, client: AnyClient, is_stopping: Callable[[], bool]) -> Iterator[Row | None]:
    """The rows of everything in `queue`, as `local_rows` gives them. Workers may die and join at any time."""
    import distributed

    wait: Any = distributed.wait
    known: set[str] = set()  # workers that were looked at
    yield from _wait_for_workers(client, job, known, is_stopping)
    in_flight: dict[AnyFuture, Chunk] = {}
    looked_at, limit = 0.0, 0
    try:
        while True:
            with _lost_is_our_error():
                if time.monotonic() - looked_at > _LOOK_EVERY_S:
                    if not is_stopping():
                        _check_new_workers(client, job, known)
                    looked_at, limit = time.monotonic(), 2 * max(1, n_threads_of(client))
                while len(in_flight) < limit and not is_stopping() and (chunk := queue.take()):
                    in_flight[client.submit(run_chunk, job, chunk, pure=False, retries=_RETRIES)] = chunk
                if not in_flight:
                    return
                with suppress(TimeoutError, CancelledError), client.as_current():  # which of them, their states tell
                    wait(list(in_flight), timeout=_TICK_S, return_when="FIRST_COMPLETED")
                finished = [future for future in in_flight if future.status not in ("pending", "lost")]
            for future in finished:
                with _lost_is_our_error():
                    rows = _rows_of(future, in_flight[future], queue, job)
                if rows is not None:
                    del in_flight[future]
                    yield from rows
            yield None
    finally:
        with suppress(OSError, TimeoutError, RuntimeError):  # the client may be gone
            client.cancel(list(in_flight))


def _rows_of(future: AnyFuture, chunk: Chunk, queue: WorkQueue, job: Job) -> list[Row] | None:
    """Rows to keep of a task that ended; None when its result went down with a worker, and is made again."""
    if future.status == "cancelled":
        raise CancelledError
    if future.status == "error":
        reason = f"the cluster gave it up: {type(future.exception()).__name__}: {future.exception()}"
        if len(chunk) > 1:
            queue.try_alone(chunk)
            return []
        row = queue.lost(chunk[0], reason, for_good=True)
        return [] if row is None else [row]
    try:
        rows = future.result(timeout=60)
    except TimeoutError:
        return None
    settled = [kept for row in rows if (kept := queue.settle(row)) is not None]
    rest = chunk[len(rows) :]
    return [*settled, *queue.given_back(rest)] if rest and job.is_wanted() else settled


@contextmanager
def _lost_is_our_error() -> Iterator[None]:
    try:
        yield
    except (CancelledError, OSError) as error:  # a closed connection and a timeout are OSErrors
        raise ClusterError(
            "a Dask scheduler that stays there", f"a lost connection ({type(error).__name__}: {error})", RESUME
        ) from error


# --- workers ---------------------------------------------------------------------------------


def _wait_for_workers(client: AnyClient, job: Job, known: set[str], is_stopping: Callable[[], bool]) -> Iterator[None]:
    """Wait for the first workers, and refuse those that could only fail."""
    with _lost_is_our_error():
        demand = client.submit(_look, job.out, job.token, pure=False)  # an adaptive cluster starts none without it
    try:
        while not (is_stopping() or known):
            with _lost_is_our_error():
                with suppress(TimeoutError):
                    client.wait_for_workers(1, timeout=_TICK_S)
                _check_new_workers(client, job, known)
            yield None
    finally:
        with suppress(OSError, TimeoutError, RuntimeError):  # the client may be gone
            client.cancel([demand])


def _check_new_workers(client: AnyClient, job: Job, known: set[str]) -> None:
    """Look at workers that are not `known` yet: the same version, the same folder; those that answer are known then."""
    new = [address for address in client.nthreads() if address not in known]
    found: dict[str, Any] = client.run(_look, job.out, job.token, workers=new, on_error="return") if new else {}
    for address, answer in found.items():
        if isinstance(answer, OSError):  # it died while it was asked
            continue
        if isinstance(answer, Exception):
            raise ClusterError(
                "workers with pairframe", f"{address}: {type(answer).__name__}: {answer}", "install it there"
            )
        version, sees_folder = answer
        if version != __version__:
            raise ClusterError(
                f"pairframe {__version__} on every worker", f"{version} on {address}", "install the same version"
            )
        if not sees_folder and job.is_wanted():
            raise ClusterError(
                "a folder of results that every worker sees",
                f"{str(job.out)!r}, which {address} does not",
                "choose a folder on a file system that all machines share",
            )
        known.add(address)


def _look(out: Path, token: str) -> tuple[str, bool]:
    """On a worker: its version, and whether it sees the folder of this run."""
    give_up_at = time.monotonic() + _SEE_WITHIN_S
    while not (sees := is_going_on(out, token)) and time.monotonic() < give_up_at:
        time.sleep(0.5)
    return __version__, sees

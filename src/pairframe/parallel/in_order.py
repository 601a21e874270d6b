"""Run tasks in this and other processes, with results in the order of the tasks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from itertools import islice
from typing import TypeVar

from pairframe.errors import PairframeError
from pairframe.parallel.parcel import Parcel, pack
from pairframe.parallel.processes import standing_pool, worker_pool
from pairframe.parallel.threads import at_most

Task = TypeVar("Task")
Result = TypeVar("Result")
Work = Callable[[list[Task]], list[Result]]
Outcome = Future[Parcel | list[Result]]


def in_order(
    work: Work[Task, Result],
    tasks: Iterator[Task],
    n_tasks: int | None,
    jobs: int,
    *,
    workers_stay: bool = False,
) -> Iterator[Result]:
    """Yield the results of all tasks in order, holding only a few at a time.

    Parameters
    ----------
    work : callable
        Maps a few neighbouring tasks to their results; sent to other processes.
    n_tasks : int, optional
        Number of tasks, if known.
    jobs : int
        Number of processes including this one; at least 2.
    workers_stay : bool
        Whether the other processes wait for the next call, which is then quick to start.
    """
    # Neighbouring tasks share masks, so they form chunks. Chunks get smaller towards the end, so that no core waits long.
    begun = 0
    waiting: deque[Outcome[Result]] = deque()
    try:
        n_others = (jobs if n_tasks is None or workers_stay else min(jobs, n_tasks)) - 1
        with (standing_pool if workers_stay else worker_pool)(n_others) as pool:
            while True:
                while sum(not future.done() for future in waiting) < 2 * (jobs - 1):
                    left = 8 * jobs if n_tasks is None else n_tasks - begun
                    chunk = list(islice(tasks, max(1, min(4, left // (4 * jobs)))))
                    if not chunk:
                        break
                    begun += len(chunk)
                    waiting.append(pool.submit(_packed, work, chunk))
                if not waiting:
                    return
                # This process works too: it computes while the others start, and its results need no transfer.
                if not waiting[0].done() and (chunk := list(islice(tasks, 1))):
                    begun += 1
                    waiting.append(_run_here(work, chunk))
                    continue
                found = chunk_results(waiting[0])  # stays in the queue while it is waited for, if that is interrupted
                waiting.popleft()
                yield from found
    finally:
        # After an error, or if the caller stops early, drop what has not begun, and open the remaining parcels so that their
        # memory is freed.
        for future in waiting:
            if not future.cancel() and future.exception() is None:
                with suppress(FileNotFoundError):  # opened just before an interrupt
                    chunk_results(future)


def chunk_results(future: Outcome[Result]) -> list[Result]:
    """The results of a chunk."""
    found = future.result()
    return found.open() if isinstance(found, Parcel) else found


def _packed(work: Work[Task, Result], chunk: list[Task]) -> Parcel:
    return pack(work(chunk))


def _run_here(work: Work[Task, Result], chunk: list[Task]) -> Outcome[Result]:
    """Run a chunk in this process with one thread, and keep an error until its turn, like a result."""
    done: Outcome[Result] = Future()
    try:
        with at_most(1):
            done.set_result(work(chunk))
    except PairframeError as error:
        done.set_exception(error)
    return done

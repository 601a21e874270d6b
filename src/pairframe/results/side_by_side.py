"""Results from this and other processes, in the order in which they were asked for."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import TypeVar

from pairframe.engines.processes import worker_died, worker_pool
from pairframe.engines.threads import at_most
from pairframe.errors import PairframeError
from pairframe.results.parcel import Parcel, pack
from pairframe.results.result import TransportResult

Task = TypeVar("Task")
Work = Callable[[list[Task]], list[TransportResult]]
Outcome = Future[Parcel | list[TransportResult]]


def in_order(work: Work[Task], tasks: Iterator[Task], n_tasks: int | None, jobs: int) -> Iterator[TransportResult]:
    """The results of all tasks, one by one; only a few are held at a time.

    Parameters
    ----------
    work : callable
        From a few neighbouring tasks to their results; it travels to other processes.
    n_tasks : int, optional
        How many there are, where that is known.
    jobs : int
        Processes, this one included; 2 or more.
    """
    # Neighbours share masks, so they stay together; towards the end the pieces get smaller, and no core waits long.
    begun = 0
    waiting: deque[Outcome] = deque()
    try:
        with worker_pool((jobs if n_tasks is None else min(jobs, n_tasks)) - 1) as pool:
            while True:
                while sum(not piece.done() for piece in waiting) < 2 * (jobs - 1):
                    left = 8 * jobs if n_tasks is None else n_tasks - begun
                    chunk = list(islice(tasks, max(1, min(4, left // (4 * jobs)))))
                    if not chunk:
                        break
                    begun += len(chunk)
                    waiting.append(pool.submit(_packed, work, chunk))
                if not waiting:
                    return
                # This process is a worker too: it computes while the others start, and its results need no trip.
                if not waiting[0].done() and (chunk := list(islice(tasks, 1))):
                    begun += 1
                    waiting.append(_done_here(work, chunk))
                    continue
                yield from outcome(waiting.popleft())
    finally:
        for piece in waiting:  # after an error, or when nobody wants the rest: no parcel stays unopened
            if not piece.cancelled() and piece.exception() is None:
                outcome(piece)


def outcome(future: Outcome) -> list[TransportResult]:
    """What came of a piece of work; a worker that died is an error that says what to do."""
    try:
        found = future.result()
        return found.open() if isinstance(found, Parcel) else found
    except BrokenProcessPool:
        raise worker_died() from None


def _packed(work: Work[Task], chunk: list[Task]) -> Parcel:
    return pack(work(chunk))


def _done_here(work: Work[Task], chunk: list[Task]) -> Outcome:
    """What a worker would do, done in this process with one thread; an error waits for its turn like a result."""
    done: Outcome = Future()
    try:
        with at_most(1):
            done.set_result(work(chunk))
    except PairframeError as error:
        done.set_exception(error)
    return done

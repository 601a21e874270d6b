"""Worker processes on this machine. One that dies takes nobody with it: it is replaced, and we know what it was at."""

from __future__ import annotations

import gc
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any

from pairframe.cohort.plan import Chunk
from pairframe.cohort.work_queue import WorkQueue
from pairframe.engines.processes import OneThreadContext
from pairframe.errors import WorkerDiedError
from pairframe.results.schema import Row

if TYPE_CHECKING:
    from pairframe.cohort.job import Job

_TICK_S = 0.5
_END_S = 20.0
_STILLBORN = 3  # workers in a row that end themselves before they begin: then none ever will
_KILLED_EARLY = 50  # the same for workers that are killed from outside


def local_rows(
    queue: WorkQueue,
    job: Job,
    jobs: int,
    is_stopping: Callable[[], bool],
    prepare: Callable[[], None] = lambda: None,
) -> Iterator[Row | None]:
    """The rows of everything in `queue`, as they come; None now and then, so that the caller can do something else.

    Parameters
    ----------
    jobs : int
        Processes, with one thread each.
    is_stopping : callable
        True: no new portions; the generator ends when all workers have finished the pair they are at.
    prepare : callable
        Done while the workers start; may fill the queue. Its error ends them.
    """
    crew = [_Worker(job) for _ in range(jobs)]
    stillborn = 0
    try:
        prepare()
        while True:
            for worker in crew:
                if worker.is_idle and not is_stopping():
                    worker.give(queue.take())
            if all(worker.is_idle for worker in crew):
                return
            ready = wait([worker.connection for worker in crew], _TICK_S)
            for worker in [worker for worker in crew if worker.connection in ready]:
                try:
                    message = worker.connection.recv()
                except (EOFError, OSError):  # it died, perhaps in the middle of a message
                    stillborn += not worker.has_begun
                    row = _bury(worker, queue, stillborn)
                    crew[crew.index(worker)] = _Worker(job)
                    if row is not None:
                        yield row
                    continue
                stillborn = 0
                row = worker.heard(message)
                kept = None if row is None else queue.settle(row)
                if kept is not None:
                    yield kept
                if worker.is_idle and worker.left and job.is_wanted():
                    rest, worker.left = worker.left, ()
                    yield from queue.given_back(rest)
            yield None
    finally:
        for worker in crew:
            worker.end()
        for worker in crew:
            worker.process.join(_END_S)


def _bury(worker: _Worker, queue: WorkQueue, stillborn: int) -> Row | None:
    """Give back what a dead worker had not done; a row when its pair has killed a worker before."""
    worker.process.join(_END_S)
    code = worker.process.exitcode
    worker.end()
    if not worker.has_begun:
        queue.put_back(worker.left)
        if stillborn >= (_STILLBORN if code is None or code >= 0 else _KILLED_EARLY):
            raise WorkerDiedError(
                "worker processes that start",
                f"{stillborn} in a row that ended first (exit code {code})",
                'put the calls of a script under if __name__ == "__main__":, or check what the processes printed',
            )
        return None
    if not worker.left:
        return None
    if len(worker.left) > 1:  # one pair is solved while the one before it is written: either may have ended it
        queue.try_alone(worker.left[:2])
        queue.put_back(worker.left[2:])
        return None
    how = f"it was killed by signal {-code}" if code is not None and code < 0 else f"it ended with exit code {code}"
    return queue.lost(worker.left[0], f"the worker process ended during this pair: {how}")


class _Worker:
    """A process, and what it has left to do."""

    def __init__(self, job: Job) -> None:
        context: Any = OneThreadContext()
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, job), daemon=True)
        # Ctrl-C on a terminal reaches all processes: it is for us alone. Python's own helper, started first, would lift the block.
        resource_tracker.ensure_running()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()  # or we would never hear that it died
        self.has_begun = False
        self.left: Chunk = ()
        self._is_busy = False

    @property
    def is_idle(self) -> bool:
        """Whether it has nothing to do."""
        return not self._is_busy

    def give(self, chunk: Chunk | None) -> None:
        """Send it a portion; whether it is alive we hear when we listen."""
        if chunk is None:
            return
        self.left, self._is_busy = chunk, True
        with suppress(OSError):
            self.connection.send(chunk)

    def heard(self, message: Row | str) -> Row | None:
        """Understand a message: a row, or that it has begun or ended."""
        if isinstance(message, str):
            self.has_begun = True
            self._is_busy = self._is_busy and message != "end"
            return None
        self.left = self.left[1:]
        return message

    def end(self) -> None:
        """Close the line: an idle worker ends by itself and tidies up, a busy one is ended."""
        self.connection.close()
        if self._is_busy:
            self.process.kill()


def _work(connection: Connection[Any, Any], job: Job) -> None:
    """The worker's side: portions come in, rows go out, one by one; the end of the line is the end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(EOFError, OSError):  # the other side ended, with or without a word
        connection.send("begun")
        while True:
            for row in job.rows(connection.recv()):
                connection.send(row)
                if gc.get_freeze_count() == 0:
                    gc.collect()
                    gc.freeze()  # the libraries, now loaded, stay for good: no need to look through them again and again
            connection.send("end")

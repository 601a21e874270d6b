"""Worker processes on this machine. One that dies is replaced, and the pairs that it was comparing are known."""

from __future__ import annotations

import gc
import signal
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Any, Self

from pairframe import system
from pairframe.cohort.run.chunk_job import ChunkJob
from pairframe.cohort.run.events import Chunk, ChunkLost, ChunkReturned, Event, Heartbeat, PairFinished
from pairframe.cohort.run.executor import Executor
from pairframe.cohort.run.mask_cache import MaskCache
from pairframe.cohort.run.work_queue import WorkQueue
from pairframe.errors import WorkerError
from pairframe.parallel.processes import OneThreadContext

_HEARTBEAT_S = 0.5
_JOIN_S = 20.0
_MAX_FAILED_STARTS = 3  # in a row, of workers that end themselves before they begin: the others would too
_MAX_KILLED_STARTS = 50  # the same for workers that are killed from outside


class LocalExecutor(Executor):
    """Processes with one thread each.

    Parameters
    ----------
    job : ChunkJob
    jobs : int
        Processes.
    """

    def __init__(self, job: ChunkJob, jobs: int) -> None:
        self._job, self._jobs = job, jobs
        self._workers: list[_Worker] = []
        self._failed_starts = 0  # in a row

    def __enter__(self) -> Self:
        self._workers = [_Worker(self._job) for _ in range(self._jobs)]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self._workers:
            worker.end()
        for worker in self._workers:
            worker.process.join(_JOIN_S)

    @property
    def n_workers(self) -> int:
        return self._jobs

    def events(self, queue: WorkQueue, is_stopping: Callable[[], bool]) -> Generator[Event]:
        while True:
            for worker in self._workers:
                if worker.is_idle and not is_stopping():
                    worker.give(queue.take())
            if all(worker.is_idle for worker in self._workers):
                return
            ready = wait([worker.connection for worker in self._workers], _HEARTBEAT_S)
            for worker in [worker for worker in self._workers if worker.connection in ready]:
                try:
                    message = worker.connection.recv()
                except (EOFError, OSError):  # it died, perhaps in the middle of a message
                    yield self._replace(worker, queue)
                    continue
                self._failed_starts = 0
                yield from worker.receive(message)
            yield Heartbeat()

    def _replace(self, worker: _Worker, queue: WorkQueue) -> Event:
        """Start another worker in place of a dead one; an error if no worker can start."""
        worker.process.join(_JOIN_S)
        code = worker.process.exitcode
        worker.end()
        if not worker.has_begun:
            self._failed_starts += 1
            if self._failed_starts >= (_MAX_FAILED_STARTS if code is None or code >= 0 else _MAX_KILLED_STARTS):
                queue.put_back(worker.remaining)
                raise WorkerError(
                    "worker processes that start",
                    f"{self._failed_starts} in a row that ended first (exit code {code})",
                    'put the calls of a script under if __name__ == "__main__":, or check what the processes printed',
                )
        self._workers[self._workers.index(worker)] = _Worker(self._job)
        if not worker.has_begun:
            return ChunkLost((), worker.remaining, "")
        how = f"it was killed by signal {-code}" if code is not None and code < 0 else f"it ended with exit code {code}"
        # One pair is compared while the one before it is written: either may have ended the worker.
        suspects, untouched = worker.remaining[:2], worker.remaining[2:]
        return ChunkLost(suspects, untouched, f"the worker process ended during this pair: {how}")


# --- messages from a worker ------------------------------------------------------------------


@dataclass(frozen=True)
class _Ready:
    """The process has started."""


@dataclass(frozen=True)
class _ChunkEnded:
    """The worker waits for the next chunk."""


_Message = PairFinished | _Ready | _ChunkEnded


class _Worker:
    """A process, and the pairs that it still has to compare."""

    def __init__(self, job: ChunkJob) -> None:
        context: Any = OneThreadContext()
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, job), daemon=True)
        with system.blocked_interrupts():  # Ctrl-C on a terminal reaches all processes, but only the runner handles it
            self.process.start()
        theirs.close()  # otherwise the end of the process would not end the connection
        self.has_begun = False
        self.remaining: Chunk = ()
        self.is_idle = True

    def give(self, chunk: Chunk | None) -> None:
        """Send a chunk; if the process is dead, the next `recv` shows it."""
        if chunk is None:
            return
        self.remaining, self.is_idle = chunk, False
        with suppress(OSError):
            self.connection.send(chunk)

    def receive(self, message: _Message) -> Iterator[Event]:
        """Update the state by a message; yield the events that follow."""
        self.has_begun = True
        match message:
            case PairFinished():
                self.remaining = self.remaining[1:]
                yield message
            case _ChunkEnded():
                left, self.remaining, self.is_idle = self.remaining, (), True
                if left:
                    yield ChunkReturned(left)
            case _Ready():
                pass

    def end(self) -> None:
        """Close the connection: an idle worker ends by itself and cleans up, a busy one is killed."""
        self.connection.close()
        if not self.is_idle:
            self.process.kill()


def _work(connection: Connection[Any, Any], job: ChunkJob) -> None:
    """In the worker: receive chunks and send events, until the connection is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    cache = MaskCache()
    with suppress(EOFError, OSError):  # the runner has ended
        connection.send(_Ready())
        while True:
            for event in job.compare_chunk(connection.recv(), cache):
                connection.send(event)
                if gc.get_freeze_count() == 0:
                    gc.collect()
                    gc.freeze()  # libraries stay loaded: later collections need not scan them
            connection.send(_ChunkEnded())

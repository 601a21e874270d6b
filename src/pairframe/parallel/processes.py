"""Worker processes with one thread each, so that they do not compete for cores."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import current_process, parent_process
from multiprocessing.context import SpawnContext, SpawnProcess
from multiprocessing.util import Finalize
from typing import Any

from pairframe.errors import WorkerError

_KILLED = -9  # the exit code after SIGKILL, a name that not every system has
QUIET = "PAIRFRAME_WORKER"  # set in worker processes, which print nothing
_WORKER_ENVIRONMENT = {
    QUIET: "1",
    **dict.fromkeys(("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
}


class _OneThreadProcess(SpawnProcess):
    """A spawned process whose libraries start one thread each.

    It is not forked, because threads and locks do not survive a fork. Libraries read the number of threads from the
    environment when they are loaded, before our code runs.
    """

    def start(self) -> None:
        if _is_importing_the_script():
            # The parent process notices and raises an error with advice, which helps more than a traceback from here.
            raise SystemExit(1)
        before = {name: os.environ.get(name) for name in _WORKER_ENVIRONMENT}
        os.environ.update(_WORKER_ENVIRONMENT)
        try:
            super().start()
        finally:
            for name, value in before.items():
                del os.environ[name]
                if value is not None:
                    os.environ[name] = value

    def run(self) -> None:
        """In the worker: do its work, but no longer than the parent lives."""
        threading.Thread(target=_end_with_parent, name="pairframe-parent", daemon=True).start()
        super().run()


def _end_with_parent() -> None:
    """Wait until the parent is gone, and end this process: a killed parent cannot end its workers.

    A worker of a pool would otherwise wait indefinitely, because it holds both ends of the pipe that brings its tasks.
    """
    parent = parent_process()
    if parent is not None:
        parent.join()  # waits on a pipe, which the system closes; no polling
        os._exit(1)  # from a thread, and without the exit handlers, which may wait for the parent


class OneThreadContext(SpawnContext):
    """Starts processes with one thread each, and keeps them for their exit codes."""

    def __init__(self) -> None:
        super().__init__()
        self.processes: list[_OneThreadProcess] = []

    def Process(self, *args: Any, **options: Any) -> _OneThreadProcess:  # type: ignore[override]
        self.processes.append(_OneThreadProcess(*args, **options))
        return self.processes[-1]


def _is_importing_the_script() -> bool:
    """Whether this worker is running the script of its parent, because the script has no ``__main__`` guard."""
    return bool(getattr(current_process(), "_inheriting", False))  # multiprocessing uses the same attribute


def _worker_died(processes: list[_OneThreadProcess]) -> WorkerError:
    """The error of a pool that has lost a process. The pool itself ends the others with SIGTERM."""
    codes = [process.exitcode for process in processes if process.exitcode]
    code = next((code for code in codes if code != -signal.SIGTERM), codes[0] if codes else None)
    memory = "; it may have run out of memory" if code == _KILLED else ""
    return WorkerError(
        "worker processes that run to the end",
        f"one that died unexpectedly (exit code {code}{memory})",
        'in a script, put the calls under if __name__ == "__main__":; if memory ran out, use fewer jobs; '
        "jobs=1 needs no processes",
    )


class _Standing:
    """The workers that stay between calls, if there are any."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.forget()

    def forget(self) -> None:
        """Have no workers, without ending any."""
        self.jobs = 0
        self.pool: ProcessPoolExecutor | None = None
        self.context = OneThreadContext()

    def of(self, jobs: int) -> ProcessPoolExecutor:
        """So many workers: those of the last call, unless one has died since."""
        if self.pool is not None and not (self.jobs == jobs and self._answers()):
            before = self.pool
            self.forget()
            before.shutdown(wait=False, cancel_futures=True)
        if self.pool is None:
            self.pool = ProcessPoolExecutor(jobs, mp_context=self.context, initializer=_ignore_interrupts)
            self.jobs = jobs
            # A process that multiprocessing started waits at its end for its own workers, before pools are closed.
            Finalize(None, self.pool.shutdown, kwargs={"cancel_futures": True}, exitpriority=100)
        return self.pool

    def _answers(self) -> bool:
        """Whether the workers live. A dead one may just be collected by the pool's own thread, so they are asked as well."""
        assert self.pool is not None
        try:
            self.pool.submit(os.getpid).result()
        except RuntimeError:  # a worker died, or the pool was shut down
            return False
        return all(process.is_alive() for process in self.context.processes)


def _ignore_interrupts() -> None:
    """In a worker that stays: Ctrl-C in the terminal is for the process that gave it work."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


_standing = _Standing()
# Never closed in a child: another thread of the parent may have held a lock of theirs at the fork.
_of_parents: list[_Standing] = []


def _forget_standing_workers() -> None:
    global _standing
    _of_parents.append(_standing)
    _standing = _Standing()


# They belong to the parent, and another thread of it may hold the lock.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_standing_workers)


@contextmanager
def standing_pool(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """A pool of this many processes that stay for the next call, until another number is wanted or this process ends.

    One user at a time: another thread waits. Raises `WorkerError` if a worker dies; the next call starts others.
    """
    if current_process().daemon:
        raise WorkerError(
            "a process that may start others",
            "a daemonic one, such as a worker of a DataLoader",
            "use jobs=1 there",
        )
    standing = _standing
    with standing.lock:
        pool = standing.of(jobs)
        try:
            yield pool
        except BrokenProcessPool:
            processes = standing.context.processes
            standing.forget()
            pool.shutdown(cancel_futures=True)
            raise _worker_died(processes) from None


@contextmanager
def worker_pool(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """A pool of this many processes. On an error or early exit it drops tasks that have not started.

    Raises `WorkerError` if a worker died, also if that is noticed only when a task is submitted.
    """
    context = OneThreadContext()
    pool = ProcessPoolExecutor(jobs, mp_context=context)
    try:
        yield pool
    except BrokenProcessPool:
        pool.shutdown(cancel_futures=True)
        raise _worker_died(context.processes) from None
    except BaseException:
        # This includes Ctrl-C and a closed generator. Running tasks must finish, or their parcels would stay unopened.
        pool.shutdown(cancel_futures=True)
        raise
    pool.shutdown(wait=False)  # all tasks are done, so there is no need to wait for the interpreters to close

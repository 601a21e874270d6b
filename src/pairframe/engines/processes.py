"""Worker processes that do not get in each other's way: one thread each."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import current_process
from multiprocessing.context import SpawnContext, SpawnProcess

from pairframe.errors import WorkerDiedError

QUIET = "PAIRFRAME_WORKER"  # set in worker processes: they have nothing to tell a person
_WORKER_ENVIRONMENT = {
    QUIET: "1",
    **dict.fromkeys(("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
}


class _OneThreadProcess(SpawnProcess):
    """A fresh process (no fork: threads and locks do not survive one) whose libraries start one thread each.

    They read how many from the environment as they are loaded, which is before any code of ours runs there.
    """

    def start(self) -> None:
        if _is_reading_the_script():
            # Whoever started this worker hears that it ended, and says what to do; a traceback from here says it worse.
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


class OneThreadContext(SpawnContext):
    Process = _OneThreadProcess


def _is_reading_the_script() -> bool:
    """Whether this is a worker that runs its parent's script again because nothing in it is under a ``__main__`` guard."""
    return bool(getattr(current_process(), "_inheriting", False))  # the mark by which multiprocessing itself knows it


def worker_died() -> WorkerDiedError:
    """The error of a pool that has lost a process."""
    return WorkerDiedError(
        "the worker processes to live until their work is done",
        "one that ended",
        'put the calls of a script under if __name__ == "__main__":, or use fewer jobs if memory ran out; '
        "jobs=1 needs no processes",
    )


@contextmanager
def worker_pool(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """A pool of so many processes; left by an error or early, it drops what has not begun.

    A worker that died is a `WorkerDiedError`, also where it is noticed by giving the pool more to do.
    """
    pool = ProcessPoolExecutor(jobs, mp_context=OneThreadContext())
    try:
        yield pool
    except BrokenProcessPool:
        pool.shutdown(cancel_futures=True)
        raise worker_died() from None
    except BaseException:
        # Ctrl-C and a closed generator too: what runs is waited for, or its parcels would stay unopened.
        pool.shutdown(cancel_futures=True)
        raise
    pool.shutdown(wait=False)  # all work is done: nobody has to wait for interpreters to close

"""Worker processes that do not get in each other's way: one thread each."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.context import SpawnContext, SpawnProcess

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


@contextmanager
def worker_pool(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """A pool of so many processes; left by an error or early, it drops what has not begun."""
    pool = ProcessPoolExecutor(jobs, mp_context=OneThreadContext())
    try:
        yield pool
    except BaseException:
        # Ctrl-C and a closed generator too: what runs is waited for, or its parcels would stay unopened.
        pool.shutdown(cancel_futures=True)
        raise
    pool.shutdown(wait=False)  # all work is done: nobody has to wait for interpreters to close

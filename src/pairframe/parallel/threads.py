"""Plain threads around compiled code that releases the interpreter lock.

The parallel loops of the compiler are not used: their threads spin while they wait, which slows down a busy machine, and
some of their threading layers abort when two Python threads compute at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from threading import Lock
from typing import TypeVar

from threadpoolctl import ThreadpoolController

One = TypeVar("One")
Other = TypeVar("Other")

_SMALL = 100_000  # outputs; below it, a thread costs more than it saves
_TINY = 2_000  # outputs of a whole job; below it, so does a thread of its own
_limit: ContextVar[int | None] = ContextVar("threads_limit", default=None)
_pool: ThreadPoolExecutor | None = None
_blas_lock = Lock()


def n_threads() -> int:
    """Number of threads to use: the limit of `at_most`, else ``NUMBA_NUM_THREADS``, else `n_cores`."""
    limit = _limit.get()
    if limit is not None:
        return limit
    setting = os.environ.get("NUMBA_NUM_THREADS", "")
    if setting.isdigit() and int(setting) > 0:
        return int(setting)
    return n_cores()


def n_cores() -> int:
    """Number of cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def at_most(threads: int) -> Iterator[None]:
    """Use at most this many threads inside, because other processes or threads of ours use the other cores."""
    token = _limit.set(threads)
    try:
        yield
    finally:
        _limit.reset(token)


def threads_for(n_outputs: int) -> int:
    """Number of threads of `run_in_threads` for a job of so many outputs."""
    return 1 if n_outputs < _SMALL else n_threads()


def run_in_threads(work: Callable[[int, int], None], n_outputs: int) -> None:
    """Call ``work(first, step)`` for first = 0..step-1: 0 in this thread, the others in the pool."""
    step = threads_for(n_outputs)
    if step == 1:
        work(0, 1)
        return
    others = [_threads().submit(work, first, step) for first in range(1, step)]
    work(0, step)
    for other in others:
        other.result()


def side_by_side(one: Callable[[], One], other: Callable[[], Other], n_outputs: int) -> tuple[One, Other]:
    """The results of two jobs of so many outputs each, the second in another thread if both are too small to be divided.

    Tiny jobs run one after the other: to wake a thread takes longer.
    """
    if not _TINY <= n_outputs < _SMALL or n_threads() == 1:
        return one(), other()
    waiting = _threads().submit(_alone, other)
    found = one()
    return found, waiting.result()


def _alone(job: Callable[[], Other]) -> Other:
    """Run a job in a thread of the pool, which must not wait for the pool."""
    with at_most(1):
        return job()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep dense linear algebra in this thread: those of BLAS spin while they wait for each other, on a busy machine for long.

    The limit holds for the whole process, so one thread at a time may be inside.
    """
    with _blas_lock, _blas().limit(limits=1, user_api="blas"):
        yield


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


def _threads() -> ThreadPoolExecutor:
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(max_workers=max(1, n_threads() - 1), thread_name_prefix="pairframe-rows")
    return _pool


def _forget_pool() -> None:
    """Drop the pool in a forked child, where its threads do not exist, and a lock that one of them may have held."""
    global _pool, _blas_lock
    _pool, _blas_lock = None, Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)

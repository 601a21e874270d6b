"""Work side by side on the cores: plain threads around compiled code that frees the interpreter.

Not the compiler's own parallel loops: their threads spin while they wait, which ruins a busy machine, and some of their
layers abort when two Python threads compute at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar

_SMALL = 100_000  # outputs below which handing rows to a thread costs more than it saves
_limit: ContextVar[int | None] = ContextVar("threads_limit", default=None)
_pool: ThreadPoolExecutor | None = None


def n_threads() -> int:
    """Threads to use here: what `at_most` says, else ``NUMBA_NUM_THREADS``, else the cores this process may run on."""
    limit = _limit.get()
    if limit is not None:
        return limit
    asked = os.environ.get("NUMBA_NUM_THREADS", "")
    if asked.isdigit() and int(asked) > 0:
        return int(asked)
    return n_cores()


def n_cores() -> int:
    """The cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def at_most(threads: int) -> Iterator[None]:
    """Use no more than so many threads inside: the other cores are busy with something else of ours."""
    token = _limit.set(threads)
    try:
        yield
    finally:
        _limit.reset(token)


def in_portions(work: Callable[[int, int], None], n_outputs: int) -> None:
    """Call ``work(first, step)`` for first = 0..step-1, the first here, the others in threads."""
    step = 1 if n_outputs < _SMALL else n_threads()
    others = [_threads().submit(work, first, step) for first in range(1, step)]
    work(0, step)
    for other in others:
        other.result()


def _threads() -> ThreadPoolExecutor:
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(max_workers=max(1, n_threads() - 1), thread_name_prefix="pairframe-rows")
    return _pool


def _forget_pool() -> None:
    """A forked child has no threads: it makes its own."""
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)

"""Rows side by side on the cores: plain threads around compiled code that frees the interpreter.

Not the compiler's own parallel loops: their threads spin while they wait, which ruins a busy machine, and some of their
layers abort when two Python threads compute at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from numba import config

_SMALL = 4000  # outputs below which handing work to a thread costs more than it saves
_pool: ThreadPoolExecutor | None = None


def n_threads() -> int:
    """Cores to use: ``NUMBA_NUM_THREADS`` when set, else those this process may run on."""
    return int(config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]


def in_portions(work: Callable[[int, int], None], n_outputs: int) -> None:
    """Call ``work(first, step)`` for first = 0..step-1, the first here, the others in threads."""
    step = 1 if n_outputs < _SMALL else n_threads()
    if step == 1:
        work(0, 1)
        return
    others = [_threads().submit(work, first, step) for first in range(1, step)]
    work(0, step)
    for other in others:
        other.result()


def _threads() -> ThreadPoolExecutor:
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(max_workers=max(1, n_threads() - 1), thread_name_prefix="pairframe-grid")
    return _pool


def _forget_pool() -> None:
    """A forked child has no threads: it makes its own."""
    global _pool
    _pool = None


os.register_at_fork(after_in_child=_forget_pool)

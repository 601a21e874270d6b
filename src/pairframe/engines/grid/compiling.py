"""Loading the compiled passes. They are compiled once on a machine and kept on disk; a notice explains the wait."""

from __future__ import annotations

import os
import sys
from threading import Lock

import numpy as np
from numba.core.event import Event, Listener, install_listener

from pairframe.engines.grid import passes
from pairframe.engines.grid.kernel import SupportKernel
from pairframe.parallel.processes import QUIET

_NOTICE = (
    "pairframe: compiling the grid engine, once on this machine for {dtype} numbers: about 15 s now, kept for next time"
)
_NOTICE_WITHOUT_CACHE = (
    "pairframe: compiling the grid engine for {dtype} numbers: about 15 s in every new process, because no folder to keep "
    "it in is writable. To fix: set NUMBA_CACHE_DIR to one"
)
_LARGEST_LEARNT = 31 * 2**20  # bytes; glibc does not learn from blocks of 32 MiB and more
_ready: set[str] = set()
_one_at_a_time = Lock()


def make_ready(dtype: str) -> None:
    """Load the compiled passes for that dtype, or compile them with a notice if they are not on disk yet."""
    with _one_at_a_time:
        if dtype not in _ready:
            with install_listener("numba:compile", _Notice(dtype)):
                _make_ready(dtype)
            _ready.add(dtype)


def _make_ready(dtype: str) -> None:
    everywhere = np.ones((2, 2), dtype=bool)
    SupportKernel(everywhere, everywhere, 1.0, dtype).log_sum(np.zeros(4))
    # glibc learns from freed blocks: after this it keeps image-sized memory instead of returning every array to the
    # system and requesting it again, which costs a fifth of a solve in page faults.
    np.empty(_LARGEST_LEARNT, dtype=np.uint8)


class _Notice(Listener):
    """Prints the notice when numba starts to compile a pass; loading one from disk is no such event."""

    def __init__(self, dtype: str) -> None:
        self._dtype = dtype
        self._is_printed = QUIET in os.environ

    def on_start(self, event: Event) -> None:
        """Print it once. Other threads may compile other functions meanwhile."""
        dispatcher = event.data["dispatcher"]
        if dispatcher.py_func.__module__ == passes.__name__ and not self._is_printed:
            self._is_printed = True
            notice = _NOTICE if dispatcher.stats.cache_path else _NOTICE_WITHOUT_CACHE
            print(notice.format(dtype=self._dtype), file=sys.stderr, flush=True)

    def on_end(self, event: Event) -> None:
        """Nothing is printed at the end."""

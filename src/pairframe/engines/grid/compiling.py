"""Compiled code is made once on a machine and kept on disk; the first time is said, and why it takes a while."""

from __future__ import annotations

import os
import sys
from threading import Lock, Timer

import numpy as np

from pairframe.engines.grid.kernel import SupportKernel
from pairframe.engines.processes import QUIET

_SECONDS_BEFORE_SAYING = 2.0
_NOTICE = (
    "pairframe: compiling the grid engine, once on this machine for {dtype} numbers: about 15 s now, kept for next time"
)
_LARGEST_LEARNT = 31 * 2**20  # bytes; glibc takes no notice of blocks of 32 MiB and more
_ready: set[str] = set()
_one_at_a_time = Lock()


def make_ready(dtype: str) -> None:
    """Load the compiled passes, or compile them; only a compilation lasts long enough to be announced."""
    with _one_at_a_time:
        if dtype not in _ready:
            _make_ready(dtype)
            _ready.add(dtype)


def _make_ready(dtype: str) -> None:
    notice = Timer(
        _SECONDS_BEFORE_SAYING,
        lambda: print(_NOTICE.format(dtype=dtype), file=sys.stderr, flush=True),
    )
    notice.daemon = True
    if QUIET not in os.environ:
        notice.start()
    try:
        everywhere = np.ones((2, 2), dtype=bool)
        SupportKernel(everywhere, everywhere, 1.0, dtype).log_sum(np.zeros(4))
        # glibc learns from what is freed: after this it keeps image-sized memory instead of handing every array back to
        # the system and asking for it again, which costs a fifth of a solve in page faults.
        np.empty(_LARGEST_LEARNT, dtype=np.uint8)
    finally:
        notice.cancel()

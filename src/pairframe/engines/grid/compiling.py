"""Loading the compiled passes. They are compiled once on a machine and kept on disk; a notice explains the wait."""

from __future__ import annotations

import os
from threading import Lock

import numpy as np
from numba.core.event import install_listener

from pairframe.compiler import CompileNotice
from pairframe.engines.anderson import Anderson
from pairframe.engines.grid.kernel import SupportKernel
from pairframe.engines.grid.smooth import KilledDiffusion, Mesh
from pairframe.parallel.processes import QUIET

_LARGEST_LEARNT = 31 * 2**20  # bytes; glibc does not learn from blocks of 32 MiB and more
_ready: set[str] = set()
_one_at_a_time = Lock()


def make_ready(dtype: str) -> None:
    """Load the compiled passes for that dtype, or compile them with a notice if they are not on disk yet."""
    with _one_at_a_time:
        if dtype not in _ready:
            numbers, is_quiet = f" for {dtype} numbers", QUIET in os.environ
            notice = CompileNotice("the grid engine", numbers, 25, f"{__package__}.", is_quiet=is_quiet)
            with install_listener("numba:compile", notice):
                _make_ready(dtype)
            _ready.add(dtype)


def _make_ready(dtype: str) -> None:
    everywhere = np.ones((2, 2), dtype=bool)
    kernel = SupportKernel(everywhere, everywhere, 1.0, dtype)
    kernel.log_sum(np.zeros(4))
    kernel.log_sum_and_means(np.zeros(4), np.zeros((1, 4)))
    one = np.ones(4)
    memory = Anderson(one, 2)
    for residual in (1.0, 2.0):  # a step that changes nothing is not mixed
        memory.step(one, residual * one)
    KilledDiffusion(Mesh(everywhere, 1.0, (1.0, 1.0), (0, 1)), one > 0, one, one, one)(one)
    # glibc learns from freed blocks: after this it keeps image-sized memory instead of returning every array to the
    # system and requesting it again, which costs a fifth of a solve in page faults.
    np.empty(_LARGEST_LEARNT, dtype=np.uint8)

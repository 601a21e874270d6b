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
_ready: set[tuple[str, int]] = set()
_one_at_a_time = Lock()


def make_ready(dtype: str, n_axes: int = 2) -> None:
    """Load the compiled passes for that dtype and number of axes, or compile them with a notice if they are not on disk yet."""
    with _one_at_a_time:
        if (dtype, n_axes) not in _ready:
            numbers, is_quiet = f" for {dtype} numbers{' in volumes' if n_axes == 3 else ''}", QUIET in os.environ
            notice = CompileNotice("the grid engine", numbers, 25, f"{__package__}.", is_quiet=is_quiet)
            with install_listener("numba:compile", notice):
                _make_ready(dtype, n_axes)
            _ready.add((dtype, n_axes))


def _make_ready(dtype: str, n_axes: int) -> None:
    everywhere = np.ones((2,) * n_axes, dtype=bool)
    one = np.ones(everywhere.size)
    for depth in (None, np.inf):  # by convolutions, and by passes
        kernel = SupportKernel(everywhere, everywhere, 1.0, dtype, expected_depth=depth)
        kernel.log_sum(0.0 * one)
        kernel.log_sum_and_means(0.0 * one, one[None])
    memory = Anderson(one, 2)
    for residual in (1.0, 2.0):  # a step that changes nothing is not mixed
        memory.step(one, residual * one)
    mesh = Mesh(everywhere, 1.0, (1.0,) * n_axes, tuple(range(n_axes)))
    KilledDiffusion(mesh, one > 0, one, one, one)(one)
    # glibc learns from freed blocks: after this it keeps image-sized memory instead of returning every array to the
    # system and requesting it again, which costs a fifth of a solve in page faults.
    np.empty(_LARGEST_LEARNT, dtype=np.uint8)

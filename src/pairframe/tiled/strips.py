"""Passes over a cost in strips of rows that fit in cache, spread over threads and summed in a fixed order.

The order of summation depends neither on the number of threads nor on trailing padding: strips have a fixed height, rows
are summed in chunks of fixed length, and strips are assigned in turn to a fixed number of lanes.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import torch
from torch import Tensor

from pairframe.tiled.cost import Cost

CHUNK = 128  # columns summed at once
LANES = 4  # partial column sums; usually more than threads, so that a slow core delays the others less
_ENTRIES = 1 << 18  # approximate size of a strip: 1 MB in float32
_WIDE = 8192  # with more columns than this, strips have fewer rows, to fit in cache
# Rows; some processors add products in float32 in groups of so many, and torch multiplies matrices of fewer than 4 by another method.
_GROUP = 8
_WORTH_THREADS = 1 << 17  # entries; smaller costs are not worth threads

Result = TypeVar("Result")
_pools: dict[tuple[int, int], ThreadPoolExecutor] = {}
_strip_threads: ContextVar[int] = ContextVar("strip_threads", default=0)


def n_threads() -> int:
    """Threads for the strips of a cost, or for the problems of a batch."""
    return _strip_threads.get() or torch.get_num_threads()


@contextmanager
def short_vectors() -> Iterator[None]:
    """Turn off torch's own threads, which only slow down operations on N + M numbers. Strips keep their threads."""
    threads = torch.get_num_threads()
    if threads == 1:
        yield
        return
    token = _strip_threads.set(threads)
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        _strip_threads.reset(token)


@dataclass(frozen=True)
class Task:
    """One lane of some batch elements: its strips of rows."""

    b: slice
    lane: int
    rows: tuple[slice, ...]

    @property
    def batch(self) -> int:
        return int(self.b.stop - self.b.start)


class Walk:
    """The strips of one pass over a cost, and its buffers."""

    def __init__(self, cost: Cost) -> None:
        self.cost = cost
        self.width = -(-cost.m // CHUNK) * CHUNK
        self.height = -(-min(cost.n, 64 if cost.m <= _WIDE else 16) // _GROUP) * _GROUP
        self.together = max(1, min(cost.batch, _ENTRIES // (self.height * self.width)))
        self._local = threading.local()

    @cached_property
    def tasks(self) -> list[Task]:
        """Every strip of the cost once."""
        height, n = self.height, self.cost.n
        strips = [slice(i, min(i + height, n)) for i in range(0, n, height)]
        return [
            Task(slice(b, min(b + self.together, self.cost.batch)), lane, tuple(strips[lane::LANES]))
            for b in range(0, self.cost.batch, self.together)
            for lane in range(min(LANES, len(strips)))
        ]

    def strip(self, task: Task, rows: slice, name: str = "strip") -> tuple[Tensor, Tensor]:
        """A buffer (nb, r, width), zero past the last column, and its part (nb, r, m) that is a strip of the cost."""
        buffer: Tensor | None = getattr(self._local, name, None)
        if buffer is None:
            size = (self.together, self.height, self.width)
            buffer = torch.zeros(size, dtype=self.cost.dtype, device=self.cost.device)
            setattr(self._local, name, buffer)
        whole = buffer[: task.batch, : rows.stop - rows.start]
        return whole, whole[:, :, : self.cost.m]

    def add_columns(self, task: Task, rows: slice, weights: Tensor, total: Tensor) -> None:
        """Add the weighted sum (nb, 1, width) over the rows of a strip to `total`, for weights (nb, 1, r)."""
        missing = -weights.shape[2] % _GROUP
        if missing:  # the buffer holds finite numbers there, with weight 0
            weights = torch.nn.functional.pad(weights, (0, missing))
        total.baddbmm_(weights, self.strip(task, slice(rows.start, rows.stop + missing))[0])

    def each(self, job: Callable[[Task], Result]) -> Iterator[tuple[Task, Result]]:
        """Run `job` for every task, in threads if the cost is large enough; results in the order of the tasks."""
        threads = n_threads()
        entries = self.cost.batch * self.cost.n * self.cost.m
        if threads == 1 or len(self.tasks) == 1 or entries < _WORTH_THREADS or self.cost.device.type != "cpu":
            return ((task, job(task)) for task in self.tasks)

        def quiet(task: Task) -> Result:
            with torch.no_grad():  # set per thread
                return job(task)

        return zip(self.tasks, thread_pool(threads).map(quiet, self.tasks), strict=True)

    def run(self, job: Callable[[Task], None]) -> None:
        """Run `job` for every task and discard its results."""
        for _ in self.each(job):
            pass


def powers_of_two(whole: Tensor, strip: Tensor) -> None:
    """2 to the exponents in `strip`, in place, and 0 past its last column.

    Over the whole width, because exp2 rounds the last few entries of a row differently from the rest.
    """
    whole[:, :, strip.shape[2] :].fill_(-math.inf)
    whole.exp2_()


def sum_rows(whole: Tensor) -> Tensor:
    """Sums (nb, r) of (nb, r, width) along the rows, chunk by chunk."""
    batch, rows, width = whole.shape
    sums = whole.view(batch, rows, width // CHUNK, CHUNK).sum(3)
    return sums[:, :, 0] if sums.shape[2] == 1 else sums.cumsum(2)[:, :, -1]


def thread_pool(threads: int) -> ThreadPoolExecutor:
    """A pool of threads in which torch itself uses one thread each. A forked child makes its own pool."""
    key = (os.getpid(), threads)
    if key not in _pools:
        pool = ThreadPoolExecutor(threads, "pairframe-tiled", lambda: torch.set_num_threads(1))
        before, barrier = torch.get_num_threads(), threading.Barrier(threads)
        list(
            pool.map(lambda _: barrier.wait(), range(threads))
        )  # wait until every thread has started and set its number
        torch.set_num_threads(before)  # threads started later inherit the old number
        _pools[key] = pool
    return _pools[key]

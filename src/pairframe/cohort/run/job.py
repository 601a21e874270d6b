"""`Job`: the work of a worker, wherever it runs. It reads two masks, compares them, writes the maps and returns the row."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pairframe.cohort.inputs.tasks import PairTask
from pairframe.cohort.run.events import Chunk, PairFinished
from pairframe.cohort.run.mark import is_going_on
from pairframe.cohort.run.mask_cache import MaskCache
from pairframe.cohort.run.warm_up import warm_up
from pairframe.engines import Status
from pairframe.errors import StartError, is_transient
from pairframe.masks import Mask
from pairframe.parallel.threads import at_most
from pairframe.pipeline.compare import compare
from pairframe.problem import TransportConfig
from pairframe.problem.penalties import penalty_class
from pairframe.results import ResultStore, TransportResult, failed_row
from pairframe.results.store import PackedMaps, pack_maps

# Measured: the start that this engine makes itself, from coarser grids, is better than the solution of a pair with the same
# source and another target.
_STARTS_FROM_COARSER_GRIDS = ("grid",)


@dataclass(frozen=True)
class Job:
    """The settings that all pairs of a run share; small, because it is sent to every worker.

    Parameters
    ----------
    config : TransportConfig
    out : Path
        Folder of results: an absolute path that every worker sees.
    token : str
        Of the run; see `RunMark`.
    """

    config: TransportConfig
    out: Path
    token: str

    def is_wanted(self) -> bool:
        """Whether the run goes on, as seen from this machine."""
        return is_going_on(self.out, self.token)

    def compare_chunk(self, chunk: Chunk, cache: MaskCache) -> Iterator[PairFinished]:
        """Compare the pairs one after the other; end early when the run does. A pair that cannot be compared is a failed row.

        Events come in the order of the chunk, one pair late: while a pair is solved, the files of the one before it are written.
        """
        store = ResultStore(self.out)
        previous: tuple[PairTask, TransportResult] | None = None
        with ThreadPoolExecutor(1, thread_name_prefix="pairframe-write") as writer:
            pending: Future[PairFinished] | None = None
            for task in chunk:
                if not self.is_wanted():
                    break
                solve = self._solve(task, None if previous is None else self._start(task, *previous), cache)
                # Packed in this thread: two threads that compute at the same time would only take turns.
                packed = self._pack(solve)
                if pending is not None:
                    yield pending.result()
                pending = writer.submit(self._write, solve, packed, store)
                result = solve.result
                previous = (task, result) if result is not None and result.status == Status.converged else None
            if pending is not None:
                yield pending.result()

    def _start(self, task: PairTask, before: PairTask, result: TransportResult) -> TransportResult | None:
        """The result to start from, if it helps this pair."""
        if self.config.backend in _STARTS_FROM_COARSER_GRIDS:
            return result if task.follows(before) and not self._has_pins() else None
        return result if task.shares_mask_with(before) else None

    def _has_pins(self) -> bool:
        # Measured on aligned embryos: potentials that the pair before pinned to their bounds are pinned elsewhere in this one,
        # and 1 pair in 4 then stalls and takes 10 to 40 times as long; the others gain nothing at this size.
        return any(penalty_class(name).clips for name in self.config.penalties_ab)

    def _solve(self, task: PairTask, start: TransportResult | None, cache: MaskCache) -> _Solve:
        try:
            warm_up(self.config)  # before the clock starts: loading and compiling do not count for the first pair
        except Exception as error:  # a broken installation: a row in the table is where it will be read
            return _Solve(task, None, 0.0, None, error)
        began = time.perf_counter()
        key = cache.work_key(task, self.config)  # before the masks are read: the next run finds a change in between
        try:
            with at_most(1):
                result = _compare(*cache.read(task, self.config), self.config, start)
                result = replace(result, notices=(*task.notices, *result.notices))
        except Exception as error:  # one pair of thousands: record the error and go on with the others
            return _Solve(task, key, time.perf_counter() - began, None, error)
        return _Solve(task, key, time.perf_counter() - began, result, None)

    def _pack(self, solve: _Solve) -> PackedMaps | Exception:
        if solve.result is None:
            assert solve.error is not None
            return solve.error
        try:
            return pack_maps(solve.result, solve.task.pair_id, **solve.columns)
        except Exception as error:  # as in `_solve`
            return error

    def _write(self, solve: _Solve, packed: PackedMaps | Exception, store: ResultStore) -> PairFinished:
        error = packed
        if isinstance(packed, PackedMaps):
            try:
                return PairFinished(store.write_packed(packed) | {"work_key": solve.key})
            except Exception as trouble:  # e.g. a full disk: as in `_solve`
                error = trouble
        assert isinstance(error, Exception)
        # A row without a key says nothing about the present content of the masks: the next run compares the pair again.
        key = None if is_transient(error) else solve.key
        row = failed_row(solve.task.pair_id, error, _advice(error), work_key=key, **solve.columns)
        return PairFinished(row, is_transient=key is None)


@dataclass(frozen=True, eq=False)
class _Solve:
    """A pair that is not written yet: its result, or the error instead of one.

    Attributes
    ----------
    key : str or None
        See `work_key`.
    seconds : float
        Wall time of reading and comparing.
    """

    task: PairTask
    key: str | None
    seconds: float
    result: TransportResult | None
    error: Exception | None

    @property
    def columns(self) -> dict[str, Any]:
        """Columns that a result and a failure have in common."""
        task = self.task
        named = {"source": task.source.named, "target": task.target.named}
        return {**named, "seconds": self.seconds, "extra": task.carried}


def _compare(source: Mask, target: Mask, config: TransportConfig, start: TransportResult | None) -> TransportResult:
    try:
        return compare(source, target, config, init=start)
    except StartError:  # the canvas of the series changes here
        return compare(source, target, config)


def _advice(error: Exception) -> str | None:
    if isinstance(error, MemoryError):
        return "use fewer jobs or a larger downsample_factor; the next run tries this pair again"
    if isinstance(error, OSError):
        return "check the disk; the next run tries this pair again"
    return None if hasattr(error, "fix") else "this is a bug or a broken installation: please report it"

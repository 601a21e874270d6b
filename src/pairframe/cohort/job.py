"""What a worker does, wherever it is: read two masks, compare them, write the maps, return the row."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pairframe.cohort.content import MISSING, Digests, side_content, work_key
from pairframe.cohort.mark import is_going_on
from pairframe.cohort.plan import Chunk
from pairframe.cohort.tasks import MaskRef, PairTask
from pairframe.cohort.warm_up import warm_up
from pairframe.engines import Status
from pairframe.engines.threads import at_most
from pairframe.errors import BrokenEngineError, InputError, MissingExtraError, StoreError, WarmStartError
from pairframe.masks import Mask, read_mask
from pairframe.pipeline import compare
from pairframe.problem import TransportConfig
from pairframe.results import ResultStore, TransportResult, disk, failed_row
from pairframe.results.schema import Row
from pairframe.results.store import PackedMaps, pack_maps

# Measured: its own start, from coarser grids, is better than that of a pair with the same source and another target.
_STARTS_FROM_COARSER_GRIDS = ("grid",)
_NOT_THE_PAIRS_OWN = (StoreError, BrokenEngineError, MissingExtraError)  # the same pair may do next time
_digests = Digests()  # one per process: a mask is in several pairs, a stack in many
_masks_read: dict[Hashable, Mask] = {}  # of the pair before


@dataclass(frozen=True)
class Job:
    """The same for all pairs of a run; small, and sent to every worker.

    Parameters
    ----------
    out : Path
        Absolute; every worker sees it.
    token : str
        Of the run; see `RunMark`.
    """

    config: TransportConfig
    out: Path
    token: str

    def is_wanted(self) -> bool:
        """Whether the run goes on, as far as one can see from here."""
        return is_going_on(self.out, self.token)

    def rows(self, chunk: Chunk) -> Iterator[Row]:
        """Do the pairs one after the other; ends early when the run does. A pair that cannot be done is a failed row.

        Rows come in the order of the chunk, one pair late: while a pair is solved, the files of the one before it are written.
        """
        store = ResultStore(self.out)
        previous: tuple[PairTask, TransportResult] | None = None
        with ThreadPoolExecutor(1, thread_name_prefix="pairframe-write") as writer:
            written: Future[Row] | None = None
            for task in chunk:
                if not self.is_wanted():
                    break
                solved = self._solve(task, None if previous is None else self._start(task, *previous))
                # Packed here, where it is made: two threads that compute would only take turns.
                packed = self._packed(solved)
                if written is not None:
                    yield written.result()
                written = writer.submit(self._written, solved, packed, store)
                done = solved.result
                previous = (task, done) if done is not None and done.status == Status.converged else None
            if written is not None:
                yield written.result()

    def _start(self, task: PairTask, before: PairTask, result: TransportResult) -> TransportResult | None:
        """The result to start from, if it is any good for this task."""
        if self.config.backend in _STARTS_FROM_COARSER_GRIDS:
            return result if task.follows(before) else None
        return result if task.shares_mask_with(before) else None

    def _solve(self, task: PairTask, start: TransportResult | None) -> _Solved:
        try:
            warm_up(self.config)  # before the clock: loading and compiling are not the first pair's
        except Exception as error:  # neither is a broken installation, but here somebody reads it
            return _Solved(task, None, 0.0, None, error)
        began = time.perf_counter()
        key = work_key(task, self.config, _digests)  # before the masks are read: a change meanwhile is found next time
        try:
            with at_most(1):
                result = _compare(*read_masks(task, self.config), self.config, start)
        except Exception as error:  # whatever one pair of thousands does, it is written down and the others go on
            return _Solved(task, key, time.perf_counter() - began, None, error)
        return _Solved(task, key, time.perf_counter() - began, result, None)

    def _packed(self, solved: _Solved) -> PackedMaps | Exception:
        if solved.result is None:
            assert solved.error is not None
            return solved.error
        try:
            return pack_maps(solved.result, solved.task.pair_id, **solved.about)
        except Exception as error:  # as in `_solve`
            return error

    def _written(self, solved: _Solved, packed: PackedMaps | Exception, store: ResultStore) -> Row:
        error = packed
        if isinstance(packed, PackedMaps):
            try:
                return store.write_packed(packed) | {"work_key": solved.key}
            except Exception as trouble:  # a full disk is no reason to lose the others
                error = trouble
        assert isinstance(error, Exception)
        is_the_pairs_own = isinstance(error, InputError) and not isinstance(error, _NOT_THE_PAIRS_OWN)
        # Without a key it is tried again.
        key = solved.key if is_the_pairs_own else None
        return failed_row(solved.task.pair_id, error, _advice(error), work_key=key, **solved.about)


@dataclass(frozen=True, eq=False)
class _Solved:
    """A pair that is not written down yet: its result, or why it has none."""

    task: PairTask
    key: str | None
    seconds: float
    result: TransportResult | None
    error: Exception | None

    @property
    def about(self) -> dict[str, Any]:
        """What the row of a result and that of a failure both tell."""
        task = self.task
        named = {"source": task.source.named, "target": task.target.named}
        return {**named, "seconds": self.seconds, "extra": task.carried}


def read_masks(task: PairTask, config: TransportConfig) -> tuple[Mask, Mask]:
    """Source and target of a pair; one that the pair before had is not read again."""
    is_density = config.mass_mode == "intensity"
    keys = [_mask_key(mask, is_density) for mask in (task.source, task.target)]
    before = dict(_masks_read)  # a copy: another thread of a Dask worker may clear it meanwhile
    found = [
        before[key] if key in before else read_mask(mask.spec, px_size_um=mask.px_size_um, density=is_density)
        for key, mask in zip(keys, (task.source, task.target), strict=True)
    ]
    # What changed while it was read is not kept, for nobody knows which content it has.
    known = [
        key for key, mask in zip(keys, (task.source, task.target), strict=True) if key == _mask_key(mask, is_density)
    ]
    kept = {key: mask for key, mask in zip(keys, found, strict=True) if key is not None and key in known}
    _masks_read.clear()  # memory: those of one pair
    _masks_read.update(kept)
    return found[0], found[1]


def _mask_key(mask: MaskRef, is_density: bool) -> Hashable:
    """By content, not by name: a file may change between two pairs. None when it is missing or cannot be read just now."""
    try:
        content = side_content(mask, _digests)
    except OSError:
        return None
    return None if content[0] == MISSING else (content, is_density)


def run_chunk(job: Job, chunk: Chunk) -> list[Row]:
    """All rows of a portion at once, for those who cannot hear them one by one; its maps are on the disk then.

    Whoever commits the rows may be on another machine, and cannot flush what this one has in memory.
    """
    rows = list(job.rows(chunk))
    maps = ResultStore(job.out).maps_path
    disk.flush_folders([maps / row["maps_group"] for row in rows if row["maps_group"] is not None])
    return rows


def _compare(source: Mask, target: Mask, config: TransportConfig, start: TransportResult | None) -> TransportResult:
    try:
        return compare(source, target, config, init=start)
    except WarmStartError:  # the series changes its canvas here
        return compare(source, target, config)


def _advice(error: Exception) -> str | None:
    if isinstance(error, MemoryError):
        return "use fewer jobs or a larger downsample_factor; the next run tries this pair again"
    if isinstance(error, OSError):
        return "check the disk; the next run tries this pair again"
    return None if hasattr(error, "fix") else "this is a bug or a broken installation: please report it"

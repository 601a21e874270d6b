"""Cohorts on disk, small and quick, and what to expect of them."""

from __future__ import annotations

import csv
import os
import signal
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

import pairframe as pf
from pairframe.cohort.inputs.tasks import PairTask
from pairframe.cohort.run.events import Chunk, Event, Heartbeat, PairFinished
from pairframe.cohort.run.executor import Executor
from pairframe.cohort.run.job import Job
from pairframe.cohort.run.mask_cache import MaskCache
from pairframe.cohort.run.work_queue import WorkQueue
from pairframe.results import ResultStore
from pairframe.results.disk import ZIP
from pairframe.results.schema import Row
from pairframe.testing import disc

SHAPE = (32, 40)
CONFIG = pf.TransportConfig(pad=2, reach_um=20.0)


def write_frame(path: Path, radius_px: float, shift_px: float = 0.0, shape_hw: tuple[int, int] = SHAPE) -> Path:
    """A disc as a PNG; nothing for a negative radius."""
    path.parent.mkdir(parents=True, exist_ok=True)
    mask = disc(shape_hw, (15, 16 + shift_px), radius_px) & (radius_px >= 0)
    pf.write_mask(pf.Mask.from_array(mask), path, overwrite=True)
    return path


def write_series(folder: Path, n_series: int = 2, n_frames: int = 3) -> Path:
    """``folder/s0/t0.png`` and so on; no two frames are equal."""
    for s in range(n_series):
        for t in range(n_frames):
            write_frame(folder / f"s{s}" / f"t{t}.png", 5 + 0.37 * s, 1.3 * t)
    return folder


def write_table(path: Path, rows: Sequence[Mapping[str, object]], delimiter: str = ",") -> Path:
    """A manifest as text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
    return path


def write_pairs(folder: Path, n_pairs: int, bad: Sequence[int] = ()) -> Path:
    """A manifest of pairs with masks of their own; those in `bad` have a broken target."""
    rows = []
    for k in range(n_pairs):
        source = write_frame(folder / f"a{k:04d}.png", 5 + 0.01 * k)
        target = write_frame(folder / f"b{k:04d}.png", 6 + 0.01 * k, 2.0)
        if k in bad:
            target.write_bytes(target.read_bytes()[:40])
        rows.append({"pair_id": f"p{k:04d}", "source": source.name, "target": target.name, "group": "ab"[k % 2]})
    return write_table(folder / "pairs.csv", rows)


def expected_of(folder: Path, k: int) -> pf.TransportResult:
    """What `compare` says about pair k of `write_pairs`."""
    return pf.compare(folder / f"a{k:04d}.png", folder / f"b{k:04d}.png", CONFIG)


def rows_of_a_full_disk(out: Path) -> list[str]:
    """Pairs that the table knows as refused by a full disk; the next run tries them again."""
    table = ResultStore(out).table()
    refused = table[table.error.str.contains("File too large", na=False)]
    assert (refused.status == "failed").all()
    assert refused.work_key.isna().all()
    return list(refused.pair_id)


def check_every_pair_once(out: Path, folder: Path, n_pairs: int, bad: Sequence[int] = (), checked: int = 8) -> None:
    """Every good pair is there once, readable and right; every bad one is recorded; nothing else lies about."""
    store = ResultStore(out)
    table = store.table().set_index("pair_id")
    assert sorted(table.index) == [f"p{k:04d}" for k in range(n_pairs)]
    for k in range(n_pairs):
        row = table.loc[f"p{k:04d}"]
        if k in bad:
            assert row.status == "failed"
            assert "FileError" in row.error
        else:
            assert row.status == "converged", row.error
    groups = {path.name.removesuffix(ZIP) for path in (out / "maps.zarr").iterdir() if path.name != "zarr.json"}
    assert groups == set(table.maps_group.dropna()), "maps that no row names, or rows without maps"
    assert not list(out.glob(".tmp-*"))
    good = [k for k in range(n_pairs) if k not in bad]
    for k in good[:: max(1, len(good) // checked)]:
        found, expected = store.load(f"p{k:04d}"), expected_of(folder, k)
        np.testing.assert_allclose(found.mass_created, expected.mass_created, rtol=0, atol=1e-5)
        np.testing.assert_allclose(found.velocity_field, expected.velocity_field, rtol=0, atol=1e-5)
        assert table.total_mass_moved[f"p{k:04d}"] == found.total_mass_moved


class InProcessExecutor(Executor):
    """Compares all pairs in this process; takes the place of `LocalExecutor`."""

    def __init__(self, job: Job, jobs: int) -> None:
        self._job, self._jobs = job, jobs

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    @property
    def n_workers(self) -> int:
        return self._jobs

    def events(self, queue: WorkQueue, is_stopping: Callable[[], bool]) -> Generator[Event]:
        cache = MaskCache()
        while not is_stopping() and (chunk := queue.take()):
            yield from self._job.compare_chunk(chunk, cache)
        yield Heartbeat()


def rows_of(executor: Executor, queue: WorkQueue) -> list[Row]:
    """The final rows of all pairs in a queue."""
    with executor:
        return [row for event in executor.events(queue, lambda: False) for row in queue.resolve(event)]


class DeadlyJob(Job):
    """Pairs whose name begins with ``deadly`` end their process, as running out of memory does."""

    def _solve(self, task: PairTask, start: pf.TransportResult | None, cache: MaskCache) -> Any:
        if task.pair_id.startswith("deadly"):
            os.kill(os.getpid(), signal.SIGKILL)
        return super()._solve(task, start, cache)


class ForgetfulJob(Job):
    """Compares the first pair of a chunk and returns the others, as a worker does that no longer sees the folder."""

    def compare_chunk(self, chunk: Chunk, cache: MaskCache) -> Iterator[PairFinished]:
        yield from super().compare_chunk(chunk[:1], cache)

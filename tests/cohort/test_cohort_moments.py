"""Bad moments of a run: its end, Ctrl-C before it has begun, two threads at once."""

from __future__ import annotations

import os
import signal
import sys
from concurrent.futures import wait
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cohort_cases import CONFIG, write_series

from pairframe.cohort import run_cohort
from pairframe.cohort.inputs.sources import read_tasks
from pairframe.cohort.run.mask_cache import MaskCache
from pairframe.cohort.run.plan import make_plan
from pairframe.cohort.run.progress import CohortProgress, PlainLines
from pairframe.cohort.run.table_writer import TableWriter
from pairframe.errors import BrokenStoreError, StoreRowError, StoreWriteError
from pairframe.masks import Mask, read_mask
from pairframe.results import ResultStore, failed_row


def test_the_end_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    lines = PlainLines(sys.stderr)
    for seconds in (2.0, 2.1, 2.6):  # workers take a moment to go home
        lines(CohortProgress("solving", 4, 0, 0, 4, seconds))
    for done in (1, 2):
        lines(CohortProgress("report", done, 0, 0, 2, 1.0))
    assert capsys.readouterr().err.splitlines() == [
        "4 of 4 pairs, 0 failed, 2 pairs/s", "report: 1 of 2 pairs drawn", "report: 2 of 2 pairs drawn"
    ]  # fmt: skip


def test_ctrl_c_while_files_are_read_starts_no_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*words: Any, **options: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        return make_plan(*words, **options)

    def no_workers(*_: object) -> None:
        raise AssertionError("a worker was started")

    monkeypatch.setattr("pairframe.cohort.run.runner.make_plan", interrupted)
    monkeypatch.setattr("pairframe.cohort.run.runner.LocalExecutor", no_workers)
    with pytest.raises(KeyboardInterrupt):
        run_cohort(write_series(tmp_path / "masks"), tmp_path / "out", CONFIG, jobs=1)


def test_two_threads_of_a_worker_do_not_take_each_others_masks_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third = read_tasks(write_series(tmp_path / "masks", n_series=1, n_frames=4))
    cache, is_nested = MaskCache(), []

    def read_with_another_thread_in_between(*words: Any, **options: Any) -> Mask:
        if not is_nested:
            is_nested.append(True)
            cache.read(third, CONFIG)  # leaves the cache without the masks of `first`
        return read_mask(*words, **options)

    cache.read(first, CONFIG)
    monkeypatch.setattr("pairframe.cohort.inputs.tasks.read_mask", read_with_another_thread_in_between)
    for ref, mask in zip((second.source, second.target), cache.read(second, CONFIG), strict=True):
        np.testing.assert_array_equal(mask.values, read_mask(ref.spec).values)
    assert is_nested


@pytest.mark.parametrize(
    ("error", "is_told"),
    [
        (StoreWriteError("a", "b", "c"), False),  # the disk may have room again at the next commit
        (BrokenStoreError("a", "b", "c"), True),
        (MemoryError(), True),
        (OSError(), True),
    ],
)
@pytest.mark.parametrize("failing", [0, 1, 2])
def test_rows_stay_until_they_are_written_whatever_a_commit_raises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, is_told: bool, failing: int
) -> None:
    calls: list[int] = []

    def commit(store: ResultStore, rows: Any, **options: Any) -> None:
        calls.append(len(calls))
        if calls[-1] == failing:
            raise error
        real(store, rows, **options)

    real = ResultStore.commit
    monkeypatch.setattr(ResultStore, "commit", commit)
    monkeypatch.setattr("pairframe.cohort.run.table_writer._MIN_INTERVAL_S", 0.0)
    monkeypatch.setattr("pairframe.cohort.run.table_writer._MAX_INTERVAL_S", 0.0)
    store, added = ResultStore(tmp_path / "out"), []
    writer = TableWriter(store, [])
    with pytest.raises(type(error)) if is_told else nullcontext():
        try:
            for k in range(6):
                writer.add(failed_row(f"p{k}", "broken"))
                added.append(f"p{k}")
                writer.flush_when_due()
                if writer._commit is not None:
                    wait([writer._commit])
        finally:
            writer.flush()
    assert failing in calls
    assert store.pair_ids() == added


def test_a_thread_that_cannot_start_loses_no_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ResultStore(tmp_path)
    monkeypatch.setattr("pairframe.cohort.run.table_writer._MIN_INTERVAL_S", 0.0)
    writer = TableWriter(store, [])

    def no_thread(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(writer._thread, "submit", no_thread)
    writer.add(failed_row("p0", "broken"))
    with pytest.raises(RuntimeError, match="thread"):
        writer.flush_when_due()
    writer.flush()
    assert store.pair_ids() == ["p0"]


def test_labels_that_do_not_fit_are_refused_before_masks_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = read_tasks(write_series(tmp_path / "masks", n_series=1, n_frames=4))
    mixed = [replace(task, carried={"dose": dose}) for task, dose in zip(tasks, (1.0, "high", 2.0), strict=True)]

    def look(*_: object) -> None:
        raise AssertionError("a mask was looked at")

    monkeypatch.setattr("pairframe.cohort.run.chunks.work_shape", look)
    config = replace(CONFIG, crop_policy="bucketed", bucket_shapes=((64, 64),))
    with pytest.raises(StoreRowError, match="dose"):
        run_cohort(mixed, tmp_path / "out", config, jobs=1)
    assert not ResultStore(tmp_path / "out").exists()
    assert not list((tmp_path / "out").glob("maps.zarr/*-*"))


def test_no_pairs_at_all_are_no_trouble(tmp_path: Path) -> None:
    tasks = read_tasks(write_series(tmp_path / "masks", n_series=1))
    out = tmp_path / "out"
    run_cohort(tasks, out, CONFIG, jobs=1)
    for folder in (out, tmp_path / "fresh"):
        assert run_cohort([], folder, CONFIG, jobs=1).done == 0
    assert len(ResultStore(out).pair_ids()) == len(tasks)

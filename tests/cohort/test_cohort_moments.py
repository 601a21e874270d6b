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

from pairframe.cohort import job as job_module
from pairframe.cohort import run_cohort
from pairframe.cohort.job import read_masks
from pairframe.cohort.plan import make_plan
from pairframe.cohort.progress import CohortProgress, PlainLines
from pairframe.cohort.runner import _Writer
from pairframe.cohort.sources import read_tasks
from pairframe.errors import BrokenStoreError, StoreRowError, StoreWriteError
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

    monkeypatch.setattr("pairframe.cohort.runner.make_plan", interrupted)
    monkeypatch.setattr("pairframe.cohort.runner.local_rows", no_workers)
    with pytest.raises(KeyboardInterrupt):
        run_cohort(write_series(tmp_path / "masks"), tmp_path / "out", CONFIG, jobs=1, report=False)


def test_two_threads_of_a_worker_do_not_take_each_others_masks_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class ClearedByAnother(dict[Any, Any]):
        def __contains__(self, key: object) -> bool:
            found = super().__contains__(key)
            self.clear()
            return found

    tasks = read_tasks(write_series(tmp_path / "masks", n_series=1))
    expected = read_masks(tasks[0], CONFIG)
    monkeypatch.setattr("pairframe.cohort.job._masks_read", ClearedByAnother(job_module._masks_read))
    for mask, again in zip(expected, read_masks(tasks[0], CONFIG), strict=True):
        np.testing.assert_array_equal(mask.values, again.values)


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
    monkeypatch.setattr("pairframe.cohort.runner._COMMIT_EVERY_S", 0.0)
    monkeypatch.setattr("pairframe.cohort.runner._COMMIT_AT_LAST_S", 0.0)
    store, added = ResultStore(tmp_path / "out"), []
    writer = _Writer(store, [])
    with pytest.raises(type(error)) if is_told else nullcontext():
        try:
            for k in range(6):
                writer.add(failed_row(f"p{k}", "broken"))
                added.append(f"p{k}")
                writer.flush_when_due()
                if writer._going is not None:
                    wait([writer._going])
        finally:
            writer.flush()
    assert failing in calls
    assert store.pair_ids() == added


def test_a_thread_that_cannot_start_loses_no_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ResultStore(tmp_path)
    monkeypatch.setattr("pairframe.cohort.runner._COMMIT_EVERY_S", 0.0)
    writer = _Writer(store, [])

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

    monkeypatch.setattr("pairframe.cohort.portions.work_shape", look)
    config = replace(CONFIG, crop_policy="bucketed", bucket_shapes=((64, 64),))
    with pytest.raises(StoreRowError, match="dose"):
        run_cohort(mixed, tmp_path / "out", config, jobs=1, report=False)
    assert not ResultStore(tmp_path / "out").exists()
    assert not list((tmp_path / "out").glob("maps.zarr/*-*"))


def test_no_pairs_at_all_are_no_trouble(tmp_path: Path) -> None:
    tasks = read_tasks(write_series(tmp_path / "masks", n_series=1))
    out = tmp_path / "out"
    run_cohort(tasks, out, CONFIG, jobs=1, report=False)
    for folder in (out, tmp_path / "fresh"):
        assert run_cohort([], folder, CONFIG, jobs=1, report=False).done == 0
    assert len(ResultStore(out).pair_ids()) == len(tasks)

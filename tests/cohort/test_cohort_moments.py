"""Bad moments of a run: its end, Ctrl-C before it has begun, two threads at once."""

from __future__ import annotations

import os
import signal
import sys
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
from pairframe.cohort.sources import read_tasks


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

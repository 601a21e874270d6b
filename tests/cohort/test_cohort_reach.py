"""One reach for all pairs of a cohort: settled at the first run, and kept."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from helpers.cohort_cases import InProcessExecutor, write_frame

import pairframe as pf
from pairframe.cohort import run_cohort
from pairframe.cohort.inputs.sources import read_tasks
from pairframe.cohort.run.cohort_reach import MOST_MASKS, settle_reach
from pairframe.cohort.run.estimate import estimate
from pairframe.cohort.run.events import Stopped
from pairframe.cohort.run.progress import MaskScan
from pairframe.results import ResultStore

DEFAULT = pf.TransportConfig(pad=2)


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pairframe.cohort.run.runner.LocalExecutor", InProcessExecutor)


def series(folder: Path, radii: list[int]) -> Path:
    for t, radius in enumerate(radii):
        write_frame(folder / f"t{t}.png", radius)
    return folder


def diagonal(radius: int) -> float:
    return math.hypot(2 * radius + 1, 2 * radius + 1)


def test_all_pairs_have_the_median_over_the_masks(tmp_path: Path) -> None:
    summary = run_cohort(series(tmp_path / "m", [6, 7, 9, 10, 12]), tmp_path / "out", DEFAULT)
    assert summary.reach is not None
    assert summary.reach.reach_um == pytest.approx(diagonal(9))
    assert summary.reach.n_masks == 5
    table = ResultStore(tmp_path / "out").table()
    assert table.reach_um.tolist() == pytest.approx([diagonal(9)] * 4)
    assert {json.loads(text)["reach_um"] for text in table.config_json} == {summary.reach.reach_um}


def test_it_is_kept_when_the_cohort_grows_and_settled_again_for_another_unit(tmp_path: Path) -> None:
    masks, out = series(tmp_path / "m", [6, 7, 8]), tmp_path / "out"
    first = run_cohort(masks, out, DEFAULT)
    series(masks, [6, 7, 8, 12, 12, 12, 12])
    second = run_cohort(masks, out, DEFAULT)
    assert second.reach == first.reach
    assert (second.done, second.skipped) == (4, 2)
    assert estimate(masks, out, DEFAULT).todo == 0
    other = run_cohort(masks, out, pf.TransportConfig(pad=2, px_size_um=3.0))
    assert other.reach is not None
    assert other.reach.reach_um == pytest.approx(3.0 * diagonal(12))
    assert other.done == 6


def test_a_given_reach_is_taken_as_it_is(tmp_path: Path) -> None:
    masks, out = series(tmp_path / "m", [6, 7, 8]), tmp_path / "out"
    for config in (pf.TransportConfig(reach_um=9.0), pf.TransportConfig(moved_share=0.9)):
        assert run_cohort(masks, out, config).reach is None
    assert not (out / "cohort.json").exists()


def test_masks_that_cannot_be_read_or_are_empty_do_not_count(tmp_path: Path) -> None:
    masks = series(tmp_path / "m", [6, 6, 6])
    (masks / "t3.png").write_bytes(b"broken")
    write_frame(masks / "t4.png", -1)
    summary = run_cohort(masks, tmp_path / "out", DEFAULT)
    assert summary.reach is not None
    assert summary.reach.n_masks == 3
    assert summary.failed == 2
    for path in masks.glob("*.png"):
        path.write_bytes(b"broken")
    assert run_cohort(masks, tmp_path / "none", DEFAULT).reach is None


@pytest.mark.parametrize("damage", ["", "{}", "[1, 2]", '{"reach_um": -3, "n_masks": 1, "settings": []}', "\x00"])
def test_a_damaged_record_is_settled_again(tmp_path: Path, damage: str) -> None:
    masks, out = series(tmp_path / "m", [6, 7, 8]), tmp_path / "out"
    first = run_cohort(masks, out, DEFAULT)
    (out / "cohort.json").write_text(damage)
    again = run_cohort(masks, out, DEFAULT)
    assert again.reach == first.reach
    assert again.skipped == 2
    assert json.loads((out / "cohort.json").read_text())["n_masks"] == 3


def test_a_large_cohort_is_sampled_and_the_look_at_it_can_be_stopped(tmp_path: Path) -> None:
    masks = series(tmp_path / "m", [6] * (MOST_MASKS // 2) + [9] * (MOST_MASKS // 2 + 60))
    tasks, store = read_tasks(masks), ResultStore(tmp_path / "out")
    found = settle_reach(DEFAULT, tasks, store)
    assert found is not None
    assert not isinstance(found, Stopped)
    assert found.n_masks == MOST_MASKS
    assert found.reach_um == pytest.approx(diagonal(9))
    assert isinstance(settle_reach(DEFAULT, tasks, store, MaskScan(is_stopping=lambda: True)), Stopped)


def test_a_pair_alone_has_the_same_answer_at_that_reach(tmp_path: Path) -> None:
    masks, out = series(tmp_path / "m", [6, 7, 12]), tmp_path / "out"
    summary = run_cohort(masks, out, DEFAULT)
    assert summary.reach is not None
    row = ResultStore(out).table().iloc[0]
    config = pf.TransportConfig(pad=2, reach_um=summary.reach.reach_um)
    alone = pf.compare(masks / "t0.png", masks / "t1.png", config)
    np.testing.assert_allclose(row.total_mass_created, alone.total_mass_created, rtol=1e-5)

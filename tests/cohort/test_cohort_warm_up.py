"""The clock of a pair does not count what its process loads and compiles."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from helpers.cohort_cases import CONFIG, write_series

import pairframe as pf
from pairframe.cohort.inputs.sources import read_tasks
from pairframe.cohort.run.job import Job
from pairframe.cohort.run.mark import RunMark
from pairframe.cohort.run.mask_cache import MaskCache
from pairframe.cohort.run.warm_up import warm_up
from pairframe.errors import SolveFailedError
from pairframe.results.schema import Row

LOADING_S = 0.8


@pytest.fixture(autouse=True)
def cold() -> Iterator[None]:
    warm_up.cache_clear()
    yield
    warm_up.cache_clear()


def rows_of(folder: Path, config: pf.TransportConfig = CONFIG) -> list[Row]:
    """Both pairs of a series, as a worker of either kind does them."""
    tasks = read_tasks(write_series(folder / "masks", n_series=1))
    with RunMark(folder) as mark:
        job = Job(config, folder, mark.token)
        return [event.row for event in job.compare_chunk(tuple(tasks), MaskCache())]


def test_the_first_pair_is_not_charged_for_loading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[int] = []
    clock_s = 0.0  # of the job: only loading takes time, so that a busy machine changes nothing

    def compare(*masks: Any, **options: Any) -> pf.TransportResult:
        nonlocal clock_s
        if not loaded:
            clock_s += LOADING_S
        loaded.append(1)
        return pf.compare(*masks, **options)

    monkeypatch.setattr("pairframe.cohort.run.job.time", SimpleNamespace(perf_counter=lambda: clock_s))

    monkeypatch.setattr("pairframe.cohort.run.job.compare", compare)
    monkeypatch.setattr("pairframe.cohort.run.warm_up.compare", compare)
    rows = rows_of(tmp_path)
    assert [row["status"] for row in rows] == ["converged", "converged"]
    assert clock_s == LOADING_S
    assert [row["seconds"] for row in rows] == [0.0, 0.0]
    assert len(loaded) == 3, "once per process, not per pair"


@pytest.mark.parametrize(
    "config",
    [
        CONFIG,
        pf.TransportConfig(mass_mode="intensity"),
        pf.TransportConfig(crop_policy="bucketed", bucket_shapes=((512, 512),), downsample_factor=8),
        pf.TransportConfig(crop_policy="fixed", override_pair_bbox=pf.BoxYX(100, 200, 100, 200)),
        pf.TransportConfig(blur_um=0.01, reach_um=1e4, px_size_um=0.1),
        pf.TransportConfig(penalty="tv", dtype="float32"),
    ],
)
def test_it_is_done_for_any_frame_and_cheap_once_loaded(
    config: pf.TransportConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = []

    def compare(*masks: Any, **options: Any) -> pf.TransportResult:
        results.append(pf.compare(*masks, **options))
        return results[-1]

    monkeypatch.setattr("pairframe.cohort.run.warm_up.compare", compare)
    warm_up(config)
    warm_up.cache_clear()
    began = time.process_time()  # not wall time: the machine may be busy
    warm_up(config)
    assert time.process_time() - began < 0.3
    assert len(results) == 2, "it failed in silence"
    assert (results[0].backend, results[0].dtype) == (config.backend, config.dtype)


def test_what_it_cannot_do_is_left_to_the_pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise SolveFailedError("a mask that is larger", "8 x 8", "none")

    monkeypatch.setattr("pairframe.cohort.run.warm_up.compare", refuse)
    assert [row["status"] for row in rows_of(tmp_path)] == ["converged", "converged"]


def test_an_unexpected_error_is_recorded_and_the_pair_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no kernel image")

    with monkeypatch.context() as patch:
        patch.setattr("pairframe.cohort.run.warm_up.compare", fail)
        rows = rows_of(tmp_path)
    assert [(row["status"], row["error"], row["work_key"]) for row in rows] == [
        ("failed", "RuntimeError: no kernel image", None)
    ] * 2
    assert [row["status"] for row in rows_of(tmp_path)] == ["converged", "converged"]


def test_an_engine_without_sampling_still_says_so_itself(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, replace(CONFIG, max_support_points=5))
    assert {row["status"] for row in rows} == {"failed"}
    assert all("max_support_points" in row["error"] for row in rows)

"""Disks that are not there today, workers that look away, locks that others hold: what was computed stays, and the rest is done."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.cohort_cases import (
    CONFIG,
    DeadlyJob,
    ForgetfulJob,
    InProcessExecutor,
    rows_of,
    write_frame,
    write_pairs,
    write_series,
)
from typer.testing import CliRunner

import pairframe as pf
from pairframe import files
from pairframe.cli.app import app
from pairframe.cohort import read_tasks, run_cohort
from pairframe.cohort.inputs.content import MISSING, NO_FILE, Digests
from pairframe.cohort.inputs.tables import _typed
from pairframe.cohort.run.dask_executor import _compare_chunk
from pairframe.cohort.run.estimate import estimate
from pairframe.cohort.run.events import ChunkReturned
from pairframe.cohort.run.job import Job
from pairframe.cohort.run.local_executor import LocalExecutor
from pairframe.cohort.run.mark import RunMark
from pairframe.cohort.run.work_queue import WorkQueue
from pairframe.errors import CohortError, FileError, StoreLockedError
from pairframe.report.html import write_report
from pairframe.results import ResultStore, disk


@pytest.fixture
def same_environment() -> Iterator[None]:
    """Dask's nannies leave their settings in the environment of whoever starts them."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pairframe.cohort.run.runner.LocalExecutor", InProcessExecutor)


@pytest.mark.usefixtures("in_process")
def test_masks_that_are_out_of_sight_take_no_result_with_them(tmp_path: Path) -> None:
    masks, out = tmp_path / "disk", tmp_path / "out"
    manifest = write_pairs(masks, 3).rename(tmp_path / "pairs.csv")
    manifest.write_text(manifest.read_text().replace(",a", f",{masks}/a").replace(",b0", f",{masks}/b0"))
    assert run_cohort(manifest, out, CONFIG).done == 3
    before = ResultStore(out).load("p0001")

    away = masks.rename(tmp_path / "not mounted")
    summary = run_cohort(manifest, out, CONFIG)
    assert (summary.done, summary.failed, summary.skipped, summary.unreachable) == (0, 0, 3, 3)
    assert (ResultStore(out).load("p0001").mass_created == before.mass_created).all()
    told = CliRunner().invoke(app, ["run", str(manifest), "--out", str(out), "--pad", "2", "--reach-um", "20"])
    assert told.exit_code == 1
    assert "kept: 3 pairs keep their earlier results; their masks are missing or unreadable" in told.stdout

    away.rename(masks)
    write_frame(masks / "a0001.png", 8)
    summary = run_cohort(manifest, out, CONFIG)
    assert (summary.done, summary.skipped, summary.unreachable) == (1, 2, 0)


def test_pairs_that_a_worker_returned_are_compared_by_another(tmp_path: Path) -> None:
    tasks = read_tasks(write_pairs(tmp_path / "masks", 3))
    with RunMark(tmp_path) as mark:
        job = ForgetfulJob(CONFIG, tmp_path, mark.token)
        found = rows_of(LocalExecutor(job, 1), WorkQueue([tuple(tasks)], job.is_wanted))
    assert sorted((row["pair_id"], row["status"]) for row in found) == [(f"p000{k}", "converged") for k in range(3)]


def test_pairs_that_a_worker_returned_are_dropped_when_the_run_is_over(tmp_path: Path) -> None:
    tasks = read_tasks(write_pairs(tmp_path / "masks", 3))
    queue = WorkQueue((), lambda: False)
    assert queue.resolve(ChunkReturned(tuple(tasks))) == []
    assert queue.take() is None


def test_a_pair_is_not_blamed_for_the_death_of_its_neighbour(tmp_path: Path) -> None:
    tasks = read_tasks(write_pairs(tmp_path / "masks", 3))
    deadly = [*tasks[:1], *(pf.cohort.PairTask("deadly", task.source, task.target) for task in tasks[1:2]), tasks[2]]
    queue = WorkQueue([tuple(deadly)])
    with RunMark(tmp_path) as mark:
        job = DeadlyJob(CONFIG, tmp_path, mark.token)
        found = {row["pair_id"]: row for row in rows_of(LocalExecutor(job, 1), queue)}
    assert {name: row["status"] for name, row in found.items()} == {
        "p0000": "converged",
        "deadly": "failed",
        "p0002": "converged",
    }
    assert queue._attempts["p0000"] == queue._attempts["p0002"] == 0
    assert queue._attempts["deadly"] == 2


@pytest.mark.usefixtures("in_process")
def test_a_table_that_cannot_be_written_now_is_written_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pairframe.cohort.run.table_writer._MIN_INTERVAL_S", 0.0)
    commit, failures = ResultStore.commit, []

    def fail_once(self: ResultStore, *args: Any, **options: Any) -> None:
        if not failures:
            failures.append(1)
            raise StoreLockedError("nobody else writing", "somebody", "wait")
        commit(self, *args, **options)

    monkeypatch.setattr(ResultStore, "commit", fail_once)
    summary = run_cohort(write_pairs(tmp_path / "masks", 3), tmp_path / "out", CONFIG)
    assert failures == [1]
    assert summary.done == 3
    assert len(ResultStore(tmp_path / "out").table()) == 3


def test_the_maps_of_a_chunk_are_on_the_disk_before_a_cluster_sends_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[Path] = []
    monkeypatch.setattr(files, "flush_all", flushed.extend)
    tasks = read_tasks(write_pairs(tmp_path / "masks", 2, bad=[1]))
    with RunMark(tmp_path) as mark:
        rows = [event.row for event in _compare_chunk(Job(CONFIG, tmp_path, mark.token), tuple(tasks))]
    assert [row["status"] for row in rows] == ["converged", "failed"]
    assert flushed == [disk.group_file(tmp_path / "maps.zarr", rows[0]["maps_group"])]


# Dask warns if its scratch folder takes more than a second, as it may on a busy machine. As an error, that warning would
# close the cluster before it has started.
@pytest.mark.filterwarnings("ignore:Creating scratch directories is taking:UserWarning")
@pytest.mark.usefixtures("same_environment")
def test_an_adaptive_cluster_starts_its_workers_for_a_run(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="the extra dask is not installed")
    import dask

    manifest, out = write_pairs(tmp_path / "masks", 2), tmp_path / "out"
    with (
        # The scheduler would share a scratch folder with all other programs that use Dask, and clean up after dead ones.
        dask.config.set({"temporary-directory": str(tmp_path / "dask")}),
        distributed.LocalCluster(
            n_workers=0, threads_per_worker=1, dashboard_address=":0", local_directory=str(tmp_path / "dask")
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        cluster.adapt(minimum=0, maximum=1, interval="200ms")
        summary = run_cohort(manifest, out, CONFIG, client=client)
    assert (summary.done, summary.failed) == (2, 0)


# --- keys, names, labels ---------------------------------------------------------------------


def test_a_folder_with_a_hole_is_not_the_same_as_no_folder(tmp_path: Path) -> None:
    folder, digests = tmp_path / "x.zarr", Digests()
    assert digests.of(folder) == MISSING
    folder.mkdir()
    (folder / "chunk").symlink_to(tmp_path / "nowhere")
    with pytest.raises(OSError, match=r"nowhere|chunk"):
        digests.of(folder)
    (folder / "chunk").unlink()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "c").write_bytes(b"1")
    (folder / "linked").symlink_to(elsewhere)
    before = digests.of(folder)
    (elsewhere / "c").write_bytes(b"22")
    assert digests.of(folder) != before


def test_a_pipe_is_refused_instead_of_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "mask.png"
    os.mkfifo(pipe)
    assert Digests().of(pipe) == NO_FILE
    with pytest.raises(FileError, match="which is neither"):
        pf.read_mask(pipe)


@pytest.mark.usefixtures("in_process")
def test_results_among_the_masks_are_no_masks(tmp_path: Path) -> None:
    masks = write_series(tmp_path / "masks")
    before = [task.pair_id for task in read_tasks(masks)]
    out = masks / "results"
    assert run_cohort(masks, out, CONFIG).failed == 0
    write_report(out)  # it has pictures
    (out / "analysis.zarr").mkdir()
    assert [task.pair_id for task in read_tasks(masks)] == before
    assert [task.pair_id for task in read_tasks(str(masks / "**" / "*.png"))] == before


def test_jobs_of_a_dry_run_are_checked_and_long_ids_keep_their_digits(tmp_path: Path) -> None:
    manifest = write_pairs(tmp_path / "masks", 1)
    with pytest.raises(CohortError, match="jobs to be an integer >= 1"):
        estimate(manifest, tmp_path / "out", CONFIG, jobs=0)
    assert _typed(["8912345678901234561", "12"], is_text=False) == ["8912345678901234561", "12"]
    assert _typed(["891234567890123456", "12"], is_text=False) == [891234567890123456, 12]

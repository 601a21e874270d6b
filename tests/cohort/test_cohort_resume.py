"""Run again, and only what is missing, changed or was cut off is done; what fails is written down."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from helpers.cohort_cases import CONFIG, InProcessExecutor, write_frame, write_pairs, write_series, write_table

import pairframe as pf
from pairframe.cohort import CohortSummary, MaskRef, run_cohort
from pairframe.cohort.inputs.content import Digests, _digest, with_digests, work_key
from pairframe.cohort.inputs.sources import read_tasks
from pairframe.cohort.inputs.tasks import PairTask
from pairframe.cohort.run.chunks import cut_into_chunks, work_shape
from pairframe.cohort.run.estimate import estimate
from pairframe.cohort.run.events import Chunk, Stopped
from pairframe.cohort.run.job import Job
from pairframe.cohort.run.mark import RunMark, is_going_on
from pairframe.cohort.run.mask_cache import MaskCache
from pairframe.cohort.run.progress import CohortProgress, MaskScan, PlainLines, duration
from pairframe.errors import CohortError, EngineError, ManifestError, StoreError, StoreLockedError, StoreRowError
from pairframe.masks import canvas_shape
from pairframe.results import ResultStore
from pairframe.results.store import PackedMaps
from pairframe.testing import growing_embryo

Run = Callable[..., CohortSummary]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """`run_cohort` in this process."""
    monkeypatch.setattr("pairframe.cohort.run.runner.LocalExecutor", InProcessExecutor)

    def run_here(manifest: object, out: Path, config: pf.TransportConfig = CONFIG, **options: Any) -> CohortSummary:
        return run_cohort(manifest, out, config, **options)  # type: ignore[arg-type]

    return run_here


def times(out: Path) -> dict[str, str]:
    table = ResultStore(out).table()
    return dict(zip(table.pair_id, table.created_at, strict=True))


def counts(summary: CohortSummary) -> tuple[int, int, int]:
    return summary.done, summary.failed, summary.skipped


def chunks_of(tasks: list[PairTask], n_workers: int, config: pf.TransportConfig) -> list[Chunk]:
    """Chunks of a run that is not stopped."""
    chunks = cut_into_chunks(tasks, n_workers, config)
    assert isinstance(chunks, list)
    return chunks


# --- resume ----------------------------------------------------------------------------------


def test_the_same_again_does_nothing_and_a_change_does_only_what_changed(run: Run, tmp_path: Path) -> None:
    masks, out = write_series(tmp_path / "masks"), tmp_path / "out"
    assert counts(run(masks, out)) == (4, 0, 0)
    first = times(out)
    assert counts(run(masks, out)) == (0, 0, 4)
    assert times(out) == first

    write_frame(masks / "s1/t0.png", 7)  # in one pair
    assert counts(run(masks, out)) == (1, 0, 3)
    assert {name for name, time in times(out).items() if time != first[name]} == {"s1_0-1"}
    assert ResultStore(out).load("s1_0-1").M_source == pf.read_mask(masks / "s1/t0.png").area_px

    assert list(first) == [task.pair_id for task in read_tasks(masks)], "the table is in the order of the manifest"
    os.utime(masks / "s1/t0.png")  # touched, not changed
    assert counts(run(masks, out)) == (0, 0, 4)
    moved = masks.rename(tmp_path / "moved")
    assert counts(run(moved, out)) == (0, 0, 4)
    assert counts(run(moved, out, replace(CONFIG, debug=True))) == (0, 0, 4)

    assert counts(run(moved, out, replace(CONFIG, reach_um=21.0))) == (4, 0, 0)
    write_frame(moved / "s0/t3.png", 7)  # a new frame
    assert counts(run(moved, out, replace(CONFIG, reach_um=21.0))) == (1, 0, 4)
    groups = list((out / "maps.zarr").glob("[!.]*.zarr.zip"))
    assert len(groups) == len(ResultStore(out).pair_ids()) == 5


def test_every_part_of_the_content_is_in_the_key(tmp_path: Path) -> None:
    write_frame(tmp_path / "a.png", 5)
    np.save(tmp_path / "stack.npy", np.ones((2, 3, 4), np.uint8))
    row = {"pair_id": "x", "source": "a.png", "target": "stack.npy@0:1", "px_size_um": 1, "group": "g"}

    def key(config: pf.TransportConfig = CONFIG, **changes: object) -> str | None:
        (task,) = read_tasks(write_table(tmp_path / "m.csv", [row | changes]))
        return work_key(task, config, Digests())

    same = key()
    assert same == key(group="h", pair_id="y")
    different = [
        key(target="stack.npy@1:1"),
        key(target="stack.npy@0:all"),
        key(source="missing.png"),
        key(px_size_um=2),
        key(source="stack.npy@0:1", target="a.png"),
        *(key(replace(CONFIG, **{name: value})) for name, value in
          {"backend": "oracle", "tol": 1e-7, "downsample_factor": 2, "penalty": ("kl", "tv")}.items()),
    ]  # fmt: skip
    assert len({same, *different}) == 1 + len(different)


def test_a_zarr_is_known_by_all_its_files(tmp_path: Path) -> None:
    digests = Digests()
    (tmp_path / "x.zarr/c").mkdir(parents=True)
    (tmp_path / "x.zarr/c/0").write_bytes(b"12")
    before = digests.of(tmp_path / "x.zarr")
    (tmp_path / "x.zarr/c/1").write_bytes(b"")
    assert digests.of(tmp_path / "x.zarr") not in (before, "missing")
    (tmp_path / "x.zarr/c/1").unlink()
    assert digests.of(tmp_path / "x.zarr") == before


def test_files_that_the_planner_hashed_are_not_hashed_again_by_workers(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest, out = write_pairs(tmp_path / "masks", 2), tmp_path / "out"
    run(manifest, out)
    write_frame(tmp_path / "masks/a0001.png", 8)
    hashed: list[str] = []

    def count(path: Path, signature: Any) -> str:
        hashed.append(path.name)
        return _digest(path, signature)

    monkeypatch.setattr("pairframe.cohort.inputs.content._digest", count)
    assert counts(run(manifest, out)) == (1, 0, 1)
    assert sorted(hashed) == ["a0000.png", "a0001.png", "b0000.png", "b0001.png"]
    assert counts(run(manifest, out)) == (0, 0, 2), "the key is that of the new content"


def test_a_file_that_changes_after_the_plan_is_hashed_again(tmp_path: Path) -> None:
    (task,) = read_tasks(write_pairs(tmp_path, 1))
    digests = Digests()
    before = work_key(task, CONFIG, digests)
    planned = with_digests(task, digests)
    assert planned.source.digest is not None
    assert planned == task, "a digest is no part of what a task is"
    assert work_key(planned, CONFIG, Digests()) == before
    write_frame(tmp_path / "a0000.png", 9)
    assert work_key(planned, CONFIG, Digests()) == work_key(task, CONFIG, Digests()) != before


def test_new_labels_are_written_without_solving_again(run: Run, tmp_path: Path) -> None:
    manifest, out = write_pairs(tmp_path / "masks", 3), tmp_path / "out"
    run(manifest, out)
    first = times(out)
    manifest.write_text(manifest.read_text().replace("png,a", "png,wild type"))
    assert counts(run(manifest, out)) == (0, 0, 3)
    table = ResultStore(out).table()
    assert list(table.sort_values("pair_id").group) == ["wild type", "b", "wild type"]
    assert times(out) == first
    assert ResultStore(out).load("p0000").status == pf.Status.converged


def test_a_renamed_mask_is_not_solved_again_and_the_table_names_it_as_it_is_called_now(
    run: Run, tmp_path: Path
) -> None:
    manifest, out = write_pairs(tmp_path / "masks", 3), tmp_path / "out"
    run(manifest, out)
    first = times(out)
    (tmp_path / "masks/a0001.png").rename(tmp_path / "masks/renamed.png")
    manifest.write_text(manifest.read_text().replace("a0001.png", "renamed.png"))
    assert counts(run(manifest, out)) == (0, 0, 3)
    table = ResultStore(out).table()
    assert list(table.sort_values("pair_id").source) == ["a0000.png", "renamed.png", "a0002.png"]
    assert times(out) == first
    # A name where nothing is says nothing about what was compared.
    manifest.write_text(
        manifest.read_text().replace("renamed.png", "lost.png").replace("b0001.png,b", "b0001.png,mutant")
    )
    assert run(manifest, out).unreachable == 1
    table = ResultStore(out).table().sort_values("pair_id")
    assert list(table.source) == ["a0000.png", "renamed.png", "a0002.png"]
    assert list(table.group) == ["a", "mutant", "a"]


def test_a_failure_under_another_name_is_told_with_that_name(run: Run, tmp_path: Path) -> None:
    manifest, out = write_pairs(tmp_path / "masks", 2, bad=[1]), tmp_path / "out"
    run(manifest, out)
    (tmp_path / "masks/b0001.png").rename(tmp_path / "masks/renamed.png")
    manifest.write_text(manifest.read_text().replace("b0001.png", "renamed.png"))
    assert counts(run(manifest, out)) == (0, 1, 1)
    row = ResultStore(out).table().set_index("pair_id").loc["p0001"]
    assert row.target == "renamed.png"
    assert "renamed.png" in row.error
    assert "b0001.png" not in row.error


def test_labels_of_another_type_are_refused_before_any_work(run: Run, tmp_path: Path) -> None:
    manifest, out = write_pairs(tmp_path / "masks", 2), tmp_path / "out"
    run(manifest, out)
    manifest.write_text(manifest.read_text().replace("png,a", "png,1").replace("png,b", "png,2"))
    with pytest.raises(StoreRowError, match="column 'group'"):
        run(manifest, out)


def test_lost_maps_are_made_again(run: Run, tmp_path: Path) -> None:
    manifest, out = write_pairs(tmp_path / "masks", 2), tmp_path / "out"
    run(manifest, out)
    row = ResultStore(out).table().iloc[0]
    (out / "maps.zarr" / f"{row.maps_group}.zarr.zip").rename(tmp_path / "away")
    assert counts(run(manifest, out)) == (1, 0, 1)


# --- failures --------------------------------------------------------------------------------


def test_a_bad_pair_is_a_row_and_the_others_go_on(run: Run, tmp_path: Path) -> None:
    folder, out = tmp_path / "masks", tmp_path / "out"
    manifest = write_pairs(folder, 3, bad=[1])
    rows = [
        {"pair_id": f"p{k:04d}", "source": f"a{k:04d}.png", "target": f"b{k:04d}.png", "px_size_um": ""}
        for k in range(3)
    ]
    rows += [
        {"pair_id": "missing", "source": "a0000.png", "target": "none.png", "px_size_um": ""},
        {"pair_id": "other canvas", "source": "a0000.png", "target": "wide.png", "px_size_um": ""},
        {"pair_id": "no such label", "source": "a0000.png:5", "target": "b0000.png", "px_size_um": ""},
        {"pair_id": "no label at all", "source": "a0000.png:0", "target": "b0000.png", "px_size_um": ""},
        {"pair_id": "empty", "source": "empty.png", "target": "b0000.png", "px_size_um": "2"},
    ]  # fmt: skip
    write_frame(folder / "wide.png", 5, shape_hw=(32, 50))
    write_frame(folder / "empty.png", -1)
    write_table(manifest, rows)
    assert counts(run(manifest, out)) == (3, 5, 0)
    table = ResultStore(out).table().set_index("pair_id")
    assert table.status["empty"] == "empty_source"
    for name, error in [
        ("p0001", "FileError"),
        ("missing", "FileError"),
        ("other canvas", "FrameError"),
        ("no such label", "FileError"),
        ("no label at all", "FileError"),
    ]:
        assert table.status[name] == "failed"
        assert table.error[name].startswith(error)
        assert table.advice[name]
        assert table.work_key[name]
    # Unchanged failures are not tried again unless asked for; a mended file is.
    assert counts(run(manifest, out)) == (0, 5, 3)
    write_frame(folder / "none.png", 5)
    assert counts(run(manifest, out)) == (1, 4, 3)
    assert counts(run(manifest, out, retry_failed=True)) == (0, 4, 4)


def test_frames_with_two_pixel_sizes_fail_alone(run: Run, tmp_path: Path) -> None:
    write_series(tmp_path, n_series=1, n_frames=4)
    sizes = [2, 2, 3, 3]
    rows = [{"series": "s0", "frame": t, "path": f"s0/t{t}.png", "px_size_um": sizes[t]} for t in range(4)]
    out = tmp_path / "out"
    assert counts(run(write_table(tmp_path / "m.csv", rows), out)) == (2, 1, 0)
    table = ResultStore(out).table().set_index("pair_id")
    assert table.error["s0_1-2"].startswith("PixelSizeError")
    assert (table.px_size_um["s0_0-1"], table.px_size_um["s0_2-3"]) == (2.0, 3.0)


def test_a_failure_that_is_not_the_pairs_fault_is_tried_twice_and_again_next_time(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest, out = write_pairs(tmp_path / "masks", 2), tmp_path / "out"
    tried = []
    write = ResultStore.write_packed

    def full_disk(self: ResultStore, packed: PackedMaps) -> Any:
        tried.append(packed.row["pair_id"])
        if tried[-1] == "p0000" and len(tried) < 5:
            raise OSError(28, "No space left on device")
        return write(self, packed)

    monkeypatch.setattr(ResultStore, "write_packed", full_disk)
    assert counts(run(manifest, out)) == (1, 1, 0)
    assert tried == ["p0000", "p0001", "p0000"]
    row = ResultStore(out).table().set_index("pair_id").loc["p0000"]
    assert "No space left" in row.error
    assert row.isna().work_key
    tried += ["later"] * 2
    assert counts(run(manifest, out)) == (1, 0, 1)


def test_an_answer_that_did_not_converge_is_told_apart(run: Run, tmp_path: Path) -> None:
    manifest, config = write_pairs(tmp_path / "masks", 2), replace(CONFIG, max_iterations=1, tol=1e-12)
    for _ in range(2):
        summary = run(manifest, tmp_path / "out", config)
        assert summary.uncertified == 2
        assert summary.failed == 0


# --- names and places ------------------------------------------------------------------------


def test_hostile_names_are_kept_as_data_and_nothing_is_written_outside(run: Run, tmp_path: Path) -> None:
    masks = tmp_path / "masks"
    write_frame(masks / "a.png", -1)  # empty: nothing to solve
    write_frame(masks / "b.png", 6)
    names = [
        "../../etc/x",
        "/etc/passwd",
        "..",
        ".",
        "n" * 200,
        "日本/ü",
        "a b;rm -rf ~",
        "<script>",
        "CON",
        "x\\..\\y",
    ]
    rows = [{"pair_id": name, "source": "a.png", "target": "b.png", "note": name} for name in names]
    manifest = write_table(masks / "m.csv", rows)
    before = set(tmp_path.rglob("*"))
    assert counts(run(manifest, tmp_path / "out")) == (len(names), 0, 0)
    new = set(tmp_path.rglob("*")) - before
    assert all((tmp_path / "out") in (path, *path.parents) for path in new)
    assert ResultStore(tmp_path / "out").load("../../etc/x").status == pf.Status.empty_source


def test_a_refused_run_writes_nothing(run: Run, tmp_path: Path) -> None:
    manifest = write_pairs(tmp_path / "masks", 2)
    twice = write_table(tmp_path / "twice.csv", [{"pair_id": "x", "source": "a", "target": "b"}] * 2)
    with pytest.raises(ManifestError):
        run(twice, tmp_path / "out")
    with pytest.raises(EngineError):
        run(manifest, tmp_path / "out", replace(CONFIG, backend="gird"))
    with pytest.raises(CohortError, match="jobs to be an integer >= 1"):
        run(manifest, tmp_path / "out", jobs=0)
    with pytest.raises(CohortError, match="either jobs or a cluster"):
        run(manifest, tmp_path / "out", jobs=2, client="tcp://127.0.0.1:1")
    assert not (tmp_path / "out").exists()
    with pytest.raises(StoreError):
        run(manifest, tmp_path / "masks")
    assert not list((tmp_path / "masks").glob("*.parquet"))
    assert counts(run(manifest, tmp_path / "masks", overwrite=True)) == (2, 0, 0)


def test_two_runs_do_not_share_a_folder(run: Run, tmp_path: Path) -> None:
    manifest, out = write_pairs(tmp_path / "masks", 2), tmp_path / "out"
    out.mkdir()
    with RunMark(out), pytest.raises(StoreLockedError, match="another run that is still going on"):
        run(manifest, out)
    assert counts(run(manifest, out)) == (2, 0, 0)


def test_a_mark_tells_workers_when_to_stop(tmp_path: Path) -> None:
    with RunMark(tmp_path) as mark:
        assert is_going_on(tmp_path, mark.token)
        assert not is_going_on(tmp_path, "of another run")
        mark.stop()
        assert not is_going_on(tmp_path, mark.token)
    assert not list(tmp_path.iterdir())


def test_a_run_whose_mark_is_gone_does_not_look_complete(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = write_pairs(tmp_path / "masks", 3)
    monkeypatch.setattr("pairframe.cohort.run.job.is_going_on", lambda out, token: False)
    with pytest.raises(StoreError, match="3 pairs not compared"):
        run(manifest, tmp_path / "out")


def test_maps_that_a_killed_worker_left_are_removed_and_others_stay(run: Run, tmp_path: Path) -> None:
    manifest, out = write_pairs(tmp_path / "masks", 2), tmp_path / "out"
    run(manifest, out)
    store = ResultStore(out)
    orphan = store.write_maps(store.load("p0000"), "p0000")["maps_group"]
    somebody_elses = store.write_maps(store.load("p0000"), "p0000 of somebody else")["maps_group"]
    (out / ".tmp-dead").mkdir()
    run(manifest, out)
    left = {path.name.removesuffix(".zarr.zip") for path in (out / "maps.zarr").glob("[!.]*.zarr.zip")}
    assert orphan not in left
    assert left == {*store.table().maps_group, somebody_elses}
    assert not (out / ".tmp-dead").exists()


# --- chunks, starts, progress, estimate ------------------------------------------------------


def test_pairs_that_share_a_mask_stay_together_and_in_order(tmp_path: Path) -> None:
    tasks = read_tasks(write_series(tmp_path, n_series=6, n_frames=20))
    chunks = chunks_of(tasks, 2, CONFIG)
    assert sorted(t.pair_id for chunk in chunks for t in chunk) == sorted(t.pair_id for t in tasks)
    assert max(map(len, chunks)) <= len(tasks) // 16
    neighbours = [pair for chunk in chunks for pair in pairwise(chunk)]
    assert sum(b.shares_mask_with(a) for a, b in neighbours) > 0.75 * len(tasks)
    numbered = [[(t.carried["series"], t.carried["frame"]) for t in pair] for pair in neighbours]
    assert all(a[1] < b[1] for a, b in numbered if a[0] == b[0])


def write_embryos(folder: Path, shape_hw: tuple[int, int], n_frames: int) -> Path:
    folder.mkdir(parents=True)
    for frame, mask in enumerate(growing_embryo(n_frames, shape_hw=shape_hw)):
        pf.write_mask(pf.Mask.from_array(mask), folder / f"t{frame:02d}.png")
    return folder


def test_a_chunk_holds_one_size_class_and_large_ones_come_first(tmp_path: Path) -> None:
    for number in range(3):
        write_embryos(tmp_path / f"small{number}", (32, 72), 9)
        write_embryos(tmp_path / f"large{number}", (64, 144), 9)
    (tmp_path / "broken0").mkdir()
    for frame in range(5):
        (tmp_path / f"broken0/t{frame}.png").write_text("no picture")
    tasks = read_tasks(tmp_path)
    chunks = chunks_of(tasks, 1, CONFIG)
    assert sorted(t.pair_id for chunk in chunks for t in chunk) == sorted(t.pair_id for t in tasks)
    kinds = [{Path(task.source.spec).parent.name[:-1] for task in chunk} for chunk in chunks]
    assert all(len(found) == 1 for found in kinds)
    assert list(dict.fromkeys(found.pop() for found in kinds)) == ["large", "small", "broken"]


def test_the_header_of_a_stack_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    labels = np.zeros((40, 16, 24), np.uint16)
    labels[:, 2:8, 2:8], labels[:, 9:14, 12:20] = 1, 2
    np.save(tmp_path / "stack.npy", labels)
    tasks = read_tasks(tmp_path / "stack.npy")
    assert len(tasks) == 78
    looked_at = []

    def look(path: str, **how: Any) -> tuple[int, int]:
        looked_at.append(path)
        return canvas_shape(path, **how)

    monkeypatch.setattr("pairframe.cohort.inputs.tasks.canvas_shape", look)
    assert sum(map(len, chunks_of(tasks, 1, CONFIG))) == 78
    assert len(looked_at) == 1
    assert Path(looked_at[0]).name.startswith("stack.npy")


def test_ctrl_c_while_masks_are_looked_at_ends_there(tmp_path: Path) -> None:
    tasks = read_tasks(write_series(tmp_path, n_series=2, n_frames=6))
    for config in (CONFIG, replace(CONFIG, crop_policy="bucketed", bucket_shapes=((64, 64),))):
        assert chunks_of(tasks, 1, config)
        assert cut_into_chunks(tasks, 1, config, MaskScan(is_stopping=lambda: True)) == Stopped()


def test_ctrl_c_while_a_resumed_run_looks_at_its_masks_ends_there_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    masks, out = write_pairs(tmp_path / "masks", 6), tmp_path / "out"
    run(masks, out)
    before = ResultStore(out).table()
    looked_at: list[str] = []

    def look(task: PairTask, *more: object) -> str:
        looked_at.append(task.pair_id)
        if len(looked_at) == 2:
            os.kill(os.getpid(), signal.SIGINT)  # handled by the main thread, at the latest when this result wakes it
        elif len(looked_at) > 2:
            time.sleep(1.0)  # long enough for the main thread to cancel the others, on a busy machine too
        return work_key(task, *more)

    with monkeypatch.context() as slowly:
        slowly.setattr("pairframe.cohort.run.plan.work_key", look)
        slowly.setattr("pairframe.cohort.run.plan._HASHING_THREADS", 1)
        with pytest.raises(KeyboardInterrupt):
            run(masks, out)
    assert 2 <= len(looked_at) < 6
    pd.testing.assert_frame_equal(ResultStore(out).table(), before)
    assert run(masks, out).skipped == 6


def test_a_long_scan_shows_its_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[CohortProgress] = []
    monkeypatch.setattr("pairframe.cohort.run.progress._SCAN_EVERY_S", 3600.0)
    assert list(MaskScan(told.append).over(iter("abc"), 3)) == ["a", "b", "c"]
    assert told == []  # it was quick
    monkeypatch.setattr("pairframe.cohort.run.progress._SCAN_EVERY_S", -1.0)
    assert list(MaskScan(told.append).over(iter("abc"), 3)) == ["a", "b", "c"]
    assert [progress.line() for progress in told] == [f"reading masks: {n} of 3" for n in (1, 2, 3)]


def test_no_memory_for_a_look_is_the_workers_business(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = read_tasks(write_series(tmp_path, n_series=1, n_frames=4))

    def too_large(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("pairframe.cohort.inputs.tasks.read_mask", too_large)
    config = replace(CONFIG, crop_policy="bucketed", bucket_shapes=((64, 64),))
    assert sum(map(len, chunks_of(tasks, 1, config))) == len(tasks)


def test_the_dry_run_looks_at_pairs_whose_frame_is_fixed_and_cuts_them(tmp_path: Path) -> None:
    fixed = {"crop_policy": "fixed", "override_pair_bbox": pf.BoxYX(5, 25, 5, 25), "allow_clipping": True}
    config = replace(CONFIG, downsample_factor=1, **fixed)
    found = estimate(write_series(tmp_path / "masks", n_series=1), tmp_path / "out", config)
    assert (found.looked_at, found.unreadable) == (2, 0)
    assert found.calibrated > 0


def test_bucketed_pairs_go_by_the_shape_they_are_solved_on(tmp_path: Path) -> None:
    for number in range(3):
        write_embryos(tmp_path / f"s{number}", (32, 72), 14)
    tasks = read_tasks(tmp_path)
    largest = np.max([work_shape(task, CONFIG) or (0, 0) for task in tasks], axis=0).tolist()
    small = work_shape(tasks[6], CONFIG)
    config = replace(CONFIG, crop_policy="bucketed", bucket_shapes=(small, tuple(largest)))
    chunks = chunks_of(tasks, 2, config)
    assert sorted(t.pair_id for chunk in chunks for t in chunk) == sorted(t.pair_id for t in tasks)
    cache = MaskCache()
    shapes = [[pf.compare(*cache.read(t, config), config).transform.work_shape_hw for t in chunk] for chunk in chunks]
    assert all(len(set(found)) == 1 for found in shapes)
    # One change of shape in all, though every series goes through both.
    assert [shape for shape, _ in groupby(found[0] for found in shapes)] == [tuple(largest), small]


def test_a_mask_is_read_once_unless_it_changes_between_two_pairs(tmp_path: Path) -> None:
    masks = write_series(tmp_path / "masks", n_series=1, n_frames=4)
    first, second, third = read_tasks(masks)
    cache = MaskCache()
    _, shared = cache.read(first, CONFIG)
    before, then_shared = cache.read(second, CONFIG)
    assert before is shared
    write_frame(masks / "s0/t2.png", 9)
    changed, _ = cache.read(third, CONFIG)
    assert changed.area_px == pf.read_mask(masks / "s0/t2.png").area_px != then_shared.area_px


def test_a_mask_is_read_again_if_it_is_to_be_a_density(tmp_path: Path) -> None:
    (task,) = read_tasks(write_pairs(tmp_path, 1))
    cache = MaskCache()
    for config, is_density in ((CONFIG, False), (replace(CONFIG, mass_mode="intensity"), True), (CONFIG, False)):
        for ref, mask in zip((task.source, task.target), cache.read(task, config), strict=True):
            expected = pf.read_mask(ref.spec, density=is_density)
            assert mask.values.dtype == expected.values.dtype
            np.testing.assert_array_equal(mask.values, expected.values)


@pytest.mark.parametrize(("penalty", "nothing"), [("kl", 0.0), ("partial", 1e-9)])  # discs of one size: none is created
@pytest.mark.parametrize("backend", ["grid", "oracle"])
def test_answers_do_not_depend_on_who_shares_a_worker(
    tmp_path: Path, backend: str, penalty: str, nothing: float
) -> None:
    config = replace(CONFIG, backend=backend, penalty=penalty, tol=1e-11, downsample_factor=2)
    tasks = tuple(read_tasks(write_series(tmp_path / "masks", n_series=1, n_frames=4)))
    with RunMark(tmp_path) as mark:
        job = Job(config, tmp_path, mark.token)
        together = list(job.compare_chunk(tasks, MaskCache()))
        alone = [event for task in tasks for event in job.compare_chunk((task,), MaskCache())]
    for one, other in zip((event.row for event in together), (event.row for event in alone), strict=True):
        for name in ("total_mass_moved", "total_mass_created", "objective", "divergence", "mean_displacement_um"):
            assert one[name] == pytest.approx(other[name], rel=1e-7, abs=nothing)


@pytest.mark.parametrize(
    ("backend", "pairing", "penalty", "is_carried"),
    [
        ("grid", "consecutive", "kl", True),  # the source was the target of the pair before
        ("grid", "consecutive", "partial", False),  # what was pinned there is pinned elsewhere here
        ("grid", "reference", "kl", False),  # the same source: coarser grids are the better start
        ("oracle", "consecutive", "partial", True),
        ("oracle", "reference", "partial", True),
    ],
)
def test_a_pair_starts_from_the_one_before_it_where_that_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str, pairing: str, penalty: str, is_carried: bool
) -> None:
    starts: list[pf.TransportResult | None] = []
    results: list[pf.TransportResult] = []

    def compare(*masks: Any, init: pf.TransportResult | None = None) -> pf.TransportResult:
        starts.append(init)
        results.append(pf.compare(*masks, init=init))
        return results[-1]

    monkeypatch.setattr("pairframe.cohort.run.job.compare", compare)
    tasks = read_tasks(write_series(tmp_path / "masks", n_series=2, n_frames=3), pairing)
    with RunMark(tmp_path) as mark:
        job = Job(replace(CONFIG, backend=backend, penalty=penalty, downsample_factor=2), tmp_path, mark.token)
        rows = [event.row for event in job.compare_chunk(tuple(tasks), MaskCache())]
    assert [row["status"] for row in rows] == ["converged"] * 4
    assert starts[0] is None
    assert starts[2] is None, "another series: no mask is shared"
    for number in (1, 3):
        start = starts[number]
        assert (start is not None) == is_carried
        assert start is None or start.work is results[number - 1].work


def test_progress_is_told_in_lines_that_a_log_can_hold(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import sys

    seen: list[CohortProgress] = []
    run(write_pairs(tmp_path / "masks", 3, bad=[1]), tmp_path / "out", progress=seen.append)
    assert (seen[-1].done, seen[-1].failed, seen[-1].total) == (2, 1, 3)
    lines = PlainLines(sys.stderr)
    for done in range(100):
        lines(CohortProgress("solving", done, 1, 5, 200, 10.0))
    lines(CohortProgress("stopping", 100, 1, 5, 200, 10.0))
    first, last = capsys.readouterr().err.splitlines()
    assert first == "6 of 200 pairs, 1 failed, 5 skipped, 0.1 pairs/s, 32 min 20 s left"
    assert last.endswith("finishing the running pairs; Ctrl-C again ends at once")
    assert [duration(s) for s in (14.2, 200, 7500)] == ["14 s", "3 min 20 s", "2 h 05 min"]


def test_an_estimate_touches_nothing(run: Run, tmp_path: Path) -> None:
    manifest, out = write_pairs(tmp_path / "masks", 5, bad=[1]), tmp_path / "out"
    before = sorted(tmp_path.rglob("*"))
    found = estimate(manifest, out, CONFIG, jobs=2)
    assert sorted(tmp_path.rglob("*")) == before
    assert (found.pairs, found.todo, found.looked_at, found.unreadable) == (5, 5, 5, 1)
    assert sum(count for _, count in found.buckets) == 4
    assert found.seconds is not None
    assert found.seconds_per_pair is not None
    assert found.seconds == pytest.approx(found.seconds_per_pair * 5 / 2)
    assert found.memory_bytes is not None
    assert 1e7 < found.memory_bytes < 1e11
    run(manifest, out)
    groups = sum(path.stat().st_size for path in (out / "maps.zarr").rglob("*") if path.is_file())
    assert found.disk_bytes == pytest.approx(groups, rel=0.5)
    again = estimate(manifest, out, CONFIG)
    assert (again.todo, again.seconds, again.buckets) == (0, None, ())


def test_the_disk_of_an_estimate_counts_small_and_large_pairs(run: Run, tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    rows = []
    (tmp_path / "masks").mkdir()
    for name, shape in (("small", (24, 30)), ("large", (300, 400))):
        for side in "ab":
            mask = rng.random(shape) < 0.3
            pf.write_mask(pf.Mask.from_array(mask), tmp_path / f"masks/{name}_{side}.png")
        rows.append({"pair_id": name, "source": f"{name}_a.png", "target": f"{name}_b.png"})
    manifest, config = write_table(tmp_path / "masks/m.csv", rows), replace(CONFIG, downsample_factor=4)
    found = estimate(manifest, tmp_path / "out", config)
    run(manifest, tmp_path / "out", config)
    sizes = {
        name: (tmp_path / f"out/maps.zarr/{group}.zarr.zip").stat().st_size
        for name, group in ResultStore(tmp_path / "out").table()[["pair_id", "maps_group"]].itertuples(index=False)
    }
    assert sizes["large"] > 3 * sizes["small"]
    assert found.calibrated == 2
    assert found.disk_bytes == pytest.approx(sum(sizes.values()), rel=0.05)
    assert found.files == len(sizes)


def test_an_engine_that_is_broken_today_is_tried_again_tomorrow(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    masks, out = write_series(tmp_path / "masks", n_series=1), tmp_path / "out"

    def fail(*_: object, **__: object) -> None:
        raise EngineError("the engine to load", "no libcuda", "install it")

    with monkeypatch.context() as patch:
        patch.setattr("pairframe.cohort.run.job.compare", fail)
        assert counts(run(masks, out)) == (0, 2, 0)
    assert counts(run(masks, out)) == (2, 0, 0)


def test_missing_masks_are_never_taken_for_each_other(tmp_path: Path) -> None:
    gone = [MaskRef(str(tmp_path / name), name) for name in ("x.png", "y.png")]
    assert [MaskCache()._key(mask, False) for mask in gone] == [None, None]


def test_the_first_frame_of_a_new_series_changes_no_names(run: Run, tmp_path: Path) -> None:
    masks, out = write_series(tmp_path / "masks", n_series=2), tmp_path / "out"
    assert counts(run(masks, out)) == (4, 0, 0)
    (masks / "s9").mkdir()
    write_frame(masks / "s9/first.png", 6)
    assert counts(run(masks, out)) == (0, 0, 4)

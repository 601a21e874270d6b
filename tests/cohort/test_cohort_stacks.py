"""Stacks of labels: an id is a series, or all labels are one mask, and time is the axis T."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tifffile
from helpers.cohort_cases import InProcessExecutor
from typer.testing import CliRunner

from pairframe.cli.app import app
from pairframe.cohort import read_tasks, run_cohort
from pairframe.errors import ManifestError
from pairframe.results import ResultStore
from pairframe.testing import disc

SHAPE = (40, 60)
CENTRES = [(10 + 18 * i, 8 + 15 * j) for i in range(2) for j in range(4)]


def page(shift_px: int, order: list[int] | None = None) -> np.ndarray:
    """Eight cells, shifted, with ids 1 to 8 in a given order."""
    labels = np.zeros(SHAPE, np.uint16)
    for label, (y, x) in zip(order or range(1, 9), CENTRES, strict=True):
        labels[disc(SHAPE, (y, x + shift_px), 4)] = label
    return labels


def write(path: Path, pages: np.ndarray, axes: str | None = None) -> Path:
    options = {} if axes is None else {"imagej": True, "metadata": {"axes": axes}}
    tifffile.imwrite(path, pages, photometric="minisblack", **options)
    return path


TRACKS = np.stack([page(k) for k in range(3)])


def test_an_id_is_a_series_or_all_labels_are_one_mask(tmp_path: Path) -> None:
    stack = write(tmp_path / "labels.tif", TRACKS)
    each = read_tasks(stack)
    assert (len(each), each[0].pair_id, each[0].source.named) == (16, "1_0-1", "labels.tif@0:1")
    whole = read_tasks(f"{stack}:all")
    assert [task.pair_id for task in whole] == ["labels_0-1", "labels_1-2"]
    assert [task.target.named for task in whole] == ["labels.tif@1:all", "labels.tif@2:all"]
    assert [task.pair_id for task in read_tasks(f"{stack}:3")] == ["3_0-1", "3_1-2"]


def test_arrays_within_archives_are_stacks_too(tmp_path: Path) -> None:
    np.savez(tmp_path / "cells.npz", labels=TRACKS, images=TRACKS)
    assert len(read_tasks(tmp_path / "cells.npz" / "labels")) == 16
    (first, _) = read_tasks(f"{tmp_path}/cells.npz/labels:all")
    assert first.source.spec.endswith("cells.npz/labels@0:all")


def test_ids_that_are_numbered_anew_are_no_tracks(tmp_path: Path) -> None:
    orders = [[1, 2, 3, 4, 5, 6, 7, 8], [8, 1, 2, 3, 4, 5, 6, 7], [4, 3, 2, 1, 8, 7, 6, 5]]
    stack = write(tmp_path / "labels.tif", np.stack([page(k, order) for k, order in enumerate(orders)]))
    assert {notice.code for task in read_tasks(stack) for notice in task.notices} == {"labels_not_tracks"}
    assert not any(task.notices for task in read_tasks(f"{stack}:all"))
    assert not any(task.notices for task in read_tasks(write(tmp_path / "tracks.tif", TRACKS)))


def test_ids_that_never_come_back_are_refused_with_the_way_out(tmp_path: Path) -> None:
    stack = write(tmp_path / "labels.tif", np.stack([page(0), page(0, list(range(11, 19)))]))
    with pytest.raises(ManifestError, match=r"more than one page.*16 ids on 2 pages.*labels\.tif:all"):
        read_tasks(stack)


@pytest.mark.parametrize(("axes", "codes"), [("ZYX", {"pages_not_time"}), ("CYX", {"pages_not_time"}), ("TYX", set())])
def test_pages_that_are_not_time_are_noticed(tmp_path: Path, axes: str, codes: set[str]) -> None:
    stack = write(tmp_path / "stack.tif", TRACKS, axes)
    assert {notice.code for task in read_tasks(stack) for notice in task.notices} == codes
    assert not any(task.notices for task in read_tasks(stack, axes="TYX"))


@pytest.mark.parametrize("said", [None, "TZYX"])
def test_slices_are_series_and_time_is_time(tmp_path: Path, said: str | None) -> None:
    pages = np.stack([TRACKS[:2], np.roll(TRACKS[:2], 9, axis=-2)], axis=1)  # t, z
    stack = write(tmp_path / "stack.tif", pages, "TZYX") if said is None else tmp_path / "stack.npy"
    if said is not None:
        np.save(stack, pages)
    tasks = read_tasks(f"{stack}:all", axes=said, volume=False)
    assert [(task.pair_id, task.source.named[-6:], task.target.named[-6:]) for task in tasks] == [
        ("z0_0-1", "@0:all", "@2:all"),
        ("z1_0-1", "@1:all", "@3:all"),
    ]
    assert {task.pair_id for task in read_tasks(stack, axes=said, volume=False)} >= {"z0_1_0-1", "z1_8_0-1"}


@pytest.mark.parametrize(
    ("axes", "what"),
    [
        ("YXT", r"end with YX.*moveaxis"),
        ("ZYX", "an axis T"),
        ("TZYX", r"3 axes for .*whose shape is \(3, 40, 60\), got 4"),
        ("TTX", "different letters"),
        ("T-X", "different letters"),
    ],
)
def test_wrong_axes_are_refused(tmp_path: Path, axes: str, what: str) -> None:
    stack = write(tmp_path / "stack.tif", TRACKS)
    with pytest.raises(ManifestError, match=what) as caught:
        read_tasks(stack, axes=axes)
    assert caught.value.field == "axes"
    done = CliRunner().invoke(app, ["run", str(stack), "--out", str(tmp_path / "out"), "--axes", axes])
    assert done.exit_code == 2
    assert not (tmp_path / "out").exists()


def test_axes_belong_to_a_stack_and_a_page_is_none(tmp_path: Path) -> None:
    stack = write(tmp_path / "stack.tif", TRACKS)
    with pytest.raises(ManifestError, match="axes with a stack of labels"):
        read_tasks(tmp_path, axes="TYX")
    with pytest.raises(ManifestError, match="a whole stack"):
        read_tasks(f"{stack}@1:all")


def test_remarks_about_a_stack_are_in_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pairframe.cohort.run.runner.LocalExecutor", InProcessExecutor)
    orders = [[1, 2, 3, 4, 5, 6, 7, 8], [8, 1, 2, 3, 4, 5, 6, 7]]
    stack = write(tmp_path / "labels.tif", np.stack([page(0, order) for order in orders]))
    run_cohort(f"{stack}", tmp_path / "out")
    assert all("labels_not_tracks" in codes for codes in ResultStore(tmp_path / "out").table().warnings)

"""Stacks of volumes: time points are masks, and pages that may be planes or images need a word."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tifffile
from helpers.cohort_cases import InProcessExecutor
from typer.testing import CliRunner

from pairframe import TransportConfig
from pairframe.cli.app import app
from pairframe.cohort import read_tasks, run_cohort
from pairframe.cohort.run.estimate import estimate
from pairframe.errors import ManifestError
from pairframe.results import ResultStore
from pairframe.testing import ball

VOXEL_UM = (2.0, 1.0, 1.0)
SHAPE = (12, 26, 30)
SERIES = np.stack([ball(SHAPE, (5 + k, 12, 13 + k), 8.0, VOXEL_UM) for k in range(3)]).astype(np.uint8)  # t, z, y, x
SIZES = {"PhysicalSizeZ": 2.0, "PhysicalSizeY": 1.0, "PhysicalSizeX": 1.0}


def ome_tiff(path: Path, values: np.ndarray, axes: str) -> Path:
    tifffile.imwrite(path, values, ome=True, photometric="minisblack", metadata={"axes": axes, **SIZES})
    return path


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pairframe.cohort.run.runner.LocalExecutor", InProcessExecutor)


@pytest.mark.parametrize("kind", ["metadata", "said", "plain array"])
@pytest.mark.usefixtures("in_process")
def test_time_points_of_volumes_are_masks(tmp_path: Path, kind: str) -> None:
    config = TransportConfig()
    if kind == "metadata":
        stack = ome_tiff(tmp_path / "cell.ome.tif", SERIES, "TZYX")
    else:
        stack = tmp_path / "cell.npy"
        np.save(stack, SERIES)
        config = TransportConfig(px_size_um=VOXEL_UM)
    axes = "TZYX" if kind == "said" else None
    tasks = read_tasks(f"{stack}:all", axes=axes, volume=config.volume)
    assert [task.source.named for task in tasks] == [f"{stack.name}@0:all", f"{stack.name}@1:all"]
    done = run_cohort(f"{stack}:all", tmp_path / "out", config, axes=axes)
    assert (done.done, done.failed) == (2, 0)
    table = ResultStore(tmp_path / "out").table()
    np.testing.assert_allclose(table["mean_displacement_dz_um"], 2.0, atol=1e-3)
    np.testing.assert_allclose(table["mean_displacement_dx_um"], 1.0, atol=1e-3)
    assert run_cohort(f"{stack}:all", tmp_path / "out", config, axes=axes).skipped == 2


def test_an_id_of_a_series_of_volumes_is_a_series(tmp_path: Path) -> None:
    stack = ome_tiff(tmp_path / "cells.ome.tif", np.maximum(SERIES, 7 * np.roll(SERIES, 14, axis=-1)), "TZYX")
    assert [task.pair_id for task in read_tasks(stack)] == ["1_0-1", "1_1-2", "7_0-1", "7_1-2"]
    assert read_tasks(f"{stack}:7")[0].source.read().volume_um3 == pytest.approx(2.0 * SERIES[0].sum())
    slices = read_tasks(f"{stack}:all", volume=False)
    assert {task.pair_id for task in slices} >= {"z4_0-1", "z4_1-2"}
    assert slices[0].source.read(config=TransportConfig(volume=False)).values.ndim == 2


@pytest.mark.parametrize("said", [None, "TZYX"])
def test_a_stack_that_may_be_either_names_both_choices(tmp_path: Path, said: str | None) -> None:
    if said is None:
        stack = tmp_path / "stack.tif"
        tifffile.imwrite(stack, SERIES, imagej=True, metadata={"axes": "TZYX"})
    else:
        stack = tmp_path / "stack.npy"
        np.save(stack, SERIES)
    with pytest.raises(ManifestError, match=r"planes of a volume, or images.*--volume .*--no-volume"):
        read_tasks(stack, axes=said)
    assert len(read_tasks(f"{stack}:all", axes=said, volume=True)) == 2
    assert len(read_tasks(f"{stack}:all", axes=said, volume=False)) == 2 * 12
    if said is not None:
        with pytest.raises(ManifestError, match=r"name the axes too"):
            read_tasks(stack)


def test_one_volume_alone_is_no_series(tmp_path: Path) -> None:
    stack = ome_tiff(tmp_path / "v.ome.tif", SERIES[0], "ZYX")
    with pytest.raises(ManifestError, match=r"two masks.*one volume of 12 x 26 x 30.*compare A B.*--no-volume"):
        read_tasks(stack)
    done = CliRunner().invoke(app, ["run", str(stack), "--out", str(tmp_path / "out")])
    assert done.exit_code == 2
    assert not (tmp_path / "out").exists()
    assert len(read_tasks(f"{stack}:all", volume=False)) == 11
    assert len(read_tasks(f"{stack}:all", axes="TYX")) == 11


@pytest.mark.parametrize("said", [None, "TYX"])
def test_time_points_are_no_planes(tmp_path: Path, said: str | None) -> None:
    stack = ome_tiff(tmp_path / "t.ome.tif", SERIES[0], "TYX" if said is None else "ZYX")
    with pytest.raises(ManifestError, match=r"12 time points.*leave out --volume"):
        read_tasks(stack, axes=said, volume=True)


def test_a_run_of_volumes_is_estimated(tmp_path: Path) -> None:
    stack = ome_tiff(tmp_path / "cell.ome.tif", SERIES, "TZYX")
    found = estimate(f"{stack}:all", tmp_path / "out")
    assert (found.pairs, found.unreadable, found.buckets) == (2, 0, ())
    assert found.calibrated > 0


def test_nifti_files_are_found_as_a_series_a_folder_and_a_pattern(tmp_path: Path) -> None:
    nibabel = pytest.importorskip("nibabel")

    def save(values: np.ndarray, name: str) -> None:  # (t, z, y, x) to (x, y, z, t)
        image = nibabel.Nifti1Image(values.T, np.diag([1.0, 1.0, 2.0, 1.0]))
        image.header.set_xyzt_units("micron", "sec")
        nibabel.save(image, tmp_path / name)

    save(SERIES, "series.nii.gz")
    assert [task.pair_id for task in read_tasks(f"{tmp_path}/series.nii.gz:all")] == ["series_0-1", "series_1-2"]
    (tmp_path / "series.nii.gz").unlink()
    for k in range(2):
        save(SERIES[k], f"scan_{k}.nii.gz")
    (pair,) = read_tasks(tmp_path)
    assert (pair.source.named, pair.target.named) == ("scan_0.nii.gz", "scan_1.nii.gz")
    assert len(read_tasks(f"{tmp_path}/*.nii.gz")) == 1
    assert pair.target.read().px_size_um == pytest.approx(VOXEL_UM)
    (tmp_path / "pairs.csv").write_text("source,target\nscan_0.nii.gz,scan_1.nii.gz\n")
    assert read_tasks(tmp_path / "pairs.csv")[0].pair_id == "scan_0-scan_1"

"""Stacks for ImageJ and tables for everyone."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
import tifffile
from helpers.results_equal import small_result, unsolved_result

import pairframe as pf
from pairframe.errors import FileError, PixelSizeError, StoreWriteError
from pairframe.results.export import CHANNELS

RESULT = small_result(px_size_um=0.65, downsample_factor=2)


def test_the_stack_opens_calibrated_with_named_channels(tmp_path: Path) -> None:
    RESULT.save_tif(tmp_path / "maps.tif")
    with tifffile.TiffFile(tmp_path / "maps.tif") as file:
        assert file.is_imagej
        about = file.imagej_metadata
        assert about is not None
        assert (about["channels"], about["unit"]) == (7, "micron")
        assert about["Labels"] == list(CHANNELS)
        assert file.series[0].axes == "CYX"
        tags = file.pages.first.tags
        for name in ("XResolution", "YResolution"):
            pixels, per = tags[name].value
            assert per / pixels == pytest.approx(0.65, rel=1e-6)
        assert tags["ResolutionUnit"].value == 1  # ImageJ takes the unit from its own metadata
        stack = file.asarray()
    assert stack.dtype == np.float32
    created, destroyed, dy, dx, speed = stack[2:]
    np.testing.assert_array_equal(created, RESULT.mass_created.astype(np.float32))
    np.testing.assert_array_equal(destroyed, RESULT.mass_destroyed.astype(np.float32))
    np.testing.assert_array_equal(np.isnan(dy), ~RESULT.velocity_valid)
    np.testing.assert_allclose(speed, np.hypot(dy, dx), rtol=1e-6)
    assert stack[0].sum() == pytest.approx(RESULT.M_source, rel=1e-6)
    assert stack[1].sum() == pytest.approx(RESULT.M_target, rel=1e-6)


def test_a_stack_in_pixels_gets_no_micrometres(tmp_path: Path) -> None:
    unsolved_result().save_tif(tmp_path / "maps.tif")
    with tifffile.TiffFile(tmp_path / "maps.tif") as file:
        assert file.imagej_metadata is not None
        assert file.imagej_metadata["unit"] == "pixel"
        ranges = file.imagej_metadata["Ranges"]
    assert len(ranges) == 14
    assert np.isfinite(ranges).all()


def test_our_own_reader_finds_the_pixel_size(tmp_path: Path) -> None:
    RESULT.save_tif(tmp_path / "maps.tif")
    page = pf.read_mask(f"{tmp_path / 'maps.tif'}@2", density=True)
    assert page.px_size_um == pytest.approx(0.65, rel=1e-6)
    assert page.values.sum() == pytest.approx(RESULT.total_mass_created, rel=1e-6)


def test_the_csv_has_a_line_per_work_pixel_with_mass_and_all_digits(tmp_path: Path) -> None:
    RESULT.save_csv(tmp_path / "maps.csv")
    with (tmp_path / "maps.csv").open(newline="") as stream:
        lines = list(csv.DictReader(stream))
    work = RESULT.work
    assert len(lines) == np.count_nonzero(work.mass_source + work.mass_target)
    for line in lines:
        at = int(line["work_y"]), int(line["work_x"])
        assert float(line["mass_created"]) == work.mass_created[at]
        assert (line["dy_um_per_frame"] == "") == (not work.velocity_valid[at])
        if line["dy_um_per_frame"]:
            assert float(line["dx_um_per_frame"]) == work.velocity_px[at][1] * 1.3
    total = sum(float(line["cost_source_um2"]) for line in lines)
    assert total == pytest.approx(RESULT.total_transport_cost_um2)
    crop = RESULT.transform.pair_crop_box_yx
    first = lines[0]
    assert float(first["y_um"]) == pytest.approx((crop.y0 + 2 * int(first["work_y"]) + 1) * 0.65)


def test_the_scalars_lie_beside_with_unit_and_meaning(tmp_path: Path) -> None:
    RESULT.save_csv(tmp_path / "maps.csv")
    with (tmp_path / "maps_scalars.csv").open(newline="") as stream:
        scalars = {line["name"]: line for line in csv.DictReader(stream)}
    assert float(scalars["divergence"]["value"]) == RESULT.divergence
    assert scalars["area_source_um2"]["unit"] == "um^2"
    assert scalars["status"]["value"] == "converged"
    assert pf.TransportConfig.from_json(scalars["config_json"]["value"]) == RESULT.config


def test_exports_replace_nothing_unless_told_and_leave_nothing_behind(tmp_path: Path) -> None:
    for save, name in ((RESULT.save_tif, "maps.tif"), (RESULT.save_csv, "maps.csv")):
        save(tmp_path / name)
        with pytest.raises(FileError, match="overwrite=True"):
            save(tmp_path / name)
        save(tmp_path / name, overwrite=True)
        with pytest.raises(FileError, match="ends in"):
            save(tmp_path / "maps.xls")
        with pytest.raises(StoreWriteError, match=r"nowhere', which does not exist\. To fix: create the folder first"):
            save(tmp_path / "nowhere" / name)
        with pytest.raises(StoreWriteError, match="which is a file"):
            save(tmp_path / name / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["maps.csv", "maps.tif", "maps_scalars.csv"]


def test_a_pixel_size_that_imagej_cannot_hold_is_said(tmp_path: Path) -> None:
    with pytest.raises(PixelSizeError, match="ImageJ"):
        pf.compare(np.zeros((3, 3)), np.eye(3), pf.TransportConfig(px_size_um=1e-12)).save_tif(tmp_path / "maps.tif")

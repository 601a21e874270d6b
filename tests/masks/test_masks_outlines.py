"""Outlines as masks: ImageJ regions and GeoJSON polygons, filled as their programs fill them."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.path import Path as MplPath

import pairframe as pf
from pairframe.cohort import read_tasks
from pairframe.errors import FileError, MaskError
from pairframe.masks import canvas_shape, read_labels
from pairframe.masks.polygons import fill_rings

SHAPE = (24, 40)
SQUARE = [[3, 5], [13, 5], [13, 15], [3, 15], [3, 5]]
HOLE = [[6, 8], [9, 8], [9, 11], [6, 11]]
FAR = [[20, 2], [30, 2], [30, 9]]


def feature(*rings: Any, name: str = "", group: str = "", kind: str = "Polygon") -> dict[str, Any]:
    about = {"objectType": "annotation", "name": name, "classification": {"name": group, "color": [1, 2, 3]}}
    return {"type": "Feature", "geometry": {"type": kind, "coordinates": list(rings)}, "properties": about}


def write_geojson(path: Path, *features: Any) -> Path:
    path.write_text(json.dumps({"type": "FeatureCollection", "features": list(features)}))
    return path


def box(rows: slice, columns: slice) -> np.ndarray:
    mask = np.zeros(SHAPE, bool)
    mask[rows, columns] = True
    return mask


def test_filling_agrees_with_matplotlib() -> None:
    rng = np.random.default_rng(1)
    centres = np.stack(np.meshgrid(np.arange(40) + 0.5, np.arange(24) + 0.5), axis=-1).reshape(-1, 2)
    for corners in (3, 5, 12, 40):  # from 5 corners on, edges cross each other
        ring = rng.uniform((-3, -3), (43, 27), size=(corners, 2))
        expected = MplPath(np.concatenate([ring, ring[:1]]), closed=True).contains_points(centres).reshape(SHAPE)
        np.testing.assert_array_equal(fill_rings([ring], SHAPE), expected)


def test_corners_on_pixel_corners_give_exactly_the_pixels_between() -> None:
    np.testing.assert_array_equal(fill_rings([np.array(SQUARE, float)], SHAPE), box(slice(5, 15), slice(3, 13)))


def test_geojson_with_a_hole_and_names(tmp_path: Path) -> None:
    path = write_geojson(
        tmp_path / "a.geojson", feature(SQUARE, HOLE, name="one", group="body"), feature(FAR, group="yolk")
    )
    body = box(slice(5, 15), slice(3, 13)) & ~box(slice(8, 11), slice(6, 9))
    np.testing.assert_array_equal(pf.read_mask(f"{path}/one", shape_hw=SHAPE).values, body)
    np.testing.assert_array_equal(pf.read_mask(f"{path}/body", shape_hw=SHAPE).values, body)
    yolk = pf.read_mask(f"{path}/yolk", shape_hw=SHAPE).values
    assert 30 <= yolk.sum() <= 40  # half of 10 x 7
    np.testing.assert_array_equal(pf.read_mask(path, shape_hw=SHAPE).values, body | yolk)
    np.testing.assert_array_equal(pf.read_mask(f"{path}:2", shape_hw=SHAPE).values, yolk)
    with pytest.raises(FileError, match=r"named 'eye', got 2 outlines .* 'one', 'body'"):
        pf.read_mask(f"{path}/eye", shape_hw=SHAPE)


def test_a_list_a_feature_a_geometry_and_several_parts(tmp_path: Path) -> None:
    expected = box(slice(5, 15), slice(3, 13))
    one = feature(SQUARE)
    (tmp_path / "image.tif").write_bytes(b"")
    for content in ([one], one, one["geometry"]):
        (tmp_path / "a.geojson").write_text(json.dumps(content))
        np.testing.assert_array_equal(pf.read_mask(tmp_path / "a.geojson", shape_hw=SHAPE).values, expected)
    path = write_geojson(tmp_path / "m.geojson", feature([SQUARE], [FAR], kind="MultiPolygon"))
    assert pf.read_mask(path, shape_hw=SHAPE).area_px > 100


def test_the_size_is_stated_or_found_beside(tmp_path: Path) -> None:
    path = write_geojson(tmp_path / "a.geojson", feature(SQUARE), feature(FAR))
    with pytest.raises(FileError, match=r"neither a stated size nor an image a\.tif beside 'a\.geojson'"):
        pf.read_mask(path)
    pf.write_mask(pf.Mask.from_array(np.zeros(SHAPE), px_size_um=0.5), tmp_path / "a.tif")
    mask = pf.read_mask(path)
    assert (mask.shape_hw, mask.px_size_um) == (SHAPE, 0.5)
    assert canvas_shape(path) == SHAPE
    labels, _ = read_labels(path)
    assert sorted(np.unique(labels)) == [0, 1, 2]
    with pytest.raises(FileError, match="shape_hw with outlines only"):
        pf.read_mask(tmp_path / "a.tif", shape_hw=SHAPE)


@pytest.mark.parametrize("shape", [(12, 40), (24, 12), (40, 24)])
def test_outlines_outside_of_their_image_are_refused(tmp_path: Path, shape: tuple[int, int]) -> None:
    path = write_geojson(tmp_path / "a.geojson", feature(SQUARE), feature(FAR))
    with pytest.raises(
        MaskError, match=r"inside their image of .* got outline [12] of 'a\.geojson', from x = .*height before"
    ):
        pf.read_mask(path, shape_hw=shape)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "a complete GeoJSON file"),
        ("3", "a complete GeoJSON file"),
        ("[3]", "holds no features"),
        ("[" * 100_000, "a complete GeoJSON file"),
        ('{"features": []}', "at least one outline, got 0 outlines"),
        (json.dumps(feature([3, 4], kind="Point")), "Polygon or MultiPolygon, got 'Point'"),
        (json.dumps(feature([[1, 2], [3, 4]])), "at least three corners"),
        (json.dumps(feature([[1, 2], [3, 4], [5]])), "a complete GeoJSON file"),
        (json.dumps(feature([[1, 2], [3, 4], ["a", 3]])), "a complete GeoJSON file"),
        (json.dumps(feature([[1, 2], [3, 4], [float("nan"), 3]])), "at least three corners"),
        (json.dumps(feature()), "one without corners"),
        (json.dumps(feature([[1, 2], [3, 4], [1e308, 3]])), "inside their image"),
    ],
)
def test_broken_geojson_is_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "a.geojson").write_text(content)
    with pytest.raises((FileError, MaskError), match=message):
        pf.read_mask(tmp_path / "a.geojson", shape_hw=SHAPE)


def test_a_canvas_that_is_too_large_is_refused(tmp_path: Path) -> None:
    path = write_geojson(tmp_path / "a.geojson", feature(SQUARE))
    with pytest.raises(FileError, match="at most 268435456 pixels"):
        pf.read_mask(path, shape_hw=(10**5, 10**4))


def test_outlines_that_cross_too_many_rows_are_refused() -> None:
    zigzag = np.stack([np.arange(30_000) % 7, (np.arange(30_000) % 2) * 1000.0], axis=1)
    with pytest.raises(FileError, match="cross at most"):
        fill_rings([zigzag], (1000, 10))


def test_a_table_states_the_size_of_outlines(tmp_path: Path) -> None:
    for frame in range(2):
        write_geojson(tmp_path / f"{frame}.geojson", feature(SQUARE))
    (tmp_path / "t.csv").write_text("path,frame,height_px,width_px\n0.geojson,0,24,40\n1.geojson,1,24,40\n")
    (task,) = read_tasks(tmp_path / "t.csv")
    assert task.source.read().shape_hw == SHAPE
    assert "height_px" not in task.carried
    by_pattern = read_tasks(f"{tmp_path}/*.geojson")
    assert [one.pair_id.rpartition("_")[2] for one in by_pattern] == ["0-1"]


# --- ImageJ ----------------------------------------------------------------------------------


def test_regions_of_imagej(tmp_path: Path) -> None:
    roifile = pytest.importorskip("roifile")
    square = roifile.ImagejRoi.frompoints(np.array(SQUARE[:4]), name="body")
    square.tofile(tmp_path / "a.roi")
    expected = box(slice(5, 15), slice(3, 13))
    np.testing.assert_array_equal(pf.read_mask(tmp_path / "a.roi", shape_hw=SHAPE).values, expected)
    rectangle, oval = (
        roifile.ImagejRoi(roitype=kind, top=4, left=20, bottom=14, right=36, name=kind.name)
        for kind in (roifile.ROI_TYPE.RECT, roifile.ROI_TYPE.OVAL)
    )
    with zipfile.ZipFile(tmp_path / "set.zip", "w") as archive:
        for k, roi in enumerate((square, rectangle, oval)):
            archive.writestr(f"{k:04d}.roi", roi.tobytes())
    inside = box(slice(4, 14), slice(20, 36))
    np.testing.assert_array_equal(pf.read_mask(f"{tmp_path}/set.zip/RECT", shape_hw=SHAPE).values, inside)
    round_one = pf.read_mask(f"{tmp_path}/set.zip/OVAL", shape_hw=SHAPE).values
    assert round_one.sum() == pytest.approx(np.pi * 5 * 8, rel=0.03)
    assert not (round_one & ~inside).any()
    np.testing.assert_array_equal(pf.read_mask(f"{tmp_path}/set.zip:all", shape_hw=SHAPE).values, expected | inside)
    line = roifile.ImagejRoi(roitype=roifile.ROI_TYPE.LINE)
    line.tofile(tmp_path / "line.roi")
    with pytest.raises(MaskError, match=r"outlines with an area.*got line in 'line\.roi'"):
        pf.read_mask(tmp_path / "line.roi", shape_hw=SHAPE)


def test_every_truncated_region_is_an_error_or_a_mask(tmp_path: Path) -> None:
    roifile = pytest.importorskip("roifile")
    content = roifile.ImagejRoi.frompoints(np.array(SQUARE[:4])).tobytes()
    for end in range(0, len(content), 3):
        (tmp_path / "a.roi").write_bytes(content[:end])
        try:
            mask = pf.read_mask(tmp_path / "a.roi", shape_hw=SHAPE)
        except (FileError, MaskError):
            continue
        assert mask.shape_hw == SHAPE


def test_regions_name_the_extra_that_they_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.roi").write_bytes(b"Iout" + bytes(100))
    monkeypatch.setattr("pairframe.checks.find_spec", lambda name: None)
    with pytest.raises(pf.PairframeError, match=r"roifile to be installed.*pip install 'pairframe\[roi\]'"):
        pf.read_mask(tmp_path / "a.roi", shape_hw=SHAPE)


def test_an_archive_that_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pairframe.masks.readers.outlines.MOST_BYTES", 5000)
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.roi", b"Iout" + bytes(100_000))
    with pytest.raises(FileError, match="at most 5000 bytes"):
        pf.read_mask(tmp_path / "a.zip", shape_hw=SHAPE)

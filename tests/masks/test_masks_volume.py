"""Volumes in files: a stack is one only if the user or the metadata say so, and no side of a voxel may be missing."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import numpy as np
import pytest
import tifffile
import zarr

import pairframe as pf
from pairframe import errors
from pairframe.masks import read_mask, write_mask

LABELS = np.zeros((4, 10, 12), np.uint16)
LABELS[1:3, 2:7, 3:9] = 3
LABELS[3, 8, 8:11] = 7
SIZES = {"PhysicalSizeZ": 2.5, "PhysicalSizeY": 1.0, "PhysicalSizeX": 1.25}


def ome_tiff(path: Path, values: np.ndarray, axes: str = "ZYX", **sizes: float) -> Path:
    tifffile.imwrite(path, values, ome=True, photometric="minisblack", metadata={"axes": axes, **sizes})
    return path


def ome_zarr(path: Path, values: np.ndarray, scale: list[float], names: str = "zyx") -> Path:
    group = zarr.open_group(path, mode="w", zarr_format=3)
    group.create_array("0", data=values)
    kinds = {"t": "time", "c": "channel"}
    axes = [{"name": n, "type": kinds.get(n, "space"), **({"unit": "micrometer"} if n in "zyx" else {})} for n in names]
    datasets = [{"path": "0", "coordinateTransformations": [{"type": "scale", "scale": scale}]}]
    group.attrs["ome"] = {"version": "0.5", "multiscales": [{"axes": axes, "datasets": datasets}]}
    return path


def test_an_ome_tiff_says_itself_that_it_is_a_volume(tmp_path: Path) -> None:
    path = ome_tiff(tmp_path / "v.ome.tif", LABELS, **SIZES)
    mask = read_mask(f"{path}:3")
    assert mask.volume
    assert mask.px_size_um == (2.5, 1.0, 1.25)
    np.testing.assert_array_equal(mask.values, LABELS == 3)
    assert mask.volume_um3 == pytest.approx(60 * 2.5 * 1.25)
    assert read_mask(f"{path}:all").area_px == 63
    # A page is still an image.
    plane = read_mask(f"{ome_tiff(tmp_path / 'w.ome.tif', LABELS)}@1:3")
    assert plane.values.shape == (10, 12)


def test_an_ome_zarr_says_itself_that_it_is_a_volume(tmp_path: Path) -> None:
    mask = read_mask(f"{ome_zarr(tmp_path / 'v.zarr', LABELS, [2.5, 1.0, 1.25])}:3")
    assert mask.px_size_um == (2.5, 1.0, 1.25)
    np.testing.assert_array_equal(mask.values, LABELS == 3)
    series = ome_zarr(tmp_path / "t.zarr", np.stack([LABELS, LABELS * 2]), [1, 2.5, 1.0, 1.25], "tzyx")
    with pytest.raises(errors.FileError, match=r"the number of one page.*volume=True"):
        read_mask(f"{series}:all")
    with pytest.raises(errors.FileError, match=r"the number of one volume.*2 volumes.*t.zarr@0"):
        read_mask(f"{series}:all", volume=True)
    with pytest.raises(errors.FileError, match=r"a volume or a plane may be meant.*--volume.*--no-volume"):
        read_mask(f"{series}/0@1:6")
    with pytest.raises(errors.MaskError, match="square pixels"):  # a plane, as an image
        read_mask(f"{series}/0@5:6", volume=False)
    second = read_mask(f"{series}/0@1:6", volume=True)
    np.testing.assert_array_equal(second.values, LABELS == 3)


def test_a_nifti_file_is_a_volume_in_millimetres(tmp_path: Path) -> None:
    nibabel = pytest.importorskip("nibabel")
    image = nibabel.Nifti1Image(LABELS.T.astype(np.int16), np.diag([1.25, 1.0, 2.5, 1.0]))
    image.header.set_xyzt_units("mm", "sec")
    for name in ("v.nii", "v.nii.gz"):
        nibabel.save(image, tmp_path / name)
        mask = read_mask(f"{tmp_path / name}:3")
        np.testing.assert_array_equal(mask.values, LABELS == 3)
        assert mask.px_size_um == pytest.approx((2500.0, 1000.0, 1250.0))
    (tmp_path / "broken.nii").write_bytes((tmp_path / "v.nii").read_bytes()[:200])
    with pytest.raises(errors.FileError, match="a complete NIfTI file"):
        read_mask(tmp_path / "broken.nii")


def test_a_nifti_file_without_its_library_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pairframe.checks.find_spec", lambda name: None)
    (tmp_path / "v.nii.gz").write_bytes(b"")
    with pytest.raises(errors.MissingExtraError, match=r"pairframe\[nifti\]"):
        read_mask(tmp_path / "v.nii.gz")


@pytest.mark.parametrize("suffix", [".tif", ".npy"])
def test_any_other_stack_needs_a_word(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"stack{suffix}"
    tifffile.imwrite(path, LABELS, photometric="minisblack") if suffix == ".tif" else np.save(path, LABELS)
    with pytest.raises(errors.FileError, match=r"page=0.*if the pages are planes of one volume.*volume=True"):
        read_mask(f"{path}:all")
    mask = read_mask(f"{path}:all", volume=True)
    np.testing.assert_array_equal(mask.values, LABELS > 0)
    assert read_mask(f"{path}:all", px_size_um=(2.0, 1.0, 1.0)).px_size_um == (2.0, 1.0, 1.0)
    assert pf.compare(f"{path}:3", f"{path}:all", pf.TransportConfig(volume=True)).transform.is_volume


def test_an_imagej_stack_has_the_distance_of_its_planes(tmp_path: Path) -> None:
    path = tmp_path / "ij.tif"
    about = {"axes": "ZYX", "unit": "micron", "spacing": 2.5}
    tifffile.imwrite(path, LABELS, imagej=True, resolution=(1 / 1.25, 1.0), metadata=about)
    with pytest.raises(errors.FileError, match="volume=True"):  # ImageJ calls the frames of a series slices, too
        read_mask(f"{path}:all")
    assert read_mask(f"{path}:all", volume=True).px_size_um == pytest.approx((2.5, 1.0, 1.25))


def test_a_time_series_is_no_volume(tmp_path: Path) -> None:
    path = ome_tiff(tmp_path / "t.ome.tif", LABELS, "TYX")
    with pytest.raises(errors.MaskError, match=r"planes of a volume, got 4 time points.*t.ome.tif@0 and t.ome.tif@1"):
        read_mask(f"{path}:all", volume=True)
    assert read_mask(f"{path}@1:3").values.shape == (10, 12)


def test_an_image_is_no_volume(tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "i.tif", LABELS[1])
    with pytest.raises(errors.MaskError, match=r"a volume, a stack of planes.*without volume=True"):
        read_mask(f"{tmp_path / 'i.tif'}:all", volume=True)


def test_a_missing_side_of_a_voxel_is_named(tmp_path: Path) -> None:
    path = ome_tiff(tmp_path / "v.ome.tif", LABELS, PhysicalSizeY=1.0, PhysicalSizeX=1.25)
    with pytest.raises(
        errors.PixelSizeError, match=r"all three axes, got 1 x 1.25 um in the plane only.*px_size_um=\(z"
    ):
        read_mask(f"{path}:all")
    assert read_mask(f"{path}:all", px_size_um=(3.0, 1.0, 1.25)).px_size_um == (3.0, 1.0, 1.25)
    result = pf.compare(f"{path}:3", f"{path}:all", pf.TransportConfig(px_size_um=(3.0, 1.0, 1.25)))
    assert result.volume_source_um3 == pytest.approx(60 * 3.75)


def test_sides_without_a_unit_that_differ_are_no_cubes(tmp_path: Path) -> None:
    nibabel = pytest.importorskip("nibabel", reason="NIfTI needs pairframe[nifti]")
    values = (LABELS > 0).astype(np.uint8)
    nifti = tmp_path / "v.nii.gz"
    nibabel.save(nibabel.Nifti1Image(values.T, np.diag([1, 1, 2.5, 1])), nifti)
    bare = zarr.open_group(ome_zarr(tmp_path / "v.zarr", values, [2.5, 1.0, 1.0]), mode="r+")
    ome = dict(bare.attrs["ome"])
    ome["multiscales"][0]["axes"] = [{"name": name, "type": "space"} for name in "zyx"]
    bare.attrs["ome"] = ome
    sizes = {f"PhysicalSize{axis}": side for axis, side in zip("ZYX", (2.5, 1.0, 1.0), strict=True)}
    units = {f"PhysicalSize{axis}Unit": "pixel" for axis in "ZYX"}
    pixels = ome_tiff(tmp_path / "v.ome.tif", values, **sizes, **units)
    tifffile.imwrite(tmp_path / "ij.tif", values, imagej=True, metadata={"axes": "ZYX", "spacing": 2.5})
    for path in (nifti, tmp_path / "v.zarr", pixels, tmp_path / "ij.tif"):
        with pytest.raises(errors.PixelSizeError, match=r"2\.5 x 1 x 1 .* without a unit.*--px-size-um 2\.5,1,1"):
            read_mask(f"{path}:all", volume=True)
    nibabel.save(nibabel.Nifti1Image(values.T, np.eye(4)), nifti)
    assert read_mask(f"{nifti}:all").px_size_um is None


def test_a_huge_volume_is_refused_before_it_is_decoded(tmp_path: Path) -> None:
    path = ome_tiff(tmp_path / "v.ome.tif", LABELS, **SIZES)
    with pytest.raises(errors.FileError, match=r"at most 100 voxels, got 4 x 10 x 12 = 480"):
        read_mask(f"{path}:all", max_pixels=100)


@pytest.mark.parametrize("density", [False, True])
def test_a_written_volume_comes_back(tmp_path: Path, density: bool) -> None:
    values = LABELS.astype(np.float64) / 3 if density else LABELS > 0
    mask = pf.Mask(values, px_size_um=(2.5, 1.0, 1.25), density=density)
    write_mask(mask, tmp_path / "m.ome.tif")
    again = read_mask(tmp_path / "m.ome.tif", density=density)
    np.testing.assert_array_equal(again.values, mask.values)
    assert again.px_size_um == mask.px_size_um
    with pytest.raises(errors.FileError, match=r"an OME-TIFF for a volume.*m.ome.tif"):
        write_mask(mask, tmp_path / "m.tif")


def test_masses_of_a_volume_know_the_shape_of_its_voxels() -> None:
    solid = np.ones((5, 9, 9), bool)
    mask = pf.Mask(solid, px_size_um=(3.0, 1.0, 1.0))
    depth = pf.masks.mass_density(mask, "distance_transform")
    assert depth[2, 4, 4] == 5.0  # to the side; up and down it would be 9
    band = pf.masks.mass_density(mask, "boundary_band(2)")
    assert band.sum() == solid.sum() - 3 * 5 * 5  # two voxels from the sides, one plane from above and below
    with pytest.raises(errors.MaskError, match="no min_island_area_um2 for a volume"):
        pf.masks.clean_mask(mask, min_island_area_um2=3.0)
    assert pf.masks.clean_mask(pf.Mask(LABELS > 0, volume=True), keep_largest=True).area_px == 60


def test_nifti_files_that_point_elsewhere_are_not_compared(tmp_path: Path) -> None:
    """The same body, stored from left to right and from right to left, is no pair of masks."""
    nibabel = pytest.importorskip("nibabel", reason="NIfTI needs pairframe[nifti]")
    values = np.zeros((8, 9, 10), np.uint8)
    values[2:6, 3:6, 1:5] = 1  # x, y, z
    image = nibabel.Nifti1Image(values, np.diag([2.0, 2.0, 2.0, 1.0]))
    image.header.set_xyzt_units("mm")
    silent = nibabel.Nifti1Image(values, np.diag([2.0, 2.0, 2.0, 1.0]))
    silent.header.set_xyzt_units("mm")
    silent.set_sform(None, 0)
    silent.set_qform(None, 0)
    mirrored = image.as_reoriented([[0, -1], [1, 1], [2, 1]])
    for name, one in (("one", image), ("mirrored", mirrored), ("silent", silent)):
        nibabel.save(one, tmp_path / f"{name}.nii")
    one, other, unknown = (read_mask(tmp_path / f"{name}.nii") for name in ("one", "mirrored", "silent"))
    assert (one.orientation_zyx, other.orientation_zyx, unknown.orientation_zyx) == ("SAR", "SAL", None)
    with pytest.raises(errors.MaskError, match=r"point the same way.*towards SAL and SAR.*as_closest_canonical"):
        pf.compare(one, other)
    assert pf.compare(one, unknown).total_mass_created < 1e-6 * values.sum()
    for again in (pickle.loads(pickle.dumps(other)), copy.deepcopy(other)):  # as they reach worker processes
        assert again.orientation_zyx == "SAL"


@pytest.mark.parametrize("problem", ["oblique", "nan", "singular"])
def test_an_orientation_that_is_not_clear_is_not_taken(problem: str, tmp_path: Path) -> None:
    nibabel = pytest.importorskip("nibabel", reason="NIfTI needs pairframe[nifti]")
    affine = np.diag([2.0, 2.0, 2.0, 1.0])
    if problem == "oblique":
        turn = np.deg2rad(44.0)
        affine[:2, :2] = 2.0 * np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    image = nibabel.Nifti1Image(np.ones((4, 5, 6), np.uint8), affine)
    image.header.set_xyzt_units("mm")
    file = tmp_path / "one.nii"
    nibabel.save(image, file)
    if problem != "oblique":
        content = bytearray(file.read_bytes())
        wrong = np.full(12, np.nan, "<f4") if problem == "nan" else np.tile(np.float32([1, 1, 1, 0]), 3)
        content[280:328] = wrong.astype("<f4").tobytes()
        file.write_bytes(content)
    assert read_mask(file).orientation_zyx is None

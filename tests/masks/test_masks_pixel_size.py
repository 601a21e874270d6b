"""Pixel sizes from metadata, and OME-Zarr."""

import json

import numpy as np
import pytest
import tifffile
import zarr

from pairframe import errors
from pairframe.masks import read_mask

INSIDE = np.tri(5, 7, dtype=bool)
BYTES = INSIDE.astype(np.uint8)


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        ("micron", 0.5),
        ("um", 0.5),
        ("\\u00B5m", 0.5),
        ("nm", 0.5e-3),
        ("mm", 500),
        ("cm", 5000),
        ("inch", 12700),
        ("Inches", 12700),
        ("micrometers", 0.5),
        ("Micrometres", 0.5),
        ("microns", 0.5),
        ("millimeters", 500),
        ("ms", None),
        ("pixel", None),
        ("Mm", None),
    ],
)
def test_imagej_units_are_understood(tmp_path, unit, expected):
    tifffile.imwrite(tmp_path / "a.tif", BYTES, imagej=True, resolution=(2, 2), metadata={"unit": unit})
    size = read_mask(tmp_path / "a.tif").px_size_um
    assert size == (expected if expected is None else pytest.approx(expected))


@pytest.mark.parametrize(("unit", "expected"), [("µm", 0.5), ("nm", 0.5e-3), ("mm", 500), ("pixel", None), (None, 0.5)])
def test_ome_units_are_understood(tmp_path, unit, expected):
    metadata = {"axes": "YX", "PhysicalSizeX": 0.5, "PhysicalSizeY": 0.5}
    if unit is not None:
        metadata |= {"PhysicalSizeXUnit": unit, "PhysicalSizeYUnit": unit}
    tifffile.imwrite(tmp_path / "a.ome.tif", BYTES, metadata=metadata)
    size = read_mask(tmp_path / "a.ome.tif").px_size_um
    assert size == (expected if expected is None else pytest.approx(expected))


def test_the_resolution_of_a_plain_tiff_is_not_believed(tmp_path):
    tifffile.imwrite(tmp_path / "a.tif", BYTES, resolution=(72, 72), resolutionunit="INCH")
    assert read_mask(tmp_path / "a.tif").px_size_um is None
    tifffile.imwrite(tmp_path / "b.tif", BYTES, imagej=True, resolution=(72, 72))
    assert read_mask(tmp_path / "b.tif").px_size_um is None


@pytest.mark.parametrize("explicit", [None, 0.5])
def test_pixels_that_are_not_square_are_refused_even_with_a_size(tmp_path, explicit):
    tifffile.imwrite(tmp_path / "a.tif", BYTES, imagej=True, resolution=(2, 1), metadata={"unit": "um"})
    message = "square pixels, got 1 um high and 0.5 um wide.*resample the image to square pixels"
    with pytest.raises(errors.MaskError, match=message):
        read_mask(tmp_path / "a.tif", px_size_um=explicit)


def test_almost_square_pixels_are_square(tmp_path):
    metadata = {"axes": "YX", "PhysicalSizeX": 0.5, "PhysicalSizeY": 0.5002}
    tifffile.imwrite(tmp_path / "a.ome.tif", BYTES, metadata=metadata)
    assert read_mask(tmp_path / "a.ome.tif").px_size_um == pytest.approx(0.5001)


def test_a_size_given_by_the_caller_wins(tmp_path):
    tifffile.imwrite(tmp_path / "a.tif", BYTES, imagej=True, resolution=(2, 2), metadata={"unit": "um"})
    assert read_mask(tmp_path / "a.tif", px_size_um=3).px_size_um == 3
    with pytest.raises(errors.PixelSizeError, match="finite, positive"):
        read_mask(tmp_path / "a.tif", px_size_um=-3)


def save_ome_zarr(path, version, labels, unit="micrometer", scale=(1, 0.5, 0.5)):
    """Write an OME-Zarr with one grey image and the named label images, two levels each."""
    root = zarr.open_group(path, mode="w", zarr_format=2 if version == "0.4" else 3)

    def wrap(attributes):
        return attributes if version == "0.4" else {"ome": {"version": version, **attributes}}

    axes = [{"name": "z", "type": "space", "unit": unit}] + [
        {"name": name, "type": "space"} | ({"unit": unit} if unit else {}) for name in "yx"
    ]

    def multiscales(group, pixels):
        levels = []
        for level in range(2):
            group.create_array(f"s{level}", data=pixels[None, :: 2**level, :: 2**level], chunks=(1, 3, 3))
            factor = [scale[0], scale[1] * 2**level, scale[2] * 2**level]
            levels.append({"path": f"s{level}", "coordinateTransformations": [{"type": "scale", "scale": factor}]})
        group.attrs.update(wrap({"multiscales": [{"axes": axes, "datasets": levels}]}))

    multiscales(root, np.full((5, 7), 9, np.uint16))
    if labels:
        folder = root.create_group("labels")
        folder.attrs.update(wrap({"labels": labels}))
        for index, name in enumerate(labels):
            multiscales(folder.create_group(name), (BYTES * (index + 1)).astype(np.int32))
    return path


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_the_only_label_image_of_an_ome_zarr_is_used(tmp_path, version):
    path = save_ome_zarr(tmp_path / "img.zarr", version, ["cells"])
    mask = read_mask(path)
    np.testing.assert_array_equal(mask.values, INSIDE)
    assert mask.px_size_um == 0.5


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_among_several_label_images_one_must_be_named(tmp_path, version):
    path = save_ome_zarr(tmp_path / "img.zarr", version, ["cells", "nuclei"])
    for name in (path, f"{path}/labels"):
        with pytest.raises(errors.FileError, match=r"labels holds cells, nuclei.*img.zarr/labels/cells"):
            read_mask(name)
    mask = read_mask(f"{path}/labels/nuclei:2")
    np.testing.assert_array_equal(mask.values, INSIDE)
    assert mask.px_size_um == 0.5
    assert mask.source == f"{path}/labels/nuclei:2"


def test_a_level_that_is_named_has_its_own_pixel_size(tmp_path):
    path = save_ome_zarr(tmp_path / "img.zarr", "0.4", ["cells"])
    mask = read_mask(f"{path}/labels/cells/s1:all")
    assert mask.shape_hw == (3, 4)
    assert mask.px_size_um == 1


def test_without_labels_the_image_itself_is_read(tmp_path):
    path = save_ome_zarr(tmp_path / "img.zarr", "0.5", [], unit="nanometer", scale=(1, 500, 500))
    mask = read_mask(path, density=True)
    assert mask.values.tolist() == [[9] * 7] * 5
    assert mask.px_size_um == pytest.approx(0.5)


def test_a_zarr_without_units_has_no_pixel_size(tmp_path):
    assert read_mask(save_ome_zarr(tmp_path / "img.zarr", "0.4", ["cells"], unit=None)).px_size_um is None


def test_a_zarr_with_flat_pixels_is_refused(tmp_path):
    path = save_ome_zarr(tmp_path / "img.zarr", "0.4", ["cells"], scale=(1, 0.5, 0.6))
    with pytest.raises(errors.MaskError, match=r"0\.5 um high and 0\.6 um wide"):
        read_mask(path)


def test_a_wrong_inner_path_gets_the_right_ones(tmp_path):
    path = save_ome_zarr(tmp_path / "img.zarr", "0.4", ["cells"])
    with pytest.raises(errors.FileError, match=r"'labels/dogs' in .*labels holds cells"):
        read_mask(f"{path}/labels/dogs")
    with pytest.raises(errors.FileError, match="'s0/more'"):
        read_mask(f"{path}/s0/more")


@pytest.mark.parametrize("inner", ["../secret.zarr", "labels/../../secret.zarr", "labels\\..\\..\\secret.zarr"])
def test_an_inner_path_cannot_leave_the_zarr(tmp_path, inner):
    path = save_ome_zarr(tmp_path / "img.zarr", "0.4", ["cells"])
    zarr.create_array(tmp_path / "secret.zarr", data=BYTES)
    with pytest.raises(errors.FileError, match=r"without '\.\.'"):
        read_mask(f"{path}/{inner}")


def test_metadata_cannot_leave_the_zarr_either(tmp_path):
    path = save_ome_zarr(tmp_path / "img.zarr", "0.4", ["cells"])
    attributes = path / "labels" / ".zattrs"
    attributes.write_text(json.dumps({"labels": ["../../secret.zarr"]}))
    zarr.create_array(tmp_path / "secret.zarr", data=BYTES)
    with pytest.raises(errors.FileError, match="an inner path within the file"):
        read_mask(path)


def test_several_plain_arrays_in_a_zarr_must_be_named(tmp_path):
    group = zarr.open_group(tmp_path / "g.zarr", mode="w")
    group.create_array("a", data=BYTES)
    (tmp_path / "g.zarr" / "notes.txt").write_text("a file that is not part of the Zarr")
    assert read_mask(tmp_path / "g.zarr").area_px == INSIDE.sum()
    group.create_array("b", data=BYTES)
    with pytest.raises(errors.FileError, match=r"2 of them in .*the root holds a, b"):
        read_mask(tmp_path / "g.zarr")

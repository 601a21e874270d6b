"""Label ids are what is stored, in every PNG; a density is never made of them."""

import struct
import zlib

import numpy as np
import pytest
import zarr
from PIL import Image

from pairframe import errors
from pairframe.masks import list_labels, read_labels, read_mask

IDS = np.array([[0, 1, 2, 3], [3, 0, 1, 1], [0, 0, 2, 0]], np.uint8)


def save_grey(path, ids, depth, transparent=None):
    """Write a grey PNG of `depth` bits per pixel, which Pillow reads but does not write."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    height, width = ids.shape
    bits = np.unpackbits(ids[..., None], axis=2)[..., 8 - depth :].reshape(height, -1)
    rows = b"".join(b"\0" + row.tobytes() for row in np.packbits(bits, axis=1))
    content = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, 0, 0, 0, 0))
    if transparent is not None:
        content += chunk(b"tRNS", struct.pack(">H", transparent))
    content += chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + content)
    return path


@pytest.mark.parametrize("depth", [2, 4, 8])
def test_ids_of_a_grey_png_are_those_stored_at_every_depth(tmp_path, depth):
    path = save_grey(tmp_path / "a.png", IDS, depth)
    assert list_labels(path) == [1, 2, 3]
    np.testing.assert_array_equal(read_labels(path)[0], IDS)
    np.testing.assert_array_equal(read_mask(f"{path}:3").values, IDS == 3)
    np.testing.assert_array_equal(read_mask(path, density=True).values, IDS)


@pytest.mark.parametrize("depth", [2, 4])
def test_an_unused_transparent_value_changes_nothing(tmp_path, depth):
    path = save_grey(tmp_path / "a.png", IDS % 3, depth, transparent=3)
    np.testing.assert_array_equal(read_labels(path)[0], IDS % 3)


def test_a_shallow_png_of_zeros_and_ones_is_a_mask(tmp_path):
    path = save_grey(tmp_path / "a.png", (IDS > 0).astype(np.uint8), 4)
    np.testing.assert_array_equal(read_mask(path).values, IDS > 0)


def save_palette(path, colours, **options):
    image = Image.fromarray(IDS)
    image = image.convert("P")
    image.putpalette([channel for colour in colours for channel in colour])
    image.save(path, **options)
    return path


VOC = [(0, 0, 0), (128, 0, 0), (0, 128, 0), (128, 128, 0)]
GREYS = [(0, 0, 0), (90, 90, 90), (180, 180, 180), (255, 255, 255)]


@pytest.mark.parametrize("bits", [2, 8])
@pytest.mark.parametrize("colours", [VOC, GREYS])
def test_ids_of_a_palette_png_are_its_indices(tmp_path, colours, bits):
    path = save_palette(tmp_path / "a.png", colours, bits=bits)
    assert list_labels(path) == [1, 2, 3]
    np.testing.assert_array_equal(read_mask(f"{path}:2").values, IDS == 2)
    np.testing.assert_array_equal(read_mask(f"{path}:all").values, IDS > 0)


def test_a_transparent_background_does_not_hide_indices(tmp_path):
    path = save_palette(tmp_path / "a.png", VOC, transparency=0)
    np.testing.assert_array_equal(read_labels(path)[0], IDS)


def test_without_a_label_a_palette_means_its_greys_and_colours_are_refused_with_the_way_out(tmp_path):
    path = save_palette(tmp_path / "a.png", GREYS)
    np.testing.assert_array_equal(read_mask(path, density=True).values, np.array([0, 90, 180, 255])[IDS])
    voc = save_palette(tmp_path / "voc.png", VOC)
    with pytest.raises(errors.GreyImageError, match=r'by its palette.*choose one by its index, "voc.png:1"'):
        read_mask(voc)


def save_image_with_labels(path, axes="yx"):
    def multiscales(group, pixels):
        group.create_array("s0", data=pixels)
        levels = [{"path": "s0", "coordinateTransformations": [{"type": "scale", "scale": [1.0] * pixels.ndim}]}]
        group.attrs["multiscales"] = [{"axes": [{"name": name} for name in axes], "datasets": levels}]

    root = zarr.open_group(path, mode="w", zarr_format=2)
    multiscales(root, np.full(IDS.shape, 9.0))
    labels = root.create_group("labels")
    labels.attrs["labels"] = ["cells"]
    multiscales(labels.create_group("cells"), IDS)
    return path


def test_label_ids_of_an_ome_zarr_are_not_taken_for_a_density(tmp_path):
    path = save_image_with_labels(tmp_path / "img.zarr")
    with pytest.raises(errors.FileError, match=r"label ids are not a mass. To fix: .*such as img.zarr/s0"):
        read_mask(path, density=True)
    np.testing.assert_array_equal(read_mask(f"{path}/s0", density=True).values, 9.0)
    np.testing.assert_array_equal(read_mask(f"{path}/labels/cells", density=True).values, IDS)
    np.testing.assert_array_equal(read_mask(f"{path}:all", density=True).values, IDS > 0)


def save_zarr_with_axes(path, pixels, axes):
    group = zarr.open_group(path, mode="w", zarr_format=2)
    group.create_array("s0", data=pixels)
    group.attrs["multiscales"] = [{"axes": axes, "datasets": [{"path": "s0"}]}]
    return path


@pytest.mark.parametrize("names", ["xy", "yxc", "zxy", "tcxz"])
@pytest.mark.parametrize("old", [False, True])
def test_an_ome_zarr_whose_last_axes_are_not_y_and_x_is_refused(tmp_path, names, old):
    pixels = np.ones(range(3, 3 + len(names)), np.uint8)
    axes = list(names) if old else [{"name": name} for name in names]
    path = save_zarr_with_axes(tmp_path / "a.zarr", pixels, axes)
    for name in (path, f"{path}/s0"):
        with pytest.raises(errors.MaskError, match=f"end with y, x, got axes {', '.join(names)} in .*transpose"):
            read_mask(name, page=0)


def test_an_ome_zarr_without_axes_or_with_y_and_x_last_is_read(tmp_path):
    for index, axes in enumerate(([], ["y", "x"], [{"name": "y"}, {"name": "x"}])):
        path = save_zarr_with_axes(tmp_path / f"{index}.zarr", (IDS > 0).astype(np.uint8), axes)
        np.testing.assert_array_equal(read_mask(path).values, IDS > 0)

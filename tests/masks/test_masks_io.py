"""Reading and writing: round trips, pages, labels and pixel sizes."""

import struct
import zlib

import numpy as np
import pytest
import tifffile
import zarr
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from pairframe import errors
from pairframe.masks import Mask, count_pages, list_labels, read_labels, read_mask, write_mask

INSIDE = np.tri(5, 7, dtype=bool)
STACK = np.arange(2 * 3 * 4 * 5, dtype=np.uint16).reshape(2, 3, 4, 5)
LABELS = np.array([[0, 3, 3], [7, 0, 3]], np.uint16)


@pytest.mark.parametrize("name", ["a.tif", "a.tiff", "a.ome.tif", "a.TIF", "a.png", "a.npy"])
@pytest.mark.parametrize("px_size_um", [None, 0.65])
def test_a_binary_mask_survives_the_round_trip(tmp_path, name, px_size_um):
    write_mask(Mask(INSIDE, px_size_um=px_size_um), tmp_path / name)
    mask = read_mask(tmp_path / name)
    np.testing.assert_array_equal(mask.values, INSIDE)
    assert mask.px_size_um == (px_size_um if ".tif" in name.lower() else None)
    assert mask.source == str(tmp_path / name)
    assert [file.name for file in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["a.tif", "a.npy"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint32, np.float32, np.float64])
def test_a_density_survives_the_round_trip(tmp_path, name, dtype):
    values = (np.arange(12).reshape(3, 4) / (3 if np.dtype(dtype).kind == "f" else 1)).astype(dtype)
    write_mask(Mask(values, px_size_um=1 / 3, density=True), tmp_path / name)
    mask = read_mask(tmp_path / name, density=True)
    np.testing.assert_array_equal(mask.values, values)
    assert mask.values.dtype == dtype
    assert mask.px_size_um == (1 / 3 if name == "a.tif" else None)


@given(st.floats(1e-3, 1e3))
def test_every_pixel_size_comes_back_exactly(tmp_path_factory, px_size_um):
    path = tmp_path_factory.getbasetemp() / "size.tif"
    write_mask(Mask(INSIDE, px_size_um=px_size_um), path, overwrite=True)
    assert read_mask(path).px_size_um == px_size_um
    with tifffile.TiffFile(path) as tiff:
        pixels, units = tiff.pages.first.tags["XResolution"].value
        assert tiff.imagej_metadata["unit"] == "micron"
    assert units / pixels == pytest.approx(px_size_um, rel=1e-6)


def test_an_existing_file_is_kept_unless_told_otherwise(tmp_path):
    path = tmp_path / "a.png"
    write_mask(Mask(INSIDE), path)
    with pytest.raises(errors.FileError, match=r"which exists.*overwrite=True"):
        write_mask(Mask(~INSIDE), path)
    np.testing.assert_array_equal(read_mask(path).values, INSIDE)
    write_mask(Mask(~INSIDE), path, overwrite=True)
    np.testing.assert_array_equal(read_mask(path).values, ~INSIDE)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a.tif"
    write_mask(Mask(INSIDE), path)
    with pytest.raises(errors.FileError, match="convert the density to float64"):
        write_mask(Mask(np.array([[2**60]]), density=True), path, overwrite=True)
    np.testing.assert_array_equal(read_mask(path).values, INSIDE)
    assert [file.name for file in tmp_path.iterdir()] == ["a.tif"]


@pytest.mark.parametrize("name", ["a.tif", "a.png", "a.npy"])
def test_a_full_disk_is_our_error_and_leaves_nothing(tmp_path, monkeypatch, name):
    def full(self, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace", full)
    with pytest.raises(errors.FileError, match=r"No space left on device.*check the free space") as caught:
        write_mask(Mask(INSIDE), tmp_path / name)
    assert isinstance(caught.value.__cause__, OSError)
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(errors.GreyImageError, match=r"binary mask for PNG.*\.tif or \.npy"):
        write_mask(Mask(np.eye(2) / 2, density=True), tmp_path / "a.png")
    with pytest.raises(errors.FileError, match=r"\.tif, \.tiff, \.png, \.npy to write"):
        write_mask(Mask(INSIDE), tmp_path / "a.jpg")
    with pytest.raises(errors.FileError, match="an existing folder"):
        write_mask(Mask(INSIDE), tmp_path / "no" / "a.png")
    assert list(tmp_path.iterdir()) == []


def save_stack(path, stack):
    """Write a stack in the format that the extension names."""
    if path.name == "ij.tif":
        tifffile.imwrite(path, stack, imagej=True, metadata={"axes": "TZYX"})
    elif path.name == "contiguous.tif":
        # As ImageJ writes stacks above 4 GB: one header, all pages behind it.
        tifffile.imwrite(path, stack, imagej=True, truncate=True, metadata={"axes": "TZYX"})
    elif path.name == "many.tif":
        with tifffile.TiffWriter(path) as writer:
            for page in stack.reshape(6, 4, 5):
                writer.write(page, contiguous=False, metadata=None)
    elif path.name == "series.tif":
        with tifffile.TiffWriter(path) as writer:
            for page in stack.reshape(6, 4, 5):
                writer.write(page, contiguous=False)
    elif path.suffix == ".tif":
        options = {"compression": "zlib", "photometric": "minisblack", "metadata": {"axes": "TZYX"}}
        tifffile.imwrite(path, stack, ome=path.name == "x.ome.tif", **options)
    elif path.name == "f.npy":
        np.save(path, np.asfortranarray(stack))
    elif path.suffix == ".npy":
        np.save(path, stack)
    elif path.name == "f.npz":
        np.savez_compressed(path, stack=np.asfortranarray(stack))
    elif path.suffix == ".npz":
        np.savez_compressed(path, stack=stack)
    else:
        array = zarr.create_array(
            path, shape=stack.shape, dtype=stack.dtype, chunks=(1, 1, 2, 5), zarr_format=int(path.stem)
        )
        array[...] = stack


@pytest.mark.parametrize(
    "name",
    [
        "plain.tif",
        "x.ome.tif",
        "ij.tif",
        "contiguous.tif",
        "many.tif",
        "series.tif",
        "a.npy",
        "f.npy",
        "a.npz",
        "f.npz",
        "2.zarr",
        "3.zarr",
    ],
)
def test_a_page_of_a_stack_is_found_in_every_format(tmp_path, name):
    path = tmp_path / name
    save_stack(path, STACK)
    assert count_pages(path) == 6
    for page in range(6):
        mask = read_mask(f"{path}@{page}", density=True, volume=False)
        np.testing.assert_array_equal(mask.values, STACK.reshape(6, 4, 5)[page])
    assert mask.source == f"{path}@5"
    with pytest.raises(errors.FileError, match=f"got none for 6 pages.*page=0 or {name}@0; the last is 5"):
        read_mask(path, density=True)
    with pytest.raises(errors.FileError, match="a page from 0 to 5, got 6 for 6 pages"):
        read_mask(path, page=6, density=True, volume=False)


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "3.zarr", "plain.tif"])
def test_leading_axes_of_length_one_go_away(tmp_path, name):
    save_stack(tmp_path / name, STACK[:1, :1])
    np.testing.assert_array_equal(read_mask(tmp_path / name, density=True).values, STACK[0, 0])


def test_an_array_of_an_npz_is_named_after_a_slash(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, cells=LABELS, other=INSIDE)
    assert read_mask(f"{path}/cells:7").area_px == 1
    assert read_mask(f"{path}/other").area_px == INSIDE.sum()
    with pytest.raises(errors.FileError, match=r"which holds cells, other.*a.npz/cells"):
        read_mask(path)
    with pytest.raises(errors.FileError, match="got 'none' for"):
        read_mask(f"{path}/none")


@pytest.mark.parametrize("name", ["a.tif", "a.png", "a.npy"])
def test_labels_are_selected_listed_and_named_when_missing(tmp_path, name):
    path = tmp_path / name
    {"a.tif": tifffile.imwrite, "a.npy": np.save}.get(name, lambda p, a: Image.fromarray(a).save(p))(path, LABELS)
    np.testing.assert_array_equal(read_mask(f"{path}:3").values, LABELS == 3)
    np.testing.assert_array_equal(read_mask(path, label="all").values, LABELS > 0)
    assert list_labels(path) == [3, 7]
    labels, px_size_um = read_labels(path)
    np.testing.assert_array_equal(labels, LABELS)
    assert px_size_um is None
    with pytest.raises(errors.FileError, match=r'where the labels are: 3, 7. To fix.*:all"'):
        read_mask(path, label=5)
    with pytest.raises(errors.FileError, match="one label, got label=7"):
        read_mask(f"{path}:3", label=7)
    with pytest.raises(errors.GreyImageError, match=f"{name}.*0 to 7"):
        read_mask(path)


def test_at_most_ten_labels_are_named(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(1, 13).reshape(3, 4))
    with pytest.raises(errors.FileError, match="1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 2 more"):
        read_mask(tmp_path / "a.npy", label=99)


def test_large_and_negative_ids_are_listed(tmp_path):
    np.save(tmp_path / "a.npy", np.array([[-2, 0, 5, 2**40]]))
    assert list_labels(tmp_path / "a.npy") == [5, 2**40]
    assert read_mask(tmp_path / "a.npy", label="all").area_px == 2


def test_labels_must_be_whole_numbers(tmp_path):
    np.save(tmp_path / "a.npy", LABELS.astype(float))
    with pytest.raises(errors.FileError, match="an integer label image, got float64"):
        read_mask(tmp_path / "a.npy", label=3)
    np.save(tmp_path / "b.npy", INSIDE)
    np.testing.assert_array_equal(read_mask(tmp_path / "b.npy", label="all").values, INSIDE)


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "LA", "I;16"])
def test_png_modes_that_are_really_grey_are_read(tmp_path, mode):
    grey = Image.fromarray(INSIDE.astype(np.uint8) * 255)
    if mode == "I;16":
        grey = Image.fromarray(INSIDE.astype(np.uint16) * 255)
    (grey if mode == "I;16" else grey.convert(mode)).save(tmp_path / "a.png")
    np.testing.assert_array_equal(read_mask(tmp_path / "a.png").values, INSIDE)


def test_colour_and_transparency_are_refused(tmp_path):
    Image.new("RGB", (3, 3), (255, 0, 0)).save(tmp_path / "red.png")
    Image.new("RGB", (3, 3), (255, 0, 0)).convert("P").save(tmp_path / "palette.png")
    tifffile.imwrite(tmp_path / "red.tif", np.full((3, 3, 3), (255, 0, 0), np.uint8), photometric="rgb")
    for name in ("red.png", "palette.png", "red.tif"):
        with pytest.raises(errors.GreyImageError, match=f"a colour image in '{name}'.*not an overlay"):
            read_mask(tmp_path / name)
    Image.new("RGBA", (3, 3), (255, 255, 255, 9)).save(tmp_path / "glass.png")
    Image.new("L", (3, 3), 255).save(tmp_path / "key.png", transparency=255)
    for name in ("glass.png", "key.png"):
        with pytest.raises(errors.GreyImageError, match=f"transparent pixels in '{name}'"):
            read_mask(tmp_path / name)


def test_a_16_bit_colour_png_is_refused_rather_than_rounded(tmp_path):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 16, 2, 0, 0, 0)
    pixels = zlib.compress(b"\0" + struct.pack(">HHH", 257, 257, 257))
    content = chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + content)
    with pytest.raises(errors.GreyImageError, match="would lose its lower bits"):
        read_mask(tmp_path / "a.png")


def test_a_grey_rgb_tiff_is_read(tmp_path):
    tifffile.imwrite(tmp_path / "a.tif", np.repeat(INSIDE[..., None], 3, 2).astype(np.uint8) * 255, photometric="rgb")
    np.testing.assert_array_equal(read_mask(tmp_path / "a.tif").values, INSIDE)


@given(st.floats(1e-9, 1e9))
def test_extreme_pixel_sizes_survive_an_imagej_tiff(tmp_path_factory, px_size_um):
    path = tmp_path_factory.getbasetemp() / "extreme.tif"
    write_mask(Mask(INSIDE, px_size_um=px_size_um), path, overwrite=True)
    assert read_mask(path).px_size_um == px_size_um


@pytest.mark.parametrize("px_size_um", [1e-12, 1e10, 1e-90])
def test_a_pixel_size_that_imagej_cannot_hold_goes_into_an_ome_tiff(tmp_path, px_size_um):
    mask = Mask(INSIDE, px_size_um=px_size_um)
    with pytest.raises(errors.PixelSizeError, match=r"from 1e-09 to 1e\+09 um.*write an OME-TIFF: a.ome.tif"):
        write_mask(mask, tmp_path / "a.tif")
    assert list(tmp_path.iterdir()) == []
    write_mask(mask, tmp_path / "a.ome.tif")
    assert read_mask(tmp_path / "a.ome.tif").px_size_um == px_size_um

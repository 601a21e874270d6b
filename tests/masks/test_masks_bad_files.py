"""Files that are missing, broken, huge or hostile."""

import io
import os
import struct
import subprocess
import sys
import time
import zipfile
import zlib

import numpy as np
import pytest
import tifffile
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from pairframe import errors
from pairframe.masks import Mask, count_pages, read_mask, write_mask

NOISE = np.random.default_rng(0).integers(0, 2, (64, 64)).astype(np.uint8)


def save(path):
    """Write NOISE in the format that the name asks for."""
    if path.suffix == ".png":
        Image.fromarray(NOISE * 255).save(path)
    elif path.suffix == ".tif":
        compression = "zlib" if path.stem == "packed" else None
        tile = (16, 16) if path.stem == "tiled" else None
        tifffile.imwrite(path, NOISE, compression=compression, tile=tile, imagej=path.stem == "ij")
    elif path.suffix == ".npy":
        np.save(path, NOISE)
    else:
        np.savez_compressed(path, NOISE)
    return path


ALL = ["a.png", "a.tif", "ij.tif", "packed.tif", "tiled.tif", "a.npy", "a.npz"]


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("keep", [0.0, 0.01, 0.3, 0.7, 0.95])
def test_a_truncated_file_is_unreadable(tmp_path, name, keep, capfd):
    path = save(tmp_path / name)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * keep)])
    with pytest.raises(errors.FileError, match=f"expected a complete .* file, got .*{name}") as caught:
        read_mask(path)
    assert caught.value.__cause__ is not None
    assert capfd.readouterr() == ("", "")


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(ALL), st.data())
def test_a_damaged_file_is_read_or_refused_but_never_crashes(tmp_path, capfd, name, data):
    path = save(tmp_path / name)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, min(400, len(content) - 1)))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    try:
        mask = read_mask(path, density=True, max_pixels=10**6)
    except errors.InputError:
        pass
    else:
        assert mask.values.size <= 10**6
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", ["a.png", "a.tif", "a.npy", "a.npz"])
def test_garbage_is_unreadable(tmp_path, name):
    (tmp_path / name).write_bytes(b"this is a text about masks " * 20)
    with pytest.raises(errors.FileError, match="its content matches its extension"):
        read_mask(tmp_path / name)
    with pytest.raises(errors.FileError, match="expected a complete"):
        count_pages(tmp_path / name)


def test_a_header_that_does_not_parse_is_unreadable(tmp_path):
    np.save(tmp_path / "a.npy", NOISE)
    content = (tmp_path / "a.npy").read_bytes()
    (tmp_path / "a.npy").write_bytes(content.replace(b"(64, 64)", b"(64, 64("))
    with pytest.raises(errors.FileError, match="a complete NPY file"):
        read_mask(tmp_path / "a.npy")


def test_a_directory_is_no_image_and_a_file_is_no_zarr(tmp_path):
    (tmp_path / "a.tif").mkdir()
    with pytest.raises(errors.FileError, match="a complete TIFF file"):
        read_mask(tmp_path / "a.tif")
    (tmp_path / "a.zarr").write_bytes(b"zarr")
    with pytest.raises(errors.FileError, match="expected a Zarr directory"):
        read_mask(tmp_path / "a.zarr")


def test_a_broken_zarr_is_unreadable(tmp_path):
    (tmp_path / "empty.zarr").mkdir()
    with pytest.raises(errors.FileError, match="a complete Zarr file"):
        read_mask(tmp_path / "empty.zarr")
    zarr.create_array(tmp_path / "a.zarr", data=NOISE)
    (tmp_path / "a.zarr" / "c" / "0" / "0").write_bytes(b"no chunk")
    with pytest.raises(errors.FileError, match="a complete Zarr file"):
        read_mask(tmp_path / "a.zarr")
    (tmp_path / "a.zarr" / "zarr.json").write_text("{")
    with pytest.raises(errors.FileError, match="a complete Zarr file"):
        read_mask(tmp_path / "a.zarr")


def test_missing_files_and_unknown_formats_are_told_apart(tmp_path):
    with pytest.raises(errors.FileError, match=r"an existing file, got .*PATH@PAGE:LABEL"):
        read_mask(tmp_path / "no.tif")
    with pytest.raises(errors.FileError, match=r"no.zarr"):
        read_mask(f"{tmp_path}/no.zarr/labels/cells:all")
    with pytest.raises(errors.FileError, match="an existing file"):
        read_mask("x" * 5000 + ".tif:3")
    (tmp_path / "a.bmp").write_bytes(b"BM")
    with pytest.raises(
        errors.FileError,
        match=r"one of \.png, \.tif, \.tiff, \.npy, \.npz, \.zarr, \.nii, \.nii\.gz, \.roi, \.zip, \.geojson, got",
    ):
        read_mask(tmp_path / "a.bmp")


@pytest.mark.parametrize("name", ["a.npy", "a.npz"])
def test_pickles_are_never_loaded(tmp_path, name):
    array = np.array([[{"a": 1}, None]], dtype=object)
    (np.save if name == "a.npy" else np.savez)(tmp_path / name, array)
    with pytest.raises(errors.FileError, match="could run any code"):
        read_mask(tmp_path / name)


@pytest.mark.parametrize("name", ALL)
def test_the_declared_size_is_checked(tmp_path, name):
    path = save(tmp_path / name)
    assert read_mask(path, max_pixels=64 * 64).area_px == NOISE.sum()
    with pytest.raises(errors.FileError, match=r"at most 4095 pixels, got 64 x 64 = 4096 in .*raise max_pixels"):
        read_mask(path, max_pixels=64 * 64 - 1)


def npy_header(shape, dtype="|u1"):
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": dtype, "fortran_order": False, "shape": shape})
    return buffer.getvalue()


def png_header(width, height):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"0")) + chunk(b"IEND", b"")


def test_bombs_are_refused_before_decoding(tmp_path):
    (tmp_path / "a.npy").write_bytes(npy_header((10**6, 10**6)))
    (tmp_path / "a.png").write_bytes(png_header(10**5, 10**5))
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("arr_0.npy", npy_header((2**15, 2**15)) + b"")
    for name in ("a.npy", "a.png"):
        with pytest.raises(errors.FileError, match="at most 268435456 pixels"):
            read_mask(tmp_path / name)
    with pytest.raises(errors.FileError, match=r"bytes in 'arr_0.npy', as its header says"):
        read_mask(tmp_path / "a.npz")


def test_an_npz_that_packs_a_huge_array_is_too_large(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", np.zeros((2000, 2000), np.uint8))
    with pytest.raises(errors.FileError, match="got 2000 x 2000 = 4000000 in"):
        read_mask(tmp_path / "a.npz", max_pixels=10**6)


def test_an_npz_entry_longer_than_its_header_says_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("arr_0.npy", npy_header((2, 2)) + bytes(10**6))
    with pytest.raises(errors.FileError, match="damaged or manipulated"):
        read_mask(tmp_path / "a.npz")


def test_a_png_above_the_limit_of_pillow_gives_no_warning(tmp_path, monkeypatch):
    path = save(tmp_path / "a.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    assert read_mask(path).area_px == NOISE.sum()


def test_only_the_chosen_page_counts_against_the_limit(tmp_path):
    stack = np.zeros((100, 8, 8), np.uint8)
    np.save(tmp_path / "a.npy", stack)
    tifffile.imwrite(tmp_path / "a.tif", stack)
    zarr.create_array(tmp_path / "a.zarr", data=stack, chunks=(1, 8, 8))
    for name in ("a.npy", "a.tif", "a.zarr"):
        assert read_mask(tmp_path / name, page=99, max_pixels=64).is_empty
    zarr.create_array(tmp_path / "one.zarr", data=stack, chunks=(100, 8, 8))
    with pytest.raises(
        errors.FileError, match="at most 512 bytes, 8 per pixel of max_pixels, got 6400 bytes for 8 x 8 px"
    ):
        read_mask(tmp_path / "one.zarr", page=99, max_pixels=64)


@pytest.mark.parametrize(
    ("array", "error", "message"),
    [
        (np.zeros(5), errors.MaskError, r"an array of shape \(5,\)"),
        (np.zeros((0, 5)), errors.MaskError, "a canvas of 0 x 5 px"),
        (np.zeros((0, 5, 5)), errors.FileError, "for 0 pages"),
        (np.zeros((2, 2), complex), errors.MaskError, "dtype complex128"),
        (np.full((2, 2), np.nan), errors.MaskError, "finite values in .*a.npy"),
        (np.full((2, 2), -1), errors.MaskError, "values >= 0 in .*a.npy.*minimum of -1"),
    ],
)
def test_bad_content_names_its_file(tmp_path, array, error, message):
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(error, match=message):
        read_mask(tmp_path / "a.npy")


def test_tiff_series_of_different_sizes_are_refused(tmp_path):
    with tifffile.TiffWriter(tmp_path / "a.tif") as writer:
        writer.write(NOISE)
        writer.write(NOISE[:9])
    with pytest.raises(errors.FileError, match=r"2 series of shapes .*save that series"):
        read_mask(tmp_path / "a.tif")


@pytest.mark.parametrize("shape", [(2**63, 4, 4), (2**70, 4, 4), (True, 4, 4)])
@pytest.mark.parametrize("name", ["a.npy", "a.npz"])
def test_sides_that_no_array_can_have_are_unreadable(tmp_path, shape, name):
    if name == "a.npy":
        (tmp_path / name).write_bytes(npy_header(shape) + bytes(16))
    else:
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("arr_0.npy", npy_header(shape) + bytes(16))
    with pytest.raises(errors.FileError, match=r"is not valid for an array"):
        read_mask(tmp_path / name, page=0)


def test_a_damaged_lzma_stream_is_unreadable(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("arr_0.npy", npy_header((64, 64)) + NOISE.tobytes())
    content = bytearray((tmp_path / "a.npz").read_bytes())
    content[60:70] = b"\xff" * 10
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(errors.FileError, match="a complete NPZ file"):
        read_mask(tmp_path / "a.npz")


def test_an_npz_or_zarr_without_arrays_does_not_advise_a_name(tmp_path):
    zipfile.ZipFile(tmp_path / "a.npz", "w").close()
    zarr.open_group(tmp_path / "a.zarr", mode="w")
    for name in ("a.npz", "a.zarr"):
        with pytest.raises(errors.FileError, match=r"(none in|holds nothing)") as caught:
            read_mask(tmp_path / name)
        assert "NAME" not in caught.value.fix


@pytest.mark.parametrize("name", ["a.npy", "a.tif"])
def test_channels_behind_the_pixels_are_suspected(tmp_path, name):
    array = np.zeros((64, 64, 5 if name == "a.tif" else 3), np.uint8)
    (np.save if name == "a.npy" else tifffile.imwrite)(tmp_path / name, array)
    with pytest.raises(errors.FileError, match=r"64 pages.*last axis holds [35] channels.*array\[\.\.\., 0\]"):
        read_mask(tmp_path / name)
    np.save(tmp_path / "stack.npy", np.zeros((3, 64, 64)))
    with pytest.raises(errors.FileError, match=r"the last is 2; if the pages are planes of one volume.*\(--volume\)$"):
        read_mask(tmp_path / "stack.npy")


def test_every_chunk_of_a_page_counts_against_the_limit(tmp_path):
    zarr.create_array(tmp_path / "a.zarr", data=np.zeros((1000, 10, 10), np.uint8), chunks=(1000, 1, 1))
    with pytest.raises(errors.FileError, match="got 100000 bytes for 10 x 10 px"):
        read_mask(tmp_path / "a.zarr", page=0, max_pixels=10**4)


@pytest.mark.parametrize("dtype", [np.uint8, np.float64])
def test_max_pixels_counts_pixels_and_not_bytes(tmp_path, dtype):
    np.save(tmp_path / "a.npy", np.zeros((8, 8), dtype))
    zarr.create_array(tmp_path / "a.zarr", data=np.zeros((8, 8), dtype), chunks=(3, 8))
    tifffile.imwrite(tmp_path / "a.tif", np.zeros((8, 8, 3), np.uint8), photometric="rgb")
    for name in ("a.npy", "a.zarr", "a.tif"):
        assert read_mask(tmp_path / name, max_pixels=64).is_empty
        with pytest.raises(errors.FileError, match="at most 63 pixels, got 8 x 8 = 64"):
            read_mask(tmp_path / name, max_pixels=63)


# --- hostile folders -------------------------------------------------------------------------

IN_TIME_S = 60  # most of it is starting Python on a busy machine; without the checks it would be for ever


def run_in_time(code, *words):
    """Run code in another process, which is killed if it does not end in time."""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, words)], capture_output=True, text=True, timeout=IN_TIME_S, check=False
    )
    return done.stdout + done.stderr


READ = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
from pairframe import errors
from pairframe.masks import read_mask
try:
    read_mask(sys.argv[1], label="all")
    print("read")
except errors.FileError as error:
    print(f"FileError: {error}")
"""


def zarr_with(tmp_path, version, name, replace):
    """A Zarr of which one file is replaced: ``replace(path)`` makes the new one."""
    path = tmp_path / "a.zarr"
    zarr.create_array(path, data=NOISE, chunks=(32, 32), zarr_format=version)
    file = path / name
    assert file.is_file()
    file.unlink()
    replace(file)
    return path


HOSTILE_FILES = {
    "a pipe": os.mkfifo,
    "a link to a pipe": lambda path: (os.mkfifo(path.parent / "pipe"), path.symlink_to("pipe")),
    "a link to an endless device": lambda path: path.symlink_to("/dev/zero"),
    "a link to a device that waits": lambda path: path.symlink_to("/dev/tty"),
}


@pytest.mark.parametrize("replace", HOSTILE_FILES.values(), ids=HOSTILE_FILES)
@pytest.mark.parametrize(("version", "name"), [(3, "zarr.json"), (3, "c/0/1"), (2, ".zarray"), (2, "0.1")])
def test_a_zarr_with_anything_but_regular_files_is_refused_in_time(tmp_path, version, name, replace):
    path = zarr_with(tmp_path, version, name, replace)
    said = run_in_time(READ, path)
    assert said.startswith("FileError: expected regular files in a Zarr, got"), said


@pytest.mark.parametrize(("version", "name"), [(3, "zarr.json"), (3, "c/0/1"), (2, ".zarray"), (2, "0.1")])
def test_a_zarr_with_a_huge_file_is_refused_before_it_is_read(tmp_path, version, name):
    def make_huge(path):
        with path.open("wb") as stream:
            stream.truncate(1 << 40)  # a hole: it takes no space

    said = run_in_time(READ, zarr_with(tmp_path, version, name, make_huge))
    assert said.startswith("FileError: expected files of at most"), said


def test_a_million_missing_chunks_are_refused_in_time(tmp_path):
    zarr.create_array(tmp_path / "a.zarr", shape=(1000, 1000), chunks=(1, 1), dtype="u1")
    began = time.monotonic()
    with pytest.raises(errors.FileError, match="at most 65536 chunks per page, got 1000000 chunks"):
        read_mask(tmp_path / "a.zarr")
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("options", [{"compressors": None}, {"shards": (64, 32)}, {"zarr_format": 2}])
def test_noise_that_does_not_compress_is_below_the_limits(tmp_path, options):
    noise = np.random.default_rng(0).integers(1, 255, (64, 64), np.uint8)
    array = zarr.create_array(tmp_path / "a.zarr", shape=(64, 64), dtype="u1", chunks=(16, 16), **options)
    for half in (np.s_[:, :32], np.s_[:, 32:]):  # one shard at a time
        array[half] = noise[half]
    assert read_mask(tmp_path / "a.zarr", label="all").area_px == 64 * 64


@pytest.mark.parametrize("prefix", ["-" * 9_000, "(" * 9_000, "[" * 9_000, "not " * 2_000])
@pytest.mark.parametrize("name", ["a.npy", "a.npz"])
def test_a_header_that_is_nested_too_deeply_is_a_broken_file_and_not_a_lack_of_memory(tmp_path, prefix, name):
    header = f"{{'descr': '|b1', 'fortran_order': False, 'shape': ({prefix}3, 4)}}\n".encode()
    content = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(12)
    path = tmp_path / name
    if path.suffix == ".npz":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("mask.npy", content)
    else:
        path.write_bytes(content)
    with pytest.raises(errors.FileError, match=f"a complete NP[YZ] file, got .*{name}"):
        read_mask(path)


def test_a_mask_is_not_written_under_an_impossible_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(errors.FileError, match="a path that the system allows"):
        write_mask(Mask.from_array(NOISE), "a\0.png")
    assert list(tmp_path.iterdir()) == []

"""NumPy .npy and .npz files. Nothing is unpickled, and the header is checked against the size of the file."""

from __future__ import annotations

import lzma
import math
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from pairframe.errors import FileError
from pairframe.masks.readers.base import ImageSource, file_errors

# numpy hands a header that does not parse to Python's tokenizer.
_HEADER_ERRORS = (ValueError, EOFError, SyntaxError, tokenize.TokenError)

_TOO_LONG = 2**63

_PARSERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}

_Header = tuple[tuple[int, ...], bool, np.dtype[Any]]


@contextmanager
def open_npy(path: Path, inner: str | None) -> Iterator[ImageSource]:
    """Open a .npy file; a page of a stack is read through a memory map."""
    with file_errors(path, "NPY", OSError, *_HEADER_ERRORS), path.open("rb") as stream:
        shape, fortran, dtype = _read_header(stream, path)
        offset = stream.tell()

        def read_page(page: int) -> NDArray[Any]:
            order = "F" if fortran else "C"
            mapped = np.memmap(path, dtype, "r", offset, shape, order)  # type: ignore[call-overload]
            return np.array(mapped[np.unravel_index(page, shape[:-2])] if shape[:-2] else mapped)

        yield ImageSource(shape, dtype, read_page)


@contextmanager
def open_npz(path: Path, inner: str | None) -> Iterator[ImageSource]:
    """Open one array of an .npz file: ``inner``, or the only one in the file."""
    errors = (OSError, RuntimeError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, *_HEADER_ERRORS)
    with file_errors(path, "NPZ", *errors), zipfile.ZipFile(path) as archive:
        entry = _choose_entry(archive, path, inner)
        with archive.open(entry) as stream:
            shape, fortran, dtype = _read_header(stream, path)
            data_start = stream.tell()
            declared = data_start + math.prod(shape) * dtype.itemsize
            if entry.file_size != declared:
                raise FileError(
                    f"{declared} bytes in {entry.filename!r}, as its header says",
                    f"{entry.file_size} bytes in {str(path)!r}",
                    "write the file again with numpy.savez_compressed, because it is damaged or manipulated",
                )

            def read_page(page: int) -> NDArray[Any]:
                count = math.prod(shape if fortran else shape[-2:])
                if not fortran:
                    # In C order pages are consecutive, so later pages need not be decompressed.
                    stream.seek(data_start + page * count * dtype.itemsize)
                content = stream.read(count * dtype.itemsize)
                if not fortran:
                    return np.frombuffer(content, dtype, count).reshape(shape[-2:])
                everything = np.frombuffer(content, dtype, count).reshape(shape, order="F")
                return everything[np.unravel_index(page, shape[:-2])] if shape[:-2] else everything

            yield ImageSource(shape, dtype, read_page, decoded_px=math.prod(shape) if fortran else 0)


def _choose_entry(archive: zipfile.ZipFile, path: Path, inner: str | None) -> zipfile.ZipInfo:
    entries = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
    if not entries:
        raise FileError(
            "at least one array in the file", f"none in {str(path)!r}", "write it again, with numpy.savez_compressed"
        )
    if inner is None and len(entries) == 1:
        return next(iter(entries.values()))
    if inner is None or inner not in entries:
        known = ", ".join(list(entries)[:10])
        raise FileError(
            "the name of one array in the file",
            f"{inner!r} for {str(path)!r}, which holds {known}",
            f"write the name after a slash: {path.name}/{next(iter(entries))}",
        )
    return entries[inner]


def _read_header(stream: IO[bytes], path: Path) -> _Header:
    version = np.lib.format.read_magic(stream)
    if version not in _PARSERS:
        # Version 3 exists only for the field names of structured arrays, which are not images.
        raise ValueError(f"format version {version[0]}.{version[1]} does not hold a plain array")
    try:
        header: _Header = _PARSERS[version](stream)
    except (MemoryError, RecursionError) as error:  # from Python's parser; a header is short
        raise ValueError("the header is nested too deeply") from error
    if any(type(side) is not int or side >= _TOO_LONG for side in header[0]):
        # numpy accepts True as a side, and fails much later for sides that are too long.
        raise ValueError(f"the shape {header[0]} is not valid for an array")
    if header[2].hasobject:
        raise FileError(
            "an array of numbers",
            f"pickled Python objects in {str(path)!r}, which could run any code",
            "save the image with a numeric dtype, such as array.astype(numpy.uint8)",
        )
    return header

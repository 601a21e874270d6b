"""PNG files, read with Pillow. The pixel size in a PNG is not reliable and is ignored."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pairframe.errors import GreyImageError
from pairframe.masks.readers.base import ImageSource, file_errors, grey_from_channels

if TYPE_CHECKING:
    from PIL.PngImagePlugin import PngImageFile

_DTYPE_OF_MODE = {"1": np.dtype(bool), "I;16": np.dtype(np.uint16), "I": np.dtype(np.int32)}


@contextmanager
def open_png(path: Path, inner: str | None) -> Iterator[ImageSource]:
    """Open a grey, 1-bit, palette or (all channels equal) RGB image.

    Grey values of 1, 2 and 4 bit are returned as stored. For a palette, pixels are its grey values and label ids its
    indices.
    """
    # Not Image.open, which has a size limit and warns or fails above it.
    from PIL.PngImagePlugin import PngImageFile

    # Pillow raises SyntaxError for bytes that are not a PNG.
    errors = (OSError, SyntaxError, ValueError, EOFError, struct.error, zlib.error)
    with file_errors(path, "PNG", *errors), path.open("rb") as stream, PngImageFile(stream) as image:
        width, height = image.size
        yield ImageSource(
            shape=(height, width),
            dtype=_DTYPE_OF_MODE.get(image.mode, np.dtype(np.uint8)),
            read_page=lambda page: _grey(image, path.name),
            read_ids=(lambda page: _indices(image)) if image.mode == "P" else None,
        )


def _grey(image: PngImageFile, name: str) -> NDArray[Any]:
    if image.mode not in ("I;16", "I") and image.tile and ";16" in str(image.tile[0][3]):
        raise GreyImageError(
            "a grey image of 8 or 16 bit, or colours of 8 bit",
            f"16-bit colour or alpha in {name!r}, which would lose its lower bits",
            "save it as 16-bit grey without alpha",
        )
    step = _step_of_depth(image)
    image.load()
    if "transparency" in image.info:
        if image.mode in ("I;16", "I"):
            raise GreyImageError(
                "a grey image without transparency", f"a transparent grey value in {name!r}", "save it without one"
            )
        return grey_from_channels(np.asarray(image.convert("RGBA")), name) // step
    if image.mode == "P":
        return _grey_of_palette(image, name)
    pixels = np.asarray(image)
    if pixels.ndim == 3:
        return grey_from_channels(pixels, name)
    return pixels if step == 1 else pixels // step


def _step_of_depth(image: PngImageFile) -> np.uint8:
    """The factor by which Pillow multiplies grey values of 2 and 4 bit to fill 0 to 255."""
    return np.uint8({"L;2": 85, "L;4": 17}.get(str(image.tile[0][3]) if image.tile else "", 1))


def _indices(image: PngImageFile) -> NDArray[Any]:
    image.load()
    return np.asarray(image)


def _grey_of_palette(image: PngImageFile, name: str) -> NDArray[Any]:
    try:
        return grey_from_channels(np.asarray(image.convert("RGB")), name)
    except GreyImageError as error:
        fix = f'{error.fix}; if the colours stand for labels, choose one by its index, "{name}:1", or "{name}:all"'
        raise GreyImageError(error.expected, f"{error.got}, by its palette", fix) from None

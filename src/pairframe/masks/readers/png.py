"""PNG, by Pillow. A PNG carries no pixel size that could be trusted."""

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
from pairframe.masks.readers.base import ImageSource, broken_file_is_our_error, grey_from_channels

if TYPE_CHECKING:
    from PIL.PngImagePlugin import PngImageFile

_DTYPE_OF_MODE = {"1": np.dtype(bool), "I;16": np.dtype(np.uint16), "I": np.dtype(np.int32)}


@contextmanager
def open_png(path: Path, inner: str | None) -> Iterator[ImageSource]:
    """Open a grey, 1-bit, palette or (all channels equal) RGB image."""
    # The class itself, not Image.open: that one warns or fails by a size limit of its own.
    from PIL.PngImagePlugin import PngImageFile

    # Pillow says SyntaxError for bytes that are no PNG.
    errors = (OSError, SyntaxError, ValueError, EOFError, struct.error, zlib.error)
    with broken_file_is_our_error(path, "PNG", *errors), path.open("rb") as stream, PngImageFile(stream) as image:
        width, height = image.size
        yield ImageSource(
            shape=(height, width),
            dtype=_DTYPE_OF_MODE.get(image.mode, np.dtype(np.uint8)),
            read_page=lambda page: _grey(image, path.name),
        )


def _grey(image: PngImageFile, name: str) -> NDArray[Any]:
    if image.mode not in ("I;16", "I") and image.tile and ";16" in str(image.tile[0][3]):
        raise GreyImageError(
            "a grey image of 8 or 16 bit, or colours of 8 bit",
            f"16-bit colour or alpha in {name!r}, which would lose its lower bits",
            "save it as 16-bit grey without alpha",
        )
    image.load()
    if "transparency" in image.info:
        if image.mode in ("I;16", "I"):
            raise GreyImageError(
                "a grey image without transparency", f"a transparent grey value in {name!r}", "save it without one"
            )
        return grey_from_channels(np.asarray(image.convert("RGBA")), name)
    if image.mode == "P":
        return grey_from_channels(np.asarray(image.convert("RGB")), name)
    pixels = np.asarray(image)
    return grey_from_channels(pixels, name) if pixels.ndim == 3 else pixels

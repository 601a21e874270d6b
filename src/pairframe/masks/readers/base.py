"""`ImageSource`, the common interface of all readers: a file that is open but not yet decoded."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairframe.errors import FileError, GreyImageError, PairframeError

_MAX_CHANNELS = 4

SizeYX = tuple[float, float]


@dataclass(frozen=True)
class ImageSource:
    """The header of an open image file, and a way to decode one page.

    Parameters
    ----------
    shape : tuple of int
        (..., H, W); all axes before the last two, flattened in C order, are the pages.
    dtype : numpy dtype
        Of the pixels.
    read_page : callable
        Page index to (H, W) array; only called while the file is open.
    px_size_yx_um : callable
        Page index to height and width of a pixel in micrometres, None if the file has no pixel size.
    decoded_px : int
        Number of values to decode for one page, if that is more than H * W.
    read_ids : callable or None
        Like `read_page`, for files whose label ids differ from their grey values, such as indices into a palette.
    axes : str or None
        Letters of the axes of `shape`, such as ``TYX``, if the file names them.
    instead_of_labels : str or None
        If labels were opened by default, the inner path of the image that may hold a density.
    is_coverage : bool
        Whether the file says that its values are the shares of pixels that a mask covers.
    is_volume : bool
        Whether the metadata says that the last axis before the pages' own is depth, in a way that can be relied on.
    plane_distance_um : callable
        Page index to the distance of its plane to the next one in micrometres; None if the file does not say.
    sides_without_unit_zyx : tuple of float, or None
        Sides of a voxel in a unit that is missing or is no length: they say how far a voxel is from a cube.
    orientation_zyx : str or None
        Where the axes of a volume point in the body, in letters of anatomy such as ``SAR``.
    read_volume : callable or None
        Index of a volume, into the axes before the last three, to a (Z, Y, X) array; for files in which planes are stored
        together.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    read_page: Callable[[int], NDArray[Any]]
    px_size_yx_um: Callable[[int], SizeYX | None] = lambda page: None
    decoded_px: int = 0
    read_ids: Callable[[int], NDArray[Any]] | None = None
    instead_of_labels: str | None = None
    is_coverage: bool = False
    axes: str | None = None
    is_volume: bool = False
    plane_distance_um: Callable[[int], float | None] = lambda page: None
    sides_without_unit_zyx: tuple[float, float, float] | None = None
    orientation_zyx: str | None = None
    read_volume: Callable[[int], NDArray[Any]] | None = None

    @property
    def page_count(self) -> int:
        return math.prod(self.shape[:-2])


@contextmanager
def file_errors(path: Path, kind: str, *library_errors: type[Exception]) -> Iterator[None]:
    """Turn the errors that a library raises for a bad file into `FileError`."""
    try:
        yield
    except PairframeError:
        raise
    except library_errors as error:
        detail = str(error) or type(error).__name__
        raise FileError(
            f"a complete {kind} file",
            f"{str(path)!r}, which fails with: {detail}",
            "write the file again, or check that its content matches its extension",
        ) from error


def require_few_channels(count: int, name: str) -> None:
    """Refuse images with more channels than a colour image; called before decoding if the count is known."""
    if count > _MAX_CHANNELS:
        raise GreyImageError(
            f"a grey or binary image, or at most {_MAX_CHANNELS} channels that are all equal",
            f"{count} channels in {name!r}",
            "save the channel that holds the mask as a separate image",
        )


def grey_from_channels(pixels: NDArray[Any], name: str) -> NDArray[Any]:
    """Return the one grey image that an (H, W, C) image with equal channels holds.

    C is 1 (grey), 2 (grey, alpha), 3 (RGB) or 4 (RGB, alpha); alpha must be opaque everywhere.
    """
    require_few_channels(pixels.shape[2], name)
    colours = pixels.shape[2] - (pixels.shape[2] in (2, 4))
    if colours != pixels.shape[2]:
        opaque = np.iinfo(pixels.dtype).max if pixels.dtype.kind in "iu" else 1
        if (pixels[..., -1] != opaque).any():
            raise GreyImageError(
                "a grey or binary image", f"transparent pixels in {name!r}", "save the image without an alpha channel"
            )
    grey: NDArray[Any] = pixels[..., 0]
    if any((pixels[..., channel] != grey).any() for channel in range(1, colours)):
        raise GreyImageError(
            "a grey or binary image",
            f"a colour image in {name!r}",
            "save the mask itself as 8-bit grey, not an overlay or a colour rendering",
        )
    return grey

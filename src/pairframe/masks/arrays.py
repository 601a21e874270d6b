"""What every array and every pixel size must pass, wherever it comes in: masks, frames, problems."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairframe.errors import (
    EmptyCanvasError,
    NegativeMassError,
    NotFiniteError,
    NotNumericError,
    NotTwoDimensionalError,
    PixelSizeError,
)

# Beyond these an area, or a length times a factor, would leave the range of float64.
_LEAST_PX_SIZE_UM, _LARGEST_PX_SIZE_UM = 1e-100, 1e100
_MAX_CHANNELS = 5  # a last axis up to this long is more likely colour than width


def is_real_number(value: object) -> bool:
    """Whether `value` is a plain or numpy number: no text, no boolean, no array."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def is_positive_number(value: Any) -> bool:
    """Whether `value` is such a number, above 0 and within float64."""
    return is_real_number(value) and bool(0 < value <= sys.float_info.max)


def checked_px_size(px_size_um: Any) -> float:
    """The side of a pixel in micrometres as a float; everything else is refused."""
    if not is_real_number(px_size_um) or not _LEAST_PX_SIZE_UM <= px_size_um <= _LARGEST_PX_SIZE_UM:
        raise PixelSizeError(
            "a finite, positive pixel size in um",
            repr(px_size_um),
            "give the side of one pixel, such as px_size_um=0.65 "
            f"(from {_LEAST_PX_SIZE_UM:g} to {_LARGEST_PX_SIZE_UM:g})",
        )
    return float(px_size_um)


def as_numeric(given: object, name: str) -> NDArray[Any]:
    """`given` as a plain array of booleans or real numbers; may share its memory."""
    if isinstance(given, np.ma.MaskedArray):
        # numpy would drop the mask and count the hidden pixels.
        raise NotNumericError(f"{name} to be a plain array", "a numpy masked array", "fill it first: array.filled(0)")
    try:
        values = np.asarray(given)
    except (TypeError, ValueError) as error:
        raise NotNumericError(
            f"{name} to be a rectangular array of numbers", str(error), "make all rows equally long"
        ) from error
    if values.dtype.kind not in "biuf":
        raise NotNumericError(
            f"{name} to be boolean or real", f"dtype {values.dtype}", "convert it first, such as array.astype(float)"
        )
    return values


def checked_image(given: object, name: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """A finite, non-negative (H, W) array and the maxima (H,) of its rows; may share the memory of `given`.

    Two passes over the pixels and no temporary of the image's size: minima and maxima carry NaN, infinity and sign.
    """
    image = as_numeric(given, name)
    if image.ndim != 2:
        raise NotTwoDimensionalError(
            f"{name} to be one 2-D image (height, width)",
            f"{image.ndim} axes of lengths {image.shape}",
            "choose one plane, such as stack[0] (page= for a file), or make a projection, such as stack.max(axis=0)"
            + (f"; {channels_hint(image.shape)}" if looks_like_channels_last(image.shape) else ""),
        )
    if image.size == 0:
        raise EmptyCanvasError(
            f"{name} to have at least one pixel",
            f"a canvas of {image.shape[0]} x {image.shape[1]} px",
            "check how the image was read or cropped",
        )
    if image.dtype.kind == "f" and image.dtype.itemsize > 8:
        with np.errstate(over="ignore", under="ignore"):
            image = image.astype(np.float64)  # all masses are; what does not fit becomes infinite, and is refused here
    with np.errstate(invalid="ignore"):
        row_max = image.max(axis=1)
        row_min = image.min(axis=1) if image.dtype.kind in "if" else None
    if row_min is None:
        return image, row_max
    bad_rows = np.flatnonzero(~(np.isfinite(row_max) & np.isfinite(row_min)))
    if bad_rows.size:
        y = int(bad_rows[0])
        x = int(np.flatnonzero(~np.isfinite(image[y]))[0])
        raise NotFiniteError(
            f"finite values in {name}",
            f"{image[y, x]} at (y={y}, x={x})",
            "replace NaN and infinity first, such as numpy.nan_to_num(array, posinf=0, neginf=0)",
        )
    if row_min.min() < 0:
        raise NegativeMassError(
            f"values >= 0 in {name}",
            f"a minimum of {row_min.min()}",
            "subtract the background or clip at 0; mass cannot be negative",
        )
    return image, row_max


def looks_like_channels_last(shape: tuple[int, ...]) -> bool:
    """Whether (..., H, W) is more likely (..., H, W, C)."""
    return len(shape) > 2 and shape[-1] <= _MAX_CHANNELS < min(shape[-3:-1])


def channels_hint(shape: tuple[int, ...]) -> str:
    """What to do about such a shape."""
    return f"if the last axis holds {shape[-1]} channels, keep one of them: array[..., 0]"


def finite_total(array: NDArray[Any], name: str) -> float:
    """The sum of an array of masses; an error when float64 cannot hold it."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = float(array.sum(dtype=np.float64))
    if not math.isfinite(total):
        raise NotFiniteError(
            f"a finite total mass in {name}",
            "NaN, infinity, or a sum beyond float64",
            "replace NaN and infinity; divide both images by one number, such as the larger maximum",
        )
    return total

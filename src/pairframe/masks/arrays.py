"""Checks that every image passes, in masks, frames and problems."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairframe.errors import MaskError

PLANE = "choose one plane, such as stack[0] (page= for a file), or make a projection, such as stack.max(axis=0)"
VOLUME_OR_PLANE = (
    f"if it is a volume (z, y, x), say so with volume=True (--volume); if it is a series of images, {PLANE}"
)
MAX_PIXELS = 2**28  # of an image, unless another limit is given
_MAX_CHANNELS = 5  # a last axis up to this long is more likely colour than width


def as_numeric(given: object, name: str) -> NDArray[Any]:
    """`given` as a plain array of booleans or real numbers; may share its memory."""
    if isinstance(given, np.ma.MaskedArray):
        # numpy would drop the mask and count the hidden pixels.
        raise MaskError(f"{name} to be a plain array", "a numpy masked array", "fill it first: array.filled(0)")
    try:
        values = np.asarray(given)
    except (TypeError, ValueError) as error:
        raise MaskError(
            f"{name} to be a rectangular array of numbers", str(error), "make all rows equally long"
        ) from error
    if values.dtype.kind not in "biuf":
        raise MaskError(
            f"{name} to be boolean or real", f"dtype {values.dtype}", "convert it first, such as array.astype(float)"
        )
    return values


def checked_image(given: object, name: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """`checked_mass` of an image (H, W), with the maxima (H,) of its rows; other numbers of axes are refused."""
    image = as_numeric(given, name)
    if image.ndim != 2:
        raise MaskError(
            f"{name} to be one 2-D image (height, width)",
            f"{image.ndim} axes of lengths {image.shape}",
            (VOLUME_OR_PLANE if image.ndim == 3 else PLANE)
            + (f"; {channels_hint(image.shape)}" if looks_like_channels_last(image.shape) else ""),
        )
    return checked_mass(image, name)


def checked_canvas(given: object, name: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """`checked_mass` of an image (H, W) or a volume (Z, Y, X), with the maxima of its rows; other numbers of axes are refused."""
    values = as_numeric(given, name)
    return checked_volume(values, name) if values.ndim == 3 else checked_image(values, name)


def checked_volume(given: object, name: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """`checked_mass` of a volume (Z, Y, X), with the maxima (Z, Y) of its rows; other numbers of axes are refused."""
    volume = as_numeric(given, name)
    if volume.ndim != 3:
        raise MaskError(
            f"{name} to be one volume (z, y, x)",
            f"{volume.ndim} axes of lengths {volume.shape}",
            "compare one image without volume=True"
            if volume.ndim == 2
            else "choose one time point and one channel first",
        )
    return checked_mass(volume, name)


def checked_mass(given: object, name: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """A finite, non-negative array of any number of axes, and its maxima along the last one; may share memory.

    Two passes over the pixels and no temporary of the array's size: minima and maxima carry NaN, infinity and sign.
    """
    mass = as_numeric(given, name)
    if mass.size == 0 or mass.ndim == 0:
        raise MaskError(
            f"{name} to have at least one pixel",
            f"a canvas of {' x '.join(map(str, mass.shape))} px" if mass.ndim else "a single number",
            "check how the image was read or cropped",
        )
    if mass.dtype.kind == "f" and mass.dtype.itemsize > 8:
        with np.errstate(over="ignore", under="ignore"):
            mass = mass.astype(np.float64)  # as all masses are; larger numbers become infinite and are refused below
    with np.errstate(invalid="ignore"):
        row_max = np.asarray(mass.max(axis=-1))
        row_min = np.asarray(mass.min(axis=-1)) if mass.dtype.kind in "if" else None
    if row_min is None:
        return mass, row_max
    if not (np.isfinite(row_max).all() and np.isfinite(row_min).all()):
        place = tuple(int(k) for k in np.argwhere(~np.isfinite(mass))[0])
        axes = "zyx"[-mass.ndim :] if mass.ndim <= 3 else [f"axis {k}" for k in range(mass.ndim)]
        raise MaskError(
            f"finite values in {name}",
            f"{mass[place]} at ({', '.join(f'{axis}={k}' for axis, k in zip(axes, place, strict=True))})",
            "replace NaN and infinity first, such as numpy.nan_to_num(array, posinf=0, neginf=0)",
        )
    if row_min.min() < 0:
        raise MaskError(
            f"values >= 0 in {name}",
            f"a minimum of {row_min.min()}",
            "subtract the background or clip at 0; mass cannot be negative",
        )
    return mass, row_max


def looks_like_channels_last(shape: tuple[int, ...]) -> bool:
    """Whether (..., H, W) is more likely (..., H, W, C)."""
    return len(shape) > 2 and shape[-1] <= _MAX_CHANNELS < min(shape[-3:-1])


def channels_hint(shape: tuple[int, ...]) -> str:
    """Advice for an image that probably has channels last."""
    return f"if the last axis holds {shape[-1]} channels, keep one of them: array[..., 0]"


def finite_total(array: NDArray[Any], name: str) -> float:
    """The sum of an array of masses; raises an error if it does not fit in float64."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = float(array.sum(dtype=np.float64))
    if not math.isfinite(total):
        raise MaskError(
            f"a finite total mass in {name}",
            "NaN, infinity, or a sum beyond float64",
            "replace NaN and infinity, or divide both images by the same number, such as the larger maximum",
        )
    return total

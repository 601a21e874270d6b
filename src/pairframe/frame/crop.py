"""Which part of the canvas a pair needs: checks on the inputs, and the crop box."""

from __future__ import annotations

import math
from operator import index
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairframe.errors import (
    BothMasksEmptyError,
    CanvasMismatchError,
    ClippedMassError,
    DownsampleFactorError,
    EmptyCanvasError,
    NegativeMassError,
    NotFiniteError,
    NotNumericError,
    NotTwoDimensionalError,
    PadError,
    PixelSizeError,
)
from pairframe.frame.box import BoxYX, tight_box

Array = NDArray[np.generic]
Boxes = tuple[BoxYX | None, BoxYX | None]


def check_density(density: ArrayLike, name: str) -> tuple[Array, BoxYX | None]:
    """A finite, non-negative (H, W) array and its tight box, in two passes over the pixels."""
    array = np.asarray(density)
    if array.ndim != 2:
        raise NotTwoDimensionalError(
            f"{name} to be a 2-D (H, W) array",
            f"shape {array.shape}",
            "choose one plane, e.g. stack[0], or project it first",
        )
    if array.size == 0:
        raise EmptyCanvasError(
            f"{name} to have pixels", f"shape {array.shape}", "check how the image was read or cropped"
        )
    if array.dtype.kind not in "buif":
        raise NotNumericError(
            f"{name} to be boolean or real", f"dtype {array.dtype}", "convert it, e.g. array.astype(float)"
        )
    # Row minima and maxima carry NaN, infinity and sign, and find the rows with mass: no temporary of the image's size.
    row_max = array.max(axis=1)
    row_min = array.min(axis=1) if array.dtype.kind in "if" else None
    if array.dtype.kind == "f" and not np.isfinite(row_max).all():
        raise NotFiniteError(
            f"finite values in {name}", _first_bad(array, row_max), "replace NaN and inf, e.g. numpy.nan_to_num"
        )
    if row_min is not None and row_min.min() < 0:
        raise NegativeMassError(
            f"values >= 0 in {name}",
            f"a minimum of {row_min.min()}",
            "a mass cannot be negative: clip or shift the image",
        )
    return array, tight_box(array, row_max > 0)


def _first_bad(array: Array, row_max: Array) -> str:
    y = int(np.flatnonzero(~np.isfinite(row_max))[0])
    x = int(np.flatnonzero(~np.isfinite(array[y]))[0])
    return f"{array[y, x]} at (y={y}, x={x})"


def check_pair(mask_a: ArrayLike, mask_b: ArrayLike) -> tuple[Array, Array, Boxes]:
    """Both densities on one canvas, at least one with mass, and their tight boxes."""
    a, box_a = check_density(mask_a, "mask_a")
    b, box_b = check_density(mask_b, "mask_b")
    if a.shape != b.shape:
        raise CanvasMismatchError(
            "both masks on one canvas",
            f"shapes {a.shape} and {b.shape}",
            "pad the smaller image to the larger one's shape",
        )
    if box_a is None and box_b is None:
        raise BothMasksEmptyError(
            "mass in at least one mask", "two empty masks", "check the segmentation, the label id or the threshold"
        )
    return a, b, (box_a, box_b)


def check_factor(s: Any) -> int:
    """A downsample factor: an integer >= 1."""
    try:
        factor = index(s)
    except TypeError:
        factor = 0
    if factor < 1 or isinstance(s, bool):
        raise DownsampleFactorError(
            "a downsample factor s that is an integer >= 1", repr(s), "s=1 keeps full resolution"
        )
    return factor


def check_pad(pad: Any) -> int:
    """A pad in canonical pixels: an integer >= 0."""
    try:
        pixels = index(pad)
    except TypeError:
        pixels = -1
    if pixels < 0 or isinstance(pad, bool):
        raise PadError(
            "a pad that is an integer >= 0 (canonical pixels)", repr(pad), "pad=0 crops tightly, 16 is the default"
        )
    return pixels


def check_px_size(px_size_um: Any) -> float:
    """A pixel side in um: positive and finite."""
    try:
        size = float(px_size_um)
    except (TypeError, ValueError):
        size = math.nan
    if not (math.isfinite(size) and size > 0):
        raise PixelSizeError(
            "a positive pixel size in um", repr(px_size_um), "e.g. px_size_um=0.65; use 1.0 for lengths in pixels"
        )
    return size


def union_box(boxes_ab: Boxes, pad: int, canvas_shape_hw: tuple[int, int]) -> BoxYX:
    """The box around both objects, grown by `pad`, on the canvas."""
    first, *rest = [box for box in boxes_ab if box is not None]
    for box in rest:
        first = first.union(box)
    return first.expand(pad).clamp(canvas_shape_hw)


def make_divisible(box: BoxYX, s: int, canvas_shape_hw: tuple[int, int]) -> BoxYX:
    """Grow a box on the canvas until both sides are multiples of `s`."""
    y0, y1 = _grow(box.y0, box.y1, s, canvas_shape_hw[0])
    x0, x1 = _grow(box.x0, box.x1, s, canvas_shape_hw[1])
    return BoxYX(y0, y1, x0, x1)


def _grow(start: int, stop: int, s: int, canvas: int) -> tuple[int, int]:
    side = -(-(stop - start) // s) * s
    if side > canvas:  # no room for whole blocks: the last one hangs over the end, and is empty there
        return 0, side
    stop = min(start + side, canvas)
    return stop - side, stop


def shares_outside(a: Array, b: Array, boxes_ab: Boxes, crop: BoxYX, allow_clipping: bool) -> tuple[float, float]:
    """The share of each mask's mass outside the crop; an error when there is any and clipping is not allowed."""
    shares = [
        0.0 if box is None or crop.contains(box) else _share_outside(array, crop)
        for array, box in zip((a, b), boxes_ab, strict=True)
    ]
    if any(shares) and not allow_clipping:
        lost = " and ".join(f"{share:.3g} of mask_{name}" for name, share in zip("ab", shares, strict=True) if share)
        raise ClippedMassError(
            "a fixed box that contains both objects",
            f"y {crop.y0}:{crop.y1}, x {crop.x0}:{crop.x1}, which loses the share {lost}",
            "enlarge override_pair_bbox, or set allow_clipping=True to record the loss and go on",
        )
    if all(box is None or share >= 1.0 for box, share in zip(boxes_ab, shares, strict=True)):
        raise BothMasksEmptyError(
            "mass inside the fixed box", "a box without any", "move override_pair_bbox onto the objects"
        )
    return shares[0], shares[1]


def _share_outside(array: Array, crop: BoxYX) -> float:
    total = float(array.sum(dtype=np.float64))
    inside = float(array[crop.slices].sum(dtype=np.float64))
    return max(0.0, 1.0 - inside / total) or math.ulp(1.0)  # some mass is outside, however little

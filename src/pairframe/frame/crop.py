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
    PadError,
)
from pairframe.frame.box import MAX_SIDE, BoxYX, tight_box
from pairframe.masks.arrays import checked_image, finite_total
from pairframe.masks.arrays import checked_px_size as check_px_size

__all__ = [
    "check_density",
    "check_factor",
    "check_pad",
    "check_pair",
    "check_px_size",
    "make_divisible",
    "shares_outside",
    "union_box",
]

Array = NDArray[np.generic]
Boxes = tuple[BoxYX | None, BoxYX | None]


def check_density(density: ArrayLike, name: str) -> tuple[Array, BoxYX | None]:
    """A finite, non-negative (H, W) array and its tight box, in two passes over the pixels."""
    array, row_max = checked_image(density, name)
    return array, tight_box(array, row_max > 0)


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
    if not 1 <= factor <= MAX_SIDE or isinstance(s, bool):
        raise DownsampleFactorError(
            "a downsample factor s that is an integer >= 1",
            repr(s),
            f"s=1 keeps full resolution, {MAX_SIDE} is the most",
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
    cut = [box is not None and not crop.contains(box) for box in boxes_ab]
    shares = [
        _share_outside(array, crop, f"mask_{name}") if is_cut else 0.0
        for array, name, is_cut in zip((a, b), "ab", cut, strict=True)
    ]
    if any(shares) and not allow_clipping:
        lost = " and ".join(f"{share:.3g} of mask_{name}" for name, share in zip("ab", shares, strict=True) if share)
        raise ClippedMassError(
            "a fixed box that contains both objects",
            f"y {crop.y0}:{crop.y1}, x {crop.x0}:{crop.x1}, which loses the share {lost}",
            "enlarge override_pair_bbox, or set allow_clipping=True to record the loss and go on",
        )
    # Asked of the pixels: beside a huge mass outside, the share of a small one inside rounds to nothing.
    has_mass = (
        bool(array[crop.slices].any()) if is_cut else box is not None
        for array, box, is_cut in zip((a, b), boxes_ab, cut, strict=True)
    )
    if not any(has_mass):
        raise BothMasksEmptyError(
            "mass inside the fixed box", "a box without any", "move override_pair_bbox onto the objects"
        )
    return shares[0], shares[1]


def _share_outside(array: Array, crop: BoxYX, name: str) -> float:
    total = finite_total(array, name)
    inside = float(array[crop.slices].sum(dtype=np.float64))
    return max(0.0, 1.0 - inside / total) or math.ulp(1.0)  # some mass is outside, however little

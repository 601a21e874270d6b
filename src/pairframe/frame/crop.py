"""The part of the canvas that a pair needs: checks on the inputs, and the crop box."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairframe import checks
from pairframe.errors import FrameError
from pairframe.frame.box import MAX_SIDE, Box, tight_box
from pairframe.masks.arrays import checked_canvas, finite_total
from pairframe.types import Float

__all__ = [
    "check_density",
    "check_factor",
    "check_pad",
    "check_pair",
    "make_divisible",
    "shares_outside",
    "tight_boxes_of",
    "union_box",
]

VOLUME_PAD = 4  # of a volume: a margin of one voxel for so many of `pad`

Array = NDArray[np.generic]
Boxes = tuple[Box | None, Box | None]


def check_density(density: ArrayLike, name: str) -> tuple[Array, Box | None]:
    """A finite, non-negative array, (H, W) or (Z, Y, X), and its tight box, in two passes over the pixels."""
    array, row_max = checked_canvas(density, name)
    return array, tight_box(array, row_max > 0)


def check_pair(mask_a: ArrayLike, mask_b: ArrayLike) -> tuple[Array, Array, Boxes]:
    """Both densities on one canvas, at least one with mass, and their tight boxes."""
    a, box_a = check_density(mask_a, "mask_a")
    b, box_b = check_density(mask_b, "mask_b")
    _check_canvas(a, b, (box_a, box_b))
    return a, b, (box_a, box_b)


def tight_boxes_of(a: Float, b: Float) -> Boxes:
    """Tight boxes of two finite, non-negative densities; an error unless they share a canvas and one has mass."""
    box_a, box_b = (tight_box(density) for density in (a, b))
    _check_canvas(a, b, (box_a, box_b))
    return box_a, box_b


def _check_canvas(a: Array, b: Array, boxes_ab: Boxes) -> None:
    if a.shape != b.shape:
        raise FrameError(
            "both masks on one canvas",
            f"shapes {a.shape} and {b.shape}",
            "pad the smaller image to the larger one's shape",
        )
    if boxes_ab == (None, None):
        raise FrameError(
            "mass in at least one mask", "two empty masks", "check the segmentation, the label id or the threshold"
        )


def check_factor(s: Any) -> int:
    """A downsample factor: an integer >= 1."""
    fix = "1 keeps full resolution"
    return checks.integer(s, "downsample_factor", 1, MAX_SIDE, fix=fix, error=FrameError)


def check_pad(pad: Any) -> int:
    """A pad in canonical pixels: an integer >= 0."""
    fix = "give it in canonical pixels: 0 crops tightly, 16 is the default"
    return checks.integer(pad, "pad", 0, fix=fix, error=FrameError)


def union_box(boxes_ab: Boxes, pad: int, canvas_shape: tuple[int, ...], spacing: tuple[float, ...] = ()) -> Box:
    """The box around both objects, grown by `pad`, on the canvas.

    In a volume, whose `spacing` is given, a margin costs far more memory: it is a quarter of `pad`, and along an axis with
    long voxels fewer of them.
    """
    first, *rest = [box for box in boxes_ab if box is not None]
    for box in rest:
        first = first.union(box)
    return first.expand(tuple(math.ceil(pad / VOLUME_PAD / side) for side in spacing) or pad).clamp(canvas_shape)


def make_divisible(box: Box, s: int, canvas_shape: tuple[int, ...]) -> Box:
    """Grow a box on the canvas until all sides are multiples of `s`."""
    grown = [_grow(start, stop, s, side) for start, stop, side in zip(box.lo, box.hi, canvas_shape, strict=True)]
    return Box(tuple(start for start, _ in grown), tuple(stop for _, stop in grown))


def _grow(start: int, stop: int, s: int, canvas: int) -> tuple[int, int]:
    side = -(-(stop - start) // s) * s
    if side > canvas:  # no room for whole blocks: the last one extends past the canvas, and is empty there
        return 0, side
    stop = min(start + side, canvas)
    return stop - side, stop


def shares_outside(a: Array, b: Array, boxes_ab: Boxes, crop: Box, allow_clipping: bool) -> tuple[float, float]:
    """The share of each mask's mass outside the crop; an error if there is any and clipping is not allowed."""
    cut = [box is not None and not crop.contains(box) for box in boxes_ab]
    shares = [
        _share_outside(array, crop, f"mask_{name}") if is_cut else 0.0
        for array, name, is_cut in zip((a, b), "ab", cut, strict=True)
    ]
    if any(shares) and not allow_clipping:
        lost = " and ".join(f"{share:.3g} of mask_{name}" for name, share in zip("ab", shares, strict=True) if share)
        raise FrameError(
            "a fixed box that contains both objects",
            f"{crop}, which loses the share {lost}",
            "enlarge override_pair_bbox, or set allow_clipping=True to record the loss and go on",
        )
    # Look at the pixels: beside a huge mass outside, the share of a small one inside rounds to nothing.
    has_mass = (
        bool(array[crop.slices].any()) if is_cut else box is not None
        for array, box, is_cut in zip((a, b), boxes_ab, cut, strict=True)
    )
    if not any(has_mass):
        raise FrameError("mass inside the fixed box", "a box without any", "move override_pair_bbox onto the objects")
    return shares[0], shares[1]


def _share_outside(array: Array, crop: Box, name: str) -> float:
    total = finite_total(array, name)
    inside = float(array[crop.slices].sum(dtype=np.float64))
    return max(0.0, 1.0 - inside / total) or math.ulp(1.0)  # some mass is outside, however little

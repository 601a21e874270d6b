"""Checks of the fields of a `GridTransform` and of the arguments of its methods."""

from __future__ import annotations

from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairframe.checks import is_real_number
from pairframe.errors import FrameError
from pairframe.frame.box import MAX_SIDE, Box, BoxYX
from pairframe.masks.arrays import as_numeric
from pairframe.types import Float

_FIX = "build transforms with GridTransform.from_pair"


def int_sides(value: Any, name: str, least: int) -> tuple[int, ...]:
    """Two plain integers, or three for a volume, so that the transform can be hashed and written as JSON."""
    try:
        if any(isinstance(side, bool) for side in value):
            raise TypeError
        sides = tuple(index(side) for side in value)
    except (TypeError, ValueError):
        sides = ()
    if len(sides) not in (2, 3) or not all(least <= side <= MAX_SIDE for side in sides):
        raise FrameError(f"GridTransform.{name} of two integers >= {least}, or three for a volume", repr(value), _FIX)
    return sides


def share_pair(value: Any, name: str) -> tuple[float, float]:
    """Two shares of mass, each from 0 to 1."""
    shares = list(value) if isinstance(value, tuple | list | np.ndarray) else []
    if len(shares) != 2 or not all(is_real_number(share) and 0 <= share <= 1 for share in shares):
        raise FrameError(f"GridTransform.{name} of two shares from 0 to 1", repr(value), _FIX)
    return float(shares[0]), float(shares[1])


def require_consistent(
    canvas: tuple[int, ...], crop: Any, s: int, work_shape: tuple[int, ...], valid: Any, offsets: tuple[int, ...]
) -> None:
    """The crop lies on the canvas, holds whole blocks, and has its place on the work grid."""
    for name, box in (("pair_crop_box_yx", crop), ("work_valid_box_yx", valid)):
        if not isinstance(box, BoxYX if len(canvas) == 2 else Box) or len(box.lo) != len(canvas):
            raise FrameError(f"GridTransform.{name} to be a {'BoxYX' if len(canvas) == 2 else 'Box'}", repr(box), _FIX)
    if not len(canvas) == len(work_shape) == len(offsets):
        raise FrameError("one number of axes in a GridTransform", f"{canvas}, {work_shape} and {offsets}", _FIX)
    blocks = tuple(side // s for side in crop.shape)
    on_canvas = all(
        0 <= start < side and stop - side < s for start, stop, side in zip(crop.lo, crop.hi, canvas, strict=True)
    )
    fits = valid.shape == blocks and valid.lo == offsets and Box((0,) * len(work_shape), work_shape).contains(valid)
    for holds, expected, got in (
        (
            all(side % s == 0 for side in crop.shape),
            f"GridTransform.pair_crop_box_yx with sides divisible by s={s}",
            sides_text(crop.shape),
        ),
        (
            on_canvas,
            f"a crop on the {sides_text(canvas)} canvas (at most a part of one block past its end)",
            repr(crop),
        ),
        (
            fits,
            f"work_valid_box_yx of {sides_text(blocks)} pixels at {offsets} inside {sides_text(work_shape)}",
            repr(valid),
        ),
    ):
        if not holds:
            raise FrameError(expected, got, _FIX)


def sides_text(shape: tuple[int, ...]) -> str:
    """A shape in words, such as ``64 x 128``."""
    return " x ".join(map(str, shape))


def require_used(crop_policy: str, box: Any, bucket_shapes: Any, allow_clipping: bool) -> None:
    """Refuse arguments that the policy would ignore: giving one is a misunderstanding."""
    if crop_policy == "fixed" and box is None:
        raise FrameError(
            'override_pair_bbox with crop_policy="fixed"', "None", "give override_pair_bbox=BoxYX(y0, y1, x0, x1)"
        )
    if box is not None and not isinstance(box, BoxYX):
        raise FrameError("override_pair_bbox to be a BoxYX", repr(box), "write BoxYX(y0, y1, x0, x1)")
    unused = [
        name
        for name, given, policy in (
            ("override_pair_bbox", box is not None, "fixed"),
            ("allow_clipping", allow_clipping, "fixed"),
            ("bucket_shapes", bucket_shapes is not None, "bucketed"),
        )
        if given and crop_policy != policy
    ]
    if unused:
        raise FrameError(
            f"only arguments that crop_policy={crop_policy!r} uses",
            ", ".join(unused),
            "drop them or change the crop_policy",
        )


def require_shape(shape: tuple[int, ...], wanted: tuple[int, ...], name: str) -> None:
    """The array belongs to this transform."""
    if shape != wanted:
        raise FrameError(f"{name} of shape {wanted}", f"{shape}", "use the transform that was built for this pair")


def parse_points(yx: Any, n_axes: int = 2) -> NDArray[Any]:
    """Positions (..., n_axes), as int64 pixel indices or float64 points."""
    points = as_numeric(yx, "positions")
    if points.dtype.kind == "b" or points.ndim == 0 or points.shape[-1] != n_axes:
        raise FrameError(
            f"positions of shape (..., {n_axes}), rows first" if n_axes == 2 else f"positions of shape (..., {n_axes})",
            f"shape {points.shape}, dtype {points.dtype}",
            "e.g. [(y, x), (y, x)]" if n_axes == 2 else "e.g. [(z, y, x), (z, y, x)]",
        )
    if points.dtype.kind == "f":
        return points.astype(np.float64)
    if points.size and (points.max() > MAX_SIDE or points.min() < -MAX_SIDE):
        # Further out the arithmetic of 64-bit integers would wrap around.
        raise FrameError(
            f"pixel indices within {MAX_SIDE} of the origin", f"{points.max()}", "give floats for points that far out"
        )
    return points.astype(np.int64)


def new_array(shape: tuple[int, ...], fill: float, name: str) -> Float:
    """A float64 array, or an error that names what was too large for this machine."""
    try:
        # Zeros that are never written to take no memory.
        return np.full(shape, fill) if fill != 0 else np.zeros(shape)
    except (MemoryError, ValueError) as error:
        raise FrameError(
            f"a {name} that fits into memory",
            f"{sides_text(shape)} float64 values",
            "choose smaller bucket_shapes, crop the images, or raise the downsample factor",
        ) from error

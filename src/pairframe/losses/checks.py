"""Checks of the images, and their conversion to arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pairframe.errors import ArgumentError
from pairframe.tiled.errors import TiledError
from pairframe.tiled.inputs import check_storage
from pairframe.tiled.transforms import has_tangent
from pairframe.types import Float

_LARGEST = 1e100  # beyond it sums of products leave float64
_NEGLIGIBLE = 1e-12  # of the largest value of an image: as good as 0


@dataclass(frozen=True, eq=False)
class CheckedPair:
    """Images (n, H, W) in float64 with their channels in one axis, what they were, and the device of the solve."""

    a: Float
    b: Float
    shape: torch.Size
    dtype: torch.dtype
    device: str | None


def checked_pair(a: Any, b: Any) -> CheckedPair:
    """Check two batches of images; see `ImageLoss.forward`."""
    for name, image in (("a", a), ("b", b)):
        if not isinstance(image, Tensor):
            raise ArgumentError(f"{name} to be a tensor", type(image).__name__, "use torch.as_tensor", name)
        if torch._C._functorch.is_functorch_wrapped_tensor(image) or has_tangent(image):
            raise TiledError(
                "ImageLoss outside of torch.func (vmap, grad, jacrev, jvp) and of forward mode",
                f"{name} inside of one of them",
                "call it on a batch, and use backward() or torch.autograd.grad",
            )
    if a.device != b.device:
        raise ArgumentError(
            "two batches of images on one device",
            f"{a.device} and {b.device}",
            "move one of them with .to(other.device)",
        )
    for name, image in (("a", a), ("b", b)):
        check_storage(name, image)
        if not image.is_floating_point():
            raise ArgumentError(f"{name} in floating point", str(image.dtype), f"use {name}.float()", name)
        if image.dim() in (3, 4) and min(image.shape) < 1:
            raise ArgumentError(
                f"{name} with at least one image, channel and pixel",
                f"shape {tuple(image.shape)}",
                "leave empty batches out",
                name,
            )
        if image.dim() not in (3, 4):
            raise ArgumentError(
                f"{name} of shape (B, H, W) or (B, C, H, W)",
                f"shape {tuple(image.shape)}",
                "use image.unsqueeze(0) for one image",
                name,
            )
    if a.shape != b.shape:
        raise ArgumentError(
            "two batches of images of one shape",
            f"{tuple(a.shape)} and {tuple(b.shape)}",
            "pad or resample one of them, or use expand for a batch of one",
        )
    arrays = [_array(name, image) for name, image in (("a", a), ("b", b))]
    return CheckedPair(arrays[0], arrays[1], a.shape, a.dtype, None if a.device.type == "cpu" else str(a.device))


def positive(name: str, value: Any) -> float:
    """A positive number of pixels whose square is finite."""
    try:
        number = math.nan if isinstance(value, bool | str | bytes) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0 < number < 1e100:
        fix = f"e.g. {name}=2.0" if name != "reach" else 'e.g. reach=200.0, or penalty="balanced" for no limit'
        raise ArgumentError(f"a positive {name} below 1e100, in pixels", repr(value), fix, name)
    return number


def _array(name: str, image: Tensor) -> Float:
    array: Float = image.detach().double().cpu().reshape(-1, *image.shape[-2:]).numpy()
    low, tops = float(array.min()), array.max((1, 2), keepdims=True)  # NaN if any is
    if not low >= 0.0 or not math.isfinite(float(tops.max())):
        if math.isfinite(low) and low < 0.0:
            fix = f"use e.g. {name}.clamp(min=0) or a sigmoid"
            raise ArgumentError(f"{name} of finite values >= 0", f"values down to {low:.3g}", fix, name)
        where = _named(int(np.flatnonzero(~np.isfinite(array).all((1, 2)))[0]), image)
        fix = "look for a division by zero, or a learning rate that is too large, before the loss"
        raise ArgumentError(f"{name} of finite values >= 0", f"NaN or inf, first in {where}", fix, name)
    if float(tops.max()) > _LARGEST:
        fix = "divide both batches by one number"
        raise ArgumentError(f"{name} of values up to {_LARGEST:g}", f"{float(tops.max()):.3g}", fix, name)
    empty = (tops <= 0.0).nonzero()[0]
    if empty.size:
        where = _named(int(empty[0]), image)
        raise ArgumentError(
            f"some mass in every image of {name}",
            f"{empty.size} of {len(array)} without any, the first is {where}",
            "leave these images out of the batch",
            name,
        )
    # Values such as those of a sigmoid far away: too little mass to matter, but it would spread the exponents of a solve.
    negligible = array < _NEGLIGIBLE * tops
    negligible &= array > 0.0
    return np.where(negligible, 0.0, array) if negligible.any() else array


def _named(number: int, image: Tensor) -> str:
    """The image of that number among all channels, for messages."""
    first = [int(one) for one in np.unravel_index(number, tuple(image.shape[:-2]))]
    return f"image {first[0]}" + (f", channel {first[1]}" if len(first) == 2 else "")

"""Pieces of a mask: its connected objects, and their typical length."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pairframe.types import Float


def label_pieces(on: NDArray[np.bool_]) -> tuple[NDArray[np.int32], int]:
    """Number the pieces of a mask: pixels that touch, also at a corner, belong together.

    Returns
    -------
    labels : int32, the shape of `on`
        0 outside, then 1, 2, ... in scan order.
    n_pieces : int
    """
    from scipy import ndimage

    labels, n_pieces = ndimage.label(on, np.ones((3,) * on.ndim, bool))
    return np.asarray(labels, np.int32), int(n_pieces)


def piece_lengths(density: NDArray[np.generic], spacing: tuple[float, ...] = ()) -> tuple[Float, Float]:
    """Lengths and masses of the pieces of a density, (n,) each.

    The length of a piece is the diagonal of its bounding box, in pixels; `spacing` has the sides of a voxel in pixels.
    """
    from scipy import ndimage

    labels, n_pieces = label_pieces(np.asarray(density) > 0)
    boxes = ndimage.find_objects(labels, n_pieces)
    if labels.ndim > 2:
        # Along an axis of one voxel nothing can move: such a volume is an image.
        sides = [side * (n > 1) for side, n in zip(spacing or (1.0,) * labels.ndim, labels.shape, strict=True)]
        lengths = [math.hypot(*((s.stop - s.start) * px for s, px in zip(box, sides, strict=True))) for box in boxes]
    else:
        lengths = [math.hypot(*(side.stop - side.start for side in box)) for box in boxes]
    masses = np.bincount(labels.ravel(), np.asarray(density, np.float64).ravel(), n_pieces + 1)[1:]
    return np.array(lengths, np.float64), np.asarray(masses, np.float64)


def typical_length(*densities: NDArray[np.generic], spacing: tuple[float, ...] = ()) -> float:
    """The length of the piece in which the median unit of mass of all densities lies, in pixels; NaN without any mass.

    Weighted by mass, one large embryo among specks of dust is typical, and so is an organoid among fifty of its size.
    """
    found = [piece_lengths(density, spacing) for density in densities]
    lengths, masses = (np.concatenate([one[part] for one in found]) for part in (0, 1))
    if not lengths.size:
        return math.nan
    order = np.argsort(lengths, kind="stable")
    below = np.cumsum(masses[order])
    return float(lengths[order[np.searchsorted(below, 0.5 * below[-1])]])

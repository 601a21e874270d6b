"""`fill_rings`: the pixels inside closed outlines. A pixel is inside if its centre is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pairframe.errors import FileError
from pairframe.types import Bool, Float

_MOST_CROSSINGS = 2**24  # of outlines with rows of pixels


def fill_rings(rings_xy: Sequence[Float], shape_hw: tuple[int, int]) -> Bool:
    """Fill rings by the even-odd rule, so that a ring within a ring is a hole.

    Parameters
    ----------
    rings_xy : sequence of (N, 2)
        x and y of the corners, in pixels; (0, 0) is the outer corner of the first pixel. Rings need not be closed.

    Notes
    -----
    Along each row of centres a pixel is inside if an odd number of edges are on its left. It takes time in proportion to the
    rows that edges cross, where tests of every pixel against every edge (`matplotlib.path`) take the product of both; Pillow
    rounds corners to whole pixels.
    """
    height, width = shape_hw
    x0, y0, x1, y1 = (np.concatenate(part) for part in zip(*map(_edges, rings_xy), strict=True))
    # Rows whose centre, r + 1/2, lies in [low, high): an edge that ends at a centre counts for one of its two neighbours.
    low, high = np.minimum(y0, y1), np.maximum(y0, y1)
    first = np.clip(np.ceil(low - 0.5), 0, height).astype(np.int64)
    n_rows = np.clip(np.ceil(high - 0.5), 0, height).astype(np.int64) - first
    n_crossings = np.cumsum(n_rows)
    if n_crossings[-1] > _MOST_CROSSINGS:
        raise FileError(
            f"outlines that cross at most {_MOST_CROSSINGS} rows of pixels", f"{n_crossings[-1]}", "simplify them"
        )
    # Every crossing toggles all pixels on its right.
    toggles = np.zeros((height, width + 1), np.uint8)
    edge = np.repeat(np.arange(n_rows.size), n_rows)
    row = np.arange(edge.size) - np.repeat(n_crossings - n_rows, n_rows) + first[edge]
    slope = (x1 - x0)[edge] / (y1 - y0)[edge]
    x = x0[edge] + (row + 0.5 - y0[edge]) * slope
    column = np.clip(np.ceil(x - 0.5), 0, width).astype(np.int64)
    np.bitwise_xor.at(toggles, (row, column), 1)
    return np.asarray(np.bitwise_xor.accumulate(toggles[:, :width], axis=1), bool)


def _edges(ring_xy: Float) -> tuple[Float, Float, Float, Float]:
    ring = np.asarray(ring_xy, float)
    following = np.roll(ring, -1, axis=0)
    return ring[:, 0], ring[:, 1], following[:, 0], following[:, 1]

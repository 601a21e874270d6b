"""Sum-pool blocks of pixels, and write a block's value back onto its pixels; any number of axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairframe.types import Float, Int

# Work in strips of about this many pixels (1 MiB of float64): they stay in the cache, and no temporary is large.
_CHUNK_PIXELS = 1 << 17


def sum_pool(crop: NDArray[np.generic], s: int | Sequence[int], out: Float) -> None:
    """Write the sums of the blocks of `crop` into `out`.

    Parameters
    ----------
    crop : array, any numeric dtype
        At most ``s`` times as long as `out` along each axis; missing pixels at the far ends count as zero.
    s : int, or one int per axis
        Block side in pixels.
    out : float64, one entry per block
        Overwritten. Exact for integer masses (sums below 2**53).
    """
    sides = (s,) * crop.ndim if isinstance(s, int) else tuple(s)
    if all(side == 1 for side in sides):
        out[tuple(slice(n) for n in crop.shape)] = crop
        for axis, n in enumerate(crop.shape):
            out[(slice(None),) * axis + (slice(n, None),)] = 0
    elif crop.ndim == 1:
        out[:] = _sum_runs(crop[:, None], sides[0], len(out))[:, 0]
    elif crop.ndim == 2:
        _sum_pool_image(crop, sides[0], sides[1], out)
    else:
        for k, pooled in enumerate(out):
            slab = crop[k * sides[0] : (k + 1) * sides[0]]
            if len(slab):
                sum_pool(slab.sum(axis=0, dtype=np.float64), sides[1:], pooled)
            else:
                pooled[...] = 0


def _sum_pool_image(crop: NDArray[np.generic], rows_per_block: int, columns_per_block: int, out: Float) -> None:
    h, w = crop.shape
    step = max(1, _CHUNK_PIXELS // max(1, w))
    for first in range(0, out.shape[0], step):
        last = min(first + step, out.shape[0])
        rows = _sum_runs(crop[first * rows_per_block : min(last * rows_per_block, h)], rows_per_block)
        out[first : first + rows.shape[0]] = _sum_runs(rows.T, columns_per_block, out.shape[1]).T
        out[first + rows.shape[0] : last] = 0


def _sum_runs(array: NDArray[np.generic], s: int, n_runs: int | None = None) -> Float:
    """Sums of `s` consecutive entries along axis 0, the last run possibly shorter; zeros up to `n_runs`."""
    n = array.shape[0]
    whole = n // s
    n_here = -(-n // s)
    total = np.zeros((n_here if n_runs is None else n_runs, array.shape[1]))
    for k in range(s if whole else 0):  # s strided additions over long rows beat one reduction over short axes
        total[:whole] += array[k : whole * s : s]
    if whole < n_here:
        total[whole] = array[whole * s :].sum(axis=0, dtype=np.float64)
    return total


def real_pixels_per_block(n_pixels: int, s: int, n_blocks: int) -> Int:
    """Number of each block's `s` pixels along one axis that exist; (n_blocks,) ints in 1..s."""
    return np.minimum(s, n_pixels - s * np.arange(n_blocks))


def splat(
    value_work: NDArray[Any],
    s: int,
    out: NDArray[np.generic],
    n_axes: int,
    real_pixels: Sequence[Int] | None = None,
) -> None:
    """Write each block's value onto its real pixels.

    Parameters
    ----------
    value_work : one value per block, with `n_axes` grid axes; further axes, such as channels, come last
    s : int
        Block side in pixels.
    out : view, with the same axes
        Overwritten; at most ``s`` times as long as `value_work`: a border block is written only where pixels exist.
    real_pixels : one (n_blocks,) per grid axis, optional
        Number of real pixels of each block along that axis: divide its value among them instead of repeating it.
    """
    if n_axes == 2:
        _splat_image(value_work, s, out, real_pixels)
        return
    for k, value in enumerate(value_work):
        pixels = out[k * s : (k + 1) * s]
        shared = value if real_pixels is None else value / real_pixels[0][k]
        if n_axes == 1:
            pixels[...] = shared
            continue
        splat(shared, s, pixels[0], n_axes - 1, None if real_pixels is None else real_pixels[1:])
        pixels[1:] = pixels[0]


def _splat_image(value_work: NDArray[Any], s: int, out: NDArray[np.generic], real_pixels: Sequence[Int] | None) -> None:
    if s == 1:  # a block is a pixel
        out[...] = value_work[: out.shape[0], : out.shape[1]]
        return
    n_rows, w = value_work.shape[0], out.shape[1]
    step = max(1, _CHUNK_PIXELS // max(1, w))
    for first in range(0, n_rows, step):
        values = value_work[first : first + step]
        if real_pixels is not None:
            values = values / (real_pixels[0][first : first + step, None] * real_pixels[1])
        stretched = np.repeat(values, min(s, w), axis=1)[:, :w]
        target = out[first * s : (first + step) * s]
        for k in range(min(s, target.shape[0])):
            rows = target[k::s]
            rows[...] = stretched[: rows.shape[0]]

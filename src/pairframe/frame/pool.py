"""Down and up: sum-pool blocks of `s x s` pixels, and splat a block's value back onto its pixels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]

# Work in strips of about this many pixels (1 MiB of float64): they stay in the cache, and no temporary is large.
_CHUNK_PIXELS = 1 << 17


def sum_pool(crop: NDArray[np.generic], s: int, out: Float) -> None:
    """Write the sums of the `s x s` blocks of `crop` into `out`.

    Parameters
    ----------
    crop : (h, w) array, any numeric dtype
        ``h <= s * Hw`` and ``w <= s * Ww``; what is missing at the bottom and right counts as zero.
    s : int
        Block side in pixels.
    out : (Hw, Ww) float64
        Overwritten. Exact for integer masses (sums below 2**53).
    """
    if s == 1:
        out[: crop.shape[0], : crop.shape[1]] = crop
        out[crop.shape[0] :] = 0
        out[:, crop.shape[1] :] = 0
        return
    h, w = crop.shape
    step = max(1, _CHUNK_PIXELS // max(1, w))
    for first in range(0, out.shape[0], step):
        last = min(first + step, out.shape[0])
        rows = _sum_runs(crop[first * s : min(last * s, h)], s)
        out[first : first + rows.shape[0]] = _sum_runs(rows.T, s, out.shape[1]).T
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


def real_pixels_per_block(n_pixels: int, s: int, n_blocks: int) -> NDArray[np.int64]:
    """How many of a block's `s` pixels along one axis exist; (n_blocks,) ints in 1..s."""
    return np.minimum(s, n_pixels - s * np.arange(n_blocks))


def splat(
    value_work: NDArray[Any],
    s: int,
    out: NDArray[np.generic],
    pixels_hw: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None,
) -> None:
    """Write each block's value onto its real pixels.

    Parameters
    ----------
    value_work : (Hw, Ww) or (Hw, Ww, k)
        One value per block.
    s : int
        Block side in pixels.
    out : (h, w) or (h, w, k) view
        Overwritten; ``h <= s * Hw``: a border block is written only where pixels exist.
    pixels_hw : ((Hw,), (Ww,)), optional
        How many real pixels each block has along both axes: share its value out among them instead of repeating it.
    """
    n_rows, w = value_work.shape[0], out.shape[1]
    step = max(1, _CHUNK_PIXELS // max(1, w))
    for first in range(0, n_rows, step):
        values = value_work[first : first + step]
        if pixels_hw is not None:
            values = values / (pixels_hw[0][first : first + step, None] * pixels_hw[1])
        stretched = np.repeat(values, min(s, w), axis=1)[:, :w]
        target = out[first * s : (first + step) * s]
        for k in range(min(s, target.shape[0])):
            rows = target[k::s]
            rows[...] = stretched[: rows.shape[0]]

"""Hard c-transforms on a grid, compiled and exact: ``out_i = min_j scale |x_i - x_j|^2 - potential_j`` in integers.

This is the entropic softmin at epsilon 0. Like the kernel it separates into rows and columns. Along a line it is the lower
envelope of parabolas, which a stack finds in one sweep (Felzenszwalb and Huttenlocher 2012), so the cost is linear in
pixels. Breakpoints are floor divisions of integers, so the minimum is exact and free of rounding.
"""

from __future__ import annotations

import numpy as np

from pairframe.compiler import compiled
from pairframe.types import Bool, Int

NO_PIXEL = np.int64(2**62)  # larger than any cost; marks pixels outside the support


def hard_transform(potential: Int, support_in: Bool, scale: int = 1) -> Int:
    """Compute the largest feasible partner of a potential, everywhere on the grid.

    Parameters
    ----------
    potential : (H, W) int64
        In units of ``1 / scale`` px^2; only its values on `support_in` are used.
    support_in : (H, W) bool
        Not empty. The largest cost, ``scale ((H - 1)^2 + (W - 1)^2)``, must be below 2^60, and no potential may exceed
        twice that cost.

    Returns
    -------
    (H, W) int64
        ``min_j scale |x_i - x_j|^2 - potential_j``, in the same units.
    """
    # Always C-contiguous, because another memory layout would trigger another compilation.
    height = np.ascontiguousarray(np.where(support_in, -potential, NO_PIXEL), dtype=np.int64)
    along_rows = np.ascontiguousarray(_envelopes(height, scale).T)
    return np.ascontiguousarray(_envelopes(along_rows, scale).T)


def whole_potentials(f: Int, g: Int, mass_a: Int, mass_b: Int, scale: int) -> tuple[Int, Int]:
    """Round feasible potentials in units of ``1 / scale`` px^2 to whole px^2 without lowering their dual value.

    Costs are whole numbers, so ``floor((f + t) / scale)`` and ``ceil((g - t) / scale)`` are feasible for every t. Averaged
    over 0 <= t < scale their dual value equals that of (f, g), so the best t is at least as good.

    Parameters
    ----------
    f, g : (n,), (m,) int64
    mass_a, mass_b : (n,), (m,) int64
        With totals below 2^63.
    """
    # The value is a step function of t: it gains mass_a when f + t passes a multiple of scale, and loses mass_b.
    t = np.concatenate([np.mod(-f, scale), np.mod(g, scale)])
    order = np.argsort(t, kind="stable")
    value = np.cumsum(np.concatenate([mass_a, -mass_b])[order])  # within plus or minus the total
    is_last = np.append(np.diff(t[order]) > 0, True)
    best = t[order][np.argmax(np.where(is_last, value, np.iinfo(np.int64).min))]
    return (f + best) // scale, -((best - g) // scale)


@compiled(nogil=True)
def _envelopes(height: Int, scale: int) -> Int:
    """``out[r, i] = min_j height[r, j] + scale (i - j)^2``; rows without any pixel stay `NO_PIXEL`."""
    rows, n = height.shape
    out = np.empty((rows, n), np.int64)
    vertex = np.empty(n, np.int64)
    last = np.empty(n, np.int64)  # last position where the parabola below on the stack is at least as low
    for r in range(rows):
        h = height[r]
        top = -1
        for q in range(n):
            if h[q] == NO_PIXEL:
                continue
            begin = np.int64(-1)
            while top >= 0:
                p = vertex[top]
                # p is at least as low as q exactly for i <= begin.
                begin = (h[q] - h[p] + scale * (q * q - p * p)) // (2 * scale * (q - p))
                if begin > last[top]:
                    break
                top -= 1
            if top < 0:
                begin = np.int64(-1)
            elif begin >= n - 1:
                continue
            top += 1
            vertex[top] = q
            last[top] = begin
        if top < 0:
            out[r] = NO_PIXEL
            continue
        k = top
        for i in range(n - 1, -1, -1):
            while last[k] >= i:
                k -= 1
            p = vertex[k]
            out[r, i] = h[p] + scale * (i - p) * (i - p)
    return out

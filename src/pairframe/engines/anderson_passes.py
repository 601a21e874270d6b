"""The passes of Anderson acceleration over its memory, compiled: each row is read once, in blocks that stay in cache."""

from __future__ import annotations

import numpy as np

from pairframe.compiler import compiled

_FLAGS = {"contract", "reassoc", "nsz"}
_BLOCK = 4096


@compiled(nogil=True, fastmath=_FLAGS)
def remember(x, r, last_x, last_r, weight, slot, known, steps, changes, with_newest, with_now):
    """Write the newest differences into `slot` and multiply all known ones with it and with `r`.

    Parameters
    ----------
    x, r, last_x, last_r, weight : (n,)
        The point and its residual, those before, and the weights of the inner product.
    slot, known : int
        Where the differences go, and how many are in use then.
    steps, changes : (depth, n)
        Differences of ``x + r``, and of r; row `slot` is written.
    with_newest, with_now : (known,)
        Inner products of the changes with the newest one, and with `r`; written.
    """
    n = x.size
    with_newest[:] = 0.0
    with_now[:] = 0.0
    newest, now = np.empty(min(n, _BLOCK)), np.empty(min(n, _BLOCK))
    for first in range(0, n, _BLOCK):
        last = min(n, first + _BLOCK)
        size = last - first
        x_now, x_last, r_now, r_last = x[first:last], last_x[first:last], r[first:last], last_r[first:last]
        step, change, w = steps[slot, first:last], changes[slot, first:last], weight[first:last]
        for i in range(size):
            change[i] = r_now[i] - r_last[i]
            step[i] = x_now[i] - x_last[i] + change[i]
            newest[i] = w[i] * change[i]
            now[i] = w[i] * r_now[i]
        for k in range(known):
            row = changes[k, first:last]  # not of all rows at once, which is not contiguous
            one, two = 0.0, 0.0
            for i in range(size):
                one += row[i] * newest[i]
                two += row[i] * now[i]
            with_newest[k] += one
            with_now[k] += two


@compiled(nogil=True, fastmath=_FLAGS)
def mix(x, r, share, steps, out):
    """``out = x + r - sum_k share_k steps_k``, all (n,)."""
    n = x.size
    for first in range(0, n, _BLOCK):
        last = min(n, first + _BLOCK)
        here, x_now, r_now = out[first:last], x[first:last], r[first:last]
        for i in range(here.size):
            here[i] = x_now[i] + r_now[i]
        for k in range(share.size):
            step, factor = steps[k, first:last], share[k]
            for i in range(here.size):
                here[i] -= factor * step[i]

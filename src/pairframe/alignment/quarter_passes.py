"""Splatting of pixels as four samples each, compiled: the 3 x 3 patches of many pixels at once, without branches."""

from __future__ import annotations

import math

import numpy as np

from pairframe.compiler import compiled

_AT_ONCE = 128  # pixels whose weights are computed together; they stay in the nearest cache
_PHASES = 4  # neighbours add to the same pixels, and one sum waits for the other: take every fourth


@compiled(nogil=True, fastmath={"contract"})
def splat_between(out, values, spans, numbers, low, high):
    """Add the pixels whose centres fall on rows from `low` to `high`, exclusive, of `out`."""
    myy, myx, mxy, mxx, oy, ox, share = numbers
    py, px = 0.25 * (myy + myx), 0.25 * (mxy + mxx)
    qy, qx = 0.25 * (myy - myx), 0.25 * (mxy - mxx)
    ry, rx = max(abs(py), abs(qy)), max(abs(px), abs(qx))
    # A patch at the far border starts a pixel earlier; its weights are 0 beyond the samples.
    last_y, last_x = float(out.shape[0] - 3), float(out.shape[1] - 3)
    width = np.uint64(out.shape[1])
    flat = out.reshape(-1)
    starts = np.empty(_AT_ONCE, np.uint64)
    patches = np.empty((9, _AT_ONCE))
    p00, p01, p02 = patches[0], patches[1], patches[2]
    p10, p11, p12 = patches[3], patches[4], patches[5]
    p20, p21, p22 = patches[6], patches[7], patches[8]
    one, two = np.uint64(1), np.uint64(2)
    for i in range(values.shape[0]):
        y_i, x_i = myy * i + oy, mxy * i + ox
        begin, end = _columns_between(y_i, myx, low, high, spans[i, 0], spans[i, 1] + 1)
        for j0 in range(begin, end, _AT_ONCE):
            j1 = min(j0 + _AT_ONCE, end)
            while j0 < j1 and values[i, j0] <= 0:
                j0 += 1
            while j1 > j0 and values[i, j1 - 1] <= 0:
                j1 -= 1
            n = j1 - j0
            row = values[i, j0:j1]
            for k in range(n):
                j = float(j0 + k)
                # Rounding may put a sample a trifle before the first pixel, or beyond the last: hence also the outer abs.
                y, x = max(y_i + myx * j, ry), max(x_i + mxx * j, rx)
                mass = row[k] * share
                base_y, base_x = min(math.floor(y - ry), last_y), min(math.floor(x - rx), last_x)
                starts[k] = np.uint64(base_y) * width + np.uint64(base_x)
                # Positions from the middle of the patch: a hat is 1 - |t| in the middle and the part beyond it outside.
                y -= base_y + 1.0
                x -= base_x + 1.0
                t, u = y + py, x + px
                y0, y1, y2 = max(-t, 0.0), abs(1.0 - abs(t)), max(t, 0.0)
                x0, x1, x2 = max(-u, 0.0), abs(1.0 - abs(u)), max(u, 0.0)
                a00, a01, a02 = y0 * x0, y0 * x1, y0 * x2
                a10, a11, a12 = y1 * x0, y1 * x1, y1 * x2
                a20, a21, a22 = y2 * x0, y2 * x1, y2 * x2
                t, u = y - py, x - px
                y0, y1, y2 = max(-t, 0.0), abs(1.0 - abs(t)), max(t, 0.0)
                x0, x1, x2 = max(-u, 0.0), abs(1.0 - abs(u)), max(u, 0.0)
                a00, a01, a02 = a00 + y0 * x0, a01 + y0 * x1, a02 + y0 * x2
                a10, a11, a12 = a10 + y1 * x0, a11 + y1 * x1, a12 + y1 * x2
                a20, a21, a22 = a20 + y2 * x0, a21 + y2 * x1, a22 + y2 * x2
                t, u = y + qy, x + qx
                y0, y1, y2 = max(-t, 0.0), abs(1.0 - abs(t)), max(t, 0.0)
                x0, x1, x2 = max(-u, 0.0), abs(1.0 - abs(u)), max(u, 0.0)
                a00, a01, a02 = a00 + y0 * x0, a01 + y0 * x1, a02 + y0 * x2
                a10, a11, a12 = a10 + y1 * x0, a11 + y1 * x1, a12 + y1 * x2
                a20, a21, a22 = a20 + y2 * x0, a21 + y2 * x1, a22 + y2 * x2
                t, u = y - qy, x - qx
                y0, y1, y2 = max(-t, 0.0), abs(1.0 - abs(t)), max(t, 0.0)
                x0, x1, x2 = max(-u, 0.0), abs(1.0 - abs(u)), max(u, 0.0)
                p00[k], p01[k], p02[k] = (a00 + y0 * x0) * mass, (a01 + y0 * x1) * mass, (a02 + y0 * x2) * mass
                p10[k], p11[k], p12[k] = (a10 + y1 * x0) * mass, (a11 + y1 * x1) * mass, (a12 + y1 * x2) * mass
                p20[k], p21[k], p22[k] = (a20 + y2 * x0) * mass, (a21 + y2 * x1) * mass, (a22 + y2 * x2) * mass
            for phase in range(_PHASES):
                for k in range(phase, n, _PHASES):
                    at = starts[k]
                    flat[at] += p00[k]
                    flat[at + one] += p01[k]
                    flat[at + two] += p02[k]
                    at += width
                    flat[at] += p10[k]
                    flat[at + one] += p11[k]
                    flat[at + two] += p12[k]
                    at += width
                    flat[at] += p20[k]
                    flat[at + one] += p21[k]
                    flat[at + two] += p22[k]


@compiled(nogil=True)
def _columns_between(y, step, low, high, begin, end):
    """The columns j from `begin` to `end`, exclusive, with ``low <= y + step * j < high``.

    Bands that meet at a bound get every column once: whatever the rounding, both compute the same one.
    """
    if step == 0.0:
        return (begin, end) if low <= y < high else (begin, begin)
    first, last = (low, high) if step > 0 else (high, low)
    begin_at, end_at = (first - y) / step, (last - y) / step
    if begin_at > begin:
        begin = math.ceil(min(begin_at, float(end)))
    if end_at < end:
        end = math.ceil(max(end_at, float(begin)))
    return begin, end

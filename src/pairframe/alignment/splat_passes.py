"""Bilinear splatting, compiled: every sample gives its mass to the four pixels around it, so mass and centroid stay."""

from __future__ import annotations

import math

import numpy as np

from pairframe.compiler import compiled


@compiled()
def row_spans(values):
    """First and last positive pixel of each row of an (H, W) image, (H, 2); (W, -1) for an empty row."""
    height, width = values.shape
    spans = np.empty((height, 2), np.int64)
    for i in range(height):
        first, last = width, -1
        for j in range(width):
            if values[i, j] > 0:
                first = j
                break
        if first < width:
            for j in range(width - 1, first - 1, -1):
                if values[i, j] > 0:
                    last = j
                    break
        spans[i, 0], spans[i, 1] = first, last
    return spans


@compiled()
def splat_pixels(out, values, spans, myy, myx, mxy, mxx, oy, ox, per_side, factor):
    """Add every pixel of `values`, as ``per_side**2`` samples, to `out`; the caller has checked that all of them fit.

    Pixel (i, j) has its centre at ``(myy * i + myx * j + oy, mxy * i + mxx * j + ox)`` in pixels of `out`.
    """
    share = factor / (per_side * per_side)
    for i in range(values.shape[0]):
        for j in range(spans[i, 0], spans[i, 1] + 1):
            if values[i, j] <= 0:
                continue
            mass = values[i, j] * share
            for a in range(per_side):
                si = i + (a + 0.5) / per_side - 0.5
                for b in range(per_side):
                    sj = j + (b + 0.5) / per_side - 0.5
                    y = myy * si + myx * sj + oy
                    x = mxy * si + mxx * sj + ox
                    _splat_one(out, y, x, mass)


@compiled(inline="always")
def _splat_one(out, y, x, mass):
    # Rounding may put a sample a trifle before the first pixel, or beyond the last.
    y, x = min(max(y, 0.0), out.shape[0] - 1.0), min(max(x, 0.0), out.shape[1] - 1.0)
    i, j = min(int(y), out.shape[0] - 2), min(int(x), out.shape[1] - 2)
    fy, fx = y - i, x - j
    low, high = mass * (1.0 - fy), mass * fy
    a, b = low * fx, high * fx
    out[i, j] += low - a
    out[i, j + 1] += a
    out[i + 1, j] += high - b
    out[i + 1, j + 1] += b


@compiled()
def splat_points(out, points, weights, myy, myx, mxy, mxx, oy, ox):
    """Add weighted points, (n, 2), to `out` at ``M p + o`` in its pixels; the caller has checked that they fit."""
    for k in range(len(weights)):
        y = myy * points[k, 0] + myx * points[k, 1] + oy
        x = mxy * points[k, 0] + mxx * points[k, 1] + ox
        i, j = int(y), int(x)
        fy, fx = y - i, x - j
        w = weights[k]
        out[i, j] += w * (1.0 - fy) * (1.0 - fx)
        out[i, j + 1] += w * (1.0 - fy) * fx
        out[i + 1, j] += w * fy * (1.0 - fx)
        out[i + 1, j + 1] += w * fy * fx


@compiled()
def pooled_points(inside, side):
    """Barycentres of the pixels of `inside` in blocks of ``side**2``.

    Returns
    -------
    points : (n, 2)
        In pixels, rows first.
    counts : (n,)
        Pixels in each block.
    radii : (n,)
        Largest distance of such a pixel from the barycentre.
    """
    height, width = inside.shape
    blocks_y, blocks_x = (height + side - 1) // side, (width + side - 1) // side
    points = np.empty((blocks_y * blocks_x, 2))
    counts = np.empty(blocks_y * blocks_x)
    radii = np.empty(blocks_y * blocks_x)
    n = 0
    for bi in range(blocks_y):
        for bj in range(blocks_x):
            count, sum_y, sum_x = 0, 0, 0
            i1, j1 = min(height, (bi + 1) * side), min(width, (bj + 1) * side)
            for i in range(bi * side, i1):
                for j in range(bj * side, j1):
                    if inside[i, j]:
                        count += 1
                        sum_y += i
                        sum_x += j
            if count == 0:
                continue
            y, x = sum_y / count, sum_x / count
            farthest = 0.0
            if side > 1:
                for i in range(bi * side, i1):
                    for j in range(bj * side, j1):
                        if inside[i, j]:
                            farthest = max(farthest, (i - y) * (i - y) + (j - x) * (j - x))
            points[n, 0], points[n, 1], counts[n], radii[n] = y, x, count, math.sqrt(farthest)
            n += 1
    return points[:n].copy(), counts[:n].copy(), radii[:n].copy()

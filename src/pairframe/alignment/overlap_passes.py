"""Overlap of two masks at a pose and its search by the simplex method of Nelder and Mead, compiled.

A pose is ``(ty, tx, angle, log scale)`` in coordinates centred on both masks: ``x = exp(ls) R(angle) F y + t``.
"""

from __future__ import annotations

import math

import numpy as np

from pairframe.compiler import compiled

_FLAGS = {"contract", "reassoc", "nsz", "arcp", "nnan", "ninf"}


@compiled(fastmath=_FLAGS)
def overlap(field, pitch, oy, ox, points, weights, pose, sign):
    """``sum_k w_k field(T p_k)``, with bilinear interpolation and 0 outside of the field.

    Parameters
    ----------
    field : (H, W)
        Coverage of the source; its outermost pixels are 0.
    pitch, oy, ox : float
        Side of its pixels, and the position of its first pixel's centre.
    sign : float
        -1 mirrors the target first.
    """
    height, width = field.shape
    scale = math.exp(pose[3])
    c, s = math.cos(pose[2]) * scale / pitch, math.sin(pose[2]) * scale / pitch
    ty, tx = (pose[0] - oy) / pitch, (pose[1] - ox) / pitch
    total = 0.0
    for k in range(len(weights)):
        py, px = points[k, 0] * sign, points[k, 1]
        y, x = c * py - s * px + ty, s * py + c * px + tx
        if y > 0.0 and x > 0.0 and y < height - 1.0 and x < width - 1.0:
            i, j = int(y), int(x)
            fy, fx = y - i, x - j
            left = field[i, j] + fy * (field[i + 1, j] - field[i, j])
            right = field[i, j + 1] + fy * (field[i + 1, j + 1] - field[i, j + 1])
            total += weights[k] * (left + fx * (right - left))
    return total * scale * scale


@compiled(fastmath=_FLAGS)
def score(body, points, weights, mark, mark_points, mark_weights, numbers, pose, sign):
    """IoU of the bodies, or the mean of theirs and that of the landmarks, minus a tie-breaker.

    Parameters
    ----------
    body, mark : (H, W)
        Coverage of the source and of its landmark.
    numbers : (11,)
        Pitch, oy, ox and both areas of the bodies, the same of the landmarks, and the tie-breaker per squared length:
        among poses of equal overlap the centroids shall meet.
    """
    area = math.exp(2.0 * pose[3])
    both = overlap(body, numbers[0], numbers[1], numbers[2], points, weights, pose, sign)
    found = both / (numbers[3] + area * numbers[4] - both)
    if len(mark_weights) > 0:
        both = overlap(mark, numbers[5], numbers[6], numbers[7], mark_points, mark_weights, pose, sign)
        found = 0.5 * (found + both / (numbers[8] + area * numbers[9] - both))
    return found - numbers[10] * (pose[0] * pose[0] + pose[1] * pose[1])


@compiled(fastmath=_FLAGS)
def climb(
    body, points, weights, mark, mark_points, mark_weights, numbers, pose, sign, steps, n_free, tolerance, most_calls
):
    """The pose of the largest score near `pose`, by Nelder and Mead; its score, and the number of calls.

    Parameters
    ----------
    steps : (4,)
        Size of the first simplex along each parameter; only the first `n_free` vary.
    tolerance : float
        Stop when the simplex is this share of its first size.
    """
    n = n_free
    simplex = np.empty((n + 1, 4))
    values = np.empty(n + 1)
    for v in range(n + 1):
        simplex[v] = pose
        if v > 0:
            simplex[v, v - 1] += steps[v - 1]
        values[v] = score(body, points, weights, mark, mark_points, mark_weights, numbers, simplex[v], sign)
    calls = n + 1
    trial, second = pose.copy(), pose.copy()
    while calls < most_calls:
        order = np.argsort(-values)
        simplex, values = simplex[order], values[order]
        size = 0.0
        for v in range(1, n + 1):
            for d in range(n):
                size = max(size, abs((simplex[v, d] - simplex[0, d]) / steps[d]))
        if size < tolerance:
            break
        for d in range(n):
            middle = 0.0
            for v in range(n):
                middle += simplex[v, d]
            middle /= n
            trial[d] = 2.0 * middle - simplex[n, d]
            second[d] = 3.0 * middle - 2.0 * simplex[n, d]
        reflected = score(body, points, weights, mark, mark_points, mark_weights, numbers, trial, sign)
        calls += 1
        if reflected > values[0]:
            expanded = score(body, points, weights, mark, mark_points, mark_weights, numbers, second, sign)
            calls += 1
            if expanded > reflected:
                simplex[n], values[n] = second, expanded
            else:
                simplex[n], values[n] = trial, reflected
            continue
        if reflected > values[n - 1]:
            simplex[n], values[n] = trial, reflected
            continue
        toward = 0.25 if reflected > values[n] else 0.75  # of the way back from the reflection to the worst vertex
        for d in range(n):
            second[d] = trial[d] + toward * (simplex[n, d] - trial[d])
        contracted = score(body, points, weights, mark, mark_points, mark_weights, numbers, second, sign)
        calls += 1
        if contracted > max(reflected, values[n]):
            simplex[n], values[n] = second, contracted
            continue
        for v in range(1, n + 1):
            for d in range(n):
                simplex[v, d] = 0.5 * (simplex[v, d] + simplex[0, d])
            values[v] = score(body, points, weights, mark, mark_points, mark_weights, numbers, simplex[v], sign)
        calls += n
    best = np.argmax(values)
    return simplex[best].copy(), values[best], calls

"""Compiled parts of a stored kernel: its sums, and whole rounds of updates without a call in between."""

from __future__ import annotations

import math

import numpy as np

from pairframe.compiler import compiled

_FLAGS = {"contract", "reassoc", "nsz", "arcp"}  # -inf means "no mass here"
_DEEPEST = 600.0  # exponents of stored numbers stay above -708, where float64 loses digits


@compiled(nogil=True, fastmath=_FLAGS)
def fill(x_in, x_out, inverse, matrix):
    """Fill the kernel, and return its largest negative exponent."""
    deepest = 0.0
    for i in range(x_out.shape[0]):
        for j in range(x_in.shape[0]):
            squared = 0.0
            for axis in range(x_in.shape[1]):
                squared += (x_out[i, axis] - x_in[j, axis]) ** 2
            exponent = squared * inverse
            deepest = max(deepest, exponent)
            matrix[i, j] = np.exp(-exponent)
    return deepest


@compiled(nogil=True, fastmath=_FLAGS)
def scaled_weights(log_weight, weight):
    """``weight = exp(log_weight - top)``; the top, and how far below it the lowest finite one is."""
    top, low = -np.inf, np.inf
    for j in range(log_weight.size):
        top = max(top, log_weight[j])
        if log_weight[j] > -np.inf:
            low = min(low, log_weight[j])
    if not low < np.inf:  # no weight, or numbers beyond float64
        weight[:] = 0.0 if top == -np.inf and not np.isnan(log_weight).any() else np.nan
        return top, 0.0
    for j in range(log_weight.size):
        weight[j] = np.exp(log_weight[j] - top)
    return top, top - low


@compiled(nogil=True, fastmath=_FLAGS)
def _row(log_weight, x_in, x, inverse, weight):
    """Weights of one output relative to the largest, from exponents; its logarithm."""
    top = -np.inf
    for j in range(log_weight.size):
        squared = 0.0
        for axis in range(x.size):
            squared += (x[axis] - x_in[j, axis]) ** 2
        weight[j] = log_weight[j] - squared * inverse
        top = max(top, weight[j])
    for j in range(log_weight.size):
        weight[j] = np.exp(weight[j] - top) if top > -np.inf else 0.0
    return top


@compiled(nogil=True, fastmath=_FLAGS)
def log_sums(log_weight, matrix, deepest, x_in, x_out, inverse, out):
    """``log sum_j exp(log_weight_j) matrix_ij``."""
    weight = np.empty(log_weight.size)
    top, spread = scaled_weights(log_weight, weight)
    is_shallow = spread + deepest < _DEEPEST
    for i in range(out.size):
        if is_shallow:
            total = 0.0
            for j in range(weight.size):
                total += matrix[i, j] * weight[j]
        else:
            top = _row(log_weight, x_in, x_out[i], inverse, weight)
            total = weight.sum()
        out[i] = top + np.log(total) if total != 0.0 else -np.inf


@compiled(nogil=True, fastmath=_FLAGS)
def with_means(log_weight, matrix, deepest, x_in, x_out, inverse, channels, out, means, is_relative):
    """The same, with means of channels (c, n_in). `is_relative`: channels are positions, relative to the output's own, and
    their sum of squares is one more.
    """
    weight, row = np.empty(log_weight.size), np.empty(log_weight.size)
    top, spread = scaled_weights(log_weight, weight)
    is_shallow = spread + deepest < _DEEPEST
    for i in range(out.size):
        if is_shallow:
            for j in range(weight.size):
                row[j] = matrix[i, j] * weight[j]
        else:
            top = _row(log_weight, x_in, x_out[i], inverse, row)
        total = row.sum()
        safe = total if total != 0.0 else 1.0
        out[i] = top + np.log(total) if total != 0.0 else -np.inf
        if is_relative:
            means[-1, i] = 0.0
        for k in range(channels.shape[0]):
            origin = x_out[i, k] if is_relative else 0.0
            first, second = 0.0, 0.0
            for j in range(weight.size):
                value = channels[k, j] - origin
                first += row[j] * value
                second += row[j] * value * value
            means[k, i] = first / safe
            if is_relative:
                means[-1, i] += second / safe


@compiled(nogil=True, fastmath=_FLAGS)
def _update(log_u, x, matrix, log_ratio, deepest, weight, s):
    """``s = log_ratio - log(matrix exp(log_u + x))``; whether the numbers stayed within float64."""
    for j in range(x.size):
        weight[j] = log_u[j] + x[j]
    top, low = weight.max(), weight.min()
    if not top - low + deepest < _DEEPEST:
        return False
    for j in range(x.size):
        weight[j] = np.exp(weight[j] - top)
    for i in range(s.size):
        total = 0.0
        for j in range(weight.size):
            total += matrix[i, j] * weight[j]
        s[i] = log_ratio[i] - top - np.log(total)
    return True


@compiled(nogil=True, fastmath=_FLAGS)
def _answer(s, slope, high, low, x):
    """The best answer of a penalty to s: ``slope s`` within bounds."""
    for i in range(s.size):
        x[i] = min(max(slope * s[i], low), high)


@compiled(nogil=True, fastmath=_FLAGS)
def own_rounds(log_u, log_ratio, mass, matrix, deepest, slope, high, low, goal, most, x):
    """Averaged updates of one potential x = f/eps against itself, in place; their number, or 0 if numbers left float64.

    They stop when the marginal is that of the potential up to `goal`, relative to the mass; see `_off`.
    """
    n = x.size
    weight, s, y, before = np.empty(n), np.empty(n), np.empty(n), x.copy()
    for count in range(1, most + 1):
        if not _update(log_u, x, matrix, log_ratio, deepest, weight, s):
            x[:] = before
            return 0
        _answer(s, slope, high, low, y)
        off, total = _off(x, s, y, mass)
        if off <= goal * total:
            return count
        for i in range(n):
            x[i] = 0.5 * (x[i] + y[i])
    return most


@compiled(nogil=True, fastmath=_FLAGS)
def _off(x, s, y, mass):
    """How far the marginal ``mass exp(x - s)`` is from that of the next potential y, ``mass exp(y - s)``, and its total."""
    off, total = 0.0, 0.0
    for i in range(x.size):
        p = mass[i] * math.exp(min(x[i] - s[i], 700.0))
        total += p
        off += p * abs(math.expm1(min(y[i] - x[i], 700.0)))
    return off, total


@compiled(nogil=True, fastmath=_FLAGS)
def pair_rounds(
    log_u, log_v, ratio_a, ratio_b, mass_a, mass_b, at_a, at_b, deepest,
    slope_a, slope_b, high_a, low_a, high_b, low_b, goal, most, x,
):  # fmt: skip
    """Alternating updates of x = f/eps on a and y = g/eps on b, x in place; the number of sums, 0 if numbers left float64.

    Where both slopes are below 1 (``kl``), the optimal translation follows each round.
    """
    n, m = x.size, mass_b.size
    weight_a, weight_b, s_a, s_b = np.empty(n), np.empty(m), np.empty(n), np.empty(m)
    y, next_x, before = np.empty(m), np.empty(n), x.copy()
    # theta = lambda/(lambda + eps), so eps/lambda = 1/theta - 1
    decay_a, decay_b = 1.0 / slope_a - 1.0, 1.0 / slope_b - 1.0
    for count in range(1, most // 2 + 1):
        if not _update(log_u, x, at_b, ratio_b, deepest, weight_a, s_b):
            x[:] = before
            return 0
        _answer(s_b, slope_b, high_b, low_b, y)
        if decay_a > 0.0 and decay_b > 0.0:
            total_a, total_b = 0.0, 0.0
            for i in range(n):
                total_a += mass_a[i] * math.exp(min(-decay_a * x[i], 700.0))
            for j in range(m):
                total_b += mass_b[j] * math.exp(min(-decay_b * y[j], 700.0))
            t = math.log(total_a / total_b) / (decay_a + decay_b)
            for i in range(n):
                x[i] += t
            for j in range(m):
                y[j] -= t
        if not _update(log_v, y, at_a, ratio_a, deepest, weight_b, s_a):
            x[:] = before
            return 0
        _answer(s_a, slope_a, high_a, low_a, next_x)
        off, total = _off(x, s_a, next_x, mass_a)
        if off <= goal * total:
            return 2 * count
        x[:] = next_x
    return most

"""Convolutions of powers along the axes of a grid, compiled; see `linear`.

Powers are lifted as in `passes`: a product of two numbers at the floor is no subnormal, which would take a hundred times as long.
"""

from __future__ import annotations

import math

import numpy as np

from pairframe.compiler import compiled
from pairframe.engines.grid.passes import exp_shifted, log_of_sums

_FLAGS = {"contract", "reassoc", "nsz", "arcp", "nnan"}
_TAPS = 8  # of the kernel, whose products are added in one sweep
_BLOCK = 512  # exponentials at a time, which stay in cache


@compiled(fastmath=_FLAGS)
def _add_eight(k, l0, l1, l2, l3, l4, l5, l6, l7, out):
    """``out[i] += k[0] l0[i] + ... + k[7] l7[i]``."""
    k0, k1, k2, k3, k4, k5, k6, k7 = k[0], k[1], k[2], k[3], k[4], k[5], k[6], k[7]
    for i in range(out.size):
        low = (k0 * l0[i] + k1 * l1[i]) + (k2 * l2[i] + k3 * l3[i])
        high = (k4 * l4[i] + k5 * l5[i]) + (k6 * l6[i] + k7 * l7[i])
        out[i] += low + high


@compiled(fastmath=_FLAGS)
def _add_one(factor, line, out):
    for i in range(out.size):
        out[i] += factor * line[i]


@compiled(nogil=True, fastmath=_FLAGS)
def put_powers(log_weight, top, scale, first, start, step):
    """The powers of the weights (n_in,) relative to `top`, the largest, on the grid: every `step`-th block from `start` on.

    Parameters
    ----------
    scale : (floor, lift), floats
        Powers are at least ``exp(-floor)``, and are multiplied by ``2^lift``.
    first : tuple
        What belongs to the last axis: the places of the inputs (n_in,), the stretch of each line that they cover (lines, 2), the
        grid of powers (lines, n) with zeros where no input is, the kernel, the offset of the first output among the inputs, and
        the sums along this axis (lines, m).
    """
    floor, lift = scale
    index, powers = first[0], first[2].ravel()
    one, two = np.empty(_BLOCK), np.empty(_BLOCK)
    two_bits = two.view(np.int64)
    for begin in range(start * _BLOCK, index.size, step * _BLOCK):
        here, places = log_weight[begin : begin + _BLOCK], index[begin : begin + _BLOCK]
        exp_shifted(here, top, -floor, lift, one, two, two_bits, here.size)
        for k in range(here.size):
            powers[places[k]] = one[k]


@compiled(nogil=True, fastmath=_FLAGS)
def along_last_axis(scale, first, start, step):
    """The sums along the last axis of lines start, start + step, ...; below the floor they are nothing."""
    _, spans, powers, kernel, offset, sums = first
    nothing = math.exp(-scale[0]) * 2.0 ** scale[1]
    radius, n = kernel.size // 2, powers.shape[1]
    margin = 2 * radius
    line = np.zeros(n + 2 * margin)
    for r in range(start, powers.shape[0], step):
        out = sums[r]
        out[:] = 0.0
        begin = max(0, spans[r, 0] - offset - radius)
        end = min(out.size, spans[r, 1] - offset + radius)
        if spans[r, 0] >= spans[r, 1] or begin >= end:
            continue
        line[margin : margin + n] = powers[r]
        here, size = out[begin:end], end - begin
        at, t = margin + begin + offset - radius, 0
        while t + _TAPS <= kernel.size:
            _add_eight(
                kernel[t : t + _TAPS], line[at : at + size], line[at + 1 : at + 1 + size], line[at + 2 : at + 2 + size],
                line[at + 3 : at + 3 + size], line[at + 4 : at + 4 + size], line[at + 5 : at + 5 + size],
                line[at + 6 : at + 6 + size], line[at + 7 : at + 7 + size], here,
            )  # fmt: skip
            t, at = t + _TAPS, at + _TAPS
        while t < kernel.size:
            _add_one(kernel[t], line[at : at + size], here)
            t, at = t + 1, at + 1
        for k in range(size):
            here[k] = here[k] if here[k] > nothing else 0.0


@compiled(nogil=True, fastmath=_FLAGS)
def along_axis(scale, stage, is_last, start, step):
    """The sums along another axis, of outputs start, start + step, ...

    Parameters
    ----------
    stage : tuple
        The inputs (outer, n, inner), the kernel, the offset of the first output among them, the stretches of the rows of `inner`
        that are wanted (m, rows, 2), and the outputs (outer, m, inner).
    is_last : bool
        Whether logarithms are wanted. Otherwise what is below the floor is nothing.
    """
    lines, kernel, offset, spans, sums = stage
    lift, nothing = scale[1], math.exp(-scale[0]) * 2.0 ** scale[1]
    outer, n, inner = lines.shape
    m, rows = spans.shape[0], spans.shape[1]
    length, radius = inner // rows, kernel.size // 2
    one, two = np.empty(length), np.empty(length)
    one_bits, two_bits = one.view(np.int64), two.view(np.int64)
    for number in range(start, outer * m, step):
        o, i = number // m, number % m
        source, first = lines[o], i + offset - radius
        begin, end = max(0, -first), min(kernel.size, n - first)
        for row in range(rows):
            a, b = row * length + spans[i, row, 0], row * length + spans[i, row, 1]
            out = sums[o, i, a:b]
            out[:] = 0.0
            t = begin
            while t + _TAPS <= end:
                j = first + t
                _add_eight(
                    kernel[t : t + _TAPS], source[j, a:b], source[j + 1, a:b], source[j + 2, a:b], source[j + 3, a:b],
                    source[j + 4, a:b], source[j + 5, a:b], source[j + 6, a:b], source[j + 7, a:b], out,
                )  # fmt: skip
                t += _TAPS
            while t < end:
                _add_one(kernel[t], source[first + t, a:b], out)
                t += 1
            if is_last:
                log_of_sums(out, out.view(np.int64), lift, one, one_bits, two, two_bits, out.size)
            else:
                for k in range(out.size):
                    out[k] = out[k] if out[k] > nothing else 0.0


@compiled(nogil=True, fastmath=_FLAGS)
def read(sums, index, top, log_sum):
    """Take the sums at `index` (n_out,), and add `top`. Returns the least one without it."""
    flat, least = sums.ravel(), np.inf
    for k in range(index.size):
        x = flat[index[k]]
        least = x if x < least else least
        log_sum[k] = x + top
    return least


@compiled(nogil=True, fastmath=_FLAGS)
def sum_all(log_weight, top, scale, first, stages, index_out, log_sum):
    """All of it in one thread and one call, which holds the interpreter lock for none of it."""
    put_powers(log_weight, top, scale, first, 0, 1)
    along_last_axis(scale, first, 0, 1)
    last = len(stages) - 1
    for number in range(len(stages)):
        along_axis(scale, stages[number], number == last, 0, 1)
    return read(stages[last][4], index_out, top, log_sum)

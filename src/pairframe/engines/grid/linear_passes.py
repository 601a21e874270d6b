"""Convolutions of powers along the axes of a grid, compiled; see `linear`.

Powers are lifted as in `passes`: a product of two numbers at the floor is no subnormal, which would take a hundred times as long.
"""

from __future__ import annotations

import math

import numpy as np

from pairframe.compiler import compiled
from pairframe.engines.grid.passes import exp_shifted, log_of_sums, products

_FLAGS = {"contract", "reassoc", "nsz", "arcp", "nnan"}
_CHUNK = 512  # numbers at a time, which stay in cache
BLOCK = 16  # outputs that share a window of inputs


@compiled(nogil=True, fastmath=_FLAGS)
def put_powers(log_weight, top, scale, index, powers, start, step):
    """The powers of the weights (n_in,) relative to `top`, the largest, at their places: every `step`-th chunk from `start` on.

    Parameters
    ----------
    scale : (floor, lift), floats
        Powers are at least ``exp(-floor)``, and are multiplied by ``2^lift``.
    index : (n_in,)
        Places in the grid.
    powers : (lines, n)
        The grid; zeros where no input is.
    """
    floor, lift = scale
    flat = powers.ravel()
    one, two = np.empty(_CHUNK), np.empty(_CHUNK)
    two_bits = two.view(np.int64)
    for begin in range(start * _CHUNK, index.size, step * _CHUNK):
        here, places = log_weight[begin : begin + _CHUNK], index[begin : begin + _CHUNK]
        exp_shifted(here, top, -floor, lift, one, two, two_bits, here.size)
        for k in range(here.size):
            flat[places[k]] = one[k]


@compiled(nogil=True, fastmath=_FLAGS)
def sum_lines(lines, stage, scale, start, step):
    """The sums along lines start, start + step, ... (R, n); below the floor they are nothing.

    Parameters
    ----------
    stage : tuple
        The kernel ``exp(-k^2 / eps)`` for k = -c..c, zero beyond its radius and at least two blocks longer, the radius, the
        offset of the first output among the inputs, the outputs wanted of each line (R, 2), and the sums, turned for the next
        axis: (m, R).
    """
    kernel, radius, offset, spans, out = stage
    nothing = math.exp(-scale[0]) * 2.0 ** scale[1]
    centre, n = kernel.size // 2, lines.shape[1]
    sums = np.empty(BLOCK)
    for r in range(start, lines.shape[0], step):
        line = lines[r]
        first, last = 0, n - 1
        while first < n and line[first] == 0.0:
            first += 1
        while last > first and line[last] == 0.0:
            last -= 1
        for begin in range(spans[r, 0], spans[r, 1], BLOCK):
            count = min(BLOCK, spans[r, 1] - begin)
            i0 = begin + offset  # among the inputs
            low, high = max(first, i0 - radius), min(last, i0 + count - 1 + radius)
            if low > high:
                for q in range(count):
                    out[begin + q, r] = 0.0
                continue
            products(kernel, centre + low - i0, line[low : high + 1], high + 1 - low, count, sums)
            for q in range(count):
                out[begin + q, r] = sums[q] if sums[q] > nothing else 0.0


@compiled(nogil=True, fastmath=_FLAGS)
def read_logs(sums, index, top, scale, log_sum, least, start, step):
    """The logarithms of ``2^-lift`` times the sums at `index` (n_out,), with `top` added; ``least[start]`` is the least without it."""
    flat = sums.ravel()
    here, one, two = np.empty(_CHUNK), np.empty(_CHUNK), np.empty(_CHUNK)
    here_bits, one_bits, two_bits = here.view(np.int64), one.view(np.int64), two.view(np.int64)
    smallest = np.inf
    for begin in range(start * _CHUNK, index.size, step * _CHUNK):
        places, out = index[begin : begin + _CHUNK], log_sum[begin : begin + _CHUNK]
        for k in range(places.size):
            here[k] = flat[places[k]]
        log_of_sums(here, here_bits, scale[1], one, one_bits, two, two_bits, places.size)
        for k in range(places.size):
            x = here[k]
            smallest = x if x < smallest else smallest
            out[k] = x + top
    least[start] = smallest


@compiled(nogil=True, fastmath=_FLAGS)
def sum_all(log_weight, top, scale, index_in, powers, stages, index_out, log_sum, least):
    """All of it in one thread and one call, which holds the interpreter lock for none of it."""
    put_powers(log_weight, top, scale, index_in, powers, 0, 1)
    lines = powers
    for stage in stages:
        _, _, _, spans, out = stage
        lines = lines.reshape((spans.shape[0], lines.size // spans.shape[0]))
        sum_lines(lines, stage, scale, 0, 1)
        lines = out
    read_logs(lines, index_out, top, scale, log_sum, least, 0, 1)

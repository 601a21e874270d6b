"""Sums along one axis after the other: which lines there are, which outputs of them are wanted, and how long it takes."""

from __future__ import annotations

import math

import numpy as np

from pairframe.engines.grid.axis import KernelAxis, flat_index
from pairframe.engines.grid.places import spans
from pairframe.types import Int


def time_ns(axes: list[KernelAxis], windows: list[float], line_ns: float, product_ns: float) -> float:
    """About how many nanoseconds sums take in this order, from the last axis to the first.

    Parameters
    ----------
    windows : one float per axis
        Inputs that an output is multiplied with, at most.
    line_ns, product_ns : float
        Of one line, and of one product.
    """
    *slow, fast = axes
    if not slow:
        return 0.0
    lines_in = flat_index(tuple(axis.index_in for axis in slow), tuple(axis.n_in for axis in slow))
    spans_in = spans(lines_in, fast.index_in, math.prod(axis.n_in for axis in slow))
    products = float(fast.n_out * np.minimum(spans_in[:, 1] - spans_in[:, 0], windows[-1]).sum())
    n_lines = len(spans_in)
    for k in range(len(slow) - 1, -1, -1):
        lines = math.prod(axis.n_in for axis in axes[:k]) * math.prod(axis.n_out for axis in axes[k + 1 :])
        n_lines += lines
        n_outputs = lines * axes[k].n_out if k else axes[0].index_out.size
        products += float(n_outputs * min(axes[k].n_in, windows[k]))
    return line_ns * n_lines + product_ns * products


def output_spans(axes: list[KernelAxis], k: int) -> Int:
    """Outputs of the sums along axis k that are wanted, (n_lines, 2): later sums and the support read no others.

    Lines are ordered by the output's places along the axes already summed, then by the input's along those still to sum.
    """
    summed, axis = axes[k + 1 :], axes[k]
    n_per_place = math.prod(other.n_in for other in axes[:k])
    if not summed:
        return np.tile(np.array([[0, axis.n_out]]), (n_per_place, 1))
    sides = tuple(other.n_out for other in summed)
    lines = flat_index(tuple(other.index_out for other in summed), sides)
    return np.repeat(spans(lines, axis.index_out, math.prod(sides)), n_per_place, axis=0)

"""Sums over a grid as plain convolutions, where one float64 holds the range of all weights and sums.

That is so for a measure against itself, on coarse grids, and for pairs that hardly change shape: their common shift is taken out
of the exponents. Maxima, windows and logarithms between the axes, which `passes` need, take two thirds of their time.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import numpy as np

from pairframe.engines.grid import linear_passes as compiled
from pairframe.engines.grid.axis import KernelAxis, flat_index
from pairframe.engines.grid.order import output_spans, time_ns
from pairframe.parallel.threads import run_in_threads, threads_for
from pairframe.types import Float, Index

# Powers below exp(-_FLOOR) are as good as nothing, and 2^_LIFT keeps products of two of them normal; sums may be as small as
# exp(-_MOST_DEPTH), which leaves a factor of exp(50) between what is dropped and what is returned.
_FLOOR, _LIFT, _MOST_DEPTH = 650.0, 865.0, 600.0
_SCALE = _FLOOR, _LIFT
_CUT = 37.0  # terms below exp(-_CUT) of a sum are below its last digit
_MARGIN = 10.0  # of the depth, for the next call
_MUCH = 2.0  # a depth that is too large by this factor is made smaller
# Nanoseconds per line, product and pixel on one core of an AMD EPYC (AVX-512).
_LINE_NS, _PRODUCT_NS, _PIXEL_NS = 50.0, 0.04, 2.0


class LinearSums:
    """The sums of `SupportKernel.log_sum`, as long as they fit and pay. Not for two threads at once.

    Parameters
    ----------
    axes : list of KernelAxis
        Two or more; the last one is contiguous.
    most_ns : float
        How long a sum may take.
    expected_depth : float, optional
        See `SupportKernel`.
    """

    def __init__(self, axes: list[KernelAxis], most_ns: float, expected_depth: float | None = None) -> None:
        self._axes, self._most_ns, self._expected_depth = axes, most_ns, expected_depth
        shift = tuple(axis.middle_shift for axis in axes)
        # Those that may be of use, the next one last.
        self._shifts = [shift, (0,) * len(shift)] if any(shift) else [shift]
        self._sums: _ShiftedSums | None = None
        self._is_new = True

    def log_sum(self, log_weight: Float) -> Float | None:
        """(n_in,) -> (n_out,); None if the range is too large, and from then on."""
        if self._is_new:
            self._is_new = False
            self._shifts = self._useful(log_weight)
        while self._shifts:
            self._sums = self._sums or _ShiftedSums(self._axes, self._shifts[-1], self._most_ns, self._expected_depth)
            found = self._sums.log_sum(log_weight)
            if found is not None:
                return found
            self._shifts.pop()
            self._sums = None
        return None

    @property
    def nbytes(self) -> int:
        """Memory that is kept between calls."""
        return 0 if self._sums is None else self._sums.nbytes

    def release(self) -> None:
        """Free that memory; the next call makes it again."""
        if self._sums is not None:
            self._sums.release()

    def _useful(self, log_weight: Float) -> list[tuple[int, ...]]:
        """The shifts that leave a range of weights (n_in,) that may fit, the smallest range last."""
        is_hopeless = self._expected_depth is not None and self._expected_depth > _MOST_DEPTH
        if is_hopeless or not np.isfinite(log_weight).all():
            return []
        weights = {one: log_weight - _tilt_in(self._axes, one) if any(one) else log_weight for one in self._shifts}
        ranges = {one: float(np.ptp(weight)) for one, weight in weights.items()}
        return sorted((one for one in self._shifts if ranges[one] <= _MOST_DEPTH), key=lambda one: -ranges[one])


# For outputs that are moved by the shift s: -(i - j)^2 = -(i + s - j)^2 + s (2 i + s) - 2 s j.


def _tilt_in(axes: list[KernelAxis], shift: tuple[int, ...]) -> Float:
    """What the weights (n_in,) lose."""
    terms = (2.0 * s / axis.epsilon * np.arange(axis.n_in) for s, axis in zip(shift, axes, strict=True))
    return _outer_sum(*terms).ravel()[_index_in(axes)]


def _tilt_out(axes: list[KernelAxis], shift: tuple[int, ...]) -> Float:
    """What the sums (n_out,) gain."""
    both = zip(shift, axes, strict=True)
    terms = (s / axis.epsilon * (2.0 * (np.arange(axis.n_out) + axis.offset) + s) for s, axis in both)
    index = flat_index(tuple(axis.index_out for axis in axes), tuple(axis.n_out for axis in axes))
    return _outer_sum(*terms).ravel()[index]


def _outer_sum(*terms: np.ndarray[Any, Any]) -> Float:
    """(n, m, ...) from (n,), (m,), ..."""
    return np.asarray(reduce(np.add.outer, terms), dtype=np.float64)


def _index_in(axes: list[KernelAxis]) -> Index:
    return flat_index(tuple(axis.index_in for axis in axes), tuple(axis.n_in for axis in axes))


class _ShiftedSums:
    """The sums for outputs that are moved by a common shift, in pixels per axis, which leaves smaller exponents."""

    def __init__(
        self, axes: list[KernelAxis], shift: tuple[int, ...], most_ns: float, expected_depth: float | None
    ) -> None:
        self._axes, self._most_ns, self._expected_depth = axes, most_ns, expected_depth
        self._tilts = (_tilt_in(axes, shift), _tilt_out(axes, shift)) if any(shift) else None
        self._offsets = [axis.offset + s for axis, s in zip(axes, shift, strict=True)]
        self._n_in, self._n_out = axes[0].index_in.size, axes[0].index_out.size
        self._depth = math.nan
        self._kernels: list[tuple[Float, int]] = []  # with their radii
        self._grids: _Grids | None = None

    @property
    def nbytes(self) -> int:
        return 0 if self._grids is None else self._grids.nbytes

    def release(self) -> None:
        self._grids = None

    def log_sum(self, log_weight: Float) -> Float | None:
        """(n_in,) -> (n_out,); None if the range is too large."""
        weight = log_weight if self._tilts is None else log_weight - self._tilts[0]
        top, low = float(weight.max()), float(weight.min())
        if not (math.isfinite(top) and math.isfinite(low)):
            return None
        if math.isnan(self._depth):
            depth = top - low if self._expected_depth is None else self._expected_depth
            self._set_depth(max(depth, self._least_depth()))
        while self._kernels:
            least, log_sum = self._sum(weight, top)
            is_deep_enough = least >= -self._depth
            if is_deep_enough:
                if _MUCH * (max(-least, 0.0) + _MARGIN) < self._depth:
                    self._set_depth(-least)
                return log_sum if self._tilts is None else log_sum + self._tilts[1]
            if self._depth >= _MOST_DEPTH:
                return None
            # A sum of nothing is smaller than any number, and tells too little about the depth that is needed.
            self._set_depth(min(-least, _MOST_DEPTH))
        return None

    def _least_depth(self) -> float:
        """Of the sums at the outputs that are farthest from all inputs along an axis."""
        beyond = [
            max(-offset, offset + axis.n_out - axis.n_in, 0)
            for axis, offset in zip(self._axes, self._offsets, strict=True)
        ]
        farthest = max(far**2 / axis.epsilon for far, axis in zip(beyond, self._axes, strict=True))
        return farthest - math.log(self._n_in)

    def _set_depth(self, least_depth: float) -> None:
        """Make the kernels for sums down to ``exp(-least_depth)`` of the largest weight; none if that does not fit or pay."""
        self._depth, self._kernels = min(max(least_depth, 0.0) + _MARGIN, _MOST_DEPTH), []
        if not least_depth <= _MOST_DEPTH:
            return
        end = _CUT + math.log(self._n_in) + self._depth
        radii = []
        for axis, offset in zip(self._axes, self._offsets, strict=True):
            farthest = max(abs(offset - axis.n_in + 1), abs(offset + axis.n_out - 1))
            radii.append(math.floor(min(math.sqrt(end * axis.epsilon), farthest)))
        windows = [2.0 * radius + compiled.BLOCK for radius in radii]
        pixels_ns = _PIXEL_NS * (self._n_in + self._n_out)
        if pixels_ns + time_ns(self._axes, windows, _LINE_NS, _PRODUCT_NS) <= self._most_ns:
            both = zip(radii, self._axes, strict=True)
            self._kernels = [(_kernel(radius, axis.epsilon), radius) for radius, axis in both]

    def _sum(self, weight: Float, top: float) -> tuple[float, Float]:
        """The least sum relative to `top`, the largest weight, and all of them, (n_out,)."""
        self._grids = grids = self._grids or _Grids(self._axes)
        size, log_sum = max(self._n_in, self._n_out), np.empty(self._n_out)
        least = np.full(threads_for(size), np.inf)
        both = zip(self._kernels, self._offsets, strict=True)
        first_last = [(*kernel, offset) for kernel, offset in both][::-1]
        stages = tuple((*one, *other) for one, other in zip(first_last, grids.stages, strict=True))
        if least.size == 1:
            powers, index_in, index_out = grids.powers, grids.index_in, grids.index_out
            compiled.sum_all(weight, top, _SCALE, index_in, powers, stages, index_out, log_sum, least)
            return float(least[0]), log_sum
        put = weight, top, _SCALE, grids.index_in, grids.powers
        run_in_threads(lambda start, step: compiled.put_powers(*put, start, step), size)
        lines = grids.powers
        for stage in stages:
            spans, out = stage[-2:]
            along = lines.reshape(len(spans), -1), stage, _SCALE
            run_in_threads(lambda start, step, along=along: compiled.sum_lines(*along, start, step), size)  # type: ignore[misc]
            lines = out
        read = lines, grids.index_out, top, _SCALE, log_sum, least
        run_in_threads(lambda start, step: compiled.read_logs(*read, start, step), size)
        return float(least.min()), log_sum


class _Grids:
    """The powers, and for each axis from the last one on the outputs wanted of each line and the sums, turned for the next axis."""

    def __init__(self, axes: list[KernelAxis]) -> None:
        self.powers = np.zeros((math.prod(axis.n_in for axis in axes[:-1]), axes[-1].n_in))
        spans = [output_spans(axes, k) for k in range(len(axes) - 1, -1, -1)]
        # Zeros stay where nothing is wanted.
        self.stages = [(span, np.zeros((axis.n_out, len(span)))) for span, axis in zip(spans, axes[::-1], strict=True)]
        self.index_in = _index_in(axes)
        self.index_out: Index = flat_index(tuple(axis.index_out for axis in axes), tuple(axis.n_out for axis in axes))

    @property
    def nbytes(self) -> int:
        return self.powers.nbytes + sum(out.nbytes for _, out in self.stages)


def _kernel(radius: int, epsilon: float) -> Float:
    """``exp(-k^2 / epsilon)`` up to the radius, and zeros for two blocks beyond it."""
    places = np.arange(-radius, radius + 1.0)
    return np.pad(np.exp(-(places**2) / epsilon), 2 * compiled.BLOCK)

"""Sums over a grid as plain convolutions, where one float64 holds the range of all weights and sums.

That is so for a measure against itself, on coarse grids, and for pairs that hardly change shape: their common shift is taken out
of the exponents. It takes a third of the time of `passes`, which find maxima and windows and take logarithms between the axes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from pairframe.engines.grid import linear_passes as compiled
from pairframe.engines.grid.axis import KernelAxis, flat_index
from pairframe.engines.grid.places import spans
from pairframe.parallel.threads import run_in_threads, threads_for
from pairframe.types import Float, Index, Int

# Powers below exp(-_FLOOR) are as good as nothing, and 2^_LIFT keeps products of two of them normal; sums may be as small as
# exp(-_MOST_DEPTH), which leaves a factor of exp(50) between what is dropped and what is returned.
_FLOOR, _LIFT, _MOST_DEPTH = 650.0, 865.0, 600.0
_SCALE = _FLOOR, _LIFT
_CUT = 37.0  # terms below exp(-_CUT) of a sum are below its last digit
_MARGIN = 10.0  # of the depth, for the next call
_MUCH = 2.0  # a depth that is too large by this factor is made smaller
_MOST_RADIUS = 100  # of the kernel, in pixels: beyond it the windows of `passes` save as many products


class LinearSums:
    """The sums of `SupportKernel.log_sum`, as long as they fit. Not for two threads at once.

    Parameters
    ----------
    axes : list of KernelAxis
        Two or more; the last one is contiguous.
    index_in : (n_in,)
        The places of the inputs in their box.
    """

    def __init__(self, axes: list[KernelAxis], index_in: Index) -> None:
        self._boxes = _Boxes.of(axes, index_in)
        shift = self._boxes.common_shift(axes)
        # Those that may be of use, the next one last.
        self._shifts = [shift, (0,) * len(shift)] if any(shift) else [shift]
        self._sums: _ShiftedSums | None = None
        self._is_new = True

    def log_sum(self, log_weight: Float) -> Float | None:
        """(n_in,) -> (n_out,); None if the range is too large, and from then on."""
        if self._is_new:
            self._is_new = False
            self._shifts = self._boxes.useful(self._shifts, log_weight)
        while self._shifts:
            self._sums = self._sums or _ShiftedSums(self._boxes, self._shifts[-1])
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
        self._sums = None


@dataclass(frozen=True, eq=False)
class _Boxes:
    """Where inputs and outputs are in the boxes around them.

    Attributes
    ----------
    sides_in, sides_out, offsets : int per axis
        Lengths of the boxes, and the first output among the inputs.
    epsilons : float per axis
        In squared pixels of that axis.
    index_in, index_out : (n_in,), (n_out,)
    spans_in : (lines, 2)
        The stretch of each line along the last axis with inputs.
    spans_out : one (n, rows, 2) per axis but the last
        The stretches of the rows of a box that begins at that axis which have outputs.
    """

    sides_in: tuple[int, ...]
    sides_out: tuple[int, ...]
    offsets: tuple[int, ...]
    epsilons: tuple[float, ...]
    index_in: Index
    index_out: Index
    spans_in: Int
    spans_out: tuple[Int, ...]

    @classmethod
    def of(cls, axes: list[KernelAxis], index_in: Index) -> _Boxes:
        sides_in, sides_out = tuple(axis.n_in for axis in axes), tuple(axis.n_out for axis in axes)
        places_in, places_out = tuple(axis.index_in for axis in axes), tuple(axis.index_out for axis in axes)
        spans_out = []
        for k in range(len(axes) - 1):
            lines = flat_index(places_out[k:-1], sides_out[k:-1])
            found = spans(lines, places_out[-1], math.prod(sides_out[k:-1]))
            spans_out.append(found.reshape(sides_out[k], -1, 2))
        return cls(
            sides_in,
            sides_out,
            tuple(axis.offset for axis in axes),
            tuple(axis.epsilon for axis in axes),
            index_in,
            flat_index(places_out, sides_out),
            spans(flat_index(places_in[:-1], sides_in[:-1]), places_in[-1], math.prod(sides_in[:-1])),
            tuple(spans_out),
        )

    def common_shift(self, axes: list[KernelAxis]) -> tuple[int, ...]:
        """From the middle of the outputs to that of the inputs, in pixels."""
        return tuple(round(float(axis.index_in.mean() - axis.index_out.mean())) - axis.offset for axis in axes)

    def useful(self, shifts: list[tuple[int, ...]], log_weight: Float) -> list[tuple[int, ...]]:
        """Those that leave a range of weights (n_in,) that may fit, the smallest range last."""
        if not np.isfinite(log_weight).all():
            return []
        weights = {shift: log_weight - self.tilt_in(shift) if any(shift) else log_weight for shift in shifts}
        ranges = {shift: float(np.ptp(weight)) for shift, weight in weights.items()}
        return sorted((shift for shift in shifts if ranges[shift] <= _MOST_DEPTH), key=lambda shift: -ranges[shift])

    # For outputs that are moved by the shift s: -(i - j)^2 = -(i + s - j)^2 + s (2 i + s) - 2 s j.

    def tilt_in(self, shift: tuple[int, ...]) -> Float:
        """What the weights (n_in,) lose."""
        slopes = [2.0 * s / eps for s, eps in zip(shift, self.epsilons, strict=True)]
        terms = (slope * np.arange(n) for slope, n in zip(slopes, self.sides_in, strict=True))
        return _outer_sum(*terms).ravel()[self.index_in]

    def tilt_out(self, shift: tuple[int, ...]) -> Float:
        """What the sums (n_out,) gain."""
        sides = zip(shift, self.epsilons, self.offsets, self.sides_out, strict=True)
        terms = (s / eps * (2.0 * (np.arange(n) + offset) + s) for s, eps, offset, n in sides)
        return _outer_sum(*terms).ravel()[self.index_out]


def _outer_sum(*terms: np.ndarray[Any, Any]) -> Float:
    """(n, m, ...) from (n,), (m,), ..."""
    return np.asarray(reduce(np.add.outer, terms), dtype=np.float64)


class _ShiftedSums:
    """The sums for outputs that are moved by a common shift, in pixels per axis, which leaves smaller exponents."""

    def __init__(self, boxes: _Boxes, shift: tuple[int, ...]) -> None:
        self._boxes = boxes
        self._tilts = (boxes.tilt_in(shift), boxes.tilt_out(shift)) if any(shift) else None
        self._offsets = tuple(offset + s for offset, s in zip(boxes.offsets, shift, strict=True))
        self._depth = math.nan
        self._kernels: tuple[Float, ...] = ()
        self._memory: tuple[Float, ...] = ()  # powers, and sums along the last axis, the one before it, ...

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self._memory)

    def log_sum(self, log_weight: Float) -> Float | None:
        """(n_in,) -> (n_out,); None if the range is too large."""
        weight = log_weight if self._tilts is None else log_weight - self._tilts[0]
        top, low = float(weight.max()), float(weight.min())
        if not (math.isfinite(top) and math.isfinite(low)):
            return None
        if math.isnan(self._depth):
            self._set_depth(top - low)
        for _ in range(2):
            if not self._kernels:
                return None
            least, log_sum = self._sum(weight, top)
            is_deep_enough = least >= -self._depth
            if not is_deep_enough or _MUCH * (_MARGIN - least) < self._depth:
                self._set_depth(-least)
            if is_deep_enough:
                return log_sum if self._tilts is None else log_sum + self._tilts[1]
        return None

    def _set_depth(self, least_depth: float) -> None:
        """Make the kernels for sums down to ``exp(-least_depth)`` of the largest weight; none if that does not fit."""
        self._depth, self._kernels = min(least_depth + _MARGIN, _MOST_DEPTH), ()
        if not least_depth <= _MOST_DEPTH:
            return
        boxes = self._boxes
        end = _CUT + math.log(boxes.index_in.size) + self._depth
        farthest = [n + m + abs(s) for n, m, s in zip(boxes.sides_in, boxes.sides_out, self._offsets, strict=True)]
        radii = [math.ceil(min(math.sqrt(end * eps), far)) for eps, far in zip(boxes.epsilons, farthest, strict=True)]
        if max(radii) <= _MOST_RADIUS:
            self._kernels = tuple(
                np.exp(-(np.arange(-radius, radius + 1.0) ** 2) / eps)
                for radius, eps in zip(radii, boxes.epsilons, strict=True)
            )

    def _sum(self, weight: Float, top: float) -> tuple[float, Float]:
        """The least sum relative to `top`, the largest weight, and all of them, (n_out,)."""
        boxes = self._boxes
        sides_in, sides_out = boxes.sides_in, boxes.sides_out
        if not self._memory:
            # Axis after axis, from the last one on, the places of inputs become those of outputs.
            shapes = [sides_in[:k] + sides_out[k:] for k in range(len(sides_in) - 1, -1, -1)]
            self._memory = np.zeros(sides_in), *(np.empty(shape) for shape in shapes)
        powers, *sums = self._memory
        first = (
            *(boxes.index_in, boxes.spans_in, powers.reshape(-1, sides_in[-1]), self._kernels[-1], self._offsets[-1]),
            sums[0].reshape(-1, sides_out[-1]),
        )
        stages = tuple(
            (
                before.reshape(-1, sides_in[k], math.prod(sides_out[k + 1 :])),
                *(self._kernels[k], self._offsets[k], boxes.spans_out[k]),
                after.reshape(-1, sides_out[k], math.prod(sides_out[k + 1 :])),
            )
            for k, before, after in zip(range(len(sides_in) - 2, -1, -1), sums, sums[1:], strict=False)
        )
        log_sum = np.empty(boxes.index_out.size)
        if threads_for(log_sum.size) == 1:
            return compiled.sum_all(weight, top, _SCALE, first, stages, boxes.index_out, log_sum), log_sum
        self._in_threads(compiled.put_powers, weight, top, _SCALE, first)
        self._in_threads(compiled.along_last_axis, _SCALE, first)
        for stage in stages:
            self._in_threads(compiled.along_axis, _SCALE, stage, stage is stages[-1])
        return compiled.read(sums[-1], boxes.index_out, top, log_sum), log_sum

    def _in_threads(self, work: Callable[..., None], *arguments: object) -> None:
        run_in_threads(lambda start, step: work(*arguments, start, step), self._boxes.index_out.size)

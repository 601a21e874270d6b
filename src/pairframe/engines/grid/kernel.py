"""The Gaussian kernel of a grid as an operator between two supports, without an n x m array.

``exp(-|x_i - x_j|^2 / eps)`` is a product over the axes, so a sum over the whole grid is one pass along each axis in turn
(`passes`, or `linear` where the range of all numbers is small), for images and volumes alike. A pass writes its output turned: the axis just summed comes first, and the next
one to sum is last and contiguous. Only lines and stretches of lines that can carry mass are visited.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from pairframe.engines.grid.axis import KernelAxis, flat_index
from pairframe.engines.grid.linear import LinearSums
from pairframe.engines.grid.order import output_spans, time_ns
from pairframe.engines.grid.passes import pass_rows, sum_image
from pairframe.engines.grid.places import places
from pairframe.parallel.threads import run_in_threads, threads_for
from pairframe.types import Bool, Float, Index, Int

TILE = 96  # outputs that share one window; larger amortises the exponentials, smaller wastes fewer products
# How far below its maximum a tile may reach in that precision (in logarithms), what is dropped as nothing, and the power of two
# that lifts the powers, so that a product of two numbers at the floor is no subnormal.
_SCALES = {"float64": (600.0, 650.0, 865.0), "float32": (46.0, 73.0, 86.0)}
_KEPT_BYTES = 32 << 20  # of channels that are kept between calls
# Nanoseconds per line and per product on one core of an AMD EPYC (AVX-512).
_LINE_NS, _PRODUCT_NS = 500.0, 0.065
_REACH = 45.0  # the kernel is dropped past exp(-_REACH) when the cost of an order of axes is estimated


class SupportKernel:
    """Sums over `support_in` seen from `support_out`, two bool arrays on one grid. Not for two threads at once.

    Vectors are over the support's pixels in row-major order: (n_in,) in, (n_out,) out.

    Parameters
    ----------
    support_in, support_out : bool arrays of one shape, any number of axes
        The inputs and the outputs; neither may be empty.
    epsilon : float
        Work px^2.
    dtype : {"float64", "float32"}
        Of the inner products; exponents are always float64.
    spacing : one float per axis
        Distance between neighbouring pixels, work px; 1 along each axis by default.
    expected_depth : float, optional
        Sums are about ``exp(-expected_depth)`` of the largest weight or more. It is found by trying otherwise.
    """

    def __init__(
        self,
        support_in: Bool,
        support_out: Bool,
        epsilon: float,
        dtype: str = "float64",
        spacing: tuple[float, ...] = (),
        *,
        expected_depth: float | None = None,
    ) -> None:
        sides = spacing or (1.0,) * support_in.ndim
        axes = [
            KernelAxis(here, there, epsilon / side**2)
            for here, there, side in zip(places(support_in), places(support_out), sides, strict=True)
        ]
        # Slowest first; the passes go from the last to the first.
        orders: list[list[KernelAxis]] = [list(order) for order in permutations(axes)]
        costs = [_time_ns(order) for order in orders]
        self._axes = orders[costs.index(min(costs))]
        self.n_in, self.n_out = self._axes[0].index_in.size, self._axes[0].index_out.size
        self._dtype, self._most_ns, self._expected_depth = dtype, min(costs), expected_depth
        self._linear: LinearSums | None = None
        self.forget()
        # Kept between calls: fresh memory for each softmin costs as much as its sums.
        self._sums: list[Float] = []
        self._channels: dict[int, _Channels] = {}
        self._image: tuple[tuple[object, ...], ...] = ()  # arguments of the passes over an image in one call

    # What the passes need is made when they are needed.

    @cached_property
    def _passes(self) -> list[_Pass]:
        axes = self._axes
        centre = max(2 * max(axis.n_in, axis.n_out) for axis in axes) + sum(abs(axis.offset) for axis in axes) + TILE
        tables = {axis.epsilon: _toeplitz(axis.epsilon, centre, self._dtype) for axis in axes}
        return [
            _Pass(
                n_in=axis.n_in,
                n_out=axis.n_out,
                offset=axis.offset,
                spans=output_spans(axes, k),
                table=tables[axis.epsilon],
                centre=centre,
                inverse_epsilon=1.0 / axis.epsilon,
                scale=_SCALES[self._dtype],
                turned=k > 0,
            )
            for k, axis in reversed(list(enumerate(axes)))
        ]

    @cached_property
    def _index_in(self) -> Index:
        axes = self._axes
        return flat_index(tuple(axis.index_in for axis in axes), tuple(axis.n_in for axis in axes))

    @cached_property
    def _index_out(self) -> Index:
        axes = [*self._axes[1:], self._axes[0]]  # the last pass leaves its axis at the end: nothing comes after it
        return flat_index(tuple(axis.index_out for axis in axes), tuple(axis.n_out for axis in axes))

    @cached_property
    def _log_in(self) -> Float:
        return np.full((self._passes[0].n_lines, self._passes[0].n_in), -np.inf)

    def log_sum(self, log_weight: Float) -> Float:
        """``log sum_j exp(log_weight_j - |x_i - x_j|^2 / eps)``: (n_in,) -> (n_out,); -inf where no input has weight."""
        # The compiled passes check no bounds, and would be compiled again for another kind of array.
        log_weight = np.require(log_weight, np.float64, ["C", "W"])
        if log_weight.shape != (self.n_in,):
            raise ValueError(
                f"expected {self.n_in} weights, one per pixel of the support, got shape {log_weight.shape}"
            )
        if self._linear is not None:
            found = self._linear.log_sum(log_weight)
            if found is not None:
                return found
            self._linear = None
        passes = self._passes
        if len(passes) != 2 or max(step.n_threads for step in passes) > 1:
            return self._run(log_weight, np.empty((0, self.n_in)))[0]
        if not self._image:
            self._sums = self._sums or [np.empty(step.shape_out) for step in passes]
            self._image = tuple(step.arguments(out) for step, out in zip(passes, self._sums, strict=True))
        log_sum = np.empty(self.n_out)
        sum_image(log_weight, self._index_in, self._log_in, self._image[0], self._index_out, self._image[1], log_sum)
        return log_sum

    def log_sum_and_means(self, log_weight: Float, channels: Float) -> tuple[Float, Float]:
        """The log-sums (n_out,), and with the same weights the averages of `channels` (c, n_in) as (c, n_out).

        Channels are at most 1e40, in float32 1e6: with larger ones the lifted powers may leave that precision.
        """
        channels = np.asarray(channels, dtype=np.float64)
        if len(channels) < 2 or _Channels(self._passes, 1).is_kept:
            return self._run(log_weight, channels)
        # One after the other: each takes as much memory as two images while it is summed.
        means = np.empty((len(channels), self.n_out))
        for k, channel in enumerate(channels):
            log_sum, means[k : k + 1] = self._run(log_weight, channel[None])
        return log_sum, means

    def forget(self) -> None:
        """Make the next sums independent of those before, to the last digit."""
        can_be_linear = self._dtype == "float64" and len(self._axes) > 1
        self._linear = LinearSums(self._axes, self._most_ns, self._expected_depth) if can_be_linear else None

    def release_large_buffers(self) -> None:
        """Free what is kept between calls if it is as large as an image of a million pixels; the next call makes it again."""
        if sum(array.nbytes for array in self._sums) > _KEPT_BYTES // 2:
            self._sums, self._image = [], ()
        if self._linear is not None and self._linear.nbytes > _KEPT_BYTES // 2:
            self._linear.release()

    def _run(self, log_weight: Float, channels: Float) -> tuple[Float, Float]:
        n_channels = len(channels)
        if not self._sums:
            self._sums = [np.empty(step.shape_out) for step in self._passes]
        self._log_in.ravel()[self._index_in] = log_weight
        buffers = self._channels.get(n_channels)
        if buffers is None:
            buffers = _Channels(self._passes, n_channels)
            if buffers.is_kept:
                self._channels[n_channels] = buffers
        phi = buffers.first()
        if n_channels == 1:
            phi.ravel()[self._index_in] = channels[0]
        elif n_channels:
            line, place = np.divmod(self._index_in, self._log_in.shape[1])
            for k, channel in enumerate(channels):
                phi[line, k, place] = channel
        h = self._log_in
        for number, (step, out) in enumerate(zip(self._passes, self._sums, strict=True)):
            h, phi = h.reshape(step.n_lines, step.n_in), _lines_first(phi, step.n_lines, step.n_in)
            means = buffers.after(number)
            step.run(h, phi, out, means)
            h, phi = out, means
        log_sum = h.ravel()[self._index_out]
        if not n_channels:
            return log_sum, np.empty((0, self.n_out))
        if n_channels == 1:
            return log_sum, phi.ravel()[self._index_out][None]
        line, place = np.divmod(self._index_out, h.shape[1])
        return log_sum, np.stack([phi[line, k, place] for k in range(n_channels)])


@dataclass(frozen=True, eq=False)
class _Pass:
    """The sums along one axis: lines of `n_in` values to lines of `n_out`; see `pass_rows`."""

    n_in: int
    n_out: int
    offset: int
    spans: Int  # (n_lines, 2)
    table: NDArray[np.floating]
    centre: int
    inverse_epsilon: float
    scale: tuple[float, float, float]
    turned: bool

    @property
    def n_lines(self) -> int:
        return len(self.spans)

    @property
    def shape_out(self) -> tuple[int, int]:
        """Of the output, turned for the next pass."""
        return (self.n_out, self.n_lines) if self.turned else (self.n_lines, self.n_out)

    @cached_property
    def n_outputs(self) -> int:
        return int((self.spans[:, 1] - self.spans[:, 0]).sum())

    @cached_property
    def _settings(self) -> tuple[object, ...]:
        cut = 37.0 + math.log(self.n_in)  # dropped terms are below float64's last digit
        kernel = self.table, self.centre, self.inverse_epsilon
        return self.offset, self.spans, *kernel, cut, TILE, self.scale

    @property
    def n_threads(self) -> int:
        """Number of threads that `run` would use."""
        return threads_for(self.n_outputs)

    def arguments(self, out: Float) -> tuple[object, ...]:
        """Those of `pass_rows` from `phi` to `turned`, without channels; results go to `out`."""
        none, means = np.empty((self.n_lines, 0, self.n_in)), np.empty((out.shape[0], 0, out.shape[1]))
        return (none, *self._settings, out, means, self.turned)

    def run(self, h: Float, phi: Float, out: Float, means: Float) -> None:
        arguments = (h, phi, *self._settings, out, means, self.turned)
        run_in_threads(lambda first, step: pass_rows(*arguments, first, step), self.n_outputs)


class _Channels:
    """Memory for c channels: `first` for the input, and `after` each pass for its output, turned for the next one.

    Small ones are kept between calls. Large ones are as large as several images, and are made when needed.
    """

    def __init__(self, passes: list[_Pass], n_channels: int) -> None:
        first = (passes[0].n_lines, n_channels, passes[0].n_in)
        self._shapes = [first, *((step.shape_out[0], n_channels, step.shape_out[1]) for step in passes)]
        self._kept: dict[int, Float] | None = {} if self.is_kept else None

    @property
    def is_kept(self) -> bool:
        """Whether they are small enough to be kept between calls."""
        return 8 * sum(math.prod(shape) for shape in self._shapes) <= _KEPT_BYTES

    def first(self) -> Float:
        return self._array(0)

    def after(self, number: int) -> Float:
        return self._array(number + 1)

    def _array(self, number: int) -> Float:
        # Zeros, because an entry outside the spans may meet a weight of zero, and must not bring a NaN into a mean.
        if self._kept is None:
            return np.zeros(self._shapes[number])
        if number not in self._kept:
            self._kept[number] = np.zeros(self._shapes[number])
        return self._kept[number]


def _lines_first(phi: Float, n_lines: int, n: int) -> Float:
    """Channels (k, c, r n) of a turned output as (k r, c, n), lines of the next axis; no copy for images, where r = 1."""
    n_first, n_channels, _ = phi.shape
    by_line = phi.reshape(n_first, n_channels, n_lines // n_first, n).swapaxes(1, 2)
    return np.ascontiguousarray(by_line).reshape(n_lines, n_channels, n)


def _time_ns(axes: list[KernelAxis]) -> float:
    """Of the passes in this order of the axes."""
    windows = [TILE + 2.0 * math.sqrt(_REACH * axis.epsilon) for axis in axes]
    return time_ns(axes, windows, _LINE_NS, _PRODUCT_NS)


def _toeplitz(epsilon: float, centre: int, dtype: str) -> NDArray[np.floating]:
    """``exp(-k^2 / eps)`` for k = -centre..centre; entries below the floor are zero."""
    exponent = np.arange(-centre, centre + 1.0) ** 2 / epsilon
    floor = _SCALES[dtype][1]
    return np.where(exponent < floor, np.exp(-np.minimum(exponent, floor)), 0.0).astype(dtype)

"""Sums over one support seen from the other, with mean displacements and costs; any number of axes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pairframe.types import Bool, Float

_CHUNK_ENTRIES = 1 << 20  # of a dense block: 8 MiB a temporary


@dataclass(frozen=True, eq=False)
class Moments:
    """Total and means over the inputs at each output pixel, with weights ``w_j exp(-C_ij / eps)``.

    Attributes
    ----------
    log_sum : (n_out,)
        Log of the total weight; -inf where it is zero, and the means are meaningless there.
    displacement : (ndim, n_out)
        Mean position of the inputs minus the output's own, work px, one row per axis of the grid.
    cost : (n_out,)
        Mean cost to the inputs, work px^2 (``euclidean``: work px), >= 0.
    """

    log_sum: Float
    displacement: Float
    cost: Float


class PlanKernel(Protocol):
    """``exp(-C / eps)`` between two supports; vectors over their pixels in row-major order."""

    def log_sum(self, log_weight: Float) -> Float:
        """(n_in,) -> (n_out,)."""

    def log_sum_and_means(self, log_weight: Float, channels: Float) -> tuple[Float, Float]:
        """(n_in,), (c, n_in) -> log-sums (n_out,), weighted averages (c, n_out)."""

    def moments(self, log_weight: Float) -> Moments:
        """(n_in,) -> `Moments` at every output."""


def make_kernel(
    support_in: Bool, support_out: Bool, epsilon: float, metric: str, spacing: tuple[float, ...] = ()
) -> PlanKernel:
    """The fast separable kernel where the metric allows it, dense blocks otherwise; always float64.

    `spacing` is the distance between neighbouring pixels along each axis, work px; 1 by default.
    """
    if metric == "sqeuclidean":
        return SeparableKernel(support_in, support_out, epsilon, spacing)
    return DenseKernel(support_in, support_out, epsilon, metric, spacing)


class SeparableKernel:
    """Squared Euclidean: never an n x m array."""

    def __init__(self, support_in: Bool, support_out: Bool, epsilon: float, spacing: tuple[float, ...] = ()) -> None:
        from pairframe.engines.grid.kernel import SupportKernel  # imported on first use: it loads the compiler
        from pairframe.engines.grid.stored import StoredKernel, stored_kernel

        stored = stored_kernel(support_in, support_out, epsilon, spacing)
        self._kernel: SupportKernel | StoredKernel = (
            SupportKernel(support_in, support_out, epsilon, spacing=spacing) if stored is None else stored
        )
        self._stored = stored
        self._supports, self._spacing = (support_in, support_out), spacing

    def log_sum(self, log_weight: Float) -> Float:
        """See `PlanKernel`."""
        return self._kernel.log_sum(log_weight)

    def log_sum_and_means(self, log_weight: Float, channels: Float) -> tuple[Float, Float]:
        """See `PlanKernel`."""
        return self._kernel.log_sum_and_means(log_weight, channels)

    def moments(self, log_weight: Float) -> Moments:
        """|x_i - x_j|^2 = |x_j|^2 - 2 x_i.x_j + |x_i|^2, so the averages of x_j and |x_j|^2 are enough."""
        if self._stored is not None:
            log_sum, means = self._stored.log_sum_and_moments(log_weight)
            return Moments(log_sum, means[:-1], means[-1])
        # Positions are as large as the sums themselves, and are not kept between calls.
        support_in, support_out = self._supports
        channels = np.empty((support_in.ndim + 1, self._kernel.n_in))
        channels[:-1] = _positions(support_in, self._spacing).T
        # Seen from the middle, squares stay small: the mean cost is a difference of squares.
        middle = np.round(0.5 * (channels[:-1].min(axis=1) + channels[:-1].max(axis=1)))[:, None]
        channels[:-1] -= middle
        np.sum(channels[:-1] ** 2, axis=0, out=channels[-1])
        log_sum, means = self._kernel.log_sum_and_means(log_weight, channels)
        self._kernel.release_large_buffers()  # another kernel is next, as a rule
        del channels
        x_out = _positions(support_out, self._spacing).T - middle
        displacement = means[:-1] - x_out
        spread = np.maximum(means[-1] - (means[:-1] ** 2).sum(axis=0), 0.0)
        return Moments(log_sum, displacement, spread + (displacement**2).sum(axis=0))


class DenseKernel:
    """Any metric, in blocks of output rows: n m exponentials, but never an n x m array."""

    def __init__(
        self, support_in: Bool, support_out: Bool, epsilon: float, metric: str, spacing: tuple[float, ...] = ()
    ) -> None:
        self._x_in, self._x_out = (_positions(on, spacing) for on in (support_in, support_out))
        self._epsilon, self._metric = epsilon, metric

    def log_sum(self, log_weight: Float) -> Float:
        """See `PlanKernel`."""
        return self._run(log_weight, np.empty((0, len(self._x_in))))[0]

    def log_sum_and_means(self, log_weight: Float, channels: Float) -> tuple[Float, Float]:
        """See `PlanKernel`."""
        log_sum, means, _ = self._run(log_weight, channels)
        return log_sum, means

    def moments(self, log_weight: Float) -> Moments:
        """See `PlanKernel`."""
        log_sum, means, cost = self._run(log_weight, self._x_in.T)
        return Moments(log_sum, means - self._x_out.T, cost)

    def _run(self, log_weight: Float, channels: Float) -> tuple[Float, Float, Float]:
        n_out = len(self._x_out)
        log_sum, means, cost = np.empty(n_out), np.zeros((len(channels), n_out)), np.zeros(n_out)
        for rows in blocks(n_out, len(self._x_in)):
            block_cost = pairwise_cost(self._x_out[rows], self._x_in, self._metric)
            exponent = log_weight - block_cost / self._epsilon
            top = exponent.max(axis=1, keepdims=True)
            seen = np.isfinite(top)
            weight = np.exp(exponent - np.where(seen, top, 0.0))
            total = weight.sum(axis=1)
            safe = np.where(seen[:, 0], total, 1.0)
            log_sum[rows] = np.where(seen[:, 0], top[:, 0] + np.log(safe), -np.inf)
            means[:, rows] = (weight @ channels.T / safe[:, None]).T
            cost[rows] = (weight * block_cost).sum(axis=1) / safe
        return log_sum, means, cost


def _positions(support: Bool, spacing: tuple[float, ...]) -> Float:
    """(n, ndim), work px, in row-major order."""
    positions = np.array(np.nonzero(support), dtype=np.float64)
    return (positions * np.array(spacing)[:, None] if spacing else positions).T


def pairwise_cost(x_out: Float, x_in: Float, metric: str) -> Float:
    """Positions (k, ndim), (n, ndim) -> costs (k, n) in work px^2 or work px."""
    squared = np.zeros((len(x_out), len(x_in)))
    for out_along, in_along in zip(x_out.T, x_in.T, strict=True):
        squared += (out_along[:, None] - in_along) ** 2
    return squared if metric == "sqeuclidean" else np.sqrt(squared)


def blocks(n_rows: int, n_columns: int) -> list[slice]:
    """Slices of rows whose blocks have about a million entries each."""
    step = max(1, math.ceil(_CHUNK_ENTRIES / max(1, n_columns)))
    return [slice(first, min(first + step, n_rows)) for first in range(0, n_rows, step)]

"""Sums over one support seen from the other, with where the weight lies and what it costs to get there."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]

_CHUNK_ENTRIES = 1 << 20  # of a dense block: 8 MiB a temporary


@dataclass(frozen=True, eq=False)
class Moments:
    """What each output pixel sees, with weights ``w_j exp(-C_ij / eps)``.

    Attributes
    ----------
    log_sum : (n_out,)
        Log of the total weight; -inf where nothing is seen, and then the means say nothing.
    shift_yx : (2, n_out)
        Mean position of the inputs minus the output's own, work px.
    cost : (n_out,)
        Mean cost to the inputs, work px^2 (``euclidean``: work px), >= 0.
    """

    log_sum: Float
    shift_yx: Float
    cost: Float


class PlanKernel(Protocol):
    """``exp(-C / eps)`` between two supports; vectors over their pixels in row-major order."""

    def log_sum(self, log_weight: Float) -> Float:
        """(n_in,) -> (n_out,)."""

    def log_sum_and_means(self, log_weight: Float, channels: Float) -> tuple[Float, Float]:
        """(n_in,), (c, n_in) -> log-sums (n_out,), weighted averages (c, n_out)."""

    def moments(self, log_weight: Float) -> Moments:
        """(n_in,) -> `Moments` at every output."""


def make_kernel(support_in: Bool, support_out: Bool, epsilon: float, metric: str) -> PlanKernel:
    """The fast separable kernel where the metric allows it, dense blocks otherwise; always float64."""
    if metric == "sqeuclidean":
        return SeparableKernel(support_in, support_out, epsilon)
    return DenseKernel(support_in, support_out, epsilon, metric)


class SeparableKernel:
    """Squared Euclidean: never an n x m array."""

    def __init__(self, support_in: Bool, support_out: Bool, epsilon: float) -> None:
        from pairframe.engines.grid.kernel import SupportKernel  # loads the compiler: only when there is work for it

        self._kernel = SupportKernel(support_in, support_out, epsilon)
        yx_in, yx_out = (np.array(np.nonzero(on), dtype=np.float64) for on in (support_in, support_out))
        # Seen from the middle, squares stay small: the mean cost is a difference of squares.
        low = np.minimum(yx_in.min(axis=1), yx_out.min(axis=1))
        high = np.maximum(yx_in.max(axis=1), yx_out.max(axis=1))
        middle = np.round(0.5 * (low + high))[:, None]
        yx_in -= middle
        self._yx_out: Float = yx_out - middle
        self._channels = np.vstack([yx_in, (yx_in**2).sum(axis=0)])

    def log_sum(self, log_weight: Float) -> Float:
        """See `PlanKernel`."""
        return self._kernel.log_sum(log_weight)

    def log_sum_and_means(self, log_weight: Float, channels: Float) -> tuple[Float, Float]:
        """See `PlanKernel`."""
        return self._kernel.log_sum_and_means(log_weight, channels)

    def moments(self, log_weight: Float) -> Moments:
        """|x_i - x_j|^2 = |x_j|^2 - 2 x_i.x_j + |x_i|^2, so three averages are enough."""
        log_sum, means = self._kernel.log_sum_and_means(log_weight, self._channels)
        shift = means[:2] - self._yx_out
        spread = np.maximum(means[2] - (means[:2] ** 2).sum(axis=0), 0.0)
        return Moments(log_sum, shift, spread + (shift**2).sum(axis=0))


class DenseKernel:
    """Any metric, in blocks of output rows: n m exponentials, but never an n x m array."""

    def __init__(self, support_in: Bool, support_out: Bool, epsilon: float, metric: str) -> None:
        self._yx_in, self._yx_out = (np.argwhere(on).astype(np.float64) for on in (support_in, support_out))
        self._epsilon, self._metric = epsilon, metric

    def log_sum(self, log_weight: Float) -> Float:
        """See `PlanKernel`."""
        return self._run(log_weight, np.empty((0, len(self._yx_in))))[0]

    def log_sum_and_means(self, log_weight: Float, channels: Float) -> tuple[Float, Float]:
        """See `PlanKernel`."""
        log_sum, means, _ = self._run(log_weight, channels)
        return log_sum, means

    def moments(self, log_weight: Float) -> Moments:
        """See `PlanKernel`."""
        log_sum, means, cost = self._run(log_weight, self._yx_in.T)
        return Moments(log_sum, means - self._yx_out.T, cost)

    def _run(self, log_weight: Float, channels: Float) -> tuple[Float, Float, Float]:
        n_out = len(self._yx_out)
        log_sum, means, cost = np.empty(n_out), np.zeros((len(channels), n_out)), np.zeros(n_out)
        for rows in blocks(n_out, len(self._yx_in)):
            block_cost = pairwise_cost(self._yx_out[rows], self._yx_in, self._metric)
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


def pairwise_cost(yx_out: Float, yx_in: Float, metric: str) -> Float:
    """(k, 2), (n, 2) -> costs (k, n) in work px^2 or work px."""
    squared: Float = (yx_out[:, 0, None] - yx_in[:, 0]) ** 2 + (yx_out[:, 1, None] - yx_in[:, 1]) ** 2
    return squared if metric == "sqeuclidean" else np.sqrt(squared)


def blocks(n_rows: int, n_columns: int) -> list[slice]:
    """Slices of rows whose blocks have about a million entries each."""
    step = max(1, math.ceil(_CHUNK_ENTRIES / max(1, n_columns)))
    return [slice(first, min(first + step, n_rows)) for first in range(0, n_rows, step)]

"""The kernel of a tiny grid, stored: for a few hundred pixels one compiled loop is quicker than the passes along the axes.

`stored_kernel` decides. A `StoredKernel` gives the same sums as a `SupportKernel`, and moments about each output besides.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pairframe.engines.grid.stored_passes import fill, log_sums, own_rounds, pair_rounds, with_means
from pairframe.problem import KL, Penalty
from pairframe.types import Bool, Float

MOST_PAIRS = 1 << 15  # of pixels; with more, passes along the axes are quicker


class StoredKernel:
    """``exp(-|x_i - x_j|^2 / eps)`` between two supports as an (n_out, n_in) array; see `SupportKernel`.

    If weights are so far apart that stored numbers would underflow, each term is summed from its exponent instead.
    """

    def __init__(self, x_in: Float, x_out: Float, epsilon: float) -> None:
        self.n_in, self.n_out = len(x_in), len(x_out)
        self._x_in, self._x_out, self._inverse = x_in, x_out, 1.0 / epsilon
        self.matrix = np.empty((self.n_out, self.n_in))
        self.deepest = fill(x_in, x_out, self._inverse, self.matrix)

    def log_sum(self, log_weight: Float) -> Float:
        """See `SupportKernel.log_sum`."""
        out = np.empty(self.n_out)
        log_sums(log_weight, self.matrix, self.deepest, self._x_in, self._x_out, self._inverse, out)
        return out

    def log_sum_and_means(self, log_weight: Float, channels: Float) -> tuple[Float, Float]:
        """See `SupportKernel.log_sum_and_means`."""
        channels = np.ascontiguousarray(channels, dtype=np.float64)
        out, means = np.empty(self.n_out), np.empty((len(channels), self.n_out))
        with_means(
            log_weight, self.matrix, self.deepest, self._x_in, self._x_out, self._inverse, channels, out, means, False
        )
        return out, means

    def log_sum_and_moments(self, log_weight: Float) -> tuple[Float, Float]:
        """Log-sums (n_out,), and as (ndim + 1, n_out) mean displacements to the inputs, px, and mean squared distances, px^2."""
        out, means = np.empty(self.n_out), np.empty((self._x_in.shape[1] + 1, self.n_out))
        with_means(
            log_weight,
            self.matrix,
            self.deepest,
            self._x_in,
            self._x_out,
            self._inverse,
            self._x_in.T,
            out,
            means,
            True,
        )
        return out, means

    def forget(self) -> None:
        """See `SupportKernel.forget`; nothing is remembered."""

    def release_large_buffers(self) -> None:
        """See `SupportKernel.release_large_buffers`; there are none."""


def stored_kernel(
    support_in: Bool, support_out: Bool, epsilon: float, spacing: tuple[float, ...] = ()
) -> StoredKernel | None:
    """The stored kernel between two supports; None if they have too many pixels."""
    if np.count_nonzero(support_in) * np.count_nonzero(support_out) > MOST_PAIRS:
        return None
    x_in = _positions(support_in, spacing)
    return StoredKernel(x_in, x_in if support_out is support_in else _positions(support_out, spacing), epsilon)


def _positions(support: Bool, spacing: tuple[float, ...]) -> Float:
    """(n, ndim), work px."""
    positions: Float = np.array(np.nonzero(support), dtype=np.float64).T
    if any(side != 1.0 for side in spacing):
        positions = positions * np.array(spacing)
    return np.ascontiguousarray(positions)


@dataclass(frozen=True, eq=False)
class StoredSide:
    """One side of a problem over its support, (n,) each: its mass, log of its reference factor, and log of their ratio."""

    mass: Float
    log_reference: Float
    log_ratio: Float
    penalty: Penalty

    def answer(self, epsilon: float) -> tuple[float, float, float] | None:
        """Slope and bounds, in epsilons, of the best answer to a potential; None for a penalty that has no such form."""
        if isinstance(self.penalty, KL):
            return self.penalty.marginal_relaxation / (self.penalty.marginal_relaxation + epsilon), np.inf, -np.inf
        if self.penalty.clips or self.penalty.is_exact:
            low, high = self.penalty.bounds
            return 1.0, high / epsilon, low / epsilon
        return None


def plain_rounds(
    a: StoredSide, b: StoredSide, at_a: StoredKernel, at_b: StoredKernel, epsilon: float, goal: float, most: int
) -> tuple[Float | None, int]:
    """The potential on a, (n_a,), after plain rounds down to a residual of about `goal`, and their kernel applications.

    For a tiny problem they take less time than one round of the accelerated kind. They start from 0, and a and b may be one.
    The potential is None if they do not get there: what they leave is no good start.
    """
    answer_a, answer_b = a.answer(epsilon), b.answer(epsilon)
    x = np.zeros(a.mass.size)
    if answer_a is None or answer_b is None:
        return None, 0
    deepest = at_a.deepest
    if a is b:
        n_sums = own_rounds(a.log_reference, a.log_ratio, a.mass, at_a.matrix, deepest, *answer_a, goal, most, x)
    else:
        n_sums = pair_rounds(
            a.log_reference, b.log_reference, a.log_ratio, b.log_ratio, a.mass, b.mass, at_a.matrix, at_b.matrix, deepest,
            answer_a[0], answer_b[0], *answer_a[1:], *answer_b[1:], goal, most, x,
        )  # fmt: skip
    return (epsilon * x if 0 < n_sums < most else None), n_sums

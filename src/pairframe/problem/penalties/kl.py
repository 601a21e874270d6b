"""``kl``: lambda KL(p || a)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pairframe.problem.penalties.base import RelaxedPenalty
from pairframe.problem.penalties.slopes import ExponentialSlope
from pairframe.types import Float

_SMALL, _LAST_DIGIT = 0.1, 1e-17


@dataclass(frozen=True)
class KL(RelaxedPenalty):
    """lambda KL(p || a): any marginal is allowed, and mass fades out smoothly with distance."""

    name: ClassVar[str] = "kl"
    has_constant_slope: ClassVar[bool] = True
    tilts: ClassVar[bool] = True

    @classmethod
    def reach_description(cls, metric: str) -> str:
        """See `Penalty.reach_description`."""
        # exp(-d^2 / (2 reach^2)), or exp(-d / (2 reach)), at one, two and three times the reach.
        shares = ("61 %", "14 %", "1 %") if metric == "sqeuclidean" else ("61 %", "37 %", "22 %")
        return "soft limit: of mass that far from its place {} moves, {} at twice, {} at three times".format(*shares)

    def update(self, s: Float, epsilon: float, shift: float = 0.0) -> Float:
        """See `Penalty.update`."""
        lam = self.marginal_relaxation
        return np.asarray((lam * s - epsilon * shift) / (lam + epsilon), dtype=np.float64)

    def slope(self, s: Float, epsilon: float) -> Float:
        """See `Penalty.slope`."""
        return np.full(s.shape, self.marginal_relaxation / (self.marginal_relaxation + epsilon))

    def dual_value(self, f: Float, mass: Float) -> float:
        """See `Penalty.dual_value`."""
        lam = self.marginal_relaxation
        with np.errstate(over="ignore"):
            return float(-lam * np.sum(mass * np.expm1(-f / lam)))

    def soft_divergence(self, p: Float, mass: Float) -> float:
        """See `Penalty.soft_divergence`."""
        return self.marginal_relaxation * float(np.sum(kl_terms(p, np.log(mass), mass)))

    def _gap(self, p: Float, f: Float, mass: Float, shift: float = 0.0) -> float:
        log_optimal = self.log_optimal_marginal(f + shift, np.log(mass))
        with np.errstate(over="ignore"):
            return self.marginal_relaxation * float(np.sum(kl_terms(p, log_optimal, np.exp(log_optimal))))

    def log_optimal_marginal(self, f: Float, log_mass: Float) -> Float:
        """See `Penalty.log_optimal_marginal`."""
        return log_mass - f / self.marginal_relaxation

    def optimal_marginal(self, f: Float, mass: Float) -> Float:
        """See `Penalty.optimal_marginal`."""
        with np.errstate(over="ignore"):
            return np.asarray(mass * np.exp(f / -self.marginal_relaxation))

    def decay(self, f: Float, epsilon: float) -> Float:
        """See `Penalty.decay`."""
        return np.full(f.shape, epsilon / self.marginal_relaxation)

    def dual_slope(self, f: Float, mass: Float) -> ExponentialSlope:
        """See `Penalty.dual_slope`."""
        exponents = self.log_optimal_marginal(f, np.log(mass))
        top = float(exponents.max())
        return ExponentialSlope(top + math.log(float(np.exp(exponents - top).sum())), self.marginal_relaxation)


def kl_terms(p: Float, log_r: Float, r: Float) -> Float:
    """Elementwise ``p log(p/r) - p + r``, exact to rounding also where p is close to r, and where p is 0."""
    positive = p > 0
    if not positive.all():
        on_support = np.where(positive, p, 1.0)
        return np.where(positive, _positive_kl_terms(on_support, np.where(positive, log_r, 0.0), r), r)
    return _positive_kl_terms(p, log_r, r)


def _last_term(largest: float) -> int:
    """The last k of the series of d + expm1(-d) in d^k/k! that counts in float64, for |d| up to `largest`, or up to 0.1."""
    x, k = _SMALL if math.isnan(largest) else min(largest, _SMALL), 3
    while 2.0 * x ** (k - 1) > _LAST_DIGIT * math.factorial(k + 1):  # the next term relative to the first, d^2/2
        k += 1
    return k


def _positive_kl_terms(p: Float, log_r: Float, r: Float) -> Float:
    d = np.log(p) - log_r  # log(p/r)
    # p (d + expm1(-d)) cancels for small d: there its series.
    size = np.abs(d)
    small = size < _SMALL
    with np.errstate(over="ignore"):
        if not small.any():
            return np.asarray(r + p * (d - 1.0))
        x = d if small.all() else np.where(small, d, 0.0)
        series = np.zeros_like(x)
        for k in range(_last_term(float(size.max())), 2, -1):  # in place: (1 - series) x / k
            np.subtract(1.0, series, out=series)
            series *= x
            series /= k
        close = p * ((1.0 - series) * x * x / 2)
        return np.asarray(close if x is d else np.where(small, close, r + p * (d - 1.0)))

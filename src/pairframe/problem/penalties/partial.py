"""``partial``: lambda |p - a|_1 with p <= a."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pairframe.problem.penalties.base import RelaxedPenalty, without_rounding
from pairframe.problem.penalties.slopes import StepSlope
from pairframe.problem.penalties.tv import AT_BOUND, TV
from pairframe.types import Bool, Float


@dataclass(frozen=True)
class Partial(RelaxedPenalty):
    """``lambda |p - a|_1`` with p <= a: no pixel sends or receives more than it has."""

    name: ClassVar[str] = "partial"
    is_capped: ClassVar[bool] = True
    relaxation_per_reach: ClassVar[float] = TV.relaxation_per_reach
    clips: ClassVar[bool] = True

    @classmethod
    def reach_description(cls, metric: str) -> str:
        """See `Penalty.reach_description`: the same limit as ``tv``."""
        return TV.reach_description(metric)

    @property
    def bounds(self) -> tuple[float, float]:
        """See `Penalty.bounds`."""
        return -math.inf, self.marginal_relaxation

    def update(self, s: Float, epsilon: float, shift: float = 0.0) -> Float:
        """See `Penalty.update`."""
        return np.asarray(np.minimum(s, self.marginal_relaxation - shift), dtype=np.float64)

    def slope(self, s: Float, epsilon: float) -> Float:
        """See `Penalty.slope`."""
        return (s < self.marginal_relaxation).astype(np.float64)

    def dual_value(self, f: Float, mass: Float) -> float:
        """See `Penalty.dual_value`."""
        return float(np.sum(mass * np.minimum(f, self.marginal_relaxation)))

    def soft_divergence(self, p: Float, mass: Float) -> float:
        """See `Penalty.soft_divergence`."""
        return self.marginal_relaxation * float(np.sum(np.abs(p - mass)))

    def _gap(self, p: Float, f: Float, mass: Float, shift: float = 0.0) -> float:
        p = without_rounding(p, mass)
        to_high = (self.marginal_relaxation - shift) - f
        inside = to_high * np.maximum(mass - p, 0.0)
        return float(np.sum(np.where(to_high >= 0.0, inside, -to_high * p)))

    def log_optimal_marginal(self, f: Float, log_mass: Float) -> Float:
        """See `Penalty.log_optimal_marginal`."""
        return np.where(self._is_beyond(f), -np.inf, log_mass)

    def optimal_marginal(self, f: Float, mass: Float) -> Float:
        """See `Penalty.optimal_marginal`: at f = lambda any p <= a is optimal, beyond it p = 0."""
        return np.where(self._is_beyond(f), 0.0, mass)

    def _is_beyond(self, f: Float) -> Bool:
        return f > self.marginal_relaxation * (1.0 + AT_BOUND)

    def decay(self, f: Float, epsilon: float) -> Float:
        """See `Penalty.decay`."""
        return np.zeros(f.shape)

    def residual(self, p: Float, f: Float, mass: Float) -> float:
        """See `Penalty.residual`."""
        lam = self.marginal_relaxation
        off = p - self.optimal_marginal(f, mass)
        off = np.where(np.abs(f - lam) <= AT_BOUND * lam, np.maximum(off, 0.0), off)  # any p <= a is optimal there
        return float(np.sum(np.abs(off)))

    def dual_slope(self, f: Float, mass: Float) -> StepSlope:
        """See `Penalty.dual_slope`; `f` is taken as clipped to its bound."""
        return StepSlope(self.admissible(f), mass, self.marginal_relaxation)

"""``tv``: ``lambda |p - a|_1``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pairframe.problem.penalties.base import RelaxedPenalty, without_rounding
from pairframe.problem.penalties.slopes import StepSlope
from pairframe.types import Float

# A potential this close (relative to lambda) to its bound is at the bound: translations reach it only up to rounding.
AT_BOUND = 1e-9
_ROUNDING = 1e-13  # a potential this far (relative) below its lower bound is on it


@dataclass(frozen=True)
class TV(RelaxedPenalty):
    """``lambda |p - a|_1``: mass is moved up to a distance, and destroyed and created beyond it."""

    name: ClassVar[str] = "tv"
    relaxation_per_reach: ClassVar[float] = 0.5  # moving costs C, destroying here and creating there 2 lambda
    clips: ClassVar[bool] = True

    @classmethod
    def reach_description(cls, metric: str) -> str:
        """See `Penalty.reach_description`."""
        return "no mass moves farther; beyond it, mass is destroyed here and created there"

    @property
    def bounds(self) -> tuple[float, float]:
        """See `Penalty.bounds`."""
        return -self.marginal_relaxation, self.marginal_relaxation

    def update(self, s: Float, epsilon: float, shift: float = 0.0) -> Float:
        """See `Penalty.update`."""
        lam = self.marginal_relaxation
        return np.asarray(np.clip(s, -lam - shift, lam - shift), dtype=np.float64)

    def slope(self, s: Float, epsilon: float) -> Float:
        """See `Penalty.slope`."""
        return (np.abs(s) < self.marginal_relaxation).astype(np.float64)

    def dual_value(self, f: Float, mass: Float) -> float:
        """See `Penalty.dual_value`."""
        lam = self.marginal_relaxation
        if f.size and f.min() < -lam * (1.0 + _ROUNDING):
            return -math.inf
        return float(np.sum(mass * np.clip(f, -lam, lam)))

    def soft_divergence(self, p: Float, mass: Float) -> float:
        """See `Penalty.soft_divergence`."""
        return self.marginal_relaxation * float(np.sum(np.abs(p - mass)))

    def _gap(self, p: Float, f: Float, mass: Float, shift: float = 0.0) -> float:
        lam = self.marginal_relaxation
        # Distances to both bounds, without the digits that a large shift would take from f.
        to_high, to_low = (lam - shift) - f, f + (lam + shift)
        if f.size and to_low.min() < -_ROUNDING * lam:
            return math.inf
        to_low, p = np.maximum(to_low, 0.0), without_rounding(p, mass)
        below, above = np.maximum(mass - p, 0.0), np.maximum(p - mass, 0.0)
        inside = to_high * below + to_low * above
        outside = -to_high * p + 2.0 * lam * above
        return float(np.sum(np.where(to_high >= 0.0, inside, outside)))

    def log_optimal_marginal(self, f: Float, log_mass: Float) -> Float:
        """See `Penalty.log_optimal_marginal`."""
        return log_mass

    def optimal_marginal(self, f: Float, mass: Float) -> Float:
        """See `Penalty.optimal_marginal`: at f = lambda any p <= a is optimal."""
        return mass

    def decay(self, f: Float, epsilon: float) -> Float:
        """See `Penalty.decay`."""
        return np.zeros(f.shape)

    def residual(self, p: Float, f: Float, mass: Float) -> float:
        """See `Penalty.residual`."""
        lam, slack = self.marginal_relaxation, AT_BOUND * self.marginal_relaxation
        off = p - mass
        off = np.where(np.abs(f - lam) <= slack, np.maximum(off, 0.0), off)  # any p <= a is optimal there
        off = np.where(f <= -lam + slack, np.minimum(off, 0.0), off)  # and any p >= a here
        return float(np.sum(np.abs(off)))

    def dual_slope(self, f: Float, mass: Float) -> StepSlope:
        """See `Penalty.dual_slope`; `f` is taken as clipped to its bounds."""
        f = self.admissible(f)
        return StepSlope(f, mass, self.marginal_relaxation, -self.marginal_relaxation - float(f.min()))

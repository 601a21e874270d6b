"""``balanced``: p = a."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, Self

import numpy as np

from pairframe.problem.penalties.base import Penalty
from pairframe.problem.penalties.slopes import ConstantSlope
from pairframe.types import Float


@dataclass(frozen=True)
class Balanced(Penalty):
    """The marginal equals the mass: all of it is moved."""

    name: ClassVar[str] = "balanced"
    is_exact: ClassVar[bool] = True
    has_constant_slope: ClassVar[bool] = True
    marginal_relaxation: float = field(default=math.inf, init=False, repr=False)

    @classmethod
    def from_relaxation(cls, marginal_relaxation: float) -> Self:
        """See `Penalty.from_relaxation`; the number is not used."""
        return cls()

    @classmethod
    def reach_description(cls, metric: str) -> str:
        """See `Penalty.reach_description`."""
        return "all mass moves, however far"

    def update(self, s: Float, epsilon: float, shift: float = 0.0) -> Float:
        """See `Penalty.update`."""
        return np.asarray(s, dtype=np.float64)

    def slope(self, s: Float, epsilon: float) -> Float:
        """See `Penalty.slope`."""
        return np.ones(s.shape)

    def dual_value(self, f: Float, mass: Float) -> float:
        """See `Penalty.dual_value`."""
        return float(np.sum(mass * f))

    def soft_divergence(self, p: Float, mass: Float) -> float:
        """See `Penalty.soft_divergence`: there is nothing but the constraint."""
        return 0.0

    def _gap(self, p: Float, f: Float, mass: Float, shift: float = 0.0) -> float:
        return 0.0

    def log_optimal_marginal(self, f: Float, log_mass: Float) -> Float:
        """See `Penalty.log_optimal_marginal`."""
        return log_mass

    def optimal_marginal(self, f: Float, mass: Float) -> Float:
        """See `Penalty.optimal_marginal`."""
        return mass

    def decay(self, f: Float, epsilon: float) -> Float:
        """See `Penalty.decay`."""
        return np.zeros(f.shape)

    def dual_slope(self, f: Float, mass: Float) -> ConstantSlope:
        """See `Penalty.dual_slope`."""
        return ConstantSlope(float(mass.sum()))

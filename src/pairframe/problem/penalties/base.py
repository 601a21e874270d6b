"""`Penalty`: the price of a marginal, and everything the dual problem needs of it.

For one side with mass ``a``, marginal ``p`` and potential ``f`` the penalty is ``D(p || a)``, a sum over pixels.
Its share of the dual is ``-D*(-f) = min over p of D(p || a) + <f, p>``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import numpy as np

from pairframe.errors import ProblemError
from pairframe.problem.penalties.slopes import DualSlope, SumSlope
from pairframe.types import Bool, Float

# A hard marginal is met when it is off by no more than this share of the total: the rounding error of an exact one.
ROUNDING = 1e-13
# A potential this close (relative) to its bound counts as pinned there by an update.
_PINNED = 1e-12
# Where the optimal marginal vanishes an update has slope 0, and its log falls infinitely fast: a finite stand-in.
_STEEPEST = 1e-12


class Penalty(ABC):
    """The price of a marginal `p` that differs from the mass `a`.

    A subclass is a frozen dataclass whose fields are all in cost units. It defines `name`, `update`, `slope`,
    `dual_value`, `soft_divergence` and `log_optimal_marginal`; the other methods have defaults that follow from these,
    and are overridden where a closed form is faster or keeps more digits.

    Attributes
    ----------
    name : str
        As in `TransportConfig.penalty`.
    is_exact : bool
        Whether the marginal has to equal the mass.
    is_capped : bool
        Whether the marginal may not exceed the mass.
    has_constant_slope : bool
        Whether `slope` is the same number everywhere.
    tilts : bool
        Whether marginals give way to a gradient of the potential, so that a large object that moved is tilted rather
        than moved.
    relaxation_per_reach : float
        lambda over the cost of moving mass by one reach.
    clips : bool
        Whether `update` does nothing but clip to `bounds`, so that a marginal is exact wherever it is not pinned.
    marginal_relaxation : float
        lambda, in cost units; inf if the marginal is exact.

    Notes
    -----
    All arrays have one shape, over the support of the mass: potential `f` and balanced update `s` (both in cost units),
    mass `mass` > 0 and marginal `p` >= 0.
    """

    name: ClassVar[str]
    is_exact: ClassVar[bool] = False
    is_capped: ClassVar[bool] = False
    has_constant_slope: ClassVar[bool] = False
    tilts: ClassVar[bool] = False
    relaxation_per_reach: ClassVar[float] = 1.0
    clips: ClassVar[bool] = False
    marginal_relaxation: float

    @classmethod
    @abstractmethod
    def from_relaxation(cls, marginal_relaxation: float) -> Self:
        """The penalty of this kind with that lambda, in cost units."""

    @classmethod
    @abstractmethod
    def reach_description(cls, metric: str) -> str:
        """One clause on what happens to mass that is about one reach away from any place for it."""

    @property
    def is_hard(self) -> bool:
        """Whether some marginals are forbidden, so that the primal of an inexact plan is infinite."""
        return self.is_exact or self.is_capped

    @property
    def hardness(self) -> int:
        """0 if any marginal is allowed, 1 if it is capped, 2 if it is exact."""
        return 2 if self.is_exact else int(self.is_capped)

    @property
    def bounds(self) -> tuple[float, float]:
        """Lowest and highest useful potential: below the dual is -inf, above it only falls."""
        return -math.inf, math.inf

    @property
    def pins(self) -> bool:
        """Whether potentials have a bound, which updates can pin them to."""
        return any(math.isfinite(bound) for bound in self.bounds)

    def capped_at(self, most: float) -> Self:
        """The same penalty with at most that lambda, if a larger one makes no difference where no bound is reached."""
        return replace(self, marginal_relaxation=min(self.marginal_relaxation, most)) if self.clips else self  # type: ignore[type-var]

    def rescaled(self, cost_unit: float) -> Self:
        """The same penalty with all costs in multiples of `cost_unit`."""
        costs = {one.name: getattr(self, one.name) / cost_unit for one in fields(self) if one.init}  # type: ignore[arg-type]
        return replace(self, **costs)  # type: ignore[type-var]

    def __str__(self) -> str:
        costs = ", ".join(f"{getattr(self, one.name):g}" for one in fields(self) if one.init)  # type: ignore[arg-type]
        return f"{self.name}({costs})" if costs else self.name

    # --- the update of a potential -----------------------------------------------------------

    @abstractmethod
    def update(self, s: Float, epsilon: float, shift: float = 0.0) -> Float:
        """The best potential, from the one `s` that would make the marginal exact.

        With `shift`, both `s` and the result are relative to it: ``update(s, eps, t) = update(s + t, eps) - t``,
        without the digits that adding and subtracting a large t would cost.
        """

    @abstractmethod
    def slope(self, s: Float, epsilon: float) -> Float:
        """Derivative of `update` with respect to `s`, elementwise."""

    def admissible(self, f: Float, shift: float = 0.0) -> Float:
        """The nearest potential within `bounds`; both potentials are relative to `shift`."""
        low, high = self.bounds
        return np.clip(f, low - shift, high - shift) if self.pins else f

    def is_pinned(self, f: Float, shift: float = 0.0) -> Bool:
        """Where f + shift is on one of its bounds."""
        low, high = self.bounds
        return (f >= high * (1.0 - _PINNED) - shift) | (f <= low * (1.0 - _PINNED) - shift)

    # --- values ------------------------------------------------------------------------------

    @abstractmethod
    def dual_value(self, f: Float, mass: Float) -> float:
        """This side's share of the dual, ``-D*(-f)``; -inf where `f` is not allowed."""

    @abstractmethod
    def soft_divergence(self, p: Float, mass: Float) -> float:
        """``D(p || a)`` without its constraints: finite also for a forbidden `p`."""

    def divergence(self, p: Float, mass: Float) -> float:
        """``D(p || a)``; inf where `p` is forbidden by more than rounding."""
        return self.soft_divergence(p, mass) if self.is_met(p, mass) else math.inf

    def empty_cost(self, total: float) -> float:
        """``D(0 || a)`` for a mass of that total: the price of destroying or creating all of it."""
        return self.divergence(np.zeros(1), np.array([total]))

    def is_met(self, p: Float, mass: Float) -> bool:
        """Whether a hard penalty allows `p`, up to rounding. A soft one allows everything."""
        if not self.is_hard:
            return True
        excess = np.abs(p - mass) if self.is_exact else np.maximum(p - mass, 0.0)
        return bool(np.sum(excess) <= ROUNDING * np.sum(mass))

    def gap(self, p: Float, f: Float, mass: Float, shift: float = 0.0) -> float:
        """``D(p) + <f, p> - dual_value(f)`` >= 0 at the potential f + shift; inf where `p` is forbidden."""
        return self._gap(p, f, mass, shift) if self.is_met(p, mass) else math.inf

    def _gap(self, p: Float, f: Float, mass: Float, shift: float = 0.0) -> float:
        """The gap at an allowed `p`. Override it with a sum of non-negative terms, which does not cancel."""
        f = f + shift
        return max(0.0, self.soft_divergence(p, mass) + float(np.sum(f * p)) - self.dual_value(f, mass))

    # --- the marginal that belongs to a potential --------------------------------------------

    @abstractmethod
    def log_optimal_marginal(self, f: Float, log_mass: Float) -> Float:
        """log of `optimal_marginal`, from the log of the mass."""

    def optimal_marginal(self, f: Float, mass: Float) -> Float:
        """The p that minimises ``D(p || a) + <f, p>``; the largest one if there are several."""
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(self.log_optimal_marginal(f, np.log(mass))))

    def decay(self, f: Float, epsilon: float) -> Float:
        """``-epsilon d log(optimal_marginal) / df``, elementwise: 0 where the marginal does not react to `f`."""
        s = f - epsilon * self.log_optimal_marginal(f, np.zeros(f.shape))
        return 1.0 / np.maximum(self.slope(s, epsilon), _STEEPEST) - 1.0

    def residual(self, p: Float, f: Float, mass: Float) -> float:
        """L1 distance of `p` to the marginals that are optimal for `f`, in mass units; 0 at the optimum."""
        return float(np.sum(np.abs(p - self.optimal_marginal(f, mass))))

    def dual_slope(self, f: Float, mass: Float) -> DualSlope:
        """Derivative of ``dual_value(f + t)`` with respect to t."""
        lowest = self.bounds[0] - float(f.min())
        return SumSlope(lambda t: float(np.sum(self.optimal_marginal(self.admissible(f + t), mass))), lowest)


@dataclass(frozen=True)
class RelaxedPenalty(Penalty):
    """A penalty with one number, lambda.

    Parameters
    ----------
    marginal_relaxation : float
        lambda in cost units: positive and finite.
    """

    marginal_relaxation: float

    def __post_init__(self) -> None:
        value = _as_float(self.marginal_relaxation)
        if not (math.isfinite(value) and value > 0):
            raise ProblemError(
                f'a positive, finite marginal_relaxation of "{self.name}"',
                repr(self.marginal_relaxation),
                'give lambda in cost units, or use "balanced" for exact marginals',
            )
        object.__setattr__(self, "marginal_relaxation", value)

    @classmethod
    def from_relaxation(cls, marginal_relaxation: float) -> Self:
        """See `Penalty.from_relaxation`."""
        return cls(marginal_relaxation)

    def empty_cost(self, total: float) -> float:
        """See `Penalty.empty_cost`."""
        return self.marginal_relaxation * total


def without_rounding(p: Float, mass: Float) -> Float:
    """The marginal `p`, with its smallest deviations from `mass` removed: up to a share of `ROUNDING` in all.

    A price of lambda per unit of mass makes rounding errors expensive if lambda is huge. They are no part of the plan: one
    with the exact marginal is as near as rounding, and its transport costs the same up to rounding.
    """
    off, most = np.abs(p - mass), ROUNDING * float(np.sum(mass))
    small = np.flatnonzero((off > 0.0) & (off <= most))
    small = small[np.argsort(off[small])]
    small = small[np.cumsum(off[small]) <= most]
    cleaned = p.copy()
    cleaned[small] = mass[small]
    return cleaned


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan

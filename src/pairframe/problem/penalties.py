"""What a marginal of the plan may cost: the four penalties and everything the dual needs of them.

For one side with mass ``a``, marginal ``p`` and potential ``f`` the penalty ``D(p || a)`` is
``kl`` lam KL(p || a), ``tv`` lam |p - a|_1, ``partial`` the same with p <= a, ``balanced`` p = a.
Its share of the dual is ``-D*(-f)``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairframe.errors import PenaltyError

Float = NDArray[np.float64]
PENALTIES = ("kl", "tv", "partial", "balanced")

# A hard marginal is met when it is off by no more than this share of the total: what rounding leaves of an exact one.
ROUNDING = 1e-13
# A potential this close (relative to lam) to its bound is at the bound: translations move it there only up to rounding.
_AT_BOUND = 1e-9


@dataclass(frozen=True)
class Penalty:
    """A marginal penalty and its strength.

    Parameters
    ----------
    kind : {"kl", "tv", "partial", "balanced"}
    strength : float
        ``lam`` in units of the cost; ``inf`` for ``balanced``, and only there.

    Notes
    -----
    All arrays of its methods have one shape, over the support of the mass: potential `f`, balanced update `s`
    (both in cost units), mass `mass` > 0 and marginal `p` >= 0.
    """

    kind: str
    strength: float = math.inf

    def __post_init__(self) -> None:
        check_penalty_name(self.kind)
        strength = _as_float(self.strength)
        if self.kind == "balanced":
            if strength != math.inf:
                raise PenaltyError(
                    'strength math.inf with "balanced"', repr(self.strength), 'write Penalty("balanced")'
                )
        elif not (math.isfinite(strength) and strength > 0):
            raise PenaltyError(
                f'a positive, finite strength of "{self.kind}"',
                repr(self.strength),
                'give lam in cost units, or use "balanced" for exact marginals',
            )
        object.__setattr__(self, "strength", strength)

    @property
    def is_hard(self) -> bool:
        """Whether some marginals are forbidden, so that the primal of an inexact plan is infinite."""
        return self.kind in ("balanced", "partial")

    # --- the update of a potential -----------------------------------------------------------

    def update(self, s: Float, epsilon: float, shift: float = 0.0) -> Float:
        """The best potential, from the one `s` that would make the marginal exact.

        With `shift`, both `s` and the result are relative to it: ``update(s, eps, t) = update(s + t, eps) - t``,
        without the digits that adding and subtracting a large t would cost.
        """
        lam = self.strength
        if self.kind == "kl":
            result = (lam * s - epsilon * shift) / (lam + epsilon)
        elif self.kind == "tv":
            result = np.clip(s, -lam - shift, lam - shift)
        elif self.kind == "partial":
            result = np.minimum(s, lam - shift)
        else:
            result = s
        return np.asarray(result, dtype=np.float64)

    def slope(self, s: Float, epsilon: float) -> Float:
        """Derivative of `update` by `s`, elementwise."""
        lam = self.strength
        if self.kind == "kl":
            return np.full(s.shape, lam / (lam + epsilon))
        if self.kind == "tv":
            return (np.abs(s) < lam).astype(np.float64)
        if self.kind == "partial":
            return (s < lam).astype(np.float64)
        return np.ones(s.shape)

    def admissible(self, f: Float) -> Float:
        """The nearest potential with a finite dual: ``tv`` needs f >= -lam. Above lam (``tv``, ``partial``) the dual only falls."""
        if self.kind == "tv":
            return np.clip(f, -self.strength, self.strength)
        return np.minimum(f, self.strength) if self.kind == "partial" else f

    # --- values ------------------------------------------------------------------------------

    def dual_value(self, f: Float, mass: Float) -> float:
        """This side's share of the dual, ``-D*(-f)``; -inf where `f` is not allowed."""
        lam = self.strength
        if self.kind == "kl":
            with np.errstate(over="ignore"):
                return float(-lam * np.sum(mass * np.expm1(-f / lam)))
        if self.kind == "balanced":
            return float(np.sum(mass * f))
        if self.kind == "tv" and f.size and f.min() < -lam:
            return -math.inf
        return float(np.sum(mass * np.minimum(f, lam)))

    def divergence(self, p: Float, mass: Float) -> float:
        """``D(p || a)``; inf where `p` is forbidden by more than rounding."""
        lam = self.strength
        if self.is_hard and not self.is_met(p, mass):
            return math.inf
        if self.kind == "kl":
            return lam * float(np.sum(_kl_terms(p, np.log(mass), mass)))
        if self.kind == "balanced":
            return 0.0
        return lam * float(np.sum(np.abs(p - mass)))

    def is_met(self, p: Float, mass: Float) -> bool:
        """Whether a hard penalty allows `p`, up to rounding; a soft one allows everything."""
        if not self.is_hard:
            return True
        excess = np.abs(p - mass) if self.kind == "balanced" else np.maximum(p - mass, 0.0)
        return bool(np.sum(excess) <= ROUNDING * np.sum(mass))

    def gap(self, p: Float, f: Float, mass: Float) -> float:
        """``D(p) + <f, p> - dual_value(f)`` as a sum of non-negative terms, so without cancellation."""
        lam = self.strength
        if self.is_hard and not self.is_met(p, mass):
            return math.inf
        if self.kind == "balanced":
            return 0.0
        if self.kind == "kl":
            log_asked = np.log(mass) - f / lam
            with np.errstate(over="ignore"):
                return lam * float(np.sum(_kl_terms(p, log_asked, np.exp(log_asked))))
        if self.kind == "tv" and f.size and f.min() < -lam:
            return math.inf
        below, above = np.maximum(mass - p, 0.0), np.maximum(p - mass, 0.0)
        inside = (lam - f) * below + (lam + f) * above
        outside = (f - lam) * p + 2.0 * lam * above
        if self.kind == "partial":  # `above` is rounding here
            inside, outside = (lam - f) * below, (f - lam) * p
        return float(np.sum(np.where(f <= lam, inside, outside)))

    # --- what a potential asks for -----------------------------------------------------------

    def optimal_marginal(self, f: Float, mass: Float) -> Float:
        """The marginal that `f` asks for. ``tv`` and ``partial`` ask for a set at f = lam; its largest member."""
        if self.kind == "kl":
            with np.errstate(over="ignore"):
                return np.asarray(np.exp(np.log(mass) - f / self.strength))
        if self.kind == "partial":
            return np.where(f > self.strength * (1.0 + _AT_BOUND), 0.0, mass)
        return mass

    def residual(self, p: Float, f: Float, mass: Float) -> float:
        """L1 distance of `p` to what `f` asks for; 0 at the optimum. In mass units."""
        off = p - self.optimal_marginal(f, mass)
        if self.kind in ("tv", "partial"):
            slack = _AT_BOUND * self.strength
            at_top = np.abs(f - self.strength) <= slack  # any p <= a will do
            off = np.where(at_top, np.maximum(off, 0.0), off)
            if self.kind == "tv":
                off = np.where(f <= -self.strength + slack, np.minimum(off, 0.0), off)  # any p >= a will do
        return float(np.sum(np.abs(off)))


def check_penalty_name(kind: Any) -> str:
    """One of the four names."""
    if kind not in PENALTIES:
        raise PenaltyError(f"a penalty: {', '.join(PENALTIES)}", repr(kind), "use one of these names")
    return str(kind)


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def _kl_terms(p: Float, log_r: Float, r: Float) -> Float:
    """Elementwise ``p log(p/r) - p + r``, exact to rounding also where p is close to r, and where p is 0."""
    positive = p > 0
    d = np.where(positive, np.log(np.where(positive, p, 1.0)) - log_r, 0.0)  # log(p/r)
    # p (d + expm1(-d)) cancels for small d: there its series.
    small = np.abs(d) < 0.1
    x = np.where(small, d, 0.0)
    series = np.zeros_like(x)
    for k in range(12, 1, -1):
        series = (1.0 - series) * x / k if k > 2 else (1.0 - series) * x * x / 2
    close = p * series
    with np.errstate(over="ignore"):
        far = r + np.where(positive, p * (d - 1.0), 0.0)
    return np.asarray(np.where(positive & small, close, far))

"""The best constant t for potentials (f + t, g - t): the mode that alternating updates alone learn last."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pairframe.problem.penalties import Penalty
from pairframe.problem.problem import TransportProblem

Float = NDArray[np.float64]


def optimal_translation(problem: TransportProblem, f: Float, g: Float) -> float:
    """The t that maximises the dual at (f + t, g - t); 0.0 where the dual does not change or t = 0 is already best.

    Parameters
    ----------
    f, g : (H, W)
        Potentials, read on the supports only. ``tv`` sides are taken as clipped to their bounds.

    Notes
    -----
    The plan does not change with t, so this costs no kernel application. Closed forms for kl and balanced;
    where ``tv`` or ``partial`` take part the slope is a decreasing step function, and its sign change is bisected.
    """
    on_a, on_b = problem.support_a, problem.support_b
    return best_translation(
        problem.penalty_a, f[on_a], problem.mass_a[on_a], problem.penalty_b, g[on_b], problem.mass_b[on_b]
    )


def best_translation(penalty_a: Penalty, f: Float, mass_a: Float, penalty_b: Penalty, g: Float, mass_b: Float) -> float:
    """`optimal_translation` on vectors over the supports: potentials and masses (n_a,) and (n_b,)."""
    kinds = (penalty_a.kind, penalty_b.kind)
    if kinds == ("balanced", "balanced"):
        return 0.0
    side_a, side_b = _Side(penalty_a, f, mass_a), _Side(penalty_b, g, mass_b)
    if kinds == ("kl", "kl"):
        share = penalty_a.strength * (penalty_b.strength / (penalty_a.strength + penalty_b.strength))
        return share * (side_a.log_slope - side_b.log_slope)
    if kinds == ("kl", "balanced"):
        return penalty_a.strength * (side_a.log_slope - math.log(side_b.total))
    if kinds == ("balanced", "kl"):
        return penalty_b.strength * (math.log(side_a.total) - side_b.log_slope)
    return _bisect(side_a, side_b)


class _Side:
    """Slope of one side's dual value under a translation of its potential, from above and from below."""

    def __init__(self, penalty: Penalty, potential: Float, mass: Float) -> None:
        self.penalty = penalty
        self.total = float(mass.sum())
        self.lowest = -math.inf  # the translation below which the dual is -inf
        if penalty.kind == "kl":
            exponents = np.log(mass) - potential / penalty.strength
            top = float(exponents.max())
            self.log_slope = top + math.log(float(np.exp(exponents - top).sum()))
        elif penalty.kind in ("tv", "partial"):
            potential = penalty.admissible(potential)
            room = penalty.strength - potential  # the mass counts while t is below it
            order = np.argsort(room, kind="stable")
            self.room = room[order]
            # mass_above[k]: mass of the entries k, k+1, ... in that order
            self.mass_above = np.append(np.cumsum(mass[order][::-1])[::-1], 0.0)
            if penalty.kind == "tv":
                self.lowest = -penalty.strength - float(potential.min())

    def slope(self, t: float, *, from_above: bool) -> float:
        """One-sided derivative at t: the limit from t+ or from t-."""
        if self.penalty.kind == "kl":
            exponent = self.log_slope - t / self.penalty.strength
            return math.exp(exponent) if exponent < 700.0 else math.inf
        if self.penalty.kind == "balanced":
            return self.total
        return float(self.mass_above[np.searchsorted(self.room, t, side="right" if from_above else "left")])


def _bisect(side_a: _Side, side_b: _Side) -> float:
    """Nearest to 0 among the best t; t stays where both duals are finite."""

    def rising(t: float) -> bool:  # whether a larger t is better
        return side_a.slope(t, from_above=True) > side_b.slope(-t, from_above=False) * (1.0 + 1e-14)

    def falling(t: float) -> bool:  # whether a smaller t is better
        return side_a.slope(t, from_above=False) * (1.0 + 1e-14) < side_b.slope(-t, from_above=True)

    lowest, highest = min(side_a.lowest, 0.0), max(-side_b.lowest, 0.0)
    if rising(0.0):
        sign, better, limit = 1.0, rising, highest
    elif falling(0.0):
        sign, better, limit = -1.0, falling, -lowest
    else:
        return 0.0
    near, far = 0.0, min(1.0, limit)
    while far < limit and better(sign * far):
        near, far = far, min(4.0 * far, limit)
        if far > 1e300:
            return 0.0  # the dual has no maximum: nothing sensible to do here
    if better(sign * far):
        return sign * far  # stopped by the bound of a tv side
    for _ in range(200):
        middle = 0.5 * (near + far)
        if middle in (near, far):
            break
        near, far = (middle, far) if better(sign * middle) else (near, middle)
    return sign * far

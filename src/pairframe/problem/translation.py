"""The best constant t for potentials (f + t, g - t): the mode in which alternating updates converge last."""

from __future__ import annotations

import numpy as np

from pairframe.problem.penalties import Penalty
from pairframe.problem.penalties.slopes import DualSlope, ExponentialSlope
from pairframe.problem.problem import TransportProblem
from pairframe.types import Float


def optimal_translation(problem: TransportProblem, f: Float, g: Float) -> float:
    """The t that maximises the dual at (f + t, g - t); 0.0 where the dual does not change or t = 0 is already best.

    Parameters
    ----------
    f, g : arrays over the grid
        Potentials, read on the supports only. ``tv`` sides are taken as clipped to their bounds.

    Notes
    -----
    The plan does not change with t, so this costs no kernel application. ``kl`` and ``balanced`` have a closed form;
    with any other penalty the slope of the dual decreases with t, and its sign change is bisected.
    """
    on_a, on_b = problem.support_a, problem.support_b
    return best_translation(
        problem.penalty_a, f[on_a], problem.mass_a[on_a], problem.penalty_b, g[on_b], problem.mass_b[on_b]
    )


def best_translation(penalty_a: Penalty, f: Float, mass_a: Float, penalty_b: Penalty, g: Float, mass_b: Float) -> float:
    """`optimal_translation` on vectors over the supports: potentials and masses (n_a,) and (n_b,)."""
    slope_a, slope_b = penalty_a.dual_slope(f, mass_a), penalty_b.dual_slope(g, mass_b)
    if isinstance(slope_a, ExponentialSlope) and isinstance(slope_b, ExponentialSlope):
        return slope_a.crossing(slope_b)
    return _bisect(slope_a, slope_b)


def _bisect(slope_a: DualSlope, slope_b: DualSlope) -> float:
    """Nearest to 0 among the best t; t stays where both duals are finite."""

    def rising(t: float) -> bool:  # whether a larger t is better
        return slope_a.at(t, from_above=True) > slope_b.at(-t, from_above=False) * (1.0 + 1e-14)

    def falling(t: float) -> bool:  # whether a smaller t is better
        return slope_a.at(t, from_above=False) * (1.0 + 1e-14) < slope_b.at(-t, from_above=True)

    lowest, highest = min(slope_a.lowest, 0.0), max(-slope_b.lowest, 0.0)
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
            return 0.0  # the dual has no maximum
    if better(sign * far):
        return sign * far  # stopped by a lower bound of the other potential
    for _ in range(200):
        middle = 0.5 * (near + far)
        if middle in (near, far):
            break
        near, far = (middle, far) if better(sign * middle) else (near, middle)
    return sign * far


def best_answered_translation(
    penalty_a: Penalty,
    f: Float,
    mass_a: Float,
    penalty_b: Penalty,
    s: Float,
    mass_b: Float,
    epsilon: float,
    tolerance: float,
) -> float:
    """The t that maximises the dual at f + t and its best answer; 0.0 if t = 0 is best up to `tolerance`.

    Parameters
    ----------
    f : (n_a,)
        Potential on a.
    s : (n_b,)
        The potential on b that would make its marginal exact, given f; given f + t it is s - t.
    tolerance : float
        Imbalance of both marginals, in mass units, for which no translation is made.

    Notes
    -----
    The slope of the dual in t is the optimal mass of a at f + t minus the mass that b receives from its answer to it. It
    decreases with t, and its sign change is bisected; no kernel application is needed.
    """
    optimal = penalty_a.dual_slope(f, mass_a)
    received = _Received(penalty_b, s, mass_b, epsilon)
    if optimal.at(0.0, from_above=True) - received(0.0) > tolerance:
        sign, from_above = 1.0, True
        limit = max(penalty_a.bounds[1] - float(f.max()), 0.0)
    elif optimal.at(0.0, from_above=False) - received(0.0) < -tolerance:
        sign, from_above = -1.0, False
        limit = -optimal.lowest
    else:
        return 0.0

    def missing(distance: float) -> float:
        t = sign * distance
        return sign * (optimal.at(t, from_above=from_above) - received(t))

    near, far = 0.0, min(0.01 * epsilon, limit)
    while (found := missing(far)) > tolerance:
        near = far
        if far >= limit:
            return sign * far
        far = min(4.0 * far, limit)
        if far > _FARTHEST * epsilon:
            return 0.0  # the dual has no maximum
    while found < -tolerance and far - near > _NEAR * max(epsilon, near):
        middle = 0.5 * (near + far)
        if (there := missing(middle)) > tolerance:
            near = middle
        else:
            far, found = middle, there
    return sign * (near if found < -tolerance else far)


_FARTHEST = 1e12  # in eps
_NEAR = 1e-9  # relative accuracy of a translation


class _Received:
    """The mass that b receives from its best answer to f + t, as a function of t.

    A penalty that clips makes it the mass itself wherever the answer is not pinned: only the other pixels are looked at.
    """

    def __init__(self, penalty: Penalty, s: Float, mass: Float, epsilon: float) -> None:
        self._penalty, self._s, self._mass, self._epsilon = penalty, s, mass, epsilon
        self._margin = -1.0
        self._settled = 0.0
        self._open: tuple[Float, Float] = (s, mass)

    def __call__(self, t: float) -> float:
        if self._penalty.clips and not abs(t) <= self._margin:
            self._split(max(4.0 * abs(t), self._epsilon))
        s, mass = self._open
        answer = self._penalty.update(s - t, self._epsilon)
        with np.errstate(over="ignore"):
            return self._settled + float(np.sum(mass * np.exp(np.minimum((answer - s + t) / self._epsilon, 50.0))))

    def _split(self, margin: float) -> None:
        """Set apart the pixels that are within the bounds for every t up to `margin`, and those far beyond them."""
        low, high = self._penalty.bounds
        inside = (self._s <= high - margin) & (self._s >= low + margin)
        lost = self._s > high + margin + 50.0 * self._epsilon  # they receive nothing
        rest = ~(inside | lost)
        self._margin, self._settled = margin, float(self._mass[inside].sum())
        self._open = self._s[rest], self._mass[rest]

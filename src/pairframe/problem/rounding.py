"""A feasible plan close to an infeasible one: with it the gap of hard marginals is a true bound."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pairframe.problem.problem import TransportProblem
from pairframe.types import Float

OneMarginal = Callable[[Float, Float], Float]


@dataclass(frozen=True)
class Marginals:
    """The marginals of the plan of any potentials (f, g), arrays over the grid: one kernel application each."""

    a: OneMarginal
    b: OneMarginal

    @property
    def swapped(self) -> Marginals:
        """With both sides exchanged."""
        return Marginals(lambda f, g: self.b(g, f), lambda f, g: self.a(g, f))


_NEARLY = 1e-3  # share of its mass that a marginal which may as well be exact is off
Rounded = tuple[Float, Float, Float, Float]


@dataclass(frozen=True, eq=False)
class Mixture:
    """A mixture of two plans that has the right marginals, with a bound on its value.

    Attributes
    ----------
    bracket : float
        Bound on ``<C, P> + eps sum P (log(P/(u (x) v)) - 1)``.
    p, q : (n,), (m,)
        Its marginals on the supports.
    """

    bracket: float
    p: Float
    q: Float

    def swapped(self) -> Mixture:
        """The same for the problem with source and target exchanged."""
        return Mixture(self.bracket, self.q, self.p)


def round_to_feasible(
    problem: TransportProblem,
    f: Float,
    g: Float,
    p: Float,
    q: Float,
    marginals: Marginals,
    *,
    moves_all_a: bool = False,
) -> Rounded | Mixture:
    """Make the plan of (f, g) feasible; a constant may be moved from f to g at will.

    Parameters
    ----------
    moves_all_a : bool
        Whether no potential on a is pinned, so that a capped marginal of a is exact at the optimum.

    Returns
    -------
    (f, g, p, q), arrays over the grid, of a feasible plan that is itself given by potentials; or, if two hard sides
    need a mixture with a rank-one plan, a bound on that.
    """
    penalty_a, penalty_b = problem.penalty_a, problem.penalty_b
    if penalty_b.is_exact and not penalty_a.is_exact:
        swapped = round_to_feasible(problem.swapped(), g, f, q, p, marginals.swapped)
        return swapped.swapped() if isinstance(swapped, Mixture) else (swapped[1], swapped[0], swapped[3], swapped[2])
    eps = problem.epsilon
    if penalty_a.is_exact:
        f = f + eps * _log_ratio(problem.mass_a, p)
        p, q = problem.mass_a, marginals.b(f, g)
        if penalty_b.is_hard:
            return _mixture_bound(problem, f, g, q, marginals)
        return f, g, p, q
    if moves_all_a and _is_nearly_met(problem, p):
        f = f + eps * _log_ratio(problem.mass_a, p)
        return _mixture_bound(problem, f, g, marginals.b(f, g), marginals)
    if penalty_a.is_capped:
        f = f + eps * np.minimum(_log_ratio(problem.mass_a, p), 0.0)
        p, q = np.minimum(p, problem.mass_a), marginals.b(f, g)
    if penalty_b.is_capped and not penalty_b.is_met(q[problem.support_b], problem.mass_b[problem.support_b]):
        g = g + eps * np.minimum(_log_ratio(problem.mass_b, q), 0.0)
        p, q = marginals.a(f, g), np.minimum(q, problem.mass_b)
        if penalty_a.is_capped:  # scaling columns down only lowers p; more is rounding
            p = np.minimum(p, problem.mass_a)
    return f, g, p, q


def _is_nearly_met(problem: TransportProblem, p: Float) -> bool:
    """Whether a capped marginal of a is close to its mass, and b has room for the rest.

    Scaling down to the caps destroys what is missing, at a price of lambda. A mixture moves it to where b has room.
    """
    if not (problem.penalty_a.is_capped and problem.penalty_b.is_capped and problem.total_a <= problem.total_b):
        return False
    return float(np.abs(p - problem.mass_a).sum()) <= _NEARLY * problem.total_a


def _mixture_bound(problem: TransportProblem, f: Float, g: Float, q: Float, marginals: Marginals) -> Mixture:
    """Bound for rows whose marginal is exact (and met) and columns whose marginal is exact or capped.

    Columns are scaled by c = min(1, b/q), which leaves a plan Q of total T. With th = 1 - T/M the plan
    (1 - th) (M/T) Q + th M ua (x) ub, ua and ub the normalised deficits of Q, has the right marginals;
    the value is convex, so its value is at most (1 - th) E1 + th E2, and both follow from sums and moments.
    """
    on_a, on_b = problem.support_a, problem.support_b
    a, b = problem.mass_a[on_a], problem.mass_b[on_b]
    eps, total = problem.epsilon, problem.total_a
    if problem.penalty_b.is_exact:
        b = b * (total / float(b.sum()))  # totals agree up to rounding; exactly, for the sake of the mixture
    log_c = np.minimum(np.log(b) - _safe_log(q[on_b]), 0.0)
    g_scaled = np.where(on_b, g, 0.0)
    g_scaled[on_b] += eps * log_c
    rows = np.minimum(marginals.a(f, g_scaled)[on_a], a)
    columns = np.minimum(q[on_b] * np.exp(log_c), b)
    kept = float(columns.sum())
    if not 0.0 < kept < math.inf:
        return Mixture(math.inf, a, b)
    theta = max(0.0, 1.0 - kept / total)
    inner = float(np.sum(f[on_a] * rows)) + float(np.sum(g_scaled[on_b] * columns))
    e1 = total / kept * inner - eps * total * math.log(kept / total) - eps * total
    deficit_a, deficit_b = _normalised(a - rows), _normalised(b - columns)
    if theta == 0.0 or deficit_a is None or deficit_b is None:  # all that is missing is below rounding
        return _mixture(problem, e1, total / kept * columns)
    entropy = math.log(total) + _entropy(deficit_a, problem.log_u[on_a]) + _entropy(deficit_b, problem.log_v[on_b])
    e2 = total * _mean_cost(problem, deficit_a, deficit_b) + eps * (total * entropy - total)
    return _mixture(problem, (1.0 - theta) * e1 + theta * e2, columns + theta * total * deficit_b)


def _mixture(problem: TransportProblem, bracket: float, columns: Float) -> Mixture:
    """`columns`, (m,), equal b's mass or are within it by construction; the rest is rounding."""
    a, b = problem.mass_a[problem.support_a], problem.mass_b[problem.support_b]
    q = b if problem.penalty_b.is_exact else np.minimum(columns, b)
    return Mixture(bracket, a, q)


def _mean_cost(problem: TransportProblem, weight_a: Float, weight_b: Float) -> float:
    """Mean cost of the product of two normalised weights on the supports; for ``euclidean`` a bound on it."""
    total = 0.0
    for xa, xb in zip(problem.positions(problem.support_a).T, problem.positions(problem.support_b).T, strict=True):
        # Sums, not dot products: the threads of BLAS go on spinning, and take a core from ours.
        mean_a, mean_b = float(np.sum(weight_a * xa)), float(np.sum(weight_b * xb))
        spread = float(np.sum(weight_a * (xa - mean_a) ** 2)) + float(np.sum(weight_b * (xb - mean_b) ** 2))
        total += spread + (mean_a - mean_b) ** 2
    return total if problem.metric == "sqeuclidean" else math.sqrt(total)  # Jensen


def _entropy(weight: Float, log_reference: Float) -> float:
    """Sum of w log(w/u), with 0 log 0 = 0."""
    on = weight > 0
    return float(np.sum(weight[on] * (np.log(weight[on]) - log_reference[on])))


def _normalised(deficit: Float) -> Float | None:
    deficit = np.maximum(deficit, 0.0)
    total = float(deficit.sum())
    return deficit / total if total > 0 else None


def _log_ratio(mass: Float, marginal: Float) -> Float:
    """log(mass/marginal), 0 off the support; +inf where the marginal vanished."""
    on = mass > 0
    ratio = np.zeros(mass.shape)
    ratio[on] = np.log(mass[on]) - _safe_log(marginal[on])
    return ratio


def _safe_log(values: Float) -> Float:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(values))

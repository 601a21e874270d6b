"""A feasible plan close to an infeasible one: with it the gap of hard marginals is a true bound."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pairframe.problem.missing_mass import move_missing
from pairframe.problem.problem import TransportProblem
from pairframe.types import Bool, Float

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


_NEARLY = 1e-3  # share of its mass by which a marginal that is to be exact may be off before it is scaled up
_ROUNDING = 1e-10  # share of what is missing that may be left on a side which has to be exact


@dataclass(frozen=True, eq=False)
class Scaled:
    """The plan of potentials f and g, arrays over the grid, with marginals p and q that no hard side is exceeded by."""

    f: Float
    g: Float
    p: Float
    q: Float


@dataclass(frozen=True, eq=False)
class Mixture:
    """A scaled plan plus plans of what it misses, with a bound on the value of the sum.

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


def scale_into_marginals(
    problem: TransportProblem, f: Float, g: Float, p: Float, q: Float, pinned_a: Bool, marginals: Marginals
) -> Scaled:
    """Scale the plan of (f, g) so that no hard side is exceeded; a constant may be moved from f to g at will.

    Parameters
    ----------
    pinned_a : (n,)
        Where a potential on a is on its bound: elsewhere a capped marginal is exact at the optimum.

    Notes
    -----
    One hard side is exact afterwards if its penalty is. With two, the first may lose what the second has no room for.
    """
    if problem.penalty_b.is_exact and not problem.penalty_a.is_exact:
        nowhere = np.zeros(int(problem.support_b.sum()), dtype=bool)
        turned = scale_into_marginals(problem.swapped(), g, f, q, p, nowhere, marginals.swapped)
        return Scaled(turned.g, turned.f, turned.q, turned.p)
    eps = problem.epsilon
    if problem.penalty_a.is_hard:
        is_met = _is_met_by_scaling(problem, p, pinned_a)
        ratio = _log_ratio(problem.mass_a, p)
        f = f + eps * np.where(is_met, ratio, np.minimum(ratio, 0.0))
        p, q = np.where(is_met, problem.mass_a, np.minimum(p, problem.mass_a)), marginals.b(f, g)
    penalty_b, on_b = problem.penalty_b, problem.support_b
    if penalty_b.is_hard and not (penalty_b.is_capped and penalty_b.is_met(q[on_b], problem.mass_b[on_b])):
        g = g + eps * np.minimum(_log_ratio(problem.mass_b, q), 0.0)
        p, q = marginals.a(f, g), np.minimum(q, problem.mass_b)
        if problem.penalty_a.is_hard:  # scaling columns down only lowers p; more is rounding
            p = np.minimum(p, problem.mass_a)
    return Scaled(f, g, p, q)


def _is_met_by_scaling(problem: TransportProblem, p: Float, pinned: Bool) -> Bool:
    """Where rows are scaled up as well as down, over the grid: there the marginal has to be exact, or will be."""
    on = problem.support_a
    if problem.penalty_a.is_exact:
        return on
    off = float(np.sum(np.abs(p[on] - problem.mass_a[on]), where=~pinned))
    is_met = np.zeros(on.shape, dtype=bool)
    if problem.penalty_b.is_hard and off <= _NEARLY * problem.total_a:
        is_met[on] = ~pinned
    return is_met


def mixture(problem: TransportProblem, scaled: Scaled) -> Mixture:
    """Add to a scaled plan Q of two hard sides what it misses: plans R_1, R_2, ... of `move_missing`.

    The value V is convex, so for shares t of the sum's mass ``V(Q + R_1 + ...) <= t_0 V(Q/t_0) + t_1 V(R_1/t_1) + ...``,
    where ``t V(P/t) = V(P) - eps |P| log t``. The bracket is inf if a side that has to be exact is not.
    """
    on_a, on_b = problem.support_a, problem.support_b
    a, b, eps = problem.mass_a[on_a], problem.mass_b[on_b], problem.epsilon
    if problem.penalty_a.is_exact and problem.penalty_b.is_exact:
        b = b * (
            problem.total_a / float(b.sum())
        )  # totals agree up to rounding; exactly, for the sake of what is missing
    rows, columns = np.minimum(scaled.p[on_a], a), np.minimum(scaled.q[on_b], b)
    kept = float(columns.sum())
    if not 0.0 < kept < math.inf:
        return Mixture(math.inf, a, b)
    inner = float(np.sum(scaled.f[on_a] * rows)) + float(np.sum(scaled.g[on_b] * columns))
    missing_a, missing_b = a - rows, b - columns
    if problem.penalty_a.is_exact:  # the kernel's sums may have float32's digits
        missing_a *= max(problem.total_a - kept, 0.0) / max(float(missing_a.sum()), 1e-300)
    elif problem.penalty_b.is_exact:
        missing_b *= max(problem.total_b - float(rows.sum()), 0.0) / max(float(missing_b.sum()), 1e-300)
    moved = move_missing(problem, scaled.g, missing_a, missing_b)
    total = kept + sum(moved.totals)
    bracket = inner - eps * total
    for value, mass in ((0.0, kept), *zip(moved.values, moved.totals, strict=True)):
        bracket += value - (eps * mass * math.log(mass / total) if mass > 0.0 else 0.0)
    for penalty, missing, share in (
        (problem.penalty_a, missing_a, moved.share_a),
        (problem.penalty_b, missing_b, moved.share_b),
    ):
        left = float(np.sum((1.0 - share) * missing))
        if penalty.is_exact and left > _ROUNDING * float(missing.sum()) + 1e-15 * total:
            bracket = math.inf
    p = a if problem.penalty_a.is_exact else np.minimum(rows + moved.share_a * missing_a, a)
    q = problem.mass_b[on_b] if problem.penalty_b.is_exact else np.minimum(columns + moved.share_b * missing_b, b)
    return Mixture(bracket, p, q)


def _log_ratio(mass: Float, marginal: Float) -> Float:
    """log(mass/marginal), 0 off the support; +inf where the marginal vanished."""
    on = mass > 0
    ratio = np.zeros(mass.shape)
    ratio[on] = np.log(mass[on]) - _safe_log(marginal[on])
    return ratio


def _safe_log(values: Float) -> Float:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(values))

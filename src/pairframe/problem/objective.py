"""Primal, dual, gap and certificate, from potentials and marginals alone.

With P_ij = u_i v_j exp((f_i + g_j - C_ij)/eps), marginals p and q and S = sum u sum v:
dual = -D_a*(-f) - D_b*(-g) - eps (sum P - S), and <C, P> + eps KL(P || u (x) v) = <f, p> + <g, q> - eps (sum P - S).
All arrays are over the work grid and are read on the supports only.

The relative gap
----------------
Two parts of the primal do not depend on the plan. One is eps S. The other is V, the least D_a(p) + D_b(q) among all
marginals of equal totals, whatever their transport costs: with unequal masses some penalty is always paid, of the order of
lambda |M_a - M_b|. What remains is W(P) = [<C, P> + eps sum P (log(P/(u (x) v)) - 1)] + X, with X = D_a(p) + D_b(q) - V >= 0.
By duality V = max over t of -D_a*(-t) - D_b*(t), attained at some t, and as p and q have equal totals

    X = [D_a(p) + <t, p> + D_a*(-t)] + [D_b(q) - <t, q> + D_b*(t)],

which are the gaps of both penalties at the constant potentials t and -t: sums of non-negative terms, without cancellation.
For ``kl`` they are lambda KL(p || a m/M_a) and lambda KL(q || b m/M_b), with m the best total (Jensen).

The relative gap is gap / scale, with scale = max(|W's bracket| + X, eps sum P). It does not change if

- a constant is added to the objective, because neither gap nor scale contains one,
- costs, eps and lambda are multiplied by one number, or, for the references ``heat`` and ``product``, both masses are,
- a constant moves from f to g, which leaves the plan as it is.

A bad plan cannot flatter itself by its own high penalties: W(P) exceeds the W of the best plan by at most the gap, so where
the bracket is positive, gap <= tol scale implies gap <= tol/(1 - tol) times the W of the best plan. The floor eps sum P is the size of the entropy
of the plan itself, and lets a problem of zero cost converge.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pairframe.problem.problem import TransportProblem
from pairframe.problem.rounding import Marginals, mixture, scale_into_marginals
from pairframe.problem.translation import best_translation, optimal_translation
from pairframe.types import Float

__all__ = [
    "Certificate",
    "Marginals",
    "certificate",
    "dual_value",
    "optimal_translation",
    "plan_cost_plus_entropy",
]

_NEAR = 1e-3  # relative gap at which it is certain that moving what is missing is better than destroying it


@dataclass(frozen=True)
class Certificate:
    """Two bounds on the optimal value and how far they are apart.

    Attributes
    ----------
    primal_upper, dual_lower : float
        The optimum lies between them.
    gap : float
        primal_upper - dual_lower >= the true error; inf if no feasible plan is known.
    scale : float
        Size of the part of the primal that depends on the plan; see the module's notes.
    relative_gap : float
        gap / scale.
    marginal_error : float
        The larger L1 distance of a marginal to the optimal one for its potential, relative to that side's mass.
    smaller_side_error : float
        The same relative to the smaller of both masses. A plan between a huge and a tiny mass carries the tiny one, so an
        error that is small relative to the huge one may be larger than the plan.
    """

    primal_upper: float
    dual_lower: float
    gap: float
    scale: float
    marginal_error: float
    smaller_side_error: float

    @classmethod
    def of_nothing(cls) -> Certificate:
        """Bounds that promise nothing."""
        return cls(math.inf, -math.inf, math.inf, math.nan, math.inf, math.inf)

    @property
    def relative_gap(self) -> float:
        """The gap over `scale`; inf if either is not known."""
        if self.gap == 0.0:
            return 0.0
        return self.gap / self.scale if self.scale > 0.0 and math.isfinite(self.gap) else math.inf

    @property
    def error(self) -> float:
        """The error that `tol` bounds: the largest of relative gap and both marginal errors."""
        return max(self.relative_gap, self.marginal_error, self.smaller_side_error)

    def meets(self, tol: float) -> bool:
        """Whether `error` is within `tol`."""
        return self.error <= tol


def dual_value(problem: TransportProblem, f: Float, g: Float, total_plan: float) -> float:
    """The dual at (f, g): a lower bound of the optimum. -inf where a potential is not allowed."""
    on_a, on_b = problem.support_a, problem.support_b
    value = value_b = problem.penalty_a.dual_value(f[on_a], problem.mass_a[on_a])
    if not (f is g and problem.is_one_measure):
        value_b = problem.penalty_b.dual_value(g[on_b], problem.mass_b[on_b])
    value += value_b
    value -= problem.epsilon * (total_plan - problem.total_reference)
    return value if not math.isnan(value) else -math.inf


def plan_cost_plus_entropy(problem: TransportProblem, f: Float, g: Float, p: Float, q: Float) -> float:
    """<C, P> + eps KL(P || u (x) v) of the plan of (f, g), whose marginals are p and q."""
    on_a, on_b = problem.support_a, problem.support_b
    inner = float(np.sum(f[on_a] * p[on_a])) + float(np.sum(g[on_b] * q[on_b]))
    return inner - problem.epsilon * (float(p[on_a].sum()) - problem.total_reference)


def unavoidable_translation(problem: TransportProblem) -> float:
    """The t for which the constant potentials t and -t have the largest dual: the least penalties of any plan."""
    totals, zero = (np.array([problem.total_a]), np.array([problem.total_b])), np.zeros(1)
    return best_translation(problem.penalty_a, zero, totals[0], problem.penalty_b, zero, totals[1])


def certificate(
    problem: TransportProblem,
    f: Float,
    g: Float,
    p: Float,
    q: Float,
    marginals: Marginals | None = None,
    shift: float = 0.0,
    stated: TransportProblem | None = None,
) -> Certificate:
    """Bounds on the optimum from any potentials.

    Parameters
    ----------
    f, g : arrays over the grid
        Potentials f + shift and g - shift, any.
    p, q : arrays over the grid
        The marginals of their plan.
    marginals : Marginals, optional
        Called once or twice when a hard side is not met and the plan has to be rounded
        to a feasible one; without it the gap is inf then. It is not called if the hard side was updated last.
    shift : float
        See `Potentials`: kept apart, a constant of the order of lambda takes no digits from f and g.
    stated : TransportProblem, optional
        The problem whose bounds are wanted, if `problem` is it with a smaller lambda. Its potentials are those of `problem`
        plus the difference of both `unavoidable_translation`, so all terms differ by what follows from the marginals:
        V by a constant, gap and scale by the difference of X.
    """
    on_a, on_b = problem.support_a, problem.support_b
    with np.errstate(over="ignore", invalid="ignore"):
        off_a = off_b = problem.penalty_a.residual(p[on_a], f[on_a] + shift, problem.mass_a[on_a])
        plan = [_Plan(f, g, p, q, shift)]
        if not plan[0].is_of_one_measure(problem):
            off_b = problem.penalty_b.residual(q[on_b], g[on_b] - shift, problem.mass_b[on_b])
        dual = _stated_dual(problem, *plan[0].whole_potentials(), float(p[on_a].sum()), stated or problem)
        del f, g, p, q  # of a large grid the bound makes four more
        found = _upper_bound(problem, plan.pop(), dual, marginals, stated or problem)
    marginal_error = max(_nan_to_inf(off_a / problem.total_a), _nan_to_inf(off_b / problem.total_b))
    smaller_side_error = _nan_to_inf(max(off_a, off_b) / min(problem.total_a, problem.total_b))
    if not math.isfinite(found.upper):
        return Certificate(math.inf, dual, math.inf, found.scale, marginal_error, smaller_side_error)
    upper, lower, gap = found.upper, dual, found.upper - dual
    if found.dual >= dual:
        lower, gap = found.dual, found.gap
        upper = lower + gap
    return Certificate(upper, lower, max(gap, 0.0), found.scale, marginal_error, smaller_side_error)


@dataclass(frozen=True, eq=False)
class _Plan:
    """Potentials f + shift and g - shift and the marginals of their plan, all over the grid."""

    f: Float
    g: Float
    p: Float
    q: Float
    shift: float

    def is_of_one_measure(self, problem: TransportProblem) -> bool:
        """Whether it moves a measure to itself with one potential and one marginal."""
        return problem.is_one_measure and self.f is self.g and self.p is self.q and self.shift == 0.0

    def whole_potentials(self) -> tuple[Float, Float]:
        """With the shift."""
        return (self.f, self.g) if self.shift == 0.0 else (self.f + self.shift, self.g - self.shift)


@dataclass(frozen=True)
class _Upper:
    """A primal value that some feasible plan has, the scale there, and dual and gap if known without cancellation."""

    upper: float
    scale: float
    dual: float = -math.inf
    gap: float = math.inf


def _upper_bound(
    problem: TransportProblem, plan: _Plan, dual: float, marginals: Marginals | None, stated: TransportProblem
) -> _Upper:
    """A bound from the plan, made feasible where it is not; `dual` tells how good it is."""
    on_a, on_b = problem.support_a, problem.support_b
    penalty_a, penalty_b = problem.penalty_a, problem.penalty_b
    if penalty_a.is_met(plan.p[on_a], problem.mass_a[on_a]) and penalty_b.is_met(plan.q[on_b], problem.mass_b[on_b]):
        return _upper_of_plan(problem, plan, stated, dual)
    if marginals is None:
        return _Upper(math.inf, math.nan)
    pinned_a = penalty_a.is_pinned(plan.f[on_a], plan.shift)
    scaled = scale_into_marginals(problem, plan.f, plan.g, plan.p, plan.q, pinned_a, marginals)
    plain = _Plan(scaled.f, scaled.g, scaled.p, scaled.q, plan.shift)
    del plan
    if not (penalty_a.is_hard and penalty_b.is_hard):
        return _upper_of_plan(problem, plain, stated)
    refilled = mixture(problem, scaled)
    avoidable = _avoidable(stated, refilled.p, refilled.q)
    upper = refilled.bracket + _unavoidable(stated) + avoidable + problem.epsilon * problem.total_reference
    found = _Upper(upper, _scale(problem, refilled.bracket, avoidable, refilled.p))
    if penalty_a.is_exact or penalty_b.is_exact or upper - dual <= _NEAR * found.scale:
        return found
    # Far from the optimum it may be better to destroy what is missing.
    return min(found, _upper_of_plan(problem, plain, stated), key=lambda bound: bound.upper)


def _upper_of_plan(
    problem: TransportProblem, plan: _Plan, stated: TransportProblem, dual: float | None = None
) -> _Upper:
    """The bound of a plan that exceeds no hard side, and the dual of its potentials if that is not known."""
    on_a, on_b = problem.support_a, problem.support_b
    is_one = plan.is_of_one_measure(problem)
    p = q = plan.p[on_a]
    gap = gap_b = problem.penalty_a.gap(p, plan.f[on_a], problem.mass_a[on_a], plan.shift)
    if not is_one:
        q = plan.q[on_b]
        gap_b = problem.penalty_b.gap(q, plan.g[on_b], problem.mass_b[on_b], -plan.shift)
    gap += gap_b
    avoidable = _avoidable(stated, p, q)
    if stated is not problem:
        gap += avoidable - _avoidable(problem, p, q)
    if dual is None:
        dual = _stated_dual(problem, *plan.whole_potentials(), float(p.sum()), stated)
    if not (math.isfinite(gap) and math.isfinite(dual)):
        return _Upper(math.inf, math.nan)
    bracket = _bracket(problem, plan.f[on_a], plan.g[on_b], p, q)
    return _Upper(dual + gap, _scale(problem, bracket, avoidable, p), dual, gap)


def _stated_dual(problem: TransportProblem, f: Float, g: Float, total_plan: float, stated: TransportProblem) -> float:
    """The dual of `stated` at the potentials that belong to those of `problem`."""
    dual = dual_value(problem, f, g, total_plan)
    return dual if stated is problem else dual + _unavoidable(stated) - _unavoidable(problem)


def _scale(problem: TransportProblem, bracket: float, avoidable: float, p: Float) -> float:
    """From the plan's transport and entropy without the constant, its avoidable penalties, and its marginal p, (n,)."""
    return max(abs(bracket) + avoidable, problem.epsilon * float(p.sum()))


def _avoidable(problem: TransportProblem, p: Float, q: Float) -> float:
    """X: the penalties of marginals (n,) and (m,) beyond those of the cheapest ones."""
    t = unavoidable_translation(problem)
    gap_a = problem.penalty_a.gap(p, np.full(p.shape, t), problem.mass_a[problem.support_a])
    if p is q and t == 0.0 and problem.is_one_measure:
        return 2.0 * gap_a
    return gap_a + problem.penalty_b.gap(q, np.full(q.shape, -t), problem.mass_b[problem.support_b])


def _unavoidable(problem: TransportProblem) -> float:
    """V: the least penalties of any plan."""
    t = np.array([unavoidable_translation(problem)])
    return problem.penalty_a.dual_value(t, np.array([problem.total_a])) + problem.penalty_b.dual_value(
        -t, np.array([problem.total_b])
    )


def _bracket(problem: TransportProblem, f: Float, g: Float, p: Float, q: Float) -> float:
    """Transport and entropy without the constant; all on the supports.

    The plan's mean of f moves to g first, so that a large constant in f and -g does not cancel in the sum.
    """
    total = float(p.sum())
    constant = float(np.sum(f * p)) / total if total > 0.0 else 0.0
    return float(np.sum((f - constant) * p)) + float(np.sum((g + constant) * q)) - problem.epsilon * total


def _nan_to_inf(value: float) -> float:
    return math.inf if math.isnan(value) else value

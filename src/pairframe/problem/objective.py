"""Primal, dual, gap and certificate, from potentials and marginals alone.

With P_ij = u_i v_j exp((f_i + g_j - C_ij)/eps), marginals p and q and S = sum u sum v:
dual = -D_a*(-f) - D_b*(-g) - eps (sum P - S), and <C, P> + eps KL(P || u (x) v) = <f, p> + <g, q> - eps (sum P - S).
All arrays are over the work grid and are read on the supports only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pairframe.problem.problem import TransportProblem
from pairframe.problem.rounding import round_to_feasible
from pairframe.problem.translation import optimal_translation
from pairframe.types import Float

__all__ = [
    "Certificate",
    "certificate",
    "dual_value",
    "optimal_translation",
    "plan_cost_plus_entropy",
]

Marginals = Callable[[Float, Float], tuple[Float, Float]]


@dataclass(frozen=True)
class Certificate:
    """Two bounds on the optimal value and how far they are apart.

    Attributes
    ----------
    primal_upper, dual_lower : float
        The optimum lies between them.
    gap : float
        primal_upper - dual_lower >= the true error; inf if no feasible plan is known.
    relative_gap : float
        gap / abs(primal_upper).
    marginal_error : float
        The larger L1 distance of a marginal to the optimal one for its potential, relative to that side's mass.
    smaller_side_error : float
        The same relative to the smaller of both masses. A plan between a huge and a tiny mass carries the tiny one, so an
        error that is small relative to the huge one may be larger than the plan.
    """

    primal_upper: float
    dual_lower: float
    gap: float
    relative_gap: float
    marginal_error: float
    smaller_side_error: float

    @classmethod
    def of_nothing(cls) -> Certificate:
        """Bounds that promise nothing."""
        return cls(math.inf, -math.inf, math.inf, math.inf, math.inf, math.inf)

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
    value = problem.penalty_a.dual_value(f[on_a], problem.mass_a[on_a])
    value += problem.penalty_b.dual_value(g[on_b], problem.mass_b[on_b])
    value -= problem.epsilon * (total_plan - problem.total_reference)
    return value if not math.isnan(value) else -math.inf


def plan_cost_plus_entropy(problem: TransportProblem, f: Float, g: Float, p: Float, q: Float) -> float:
    """<C, P> + eps KL(P || u (x) v) of the plan of (f, g), whose marginals are p and q."""
    on_a, on_b = problem.support_a, problem.support_b
    inner = float(np.sum(f[on_a] * p[on_a])) + float(np.sum(g[on_b] * q[on_b]))
    return inner - problem.epsilon * (float(p[on_a].sum()) - problem.total_reference)


def certificate(
    problem: TransportProblem, f: Float, g: Float, p: Float, q: Float, marginals: Marginals | None = None
) -> Certificate:
    """Bounds on the optimum from any potentials.

    Parameters
    ----------
    f, g : arrays over the grid
        Potentials, any.
    p, q : arrays over the grid
        The marginals of their plan.
    marginals : callable (f, g) -> (p, q), optional
        Called once or twice when a hard side is not met and the plan has to be rounded
        to a feasible one; without it the gap is inf then. It is not called if the hard side was updated last.
    """
    on_a, on_b = problem.support_a, problem.support_b
    a, b = problem.mass_a[on_a], problem.mass_b[on_b]
    with np.errstate(over="ignore", invalid="ignore"):
        off_a = problem.penalty_a.residual(p[on_a], f[on_a], a)
        off_b = problem.penalty_b.residual(q[on_b], g[on_b], b)
        dual = dual_value(problem, f, g, float(p[on_a].sum()))
        upper, dual_rounded = _upper_bound(problem, f, g, p, q, marginals)
    marginal_error = max(_nan_to_inf(off_a / problem.total_a), _nan_to_inf(off_b / problem.total_b))
    smaller_side_error = _nan_to_inf(max(off_a, off_b) / min(problem.total_a, problem.total_b))
    if not math.isfinite(upper):
        return Certificate(math.inf, dual, math.inf, math.inf, marginal_error, smaller_side_error)
    lower, gap = dual, upper - dual
    if dual_rounded is not None and dual_rounded[0] >= dual:
        lower, gap = dual_rounded
        upper = lower + gap
    gap = max(gap, 0.0)
    relative = gap / abs(upper) if upper else (0.0 if gap == 0.0 else math.inf)
    return Certificate(upper, lower, gap, relative, marginal_error, smaller_side_error)


def _upper_bound(
    problem: TransportProblem, f: Float, g: Float, p: Float, q: Float, marginals: Marginals | None
) -> tuple[float, tuple[float, float] | None]:
    """A primal value that some feasible plan has, and (dual, gap) where the gap is known without cancellation."""
    on_a, on_b = problem.support_a, problem.support_b
    a, b = problem.mass_a[on_a], problem.mass_b[on_b]
    if not (problem.penalty_a.is_met(p[on_a], a) and problem.penalty_b.is_met(q[on_b], b)):
        if marginals is None:
            return math.inf, None
        rounded = round_to_feasible(problem, f, g, p, q, marginals)
        if isinstance(rounded, float):
            return rounded, None
        f, g, p, q = rounded
    gap = problem.penalty_a.gap(p[on_a], f[on_a], a) + problem.penalty_b.gap(q[on_b], g[on_b], b)
    dual = dual_value(problem, f, g, float(p[on_a].sum()))
    if not (math.isfinite(gap) and math.isfinite(dual)):
        return math.inf, None
    return dual + gap, (dual, gap)


def _nan_to_inf(value: float) -> float:
    return math.inf if math.isnan(value) else value

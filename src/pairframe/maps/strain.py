"""Strain: the gradient of the displacement, read from the spread of the plan instead of from differences of pixels.

The mean target of an entropic plan with squared distances is ``T(x) = E[y | x]`` with weights ``w_j exp(-|x - y_j|^2 / eps)``,
a smooth function of x. Its gradient is ``(2 / eps) Cov(y | x)``, so one more kernel application gives it without the noise
of a numerical derivative. The displacement is ``T_ab - T_aa``, hence its gradient ``(2 / eps) (Cov_ab - Cov_aa)``.
"""

from __future__ import annotations

import math
from itertools import combinations_with_replacement

import numpy as np

from pairframe.errors import ProblemError
from pairframe.maps.plan import PlanOperator
from pairframe.problem import on_grid
from pairframe.types import Float


def map_gradient(plan: PlanOperator) -> Float:
    """Gradient of the mean target of each source pixel, ``(2 / eps) Cov(y | x)``: one kernel application.

    Returns
    -------
    (n, ndim, ndim) over the source's support in row-major order; symmetric, without a unit. Meaningless in empty rows.
    """
    problem = plan.problem
    if problem.metric != "sqeuclidean":
        raise ProblemError(
            'metric="sqeuclidean" for the strain',
            repr(problem.metric),
            "leave metric out: only for squared distances is the gradient a covariance of the plan",
        )
    there = problem.positions(problem.support_b).T
    # Seen from the middle, squares stay small: a covariance is a difference of squares.
    there = there - np.round(there.mean(axis=1, keepdims=True))
    ndim = len(there)
    pairs = list(combinations_with_replacement(range(ndim), 2))
    channels = np.vstack([there, *(there[i] * there[j] for i, j in pairs)])
    _, means = plan.kernel_at("a").log_sum_and_means(plan.log_weight_b, channels)
    gradient = np.empty((means.shape[1], ndim, ndim))
    for (i, j), second in zip(pairs, means[ndim:], strict=True):
        gradient[:, i, j] = gradient[:, j, i] = (2.0 / problem.epsilon) * (second - means[i] * means[j])
    return gradient


def strain(plan: PlanOperator, own_gradient: Float) -> Float:
    """Gradient of the displacement of a plan, debiased.

    Parameters
    ----------
    own_gradient : (n, ndim, ndim)
        `map_gradient` of the source against itself.

    Returns
    -------
    (H, W, 2, 2) for images: rows dy, dx; columns d/dy, d/dx. NaN off the source.
    """
    return on_grid(map_gradient(plan) - own_gradient, plan.problem.support_a, np.nan)


def local_growth_rate(plan: PlanOperator, mass_a: Float, mass_b: Float) -> Float:
    """Growth of each source pixel: the logarithm of the mass that descends from it over its own; two kernel applications.

    Target mass that did not come from the source is counted as growth of the source pixels that the rest of its pixel came
    from, in the proportions of the plan. So creation at a rim is growth of the outline beside it, creation everywhere is
    growth everywhere, and the mean of the growth factor, weighted by mass, is that of the masses. Mass that would have had
    to come from farther than the reach has no parent, and is left out.

    Parameters
    ----------
    mass_a, mass_b : (H, W)
        Source and target in pixel-mass, over the grid.

    Returns
    -------
    (H, W): natural logarithm; -inf where nothing is left, NaN off the source.
    """
    problem = plan.problem
    on_a, on_b = problem.support_a, problem.support_b
    from_source = plan.kernel_at("b").moments(plan.log_weight_a)
    with np.errstate(invalid="ignore", divide="ignore"):
        # Columns scaled so that the plan fills the target: log(b / q) + log v, where q = v sum_i u_i K_ij.
        log_fill = np.log(mass_b[on_b]) - from_source.log_sum
        has_parent = np.isfinite(from_source.log_sum) & (from_source.cost <= _reach_cost(plan))
        log_descent = plan.log_weight_a + plan.kernel_at("a").log_sum(np.where(has_parent, log_fill, -np.inf))
        return on_grid(log_descent - np.log(mass_a[on_a]), on_a, np.nan)


def _reach_cost(plan: PlanOperator) -> float:
    """The cost of a move over the reach; inf if both sides are balanced."""
    penalties = (plan.problem.penalty_a, plan.problem.penalty_b)
    return min((p.marginal_relaxation / p.relaxation_per_reach for p in penalties if not p.is_exact), default=math.inf)

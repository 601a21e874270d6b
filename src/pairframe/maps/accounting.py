"""The feasible part of a plan: the books that balance, for any potentials.

Soft marginals let a plan take more from a pixel than it has. Rows are scaled by ``min(1, a/p)``, then columns by
``min(1, b/q)`` of what is left; the same is done columns first, and Q is the mean of the two. So Q1 <= a, Q'1 <= b,
and swapping source and target swaps every map. Six kernel applications (three when the plan is symmetric), all in
logarithms: nothing overflows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from pairframe.maps.kernels import Moments, PlanKernel, make_kernel
from pairframe.maps.plan import PlanOperator
from pairframe.parallel.threads import side_by_side
from pairframe.problem import on_grid
from pairframe.types import Float


@dataclass(frozen=True, eq=False)
class FeasiblePart:
    """The mass that moved, was destroyed and was created. Arrays over the work grid, mass per work pixel.

    The shapes below are those of images; volumes have (Z, Y, X).

    Attributes
    ----------
    transported : float
        T = sum Q. T + sum(destroyed) is the source's mass, T + sum(created) the target's.
    left, arrived : (H, W)
        Q1, the mass that left each source pixel, and Q'1, the mass that arrived at each target pixel.
    destroyed, created : (H, W)
        a - Q1 and b - Q'1; never negative.
    left_share : (H, W)
        Q1/a in the problem's own units; 0 off the source.
    displacement : (H, W, 2)
        Mean target position minus the pixel's own, work px, in the order of the grid's axes; NaN where no mass left.
    cost_source, cost_target : (H, W)
        ``sum_j Q_ij C_ij`` and ``sum_i Q_ij C_ij``: mass times work px^2 (``euclidean``: work px).
    """

    transported: float
    left: Float
    arrived: Float
    destroyed: Float
    created: Float
    left_share: Float
    displacement: Float
    cost_source: Float
    cost_target: Float

    @property
    def transport_cost(self) -> float:
        """``<C, Q>``."""
        return float(self.cost_source.sum())

    @property
    def destroyed_share(self) -> float:
        """Destroyed mass over source mass."""
        destroyed = float(self.destroyed.sum())
        return destroyed / (destroyed + self.transported)


def feasible_part(
    plan: PlanOperator, masses: tuple[Float, Float] | None = None, mass_scale: float = 1.0
) -> FeasiblePart:
    """The feasible part of a plan with any potentials.

    Parameters
    ----------
    masses : two arrays over the grid, optional
        The original masses of source and target, of which the part is stated; by default those of the plan's problem. They
        are at least `mass_scale` times the problem's (more under ``normalization="each"``: the rest is destroyed or
        created).
    mass_scale : float
        The plan is multiplied by it.
    """
    problem = plan.problem
    on_a, on_b = problem.support_a, problem.support_b
    a, b = problem.mass_a[on_a], problem.mass_b[on_b]
    plan.sum_both_sides()
    rows_first_a, rows_first_b, columns_first_a, columns_first_b = _both_orders(plan, np.log(a), np.log(b))
    plan.release_large_kernels()
    share_a = 0.5 * (rows_first_a.share + columns_first_a.share)
    share_b = 0.5 * (rows_first_b.share + columns_first_b.share)
    cost_a = 0.5 * a * (rows_first_a.share * rows_first_a.cost + columns_first_a.share * columns_first_a.cost)
    cost_b = 0.5 * b * (rows_first_b.share * rows_first_b.cost + columns_first_b.share * columns_first_b.cost)
    del rows_first_b, columns_first_b
    displacement = rows_first_a.share * rows_first_a.displacement + columns_first_a.share * columns_first_a.displacement
    with np.errstate(invalid="ignore", divide="ignore"):
        displacement = np.where(share_a > 0, displacement / (2.0 * share_a), np.nan)
    del rows_first_a, columns_first_a
    transported, left, arrived = _one_total(a * share_a, b * share_b)
    if masses is not None:
        a, b = masses[0][on_a], masses[1][on_b]
        transported, left, arrived = _one_total(np.minimum(left * mass_scale, a), np.minimum(arrived * mass_scale, b))
        cost_a, cost_b = cost_a * mass_scale, cost_b * mass_scale

    return FeasiblePart(
        transported=transported,
        left=on_grid(left, on_a),
        arrived=on_grid(arrived, on_b),
        destroyed=on_grid(np.maximum(a - left, 0.0), on_a),
        created=on_grid(np.maximum(b - arrived, 0.0), on_b),
        left_share=on_grid(share_a, on_a),
        displacement=on_grid(displacement.T, on_a, np.nan),
        cost_source=on_grid(cost_a, on_a),
        cost_target=on_grid(cost_b, on_b),
    )


@dataclass(frozen=True, eq=False)
class FeasibleWeights:
    """The feasible part Q as weights, without the maps: ``Q_ij = 1/2 sum_o exp(log_a_oi + log_b_oj - C_ij / eps)``.

    The two orders o scale rows first and columns first.

    Attributes
    ----------
    log_a, log_b : two (n,), two (m,)
        By order, over the supports in row-major order.
    left, arrived : (n,), (m,)
        Q1 and Q'1, as in `FeasiblePart`.
    displacement : (n, ndim)
        Of each source pixel, as in `FeasiblePart`; 0 where no mass left.
    source_of_target : (m, ndim)
        Mean position of the sources of each target pixel, work px, when rows are scaled first; NaN where there are none.
    """

    log_a: tuple[Float, Float]
    log_b: tuple[Float, Float]
    left: Float
    arrived: Float
    displacement: Float
    source_of_target: Float


def feasible_weights(plan: PlanOperator) -> FeasibleWeights:
    """The weights of the feasible part; six kernel applications, one kernel in memory at a time."""
    problem = plan.problem
    on_a, on_b = problem.support_a, problem.support_b
    log_mass_a, log_mass_b = np.log(problem.mass_a[on_a]), np.log(problem.mass_b[on_b])
    x_a, x_b = problem.positions(on_a), problem.positions(on_b)
    at_a = partial(make_kernel, on_b, on_a, problem.epsilon, problem.metric, problem.spacing)
    at_b = partial(make_kernel, on_a, on_b, problem.epsilon, problem.metric, problem.spacing)
    with np.errstate(invalid="ignore"):
        rows_a = plan.log_weight_a + np.minimum(log_mass_a - plan.log_weight_a - at_a().log_sum(plan.log_weight_b), 0.0)
        kernel = at_b()
        log_q = plan.log_weight_b + kernel.log_sum(plan.log_weight_a)
        columns_b = plan.log_weight_b + np.minimum(log_mass_b - log_q, 0.0)
        log_sum, sources = kernel.log_sum_and_means(rows_a, x_a.T)
        log_q = plan.log_weight_b + log_sum
        sources = np.where(np.isfinite(log_q), sources, np.nan)
        arrived = 0.5 * _taken(log_q, log_mass_b)
        rows_b = plan.log_weight_b + np.minimum(log_mass_b - log_q, 0.0)
        del kernel  # its buffers are as large as ten images
        kernel = at_a()
        log_sum, means = kernel.log_sum_and_means(columns_b, x_b.T)
        log_p = plan.log_weight_a + log_sum
        columns_a = plan.log_weight_a + np.minimum(log_mass_a - log_p, 0.0)
        left = 0.5 * _taken(log_p, log_mass_a)
        moved = left * np.nan_to_num(means - x_a.T)
        log_sum, means = kernel.log_sum_and_means(rows_b, x_b.T)
        more = 0.5 * _taken(rows_a + log_sum, log_mass_a)
        moved += more * np.nan_to_num(means - x_a.T)
        left += more
        del kernel
        arrived += 0.5 * _taken(columns_b + at_b().log_sum(columns_a), log_mass_b)
    displacement = np.divide(moved, left, out=np.zeros(moved.shape), where=left > 0)
    _, left, arrived = _one_total(left, arrived)
    return FeasibleWeights((rows_a, columns_a), (rows_b, columns_b), left, arrived, displacement.T, sources.T)


def _taken(log_sum: Float, log_mass: Float) -> Float:
    """Mass of each pixel that takes part; rounding may put sums above its mass."""
    taken: Float = np.nan_to_num(np.exp(np.minimum(log_sum, log_mass)), nan=0.0)
    return taken


@dataclass(frozen=True, eq=False)
class _Side:
    """One side of a plan over its support, (n,) each: logs of mass, weight and marginal; sums over the other side."""

    log_mass: Float
    log_weight: Float
    log_marginal: Float
    kernel: PlanKernel


@dataclass(frozen=True, eq=False)
class _Remainder:
    """The mass that one order of scaling leaves on a side: shares (n,), mean displacements (ndim, n), mean costs (n,)."""

    share: Float
    displacement: Float
    cost: Float


def _both_orders(plan: PlanOperator, log_a: Float, log_b: Float) -> tuple[_Remainder, ...]:
    """What rows first leaves on a and on b, and what columns first leaves on a and on b."""
    source = _Side(log_a, plan.log_weight_a, plan.log_row_sums, plan.kernel_at("a"))
    target = _Side(log_b, plan.log_weight_b, plan.log_column_sums, plan.kernel_at("b"))
    if plan.is_symmetric:
        on_a, on_b = _second_half(_first_half(source, target))
        return on_a, on_b, on_b, on_a
    n = len(log_a)
    # In each half one order uses the kernel at the source, and the other that at the target.
    rows, columns = side_by_side(lambda: _first_half(source, target), lambda: _first_half(target, source), n)
    rows_first, columns_first = side_by_side(lambda: _second_half(rows), lambda: _second_half(columns), n)
    return *rows_first, *columns_first[::-1]


@dataclass(frozen=True, eq=False)
class _Half:
    """One side scaled by min(1, a/p): its weights, and the log-sums and moments that the other side then has."""

    first: _Side
    second: _Side
    weight: Float
    log_q: Float
    from_second: Moments


def _first_half(first: _Side, second: _Side) -> _Half:
    """Scale one side by min(1, a/p): one kernel application, at the other side."""
    with np.errstate(invalid="ignore"):  # `_remainder` handles exponents beyond float64 (an epsilon of 1e-300)
        weight = first.log_weight + np.minimum(first.log_mass - first.log_marginal, 0.0)
        from_second = second.kernel.moments(weight)
        return _Half(first, second, weight, second.log_weight + from_second.log_sum, from_second)


def _second_half(half: _Half) -> tuple[_Remainder, _Remainder]:
    """Scale the other side by min(1, b/q) of what is left: one kernel application, at the first side.

    Row scales do not change the means over a row, nor column scales those over a column; so each side's means can be
    read where its own sums are.
    """
    first, second, log_q = half.first, half.second, half.log_q
    with np.errstate(invalid="ignore"):
        from_first = first.kernel.moments(second.log_weight + np.minimum(second.log_mass - log_q, 0.0))
        log_p = half.weight + from_first.log_sum
    return _remainder(first, log_p, from_first), _remainder(second, log_q, half.from_second)


def _remainder(side: _Side, log_sum: Float, moments: Moments) -> _Remainder:
    # Rounding, or exponents beyond float64, may put sums above the mass: limit them to it.
    share = np.exp(np.minimum(log_sum - side.log_mass, 0.0))
    return _Remainder(_numbers(share), _numbers(moments.displacement), _numbers(moments.cost))


def _numbers(values: Float) -> Float:
    """`numpy.nan_to_num`, which takes several passes, only where it is needed."""
    return values if np.isfinite(values).all() else np.nan_to_num(values)


def _one_total(left: Float, arrived: Float) -> tuple[float, Float, Float]:
    """Scale both to the smaller total: the mass that left has arrived. They differ by rounding, or in a bad plan."""
    total_left, total_arrived = float(left.sum()), float(arrived.sum())
    transported = min(total_left, total_arrived)
    if total_left > transported:
        left = left * (transported / total_left)
    if total_arrived > transported:
        arrived = arrived * (transported / total_arrived)
    return transported, left, arrived

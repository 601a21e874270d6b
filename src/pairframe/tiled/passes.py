"""The passes over a cost that all solvers here are built from, strip by strip, without autograd.

Exponents are in units of epsilon and natural logarithms: log_a_hat (B, N) and log_b_hat (B, M) are potentials over
epsilon plus log weights; -inf means no mass. Their plan is exp(log_a_hat_i + log_b_hat_j - C_ij/epsilon).
Internally everything is in powers of 2, because exp2 is faster than exp.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from pairframe.tiled.cost import Cost, PointCost, ScaledCost
from pairframe.tiled.strips import Task, Walk, powers_of_two, sum_rows

Update = Callable[[tuple[slice, slice], Tensor], Tensor]
"""(batch slice, row slice), log sums of these rows (nb, nrows) -> their new log_a_hat (nb, nrows). Acts on each
row separately; called strip by strip from several threads."""

_LOG2_E = math.log2(math.e)
_LN_2 = math.log(2.0)


@torch.no_grad()
def log_sum_rows(cost: Cost, epsilon: float, log_b_hat: Tensor) -> Tensor:
    """log sum_j exp(log_b_hat_j - C_ij/epsilon), (B, N); -inf for an empty sum."""
    out = torch.empty((cost.batch, cost.n), dtype=cost.dtype, device=cost.device)
    walk, scaled = Walk(cost), cost.scaled(_LOG2_E / epsilon)
    log2_b = log_b_hat.to(cost.dtype) * _LOG2_E

    def job(task: Task) -> None:
        for rows in task.rows:
            whole, strip = walk.strip(task, rows)
            scaled.fill(task.b, rows, None, log2_b[task.b], strip)
            out[task.b, rows] = _powers_and_log2_sums(whole, strip)[1].mul_(_LN_2)

    walk.run(job)
    return out


@torch.no_grad()
def log_sum_cols(cost: Cost, epsilon: float, log_a_hat: Tensor) -> Tensor:
    """log sum_i exp(log_a_hat_i - C_ij/epsilon), (B, M); -inf for an empty sum."""
    return _log_sum_cols(cost, cost.scaled(_LOG2_E / epsilon), log_a_hat)


@torch.no_grad()
def rows_then_cols(cost: Cost, epsilon: float, log_b_hat: Tensor, update: Update) -> tuple[Tensor, Tensor, Tensor]:
    """One full iteration: row sums, the rows' new exponents by `update`, then the column sums of these.

    One exponential per entry and one read of the cost: the column sums reuse the powers of the row sums,
    E_ij = exp(log_b_hat_j - C_ij/eps - top_i), with weights exp(log_a_hat_i + top_i). A column whose total is so small
    that underflow could affect it is summed again separately.

    Returns
    -------
    row_log_sum : (B, N)
    log_a_hat : (B, N)
        The result of `update`.
    col_log_sum : (B, M)
    """
    return _full_iteration(cost, epsilon, log_b_hat, update, empty_columns=True)


@torch.no_grad()
def full_iteration(cost: Cost, epsilon: float, log_b_hat: Tensor, update: Update) -> tuple[Tensor, Tensor, Tensor]:
    """`rows_then_cols` without the sums of columns whose log_b_hat is -inf: these are -inf and take no time."""
    return _full_iteration(cost, epsilon, log_b_hat, update, empty_columns=False)


@torch.no_grad()
def plan_times(cost: Cost, epsilon: float, log_a_hat: Tensor, log_b_hat: Tensor, values: Tensor) -> Tensor:
    """P V for V (B, M, k), as (B, N, k)."""
    out = torch.empty((cost.batch, cost.n, values.shape[2]), dtype=cost.dtype, device=cost.device)
    plan = _Plan(cost, epsilon, log_a_hat, log_b_hat)

    def job(task: Task) -> None:
        for rows in task.rows:
            out[task.b, rows] = torch.bmm(plan.strip(task, rows), values[task.b])

    plan.walk.run(job)
    return out


@torch.no_grad()
def plan_transposed_times(cost: Cost, epsilon: float, log_a_hat: Tensor, log_b_hat: Tensor, values: Tensor) -> Tensor:
    """P' U for U (B, N, k), as (B, M, k)."""
    plan = _Plan(cost, epsilon, log_a_hat, log_b_hat)

    def job(task: Task) -> Tensor:
        total = torch.zeros((task.batch, cost.m, values.shape[2]), dtype=cost.dtype, device=cost.device)
        for rows in task.rows:
            total.baddbmm_(plan.strip(task, rows).transpose(1, 2), values[task.b, rows])
        return total

    return plan.add_up(job, values.shape[2])


@torch.no_grad()
def plan_gram(
    cost: Cost, epsilon: float, log_a_hat: Tensor, log_b_hat: Tensor, values: Tensor, scale: Tensor
) -> tuple[Tensor, Tensor]:
    """y = P w (B, N, k) and z = P' (scale y) (B, M, k) for w (B, M, k), scale (B, N), in one pass over the cost."""
    k = values.shape[2]
    y = torch.empty((cost.batch, cost.n, k), dtype=cost.dtype, device=cost.device)
    plan = _Plan(cost, epsilon, log_a_hat, log_b_hat)

    def job(task: Task) -> Tensor:
        total = torch.zeros((task.batch, cost.m, k), dtype=cost.dtype, device=cost.device)
        for rows in task.rows:
            strip = plan.strip(task, rows)
            product = torch.bmm(strip, values[task.b])
            y[task.b, rows] = product
            total.baddbmm_(strip.transpose(1, 2), product.mul_(scale[task.b, rows].unsqueeze(2)))
        return total

    return y, plan.add_up(job, k)


@torch.no_grad()
def plan_cost_sum(cost: Cost, epsilon: float, log_a_hat: Tensor, log_b_hat: Tensor) -> Tensor:
    """<C, P>, (B,) float64; a forbidden pair (C = inf) without mass costs nothing."""
    out = torch.zeros(cost.batch, dtype=torch.float64, device=cost.device)
    plan = _Plan(cost, epsilon, log_a_hat, log_b_hat)

    def job(task: Task) -> Tensor:
        total = torch.zeros(task.batch, dtype=torch.float64, device=cost.device)
        for rows in task.rows:
            strip = plan.strip(task, rows)
            products = plan.walk.strip(task, rows, "costs")[1]
            plan.scaled.fill(task.b, rows, None, None, products)
            total += products.mul_(strip).nan_to_num_(0.0).sum((1, 2), dtype=torch.float64)  # 0 times inf is 0
        return total

    for task, total in plan.walk.each(job):
        out[task.b] += total
    return out * (-epsilon / _LOG2_E)


@torch.no_grad()
def accumulate_cost_gradient(
    cost: Cost, epsilon: float, log_a_hat: Tensor, log_b_hat: Tensor, x: Tensor, y: Tensor, out: Tensor | None = None
) -> Tensor | tuple[Tensor, Tensor]:
    """Gradient of sum_ij G_ij C_ij with G_ij = P_ij (x_i + y_j) for x (B, N), y (B, M).

    Returns
    -------
    (B, N, M)
        G itself for a stored cost, added to `out` if given.
    (B, N, d), (B, M, d)
        With respect to the points, for a `PointCost`.
    """
    plan = _Plan(cost, epsilon, log_a_hat, log_b_hat)
    if isinstance(cost, PointCost):
        return _point_gradient(plan, cost, x, y)
    total = torch.zeros_like(cost.matrix, dtype=cost.dtype) if out is None else out

    def job(task: Task) -> None:
        for rows in task.rows:
            strip = plan.strip(task, rows)
            total[task.b, rows] += strip.mul_(plan.sums(task, rows, x, y))

    plan.walk.run(job)
    return total


def _point_gradient(plan: _Plan, cost: PointCost, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """dX_i = 2 sum_j G_ij (x_i - y_j) and dY_j = -2 sum_i G_ij (x_i - y_j)."""
    points_x, points_y = cost.x.to(cost.dtype), cost.y.to(cost.dtype)
    d_x = torch.empty_like(points_x)

    def job(task: Task) -> Tensor:
        d_y = torch.zeros((task.batch, *points_y.shape[1:]), dtype=cost.dtype, device=cost.device)
        for rows in task.rows:
            g = plan.strip(task, rows).mul_(plan.sums(task, rows, x, y))
            # Relative to a point of the strip: far from the origin the two terms would cancel.
            centre = points_x[task.b, rows][:, :1]
            near_x, near_y = points_x[task.b, rows] - centre, points_y[task.b] - centre
            d_x[task.b, rows] = 2.0 * (g.sum(2, keepdim=True) * near_x - torch.bmm(g, near_y))
            d_y += 2.0 * (g.sum(1).unsqueeze(2) * near_y - torch.bmm(g.transpose(1, 2), near_x))
        return d_y

    return d_x, plan.add_up(job, points_x.shape[2])


class _Plan:
    """The plan, strip by strip."""

    def __init__(self, cost: Cost, epsilon: float, log_a_hat: Tensor, log_b_hat: Tensor) -> None:
        self.cost, self.walk, self.scaled = cost, Walk(cost), cost.scaled(_LOG2_E / epsilon)
        self.log2_a, self.log2_b = (one.to(cost.dtype) * _LOG2_E for one in (log_a_hat, log_b_hat))

    def strip(self, task: Task, rows: slice) -> Tensor:
        """P (nb, r, M) of some rows, in a buffer."""
        strip = self.walk.strip(task, rows)[1]
        self.scaled.fill(task.b, rows, self.log2_a[task.b, rows], self.log2_b[task.b], strip)
        return strip.exp2_()

    def sums(self, task: Task, rows: slice, x: Tensor, y: Tensor) -> Tensor:
        """x_i + y_j (nb, r, M) of some rows, in a buffer."""
        buffer = self.walk.strip(task, rows, "sums")[1]
        return torch.add(x[task.b, rows].unsqueeze(2), y[task.b].unsqueeze(1), out=buffer)

    def add_up(self, job: Callable[[Task], Tensor], k: int) -> Tensor:
        """The sum (B, M, k) of the lanes' results, lane by lane."""
        out = torch.zeros((self.cost.batch, self.cost.m, k), dtype=self.cost.dtype, device=self.cost.device)
        for task, total in self.walk.each(job):
            out[task.b] += total
        return out


# --- log sums --------------------------------------------------------------------------------


def _power(exponents: Tensor) -> Tensor:
    """2 to the exponents, by exp: unlike exp2, its rounding does not depend on the position in the tensor."""
    return torch.exp(exponents * _LN_2)


def _powers_and_log2_sums(whole: Tensor, strip: Tensor) -> tuple[Tensor, Tensor]:
    """Turn exponents into powers of 2 below the row's top, in place; the tops and log2 of the row sums, (nb, r)."""
    top = strip.amax(2, keepdim=True).clamp_(min=torch.finfo(strip.dtype).min)  # a row of -inf: powers and sum are 0
    strip.sub_(top)
    powers_of_two(whole, strip)
    top = top.squeeze(2)
    return top, sum_rows(whole).log2_().add_(top)


def _log_sum_cols(cost: Cost, scaled: ScaledCost, log_a_hat: Tensor) -> Tensor:
    walk, log2_a = Walk(cost), log_a_hat.to(cost.dtype) * _LOG2_E
    lowest, m = torch.finfo(cost.dtype).min, cost.m

    def job(task: Task) -> tuple[Tensor, Tensor]:
        top = torch.full((task.batch, 1, m), lowest, dtype=cost.dtype, device=cost.device)
        total = torch.zeros((task.batch, 1, walk.width), dtype=cost.dtype, device=cost.device)
        for rows in task.rows:
            whole, strip = walk.strip(task, rows)
            scaled.fill(task.b, rows, log2_a[task.b, rows], None, strip)
            higher = torch.maximum(top, strip.amax(1, keepdim=True))
            total[:, :, :m].mul_(_power(top - higher))
            strip.sub_(higher)
            powers_of_two(whole, strip)
            walk.add_columns(task, rows, whole.new_ones((task.batch, 1, whole.shape[1])), total)
            top = higher
        return top, total[:, :, :m]

    top, total = _merged(cost, walk, job)
    return total.log2_().add_(top).mul_(_LN_2)


def _merged(cost: Cost, walk: Walk, job: Callable[[Task], tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """The lanes' column sums, 2^top total with (nb, 1, M or 1) and (nb, 1, M), added up: (B, M) each."""
    top = torch.full((cost.batch, cost.m), torch.finfo(cost.dtype).min, dtype=cost.dtype, device=cost.device)
    total = torch.zeros_like(top)
    for task, (lane_top, lane_total) in walk.each(job):
        lane_top, lane_total = lane_top.squeeze(1), lane_total.squeeze(1)
        higher = torch.maximum(top[task.b], lane_top)
        total[task.b] *= _power(top[task.b] - higher)
        total[task.b] += lane_total * _power(lane_top - higher)
        top[task.b] = higher
    return top, total


def _full_iteration(
    cost: Cost, epsilon: float, log_b_hat: Tensor, update: Update, empty_columns: bool
) -> tuple[Tensor, Tensor, Tensor]:
    walk, scaled = Walk(cost), cost.scaled(_LOG2_E / epsilon)
    log2_b = log_b_hat.to(cost.dtype) * _LOG2_E
    row_sums = torch.empty((cost.batch, cost.n), dtype=cost.dtype, device=cost.device)
    log_a_hat = torch.empty_like(row_sums)
    limits = torch.finfo(cost.dtype)

    def job(task: Task) -> tuple[Tensor, Tensor]:
        top = torch.full((task.batch, 1, 1), limits.min, dtype=cost.dtype, device=cost.device)
        total = torch.zeros((task.batch, 1, walk.width), dtype=cost.dtype, device=cost.device)
        for rows in task.rows:
            whole, strip = walk.strip(task, rows)
            scaled.fill(task.b, rows, None, log2_b[task.b], strip)
            row_top, log2_sums = _powers_and_log2_sums(whole, strip)
            sums = log2_sums.mul_(_LN_2)
            exponents = update((task.b, rows), sums)
            row_sums[task.b, rows], log_a_hat[task.b, rows] = sums, exponents
            weights = (exponents * _LOG2_E).add_(row_top).unsqueeze(1)
            higher = torch.maximum(top, weights.amax(2, keepdim=True))
            walk.add_columns(task, rows, _power(weights.sub_(higher)), total.mul_(_power(top - higher)))
            top = higher
        return top, total[:, :, : cost.m]

    top, total = _merged(cost, walk, job)
    # Underflow takes at most the smallest number from each term; sum again the columns in which that could matter. The
    # limit is at least that of a million rows, so that padding does not change the choice of columns.
    unsure = (total <= max(cost.n, 1 << 20) * limits.tiny / (0.01 * limits.eps)) & (top > limits.min)
    col_sums = total.log2_().add_(top).sub_(log2_b).mul_(_LN_2)
    empty = torch.isneginf(log2_b)
    col_sums.masked_fill_(empty | (top == limits.min), -math.inf)
    _sum_again(cost, epsilon, log_a_hat, unsure if empty_columns else unsure & ~empty, col_sums)
    return row_sums, log_a_hat, col_sums


def _sum_again(cost: Cost, epsilon: float, log_a_hat: Tensor, which: Tensor, col_sums: Tensor) -> None:
    """Sum the columns `which` (B, M) exactly: a few at a time, to copy little, or all of them if there are many."""
    for b in torch.nonzero(which.any(1)).flatten().tolist():
        one, columns = cost.batch_slice(b, b + 1), torch.nonzero(which[b]).flatten()
        if 8 * len(columns) > cost.m:
            col_sums[b] = torch.where(which[b], log_sum_cols(one, epsilon, log_a_hat[b : b + 1])[0], col_sums[b])
            continue
        for group in torch.split(columns, max(1, cost.m // 64)):
            col_sums[b, group] = log_sum_cols(one.columns(group), epsilon, log_a_hat[b : b + 1])[0]

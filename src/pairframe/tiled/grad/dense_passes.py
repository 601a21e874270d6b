"""The passes that a loop needs, in plain torch on a stored cost: autograd keeps the N x M arrays of every iteration."""

from __future__ import annotations

import torch
from torch import Tensor

from pairframe.tiled.cost import DenseCost
from pairframe.tiled.passes import Update


def log_sum_rows(cost: DenseCost, epsilon: float, log_b_hat: Tensor) -> Tensor:
    """log sum_j exp(log_b_hat_j - C_ij/epsilon), (B, N); -inf for an empty sum."""
    return _log_sum(log_b_hat.unsqueeze(1) - cost.matrix / epsilon, 2)


def rows_then_cols(cost: DenseCost, epsilon: float, log_b_hat: Tensor, update: Update) -> tuple[Tensor, Tensor, Tensor]:
    """One full iteration, as in `passes.rows_then_cols`."""
    rows = log_sum_rows(cost, epsilon, log_b_hat)
    log_a_hat = update((slice(0, cost.batch), slice(0, cost.n)), rows)
    return rows, log_a_hat, _log_sum(log_a_hat.unsqueeze(2) - cost.matrix / epsilon, 1)


def _log_sum(exponents: Tensor, axis: int) -> Tensor:
    """logsumexp whose gradient is 0, not NaN, where every term is -inf."""
    empty = (exponents == -torch.inf).all(axis, keepdim=True)
    sums = torch.logsumexp(torch.where(empty, 0.0, exponents), axis)
    return torch.where(empty.squeeze(axis), -torch.inf, sums)

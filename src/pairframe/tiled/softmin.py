"""`softmin`: the one operation that all solvers here repeat, as a public function."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pairframe.tiled.backends import backend_for, passes_of
from pairframe.tiled.entry_point import entry_point
from pairframe.tiled.errors import TiledError
from pairframe.tiled.grad.envelope import live_row_log_sums
from pairframe.tiled.grad.once import once_differentiable
from pairframe.tiled.grad.settings import Settings
from pairframe.tiled.inputs import CostLike, as_cost, check_cost, check_epsilon, check_storage, cost_tensors
from pairframe.tiled.transforms import refuse_mapped


@entry_point
def softmin(
    C: CostLike, g: Tensor | None, epsilon: float, *, log_weights: Tensor | None = None, backend: str = "auto"
) -> Tensor:
    """Compute -epsilon log sum_j w_j exp((g_j - C_ij)/epsilon), (B, N), tile by tile.

    It has first derivatives for the cost (or points), g and the log weights. For the sum over i pass ``C.mT``, or (y, x).

    Parameters
    ----------
    C : (B, N, M), or a pair of points ((B, N, d), (B, M, d))
    g : (B, M), optional
        In cost units; default 0.
    log_weights : (B, M), optional
        log w; -inf for entries without weight. Default 0.

    Returns
    -------
    (B, N)
        +inf where no entry has weight at a finite cost.
    """
    refuse_mapped("softmin", C, g, log_weights)
    cost = as_cost(C)
    check_cost(cost)
    epsilon = check_epsilon(epsilon, cost.dtype)
    first, second = cost_tensors(C)
    total: Tensor = torch.zeros((cost.batch, cost.m), dtype=cost.dtype, device=cost.device)
    for name, one, scale in (("g", g, 1.0 / epsilon), ("log_weights", log_weights, 1.0)):
        if one is not None:
            total = total + scale * _checked(name, one, total)
    passes = passes_of(backend_for(backend, cost.device, cost.batch, cost.n, cost.m))
    settings = Settings(epsilon, None, None, passes, max_iters=1, threshold=0.0)
    sums = live_row_log_sums(
        once_differentiable(first), once_differentiable(second), once_differentiable(total), settings
    )
    return -epsilon * sums


def _checked(name: str, value: Any, like: Tensor) -> Tensor:
    check_storage(name, value)
    if not isinstance(value, Tensor) or value.shape != like.shape or value.device != like.device:
        got = f"shape {tuple(value.shape)} on {value.device}" if isinstance(value, Tensor) else type(value).__name__
        raise TiledError(
            f"{name} to be a tensor of shape {tuple(like.shape)} on {like.device}",
            got,
            "pass one row per batch element",
        )
    if bool(torch.isnan(value).any()) or bool((value == torch.inf).any()):
        raise TiledError(
            f"{name} without NaN or +inf", "NaN or +inf", "use -inf in log_weights for entries without weight"
        )
    return value.to(like.dtype)

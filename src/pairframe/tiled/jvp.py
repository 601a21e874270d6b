"""Jacobian-vector products of one Sinkhorn iteration, in one or two passes over the cost."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pairframe.tiled.backends import backend_name, passes_of
from pairframe.tiled.cost import DenseCost
from pairframe.tiled.errors import TiledError
from pairframe.tiled.grad.masses import live_log_masses
from pairframe.tiled.grad.rule import Rule
from pairframe.tiled.grad.settings import Settings
from pairframe.tiled.inputs import CostLike, as_cost, check_epsilon, check_tau, refuse_mapped, without_padding_places

MAPS = ("jacobi", "alternating")


@torch.no_grad()
def sinkhorn_jvp(
    C: CostLike,
    a: Tensor | None,
    b: Tensor | None,
    epsilon: float,
    f: Tensor,
    g: Tensor,
    v_f: Tensor,
    v_g: Tensor,
    *,
    tau_a: float | None = None,
    tau_b: float | None = None,
    mask_a: Tensor | None = None,
    mask_b: Tensor | None = None,
    map: str = "jacobi",
    backend: str = "auto",
) -> tuple[Tensor, Tensor]:
    """J (v_f, v_g) for the derivative J of an iteration at the potentials (f, g), which need not be a fixed point.

    With F(g) = tau_a/(tau_a + eps) (softmin(C - g) + eps log a), G(f) alike, and averages taken with the rows' and the
    columns' softmax weights (at a fixed point P v_g / P1 and P' v_f / P'1):

    - ``jacobi``, (f, g) -> (F(g), G(f)): J v = (-tau_a/(tau_a + eps) <v_g>, -tau_b/(tau_b + eps) <v_f>).
    - ``alternating``, (f, g) -> (F(g), G(F(g))), what the solver iterates: v_f is not used, and the second average is
      of the first result, at F(g).

    Both without the optimal translation. Balanced: J (1, -1) = (1, -1), the gauge. See `sinkhorn` for the arguments.

    Parameters
    ----------
    f, v_f : (B, N)
    g, v_g : (B, M)

    Returns
    -------
    (B, N), (B, M)
        0 where there is no mass.
    """
    if map not in MAPS:
        raise TiledError(f"a map: {', '.join(MAPS)}", repr(map), "use one of these names")
    refuse_mapped("sinkhorn_jvp", C, a, b, mask_a, mask_b, f, g, v_f, v_g)
    cost = as_cost(without_padding_places(C, mask_a, mask_b))
    first, second = (cost.matrix, None) if isinstance(cost, DenseCost) else (cost.x, cost.y)
    rule = Rule(check_epsilon(epsilon, cost.dtype), check_tau("tau_a", tau_a), check_tau("tau_b", tau_b))
    passes = passes_of(backend_name(backend, cost.device))
    logs = live_log_masses(first, second, (a, b), (mask_a, mask_b), Settings(rule, passes, 1, 0.0))
    f, v_f = (_checked(name, one, logs.a) for name, one in (("f", f), ("v_f", v_f)))
    g, v_g = (_checked(name, one, logs.b) for name, one in (("g", g), ("v_g", v_g)))
    on_a, on_b = logs.a > -torch.inf, logs.b > -torch.inf
    into_b = rule.exponent(logs.b, g)
    sums_a = passes.log_sum_rows(cost, rule.epsilon, into_b)
    rows = torch.where(on_a, -sums_a, -torch.inf)
    mean = passes.plan_times(cost, rule.epsilon, rows, into_b, torch.where(on_b, v_g, 0.0).unsqueeze(2)).squeeze(2)
    new_f = -rule.factor_a * mean
    at_f, moved_f = (f, torch.where(on_a, v_f, 0.0)) if map == "jacobi" else (rule.f_of(logs.a, sums_a), new_f)
    into_a = rule.exponent(logs.a, at_f)
    sums_b = passes.log_sum_cols(cost, rule.epsilon, into_a)
    cols = torch.where(on_b, -sums_b, -torch.inf)
    mean = passes.plan_transposed_times(cost, rule.epsilon, into_a, cols, moved_f.unsqueeze(2)).squeeze(2)
    return new_f, -rule.factor_b * mean


def _checked(name: str, value: Any, like: Tensor) -> Tensor:
    if not isinstance(value, Tensor) or value.shape != like.shape:
        got = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
        raise TiledError(f"{name} as a tensor of shape {tuple(like.shape)}", got, "one row per batch element")
    return value.to(like.dtype)

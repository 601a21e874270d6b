"""Jacobian-vector products of one Sinkhorn iteration."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pairframe.tiled.backends import backend_name, passes_of
from pairframe.tiled.cost import DenseCost
from pairframe.tiled.entry_point import entry_point
from pairframe.tiled.errors import TiledError
from pairframe.tiled.grad.masses import live_log_masses
from pairframe.tiled.grad.settings import Settings
from pairframe.tiled.inputs import CostLike, as_cost, check_epsilon, check_storage, check_tau, without_padding_places
from pairframe.tiled.transforms import refuse_mapped

MAPS = ("jacobi", "alternating")


@entry_point
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
    renormalize: bool = False,
) -> tuple[Tensor, Tensor]:
    """Compute J (v_f, v_g), J the Jacobian of an iteration at any potentials (f, g).

    With F(g) = tau_a/(tau_a + eps) (softmin(C - g) + eps log a), the analogous G(f), and averages <.> with the softmax
    weights of the rows and of the columns (at a fixed point P v_g / P1 and P' v_f / P'1):

    - ``jacobi``, (f, g) -> (F(g), G(f)): J v = (-tau_a/(tau_a + eps) <v_g>, -tau_b/(tau_b + eps) <v_f>).
    - ``alternating``, (f, g) -> (F(g), G(F(g))), as a solver iterates: v_f is not used, and the second average is of the
      first result, at F(g).

    Neither includes the optimal translation. For a balanced problem J (1, -1) = (1, -1), the gauge. For the other
    arguments see `sinkhorn`.

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
    epsilon = check_epsilon(epsilon, cost.dtype)
    passes = passes_of(backend_name(backend, cost.device))
    taus = check_tau("tau_a", tau_a), check_tau("tau_b", tau_b)
    settings = Settings(epsilon, *taus, passes, max_iters=1, threshold=0.0, renormalize=renormalize)
    logs = live_log_masses(first, second, (a, b), (mask_a, mask_b), settings)
    side_a, side_b = settings.sides(logs.a, logs.b)
    f, v_f = (_checked(name, one, logs.a) for name, one in (("f", f), ("v_f", v_f)))
    g, v_g = (_checked(name, one, logs.b) for name, one in (("g", g), ("v_g", v_g)))
    v_f, v_g = v_f.masked_fill(side_a.empty, 0.0), v_g.masked_fill(side_b.empty, 0.0)
    log_b_hat = side_b.exponents(g / epsilon)
    sums_a = passes.log_sum_rows(cost, epsilon, log_b_hat)
    rows = torch.where(side_a.empty, -torch.inf, -sums_a)
    mean = passes.plan_times(cost, epsilon, rows, log_b_hat, v_g.unsqueeze(2)).squeeze(2)
    new_f = -side_a.damping * mean
    if map == "jacobi":
        log_a_hat, moved_f = side_a.exponents(f / epsilon), v_f
    else:
        log_a_hat, moved_f = side_a.updated(sums_a, sums_a.new_zeros(cost.batch)), new_f
    sums_b = passes.log_sum_cols(cost, epsilon, log_a_hat)
    cols = torch.where(side_b.empty, -torch.inf, -sums_b)
    mean = passes.plan_transposed_times(cost, epsilon, log_a_hat, cols, moved_f.unsqueeze(2)).squeeze(2)
    return new_f, -side_b.damping * mean


def _checked(name: str, value: Any, like: Tensor) -> Tensor:
    check_storage(name, value)
    if not isinstance(value, Tensor) or value.shape != like.shape:
        got = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
        raise TiledError(f"{name} to be a tensor of shape {tuple(like.shape)}", got, "pass one row per batch element")
    return value.to(like.dtype)

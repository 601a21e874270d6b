"""The reference: autograd through plain torch, every iteration's N x M arrays kept. Small problems and tests only."""

from __future__ import annotations

import torch
from torch import Tensor

from pairframe.tiled.grad.rule import Rule, shifted


def squared_distances(x: Tensor, y: Tensor) -> Tensor:
    """(B, N, M) from points (B, N, d) and (B, M, d), stored."""
    return (x.unsqueeze(2) - y.unsqueeze(1)).square().sum(3)


def unrolled_potentials(
    matrix: Tensor, log_a: Tensor, log_b: Tensor, rule: Rule, max_iters: int, threshold: float, grad_iters: int = 0
) -> tuple[Tensor, Tensor]:
    """Potentials after the iterations of `Rule`, started at g = 0, with autograd's own graph.

    Parameters
    ----------
    matrix : (B, N, M)
    log_a, log_b : (B, N), (B, M)
        -inf where there is no mass.
    threshold : float
        0 never stops early (and then everything of torch.func works, as no value is looked at).
    grad_iters : int
        0 differentiates all iterations, n only each element's last n: needs fixed counts, so `threshold` must be 0.
    """
    f, g = torch.zeros_like(log_a), torch.zeros_like(log_b)
    active = torch.ones(log_a.shape[:1], dtype=torch.bool, device=log_a.device)
    first_live = max(0, max_iters - grad_iters) if grad_iters else 0
    for k in range(max_iters):
        if k == first_live:
            g = g.detach()
        new_f, new_g, change, residual = _iterate(matrix, f, g, log_a, log_b, rule)
        f = torch.where(active.unsqueeze(1), new_f, f)
        g = torch.where(active.unsqueeze(1), new_g, g)
        if threshold > 0:
            active = active & ~((change < threshold) & (residual < threshold) & (k > 0))
            if not bool(active.any()):
                break
    return f, g


def _iterate(
    matrix: Tensor, f: Tensor, g: Tensor, log_a: Tensor, log_b: Tensor, rule: Rule
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    into = rule.exponent(log_b, g)
    new_f = rule.f_of(log_a, _log_sum(into.unsqueeze(1) - matrix / rule.epsilon, 2))
    col_log_sum = _log_sum(rule.exponent(log_a, new_f).unsqueeze(2) - matrix / rule.epsilon, 1)
    new_g = rule.g_of(log_b, col_log_sum)
    t = rule.translation(new_f, new_g, log_a, log_b)
    new_f, new_g = shifted(new_f, t, log_a), shifted(new_g, -t, log_b)
    change, residual = progress(rule, f, new_f, g, into, col_log_sum, log_b)
    return new_f, new_g, change, residual


def progress(
    rule: Rule, f: Tensor, new_f: Tensor, g: Tensor, into: Tensor, col_log_sum: Tensor, log_b: Tensor
) -> tuple[Tensor, Tensor]:
    """max |df|/eps and the L1 error of the column marginal relative to its mass, both (B,)."""
    with torch.no_grad():
        change = (new_f - f).abs().amax(1) / rule.epsilon
        wanted = torch.exp(log_b if rule.tau_b is None else log_b - g / rule.tau_b)
        had = torch.where(log_b > -torch.inf, torch.exp(into + col_log_sum), 0.0)
        return change, (had - wanted).abs().sum(1) / torch.exp(log_b).sum(1)


def _log_sum(exponents: Tensor, axis: int) -> Tensor:
    """logsumexp whose gradient is 0, not NaN, where every term is -inf."""
    empty = (exponents == -torch.inf).all(axis, keepdim=True)
    sums = torch.logsumexp(torch.where(empty, 0.0, exponents), axis)
    return torch.where(empty.squeeze(axis), -torch.inf, sums)

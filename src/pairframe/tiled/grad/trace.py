"""The iterations, run with streaming passes, and the log sums that are all a backward needs to know of them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pairframe.tiled.cost import Cost
from pairframe.tiled.grad.rule import Rule, shifted
from pairframe.tiled.grad.settings import Settings, groups
from pairframe.tiled.grad.unrolled import progress
from pairframe.tiled.strips import short_vectors


@dataclass(frozen=True)
class Trace:
    """A finished run.

    Attributes
    ----------
    f, g : (B, N), (B, M)
        Potentials, 0 where there is no mass.
    n_iters : (B,) int64
    sums_a, sums_b : (B, K, N), (B, K, M)
        Log sums of each element's last K iterations, the last one at K - 1; 0 before an element's first.
    """

    f: Tensor
    g: Tensor
    n_iters: Tensor
    sums_a: Tensor
    sums_b: Tensor


def after(rule: Rule, log_a: Tensor, log_b: Tensor, sums_a: Tensor, sums_b: Tensor) -> tuple[Tensor, Tensor]:
    """The potentials that an iteration with these log sums ends with."""
    f, g = rule.f_of(log_a, sums_a), rule.g_of(log_b, sums_b)
    t = rule.translation(f, g, log_a, log_b)
    return shifted(f, t, log_a), shifted(g, -t, log_b)


@torch.no_grad()
def run(cost: Cost, log_a: Tensor, log_b: Tensor, settings: Settings) -> Trace:
    """Iterate from g = 0; each element stops by itself."""
    with short_vectors():
        parts = [_run_group(part, log_a[b], log_b[b], settings) for b, part in groups(cost)]
    if len(parts) == 1:
        return parts[0]
    kept = max(part.sums_a.shape[1] for part in parts)
    return Trace(
        f=torch.cat([part.f for part in parts]),
        g=torch.cat([part.g for part in parts]),
        n_iters=torch.cat([part.n_iters for part in parts]),
        sums_a=torch.cat([_pad(part.sums_a, kept) for part in parts]),
        sums_b=torch.cat([_pad(part.sums_b, kept) for part in parts]),
    )


def _run_group(cost: Cost, log_a: Tensor, log_b: Tensor, settings: Settings) -> Trace:
    rule, sides = settings.rule, (log_a, log_b)
    f, g = torch.zeros_like(log_a), torch.zeros_like(log_b)
    n_iters = torch.full((cost.batch,), settings.max_iters, device=log_a.device)
    active = torch.ones(cost.batch, dtype=torch.bool, device=log_a.device)
    history: dict[int, tuple[Tensor, Tensor]] = {}

    base = rule.factor_a * log_a

    def update(where: tuple[slice, slice], sums: Tensor) -> Tensor:
        # f/eps of these rows, in few steps: this runs per strip, and threads wait for each other here.
        return torch.sub(base[where], sums, alpha=rule.factor_a).masked_fill_(torch.isneginf(sums), -torch.inf)

    for k in range(settings.max_iters):
        into = rule.exponent(log_b, g)
        sums_a, _, sums_b = settings.passes.rows_then_cols(cost, rule.epsilon, into, update)
        history[k] = (sums_a, sums_b)
        new_f, new_g = after(rule, *sides, sums_a, sums_b)
        change, residual = progress(rule, f, new_f, g, into, sums_b, log_b)
        f = torch.where(active.unsqueeze(1), new_f, f)
        g = torch.where(active.unsqueeze(1), new_g, g)
        done = active & (change < settings.threshold) & (residual < settings.threshold) & (k > 0)
        n_iters[done] = k + 1
        active = active & ~done
        if settings.grad_iters:
            # One iteration more than is differentiated: the first of them needs the g it started from.
            oldest = int(torch.where(active, k + 1, n_iters).min()) - settings.grad_iters - 1
            for old in [one for one in history if one < oldest]:
                del history[old]
        if not bool(active.any()):
            break
    return Trace(f, g, n_iters, *_from_the_end(history, n_iters, settings, *sides))


def _from_the_end(
    history: dict[int, tuple[Tensor, Tensor]], n_iters: Tensor, settings: Settings, log_a: Tensor, log_b: Tensor
) -> tuple[Tensor, Tensor]:
    """Stack the history so that every element's last iteration is at the same place."""
    kept = int(n_iters.max())
    if settings.grad_iters:
        kept = min(kept, settings.grad_iters + 1)
    sums_a = log_a.new_zeros((log_a.shape[0], kept, log_a.shape[1]))
    sums_b = log_b.new_zeros((log_b.shape[0], kept, log_b.shape[1]))
    for b, n in enumerate(n_iters.tolist()):
        for k in range(max(0, n - kept), n):
            sums_a[b, kept - n + k], sums_b[b, kept - n + k] = history[k][0][b], history[k][1][b]
    return sums_a, sums_b


def _pad(sums: Tensor, kept: int) -> Tensor:
    return torch.nn.functional.pad(sums, (0, 0, kept - sums.shape[1], 0))

"""Checked log masses of the caller's masses, differentiable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pairframe.tiled.grad.gauge import project_feasible
from pairframe.tiled.grad.settings import BatchedFunction, Settings, cost_of
from pairframe.tiled.inputs import check_cost, equal_totals, log_masses, log_references, without_stranded


@dataclass(frozen=True, eq=False)
class LogMasses:
    """Log masses, -inf where masked or empty.

    Attributes
    ----------
    a, b : (B, N), (B, M)
        Without stranded mass, which has no finite cost to the other side.
    all_a, all_b : (B, N), (B, M)
        With stranded mass.
    """

    a: Tensor
    b: Tensor
    all_a: Tensor
    all_b: Tensor

    def stranded_penalty(self, settings: Settings) -> Tensor:
        """tau times the stranded mass of each soft side, (B,) float64."""
        total = torch.zeros_like(self.a[:, 0], dtype=torch.float64)
        for tau, logs, every in ((settings.tau_a, self.a, self.all_a), (settings.tau_b, self.b, self.all_b)):
            if tau is not None:
                total = total + tau * torch.where(torch.isneginf(logs), torch.exp(every.double()), 0.0).sum(1)
        return total

    def references(self, reference: str) -> tuple[Tensor, Tensor]:
        """log u, log v; see `log_references`."""
        return log_references(reference, self.a, self.b)


def live_log_masses(
    first: Tensor,
    second: Tensor | None,
    masses: tuple[Tensor | None, Tensor | None],
    masks: tuple[Tensor | None, Tensor | None],
    settings: Settings,
) -> LogMasses:
    """Check cost, masses and masks, and take logarithms, differentiably.

    The gradient of an entry without mass is exactly 0. For a balanced problem the gradient is projected on
    sum da = sum db, and totals that differ by at most 1e-5 are scaled to their mean by a factor that is treated as constant.
    With `renormalize` every direction is feasible, and the gradient is orthogonal to the masses instead.
    """
    return LogMasses(*_LogMasses.call(first, second, *masses, *masks, settings))


class _LogMasses(BatchedFunction):
    # A separate function because the checks inspect values: inside it, vmap has folded its axis into the batch.

    @staticmethod
    def forward(
        first: Tensor,
        second: Tensor | None,
        a: Tensor | None,
        b: Tensor | None,
        mask_a: Tensor | None,
        mask_b: Tensor | None,
        settings: Settings,
    ) -> tuple[Tensor, ...]:
        cost = cost_of(first, second)
        forbids = check_cost(cost)
        log_a = log_masses("a", a, None, mask_a, cost, settings.renormalize)
        log_b = log_masses("b", b, None, mask_b, cost, settings.renormalize)
        if settings.is_balanced:
            log_a, log_b, _ = equal_totals(log_a, log_b)
        kept_a, kept_b = log_a.clone(), log_b.clone()
        if forbids:
            kept_a, kept_b, _ = without_stranded(cost, log_a, log_b, (settings.tau_a, settings.tau_b), settings.passes)
        return kept_a, kept_b, log_a, log_b

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.settings = inputs[-1]
        ctx.save_for_backward(*inputs[2:4], *output)
        ctx.save_for_forward(*inputs[2:4], *output)

    @staticmethod
    def backward(ctx: Any, *bars: Tensor) -> tuple[Tensor | None, ...]:
        a, b, kept_a, kept_b, log_a, log_b = ctx.saved_tensors
        bar_a = torch.where(torch.isneginf(kept_a), 0.0, bars[0]) + bars[2]
        bar_b = torch.where(torch.isneginf(kept_b), 0.0, bars[1]) + bars[3]
        if ctx.settings.renormalize:  # log a - log sum a, backwards
            bar_a = bar_a - torch.exp(log_a) * bar_a.sum(-1, keepdim=True)
            bar_b = bar_b - torch.exp(log_b) * bar_b.sum(-1, keepdim=True)
        bar_a, bar_b = _over(bar_a, a, log_a), _over(bar_b, b, log_b)
        if ctx.settings.is_balanced and not ctx.settings.renormalize:
            bar_a, bar_b = project_feasible(log_a, log_b, bar_a, bar_b)
        given = [None if mass is None else bar.to(mass.dtype) for mass, bar in ((a, bar_a), (b, bar_b))]
        return None, None, *given, None, None, None

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor | None) -> tuple[Tensor, ...]:
        a, b, kept_a, kept_b, log_a, log_b = ctx.saved_tensors
        da = torch.zeros_like(log_a) if tangents[2] is None else tangents[2].to(log_a.dtype)
        db = torch.zeros_like(log_b) if tangents[3] is None else tangents[3].to(log_b.dtype)
        if ctx.settings.is_balanced and not ctx.settings.renormalize:
            da, db = (torch.where(torch.isneginf(logs), 0.0, one) for logs, one in ((log_a, da), (log_b, db)))
            da, db = project_feasible(log_a, log_b, da, db)
        d_log_a, d_log_b = _over(da, a, log_a), _over(db, b, log_b)
        if ctx.settings.renormalize:
            d_log_a = d_log_a - (torch.exp(log_a) * d_log_a).sum(-1, keepdim=True)
            d_log_b = d_log_b - (torch.exp(log_b) * d_log_b).sum(-1, keepdim=True)
        kept = [
            torch.where(torch.isneginf(logs), 0.0, one)
            for logs, one in ((kept_a, d_log_a), (kept_b, d_log_b), (log_a, d_log_a), (log_b, d_log_b))
        ]
        return tuple(kept)


def _over(bar: Tensor, mass: Tensor | None, log_mass: Tensor) -> Tensor:
    """bar/mass where there is mass, else exactly 0; a default mass (None) is taken from its logarithm."""
    on = log_mass > -torch.inf
    mass = torch.exp(log_mass) if mass is None else mass.to(log_mass.dtype)
    return torch.where(on, bar / torch.where(on, mass, 1.0), 0.0)

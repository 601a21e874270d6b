"""From what the caller gave to checked log masses, with the derivative of the logarithm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pairframe.tiled.errors import TiledError
from pairframe.tiled.grad.gauge import project_feasible
from pairframe.tiled.grad.rule import Rule, log_sum
from pairframe.tiled.grad.settings import BatchedFunction, Settings, cost_of
from pairframe.tiled.inputs import REFERENCES, check_cost, equal_totals, log_masses, without_stranded


@dataclass(frozen=True, eq=False)
class LogMasses:
    """Log masses, -inf where masked or empty.

    Attributes
    ----------
    a, b : (B, N), (B, M)
        Without what is stranded: mass that no finite cost leads away from.
    all_a, all_b : (B, N), (B, M)
        With it.
    """

    a: Tensor
    b: Tensor
    all_a: Tensor
    all_b: Tensor

    def stranded_penalty(self, rule: Rule) -> Tensor:
        """tau times the stranded mass of each soft side, (B,) float64."""
        total = torch.zeros_like(self.a[:, 0], dtype=torch.float64)
        for tau, logs, every in ((rule.tau_a, self.a, self.all_a), (rule.tau_b, self.b, self.all_b)):
            if tau is not None:
                total = total + tau * torch.where(torch.isneginf(logs), torch.exp(every.double()), 0.0).sum(1)
        return total

    def references(self, reference: str) -> tuple[Tensor, Tensor]:
        """log u, log v: 0, or log(a/sqrt(M_a)) and log(b/sqrt(M_b)) as `sinkhorn` has them; 0 where there is no mass."""
        if reference not in REFERENCES:
            raise TiledError(f"a reference: {', '.join(REFERENCES)}", repr(reference), "use one of these names")
        if reference == "counting":
            return torch.zeros_like(self.a), torch.zeros_like(self.b)
        return _log_share(self.a), _log_share(self.b)


def live_log_masses(
    first: Tensor,
    second: Tensor | None,
    masses: tuple[Tensor | None, Tensor | None],
    masks: tuple[Tensor | None, Tensor | None],
    settings: Settings,
) -> LogMasses:
    """Check everything and take logarithms, differentiably.

    The gradient of an empty entry is exactly 0. For a balanced problem the gradient is projected on sum da = sum db, and
    totals that differ by at most 1e-5 are brought to their mean by a factor that counts as a constant.
    """
    return LogMasses(*_LogMasses.call(first, second, *masses, *masks, settings))


class _LogMasses(BatchedFunction):
    # A function of its own because the checks look at values: inside it, vmap has folded its axis into the batch.

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
        cost, rule = cost_of(first, second), settings.rule
        forbids = check_cost(cost)
        log_a = log_masses("a", a, None, mask_a, cost, renormalize=False)
        log_b = log_masses("b", b, None, mask_b, cost, renormalize=False)
        if rule.is_balanced:
            log_a, log_b, _ = equal_totals(log_a, log_b)
        kept_a, kept_b = log_a.clone(), log_b.clone()
        if forbids:
            kept_a, kept_b, _ = without_stranded(cost, log_a, log_b, (rule.tau_a, rule.tau_b), settings.passes)
        return kept_a, kept_b, log_a, log_b

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.rule = inputs[-1].rule
        ctx.save_for_backward(*inputs[2:4], *output)
        ctx.save_for_forward(*inputs[2:4], *output)

    @staticmethod
    def backward(ctx: Any, *bars: Tensor) -> tuple[Tensor | None, ...]:
        a, b, kept_a, kept_b, log_a, log_b = ctx.saved_tensors
        bar_a = _over(torch.where(torch.isneginf(kept_a), 0.0, bars[0]) + bars[2], a, log_a)
        bar_b = _over(torch.where(torch.isneginf(kept_b), 0.0, bars[1]) + bars[3], b, log_b)
        if ctx.rule.is_balanced:
            bar_a, bar_b = project_feasible(log_a, log_b, bar_a, bar_b)
        given = [None if mass is None else bar.to(mass.dtype) for mass, bar in ((a, bar_a), (b, bar_b))]
        return None, None, *given, None, None, None

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor | None) -> tuple[Tensor, ...]:
        a, b, kept_a, kept_b, log_a, log_b = ctx.saved_tensors
        da = torch.zeros_like(log_a) if tangents[2] is None else tangents[2].to(log_a.dtype)
        db = torch.zeros_like(log_b) if tangents[3] is None else tangents[3].to(log_b.dtype)
        if ctx.rule.is_balanced:
            da, db = (torch.where(torch.isneginf(logs), 0.0, one) for logs, one in ((log_a, da), (log_b, db)))
            da, db = project_feasible(log_a, log_b, da, db)
        return _over(da, a, kept_a), _over(db, b, kept_b), _over(da, a, log_a), _over(db, b, log_b)


def _over(bar: Tensor, mass: Tensor | None, log_mass: Tensor) -> Tensor:
    """bar/mass where there is mass, else exactly 0; a default (None) mass counts as its logarithm says."""
    on = log_mass > -torch.inf
    mass = torch.exp(log_mass) if mass is None else mass.to(log_mass.dtype)
    return torch.where(on, bar / torch.where(on, mass, 1.0), 0.0)


def _log_share(log_mass: Tensor) -> Tensor:
    on = ~torch.isneginf(log_mass)
    return torch.where(on, torch.where(on, log_mass, 0.0) - 0.5 * log_sum(log_mass).unsqueeze(1), 0.0)

"""The gradient of the fixed point itself: one linear solve, whatever number of iterations led there."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

from pairframe.tiled.cost import Cost
from pairframe.tiled.grad.conjugate_gradients import NotConvergedWarning, solve_adjoint
from pairframe.tiled.grad.cost_gradient import add_cost_gradient, empty_gradient
from pairframe.tiled.grad.settings import (
    AdjointFunction,
    BatchedFunction,
    Settings,
    cost_bars,
    cost_of,
    exponents_of,
    groups,
    wants_cost_gradient,
)
from pairframe.tiled.loop import Loop, State, Stopping
from pairframe.tiled.translation import Side


def implicit_potentials(
    first: Tensor, second: Tensor | None, log_a: Tensor, log_b: Tensor, settings: Settings
) -> tuple[Tensor, Tensor]:
    """Potentials (B, N), (B, M) of the fixed point; parameters as in `checkpoint_potentials`.

    Warns with `NotConvergedWarning` when the solve stopped early, and, in the backward, when the plan so nearly falls into
    parts that the gradient is off by more than the threshold says.
    """
    f, g, *_ = _Potentials.call(first, second, log_a, log_b, settings)
    return f, g


def converged_state(
    cost: Cost, log_a: Tensor, log_b: Tensor, settings: Settings, reference: tuple[Tensor, Tensor] | None = None
) -> State:
    """Run the forward loop, with the counting reference unless log u (B, N), log v (B, M) are given; warn if it fails."""
    rule = settings.rule
    log_u, log_v = (torch.zeros_like(log_a), torch.zeros_like(log_b)) if reference is None else reference
    side_a = Side(log_a, log_u, None if rule.tau_a is None else rule.tau_a / rule.epsilon)
    side_b = Side(log_b, log_v, None if rule.tau_b is None else rule.tau_b / rule.epsilon)
    with torch.no_grad():
        loop = Loop(cost, rule.epsilon, side_a, side_b, settings.passes)
        stopping = Stopping(settings.max_iters, settings.threshold)
        state = loop.run_symmetric(stopping) if settings.symmetric else loop.run(stopping)
    if not bool(state.converged.all()):
        warnings.warn(
            f"{int((~state.converged).sum())} of {cost.batch} problems stopped after {settings.max_iters} iterations at a "
            f"marginal error of up to {float(state.residual.max()):.1g} and steps of up to {float(state.change.max()):.1g} "
            f"epsilon (threshold {settings.threshold:.1g}), and their gradients are off by as much or more; raise max_iters or "
            "epsilon, loosen the threshold (float32 cannot meet 1e-6 once potentials pass ten epsilon), or use "
            'grad="checkpoint", which is exact for the iterations that were run',
            NotConvergedWarning,
            stacklevel=4,
        )
    return state


class _Potentials(BatchedFunction):
    @staticmethod
    def forward(
        first: Tensor, second: Tensor | None, log_a: Tensor, log_b: Tensor, settings: Settings
    ) -> tuple[Tensor, ...]:
        log_a, log_b, rule = log_a.detach(), log_b.detach(), settings.rule
        state = converged_state(cost_of(first, second), log_a, log_b, settings)
        shift = state.shift.unsqueeze(1)
        f = torch.where(log_a > -torch.inf, rule.epsilon * (state.f0 + shift), 0.0).to(log_a.dtype)
        g = torch.where(log_b > -torch.inf, rule.epsilon * (state.g0 - shift), 0.0).to(log_b.dtype)
        # The exponents without the shift have more digits of the plan than f and g.
        asked = rule.asked(log_a, f, rule.tau_a), rule.asked(log_b, g, rule.tau_b)
        return f, g, *exponents_of(state, log_a, log_b), *asked

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        first, second, _, _, ctx.settings = inputs
        ctx.mark_non_differentiable(*output[2:])
        ctx.save_for_backward(first, second, *output[2:])

    @staticmethod
    def backward(ctx: Any, bar_f: Tensor, bar_g: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        return (*_Adjoint.call(bar_f, bar_g, *ctx.saved_tensors, ctx.settings, wants_cost_gradient(ctx)), None)


class _Adjoint(AdjointFunction):
    """(cotangents of f, g) -> cotangents of (first, second, log_a, log_b)."""

    @staticmethod
    def forward(
        bar_f: Tensor,
        bar_g: Tensor,
        first: Tensor,
        second: Tensor | None,
        exponents_a: Tensor,
        exponents_b: Tensor,
        asked_a: Tensor,
        asked_b: Tensor,
        settings: Settings,
        wanted: bool,
    ) -> tuple[Tensor | None, ...]:
        cost, rule = cost_of(first, second), settings.rule
        bar_f = torch.where(exponents_a > -torch.inf, bar_f, 0.0)
        bar_g = torch.where(exponents_b > -torch.inf, bar_g, 0.0)
        gradient = empty_gradient(cost, wanted)
        bars = []
        for b, part in groups(cost):
            plan = (exponents_a[b], exponents_b[b])
            asked, bar = (asked_a[b], asked_b[b]), (bar_f[b], bar_g[b])
            x, y, p, q = solve_adjoint(part, rule, *plan, asked, *bar, settings.passes, settings.threshold)
            if wanted:
                add_cost_gradient(part, rule.epsilon, *plan, x, y, settings.passes, tuple(one[b] for one in gradient))
            bars.append((rule.epsilon * x * p, rule.epsilon * y * q))
        bar_log_a, bar_log_b = (torch.cat(one) for one in zip(*bars, strict=True))
        return *cost_bars(gradient, first.dtype), bar_log_a, bar_log_b

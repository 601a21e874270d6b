"""The gradient of the fixed point by one linear solve, independent of the iterations that led there."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pairframe.tiled.cost import Cost
from pairframe.tiled.errors import warn_not_converged
from pairframe.tiled.grad.conjugate_gradients import solve_adjoint
from pairframe.tiled.grad.cost_gradient import add_cost_gradient, empty_gradient
from pairframe.tiled.grad.settings import (
    AdjointFunction,
    BatchedFunction,
    Settings,
    cost_bars,
    cost_of,
    groups,
    wants_cost_gradient,
)
from pairframe.tiled.loop import State, Stopping


def implicit_potentials(
    first: Tensor, second: Tensor | None, log_a: Tensor, log_b: Tensor, settings: Settings
) -> tuple[Tensor, Tensor]:
    """Potentials (B, N), (B, M) of the fixed point; parameters as in `checkpoint_potentials`.

    Warns with `NotConvergedWarning` if the solve stopped early, and, in the backward, if the plan so nearly separates into
    parts that the gradient is less exact than the threshold promises.
    """
    f, g, *_ = _Potentials.call(first, second, log_a, log_b, settings)
    return f, g


def converged_state(
    cost: Cost, log_a: Tensor, log_b: Tensor, settings: Settings, reference: tuple[Tensor, Tensor] | None = None
) -> State:
    """Run the forward loop and warn if it stops early; the reference is counting unless (log u, log v) are given."""
    with torch.no_grad():
        loop = settings.loop(cost, log_a, log_b, *(reference or ()))
        state = loop.run_symmetric(settings.stopping) if settings.symmetric else loop.run(settings.stopping)
    warn_if_open(state, settings.stopping)
    return state


def warn_if_open(state: State, stopping: Stopping) -> None:
    """Warn if a solve stopped early."""
    if not bool(state.converged.all()):
        warn_not_converged(
            f"{int((~state.converged).sum())} of {len(state.converged)} problems stopped after {stopping.max_iters} iterations at a "
            f"marginal error of up to {float(state.residual.max()):.1g} and steps of up to {float(state.change.max()):.1g} "
            f"epsilon (threshold {stopping.threshold:.1g}); their gradients have at least that error. To fix: raise max_iters "
            "or epsilon, loosen the threshold (float32 cannot reach 1e-6 if potentials exceed ten epsilon), or use "
            'sinkhorn_differentiable with grad="checkpoint", which is exact for the iterations that were run',
        )


class _Potentials(BatchedFunction):
    @staticmethod
    def forward(
        first: Tensor, second: Tensor | None, log_a: Tensor, log_b: Tensor, settings: Settings
    ) -> tuple[Tensor, ...]:
        log_a, log_b, epsilon = log_a.detach(), log_b.detach(), settings.epsilon
        a, b = settings.sides(log_a, log_b)
        state = converged_state(cost_of(first, second), log_a, log_b, settings)
        f0, g0, shift = state.f0, state.g0, state.shift
        f, g = a.in_cost_units(f0, shift, epsilon), b.in_cost_units(g0, -shift, epsilon)
        # The exponents without the shift carry more digits of the plan than f and g.
        implied = torch.exp(a.log_implied(f0, shift)), torch.exp(b.log_implied(g0, -shift))
        return f, g, a.exponents(f0), b.exponents(g0), *(one.to(f.dtype) for one in implied)

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
        implied_a: Tensor,
        implied_b: Tensor,
        settings: Settings,
        wanted: bool,
    ) -> tuple[Tensor | None, ...]:
        cost, epsilon = cost_of(first, second), settings.epsilon
        bar_f = torch.where(exponents_a > -torch.inf, bar_f, 0.0)
        bar_g = torch.where(exponents_b > -torch.inf, bar_g, 0.0)
        gradient = empty_gradient(cost, wanted)
        bars = []
        for b, part in groups(cost):
            plan = (exponents_a[b], exponents_b[b])
            x, y, p, q = solve_adjoint(part, plan, (implied_a[b], implied_b[b]), (bar_f[b], bar_g[b]), settings)
            if wanted:
                add_cost_gradient(part, epsilon, *plan, x, y, settings.passes, tuple(one[b] for one in gradient))
            bars.append((epsilon * x * p, epsilon * y * q))
        bar_log_a, bar_log_b = (torch.cat(one) for one in zip(*bars, strict=True))
        return *cost_bars(gradient, first.dtype), bar_log_a, bar_log_b

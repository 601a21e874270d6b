"""Gradients of values by the envelope theorem: at the optimum, the change of the potentials does not matter.

d(value)/dC = P, d/da = f (hard) or -tau (e^(-f/tau) - 1) (soft), plus the terms of a reference that depends on a and b.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pairframe.tiled.grad.cost_gradient import add_cost_gradient, empty_gradient
from pairframe.tiled.grad.implicit import converged_state
from pairframe.tiled.grad.masses import LogMasses
from pairframe.tiled.grad.settings import (
    AdjointFunction,
    BatchedFunction,
    Settings,
    cost_bars,
    cost_of,
    wants_cost_gradient,
)


def live_row_log_sums(first: Tensor, second: Tensor | None, log_b_hat: Tensor, settings: Settings) -> Tensor:
    """log sum_j exp(log_b_hat_j - C_ij/eps), (B, N), with gradients for the cost (or points) and log_b_hat."""
    sums: Tensor = _RowLogSums.call(first, second, log_b_hat, settings)
    return sums


def envelope_potentials(
    first: Tensor, second: Tensor | None, log_a: Tensor, log_b: Tensor, settings: Settings
) -> tuple[Tensor, Tensor]:
    """Converged potentials of which only the last half-update, f from g, is differentiated.

    A dual value needs no more, whether it is written in full (the derivatives of the potentials cancel) or, for a balanced
    problem, as <f, a> + <g, b>. For any other function of f and g the gradient is wrong.
    """
    _, g0, shift = _Solution.call(first, second, log_a, log_b, None, None, settings)
    a, b = settings.sides(log_a, log_b)
    f0 = a.potential(a.updated(live_row_log_sums(first, second, b.exponents(g0), settings), shift))
    return a.in_cost_units(f0, shift, settings.epsilon), b.in_cost_units(g0, -shift, settings.epsilon)


def envelope_value(
    first: Tensor,
    second: Tensor | None,
    logs: LogMasses,
    log_u: Tensor,
    log_v: Tensor,
    settings: Settings,
    with_reference: bool = True,
) -> Tensor:
    """The dual value at the solution, (B,) float64, differentiable in all tensors.

    Parameters
    ----------
    first, second : (B, N, M) and None, or (B, N, d) and (B, M, d)
    log_u, log_v : (B, N), (B, M)
        Log reference, finite; may depend on the masses.
    with_reference : bool
        Whether to include eps sum u sum v.
    """
    a, b = settings.sides(logs.a, logs.b, log_u, log_v)
    f0, g0, shift = _Solution.call(first, second, logs.a, logs.b, log_u, log_v, settings)
    rows = live_row_log_sums(first, second, b.exponents(g0), settings)
    plan_mass = _safe_exp(a.exponents(f0).double(), rows.double()).sum(1)
    value = a.dual_term(f0, shift) + b.dual_term(g0, -shift) - plan_mass
    value = value + a.reference_total * b.reference_total if with_reference else value
    return settings.epsilon * value + logs.stranded_penalty(settings)


def _safe_exp(one: Tensor, other: Tensor) -> Tensor:
    """exp(one + other), 0 with gradient 0 where either is -inf."""
    on = (one > -torch.inf) & (other > -torch.inf)
    return torch.where(on, torch.exp(torch.where(on, one, 0.0) + torch.where(on, other, 0.0)), 0.0)


class _Solution(BatchedFunction):
    """The solution as constants: f0 (B, N), g0 (B, M) and shift (B,), over epsilon."""

    @staticmethod
    def forward(
        first: Tensor,
        second: Tensor | None,
        log_a: Tensor,
        log_b: Tensor,
        log_u: Tensor | None,
        log_v: Tensor | None,
        settings: Settings,
    ) -> tuple[Tensor, Tensor, Tensor]:
        log_a, log_b = log_a.detach(), log_b.detach()
        reference = None if log_u is None or log_v is None else (log_u.detach(), log_v.detach())
        state = converged_state(cost_of(first, second), log_a, log_b, settings, reference)
        return state.f0, state.g0, state.shift

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.mark_non_differentiable(*output)

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> tuple[None, ...]:
        return (None,) * 7


class _RowLogSums(BatchedFunction):
    @staticmethod
    def forward(first: Tensor, second: Tensor | None, log_b_hat: Tensor, settings: Settings) -> Tensor:
        sums: Tensor = settings.passes.log_sum_rows(cost_of(first, second), settings.epsilon, log_b_hat.detach())
        return sums

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        *tensors, ctx.settings = inputs
        ctx.save_for_backward(*tensors, output)

    @staticmethod
    def backward(ctx: Any, bar_sums: Tensor) -> tuple[Tensor | None, ...]:
        return (*_RowLogSumsAdjoint.call(bar_sums, *ctx.saved_tensors, ctx.settings, wants_cost_gradient(ctx)), None)


class _RowLogSumsAdjoint(AdjointFunction):
    @staticmethod
    def forward(
        bar_sums: Tensor,
        first: Tensor,
        second: Tensor | None,
        log_b_hat: Tensor,
        sums: Tensor,
        settings: Settings,
        wanted: bool,
    ) -> tuple[Tensor | None, ...]:
        cost, epsilon, passes = cost_of(first, second), settings.epsilon, settings.passes
        log_rows = torch.where(sums > -torch.inf, -sums, -torch.inf)
        bar_sums = torch.where(sums > -torch.inf, bar_sums, 0.0)
        gradient = empty_gradient(cost, wanted)
        if wanted:
            no_cols = torch.zeros_like(log_b_hat)
            add_cost_gradient(cost, epsilon, log_rows, log_b_hat, -bar_sums / epsilon, no_cols, passes, gradient)
        bar_log_b_hat = passes.plan_transposed_times(cost, epsilon, log_rows, log_b_hat, bar_sums.unsqueeze(2))
        return *cost_bars(gradient, first.dtype), bar_log_b_hat.squeeze(2)

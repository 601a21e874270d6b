"""Gradients of values, for free: at the optimum the potentials' own change does not matter.

d(value)/dC = P, d/da = f (hard) or -tau (e^(-f/tau) - 1) (soft), plus what the reference measure takes from a and b.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pairframe.tiled.grad.cost_gradient import add_cost_gradient, empty_gradient
from pairframe.tiled.grad.implicit import converged_state
from pairframe.tiled.grad.masses import LogMasses
from pairframe.tiled.grad.rule import Rule
from pairframe.tiled.grad.settings import (
    AdjointFunction,
    BatchedFunction,
    Settings,
    cost_bars,
    cost_of,
    exponents_of,
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

    That is all a dual value needs, whether it is written in full (any derivative of the potentials drops out) or, for a
    balanced problem, as <f, a> + <g, b>. It is not the gradient of any other function of f and g.
    """
    exponents_b, shift = _Solved.call(first, second, log_a, log_b, None, None, settings)[1:3]
    rule = settings.rule
    g = torch.where(log_b > -torch.inf, rule.epsilon * (exponents_b - shift.unsqueeze(1)), 0.0).to(log_b.dtype)
    sums = live_row_log_sums(first, second, exponents_b, settings) - shift.unsqueeze(1).to(log_a.dtype)
    return rule.f_of(log_a, sums), g


def envelope_value(
    first: Tensor,
    second: Tensor | None,
    logs: LogMasses,
    log_u: Tensor,
    log_v: Tensor,
    settings: Settings,
    with_reference: bool = True,
) -> Tensor:
    """The dual value at the solution, (B,) float64, differentiable in everything that is given.

    Parameters
    ----------
    first, second : (B, N, M) and None, or (B, N, d) and (B, M, d)
    log_u, log_v : (B, N), (B, M)
        Log reference, finite; may depend on the masses.
    with_reference : bool
        Whether eps sum u sum v is part of it.
    """
    rule = settings.rule
    exponents_a, exponents_b, shift = _Solved.call(first, second, logs.a, logs.b, log_u, log_v, settings)
    value = _dual_term(rule, rule.tau_a, logs.a, exponents_a, shift)
    value = value + _dual_term(rule, rule.tau_b, logs.b, exponents_b, -shift)
    rows = live_row_log_sums(first, second, _plus(exponents_b, log_v), settings)
    plan_mass = _safe_exp(_plus(exponents_a, log_u).double(), rows.double()).sum(1)
    value = value - rule.epsilon * plan_mass + logs.stranded_penalty(rule)
    return value + rule.epsilon * _mass(log_u, logs.a) * _mass(log_v, logs.b) if with_reference else value


def _dual_term(rule: Rule, tau: float | None, log_mass: Tensor, exponents: Tensor, shift: Tensor) -> Tensor:
    """<a, f>, or -tau sum a (e^(-f/tau) - 1), (B,)."""
    f = rule.epsilon * torch.where(log_mass > -torch.inf, exponents.double() + shift.unsqueeze(1), 0.0)
    return (torch.exp(log_mass.double()) * (f if tau is None else -tau * torch.expm1(-f / tau))).sum(1)


def _mass(log_reference: Tensor, log_mass: Tensor) -> Tensor:
    """Sum of a reference over the entries with mass, (B,)."""
    return torch.where(log_mass > -torch.inf, torch.exp(log_reference.double()), 0.0).sum(1)


def _plus(exponents: Tensor, more: Tensor) -> Tensor:
    return torch.where(exponents > -torch.inf, torch.where(exponents > -torch.inf, exponents, 0.0) + more, -torch.inf)


def _safe_exp(one: Tensor, other: Tensor) -> Tensor:
    """exp(one + other), 0 with gradient 0 where either is -inf."""
    on = (one > -torch.inf) & (other > -torch.inf)
    return torch.where(on, torch.exp(torch.where(on, one, 0.0) + torch.where(on, other, 0.0)), 0.0)


class _Solved(BatchedFunction):
    """The solution as constants: exponents without reference and shift (B, N), (B, M), and the shift (B,) over eps."""

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
        return *exponents_of(state, log_a, log_b), state.shift

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.mark_non_differentiable(*output)

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> tuple[None, ...]:
        return (None,) * 7


class _RowLogSums(BatchedFunction):
    @staticmethod
    def forward(first: Tensor, second: Tensor | None, log_b_hat: Tensor, settings: Settings) -> Tensor:
        sums: Tensor = settings.passes.log_sum_rows(cost_of(first, second), settings.rule.epsilon, log_b_hat.detach())
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
        cost, epsilon, passes = cost_of(first, second), settings.rule.epsilon, settings.passes
        log_rows = torch.where(sums > -torch.inf, -sums, -torch.inf)
        bar_sums = torch.where(sums > -torch.inf, bar_sums, 0.0)
        gradient = empty_gradient(cost, wanted)
        if wanted:
            no_cols = torch.zeros_like(log_b_hat)
            add_cost_gradient(cost, epsilon, log_rows, log_b_hat, -bar_sums / epsilon, no_cols, passes, gradient)
        bar_log_b_hat = passes.plan_transposed_times(cost, epsilon, log_rows, log_b_hat, bar_sums.unsqueeze(2))
        return *cost_bars(gradient, first.dtype), bar_log_b_hat.squeeze(2)

"""The exact gradient of the iterations that were run, without their graph.

Forward keeps two vectors of log sums per iteration, (N + M) numbers. Backward walks the iterations from the last to the
first with one pass over the cost each, and the gradient of the cost is summed as in `cost_gradient`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pairframe.tiled.cost import Cost
from pairframe.tiled.grad.cost_gradient import SAFE_EXPONENT, CostGradient, empty_gradient
from pairframe.tiled.grad.rule import Rule, log_sum
from pairframe.tiled.grad.settings import (
    AdjointFunction,
    BatchedFunction,
    Settings,
    cost_bars,
    cost_of,
    groups,
    wants_cost_gradient,
)
from pairframe.tiled.grad.trace import after, run
from pairframe.tiled.strips import short_vectors


def checkpoint_potentials(
    first: Tensor, second: Tensor | None, log_a: Tensor, log_b: Tensor, settings: Settings
) -> tuple[Tensor, Tensor]:
    """Potentials (B, N), (B, M) with the gradient of the last `settings.grad_iters` iterations, or of all.

    Parameters
    ----------
    first, second : (B, N, M) and None, or (B, N, d) and (B, M, d)
        A stored cost, or points.
    log_a, log_b : (B, N), (B, M)
        -inf where there is no mass.
    """
    f, g, *_ = _Potentials.call(first, second, log_a, log_b, settings)
    return f, g


class _Potentials(BatchedFunction):
    @staticmethod
    def forward(
        first: Tensor, second: Tensor | None, log_a: Tensor, log_b: Tensor, settings: Settings
    ) -> tuple[Tensor, ...]:
        trace = run(cost_of(first, second), log_a.detach(), log_b.detach(), settings)
        return trace.f, trace.g, trace.n_iters, trace.sums_a, trace.sums_b

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        *tensors, ctx.settings = inputs
        ctx.mark_non_differentiable(*output[2:])
        ctx.save_for_backward(*tensors, *output[2:])

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
        log_a: Tensor,
        log_b: Tensor,
        n_iters: Tensor,
        sums_a: Tensor,
        sums_b: Tensor,
        settings: Settings,
        wanted: bool,
    ) -> tuple[Tensor | None, ...]:
        cost = cost_of(first, second)
        gradient = empty_gradient(cost, wanted)
        bars = []
        with short_vectors():
            for b, part in groups(cost):
                walk = _Walk(part, log_a[b], log_b[b], n_iters[b], sums_a[b], sums_b[b], settings)
                bars.append(walk.back(bar_f[b], bar_g[b], tuple(one[b] for one in gradient)))
        bar_log_a, bar_log_b = (torch.cat(one) for one in zip(*bars, strict=True))
        return *cost_bars(gradient, first.dtype), bar_log_a, bar_log_b


class _Walk:
    """One group of the batch, from its last iteration to its first."""

    def __init__(
        self,
        cost: Cost,
        log_a: Tensor,
        log_b: Tensor,
        n_iters: Tensor,
        sums_a: Tensor,
        sums_b: Tensor,
        settings: Settings,
    ) -> None:
        self.cost, self.settings, self.rule = cost, settings, settings.rule
        self.log_a, self.log_b, self.n_iters = log_a, log_b, n_iters
        self.sums_a, self.sums_b = sums_a, sums_b

    def back(self, bar_f: Tensor, bar_g: Tensor, out: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        """Cotangents of log_a, log_b; those of the cost are added to `out`."""
        rule, on_b = self.rule, self.log_b > -torch.inf
        bar_f = torch.where(self.log_a > -torch.inf, bar_f, 0.0)
        bar_g = torch.where(on_b, bar_g, 0.0)
        bar_log_a, bar_log_b = torch.zeros_like(self.log_a), torch.zeros_like(self.log_b)
        last_f = rule.exponent(self.log_a, rule.f_of(self.log_a, self.sums_a[:, -1]))
        gradient = CostGradient(
            self.cost, rule.epsilon, last_f, _minus(self.sums_b[:, -1], self.log_b), self.settings.passes, out
        )
        steps = int(self.n_iters.max())
        for step in range(min(steps, self.settings.grad_iters) if self.settings.grad_iters else steps):
            alive = (self.n_iters > step).unsqueeze(1)
            bar_f, bar_g = torch.where(alive, bar_f, 0.0), torch.where(alive, bar_g, 0.0)
            bar_f, bar_g, more_a, more_b = self._step(step, alive, bar_f, bar_g, gradient)
            bar_log_a += more_a
            bar_log_b += more_b
        gradient.flush()
        return bar_log_a, bar_log_b

    def _step(
        self, step: int, alive: Tensor, bar_f: Tensor, bar_g: Tensor, gradient: CostGradient
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """One iteration backwards: cotangents of the potentials it started from, and of the log masses."""
        rule, log_a, log_b = self.rule, self.log_a, self.log_b
        at = self.sums_a.shape[1] - 1 - step
        sums_a, sums_b = self.sums_a[:, at], self.sums_b[:, at]
        f, g = rule.f_of(log_a, sums_a), rule.g_of(log_b, sums_b)
        # The exponents of the two softmaxes: over rows i for each j, and over columns j for each i.
        a_new, b_out = rule.exponent(log_a, f), _minus(sums_b, log_b)
        a_out, b_old = _minus(sums_a, log_a), rule.exponent(log_b, self._g_before(step))
        a_new, a_out = torch.where(alive, a_new, -torch.inf), torch.where(alive, a_out, -torch.inf)

        pull = _translation_pull(rule, f, g, log_a, log_b, bar_f, bar_g)
        bar_g = bar_g + pull.bar_g
        bar_sums_b = torch.where(b_out > -torch.inf, -rule.factor_b * rule.epsilon * bar_g, 0.0)
        gradient.add_cols(a_new, b_out, -bar_sums_b / rule.epsilon)

        bar_f, bar_sums_a, bar_b_old = self._through_the_plan(
            step, (a_new, b_out), (a_out, b_old), bar_f, bar_sums_b, pull
        )
        gradient.add_rows(a_out, b_old, -bar_sums_a / rule.epsilon)
        more_a = pull.bar_log_a - bar_sums_a
        more_b = pull.bar_log_b - bar_sums_b
        return torch.zeros_like(bar_f), bar_b_old / rule.epsilon, more_a, more_b

    def _through_the_plan(
        self,
        step: int,
        by_cols: tuple[Tensor, Tensor],
        by_rows: tuple[Tensor, Tensor],
        bar_f: Tensor,
        bar_sums_b: Tensor,
        pull: _Pull,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Cotangents of f, of the rows' log sums and of the exponents b_old that the iteration started from.

        Both softmaxes are one kernel with other factors, by_rows = by_cols exp(to_row_i) exp(to_col_j), so that one pass
        does both; and what the translation asks of f is a row sum of that kernel too. Not so for the cotangent of the
        last f, nor where the factors would leave the range of the dtype.
        """
        rule, cost, passes = self.rule, self.cost, self.settings.passes
        to_row, to_col = _difference(by_rows[0], by_cols[0]), _difference(by_rows[1], by_cols[1])
        step_scale = -rule.factor_a * rule.epsilon
        widest = to_row.amax(1) + to_col.amax(1)
        if step > 0 and not bool((widest > SAFE_EXPONENT[cost.dtype]).any()):
            factor_col = torch.exp(to_col)
            asked = bar_sums_b / rule.epsilon + pull.per_plan_mass * factor_col
            scale = step_scale * torch.exp(to_row)
            all_f, seen = passes.plan_gram(cost, rule.epsilon, *by_cols, asked.unsqueeze(2), scale)
            all_f = all_f.squeeze(2)
            return all_f, step_scale * all_f, factor_col * seen.squeeze(2)
        asked = passes.plan_times(cost, rule.epsilon, *by_cols, bar_sums_b.unsqueeze(2)).squeeze(2)
        all_f = torch.where(by_rows[0] > -torch.inf, bar_f + pull.bar_f + asked / rule.epsilon, 0.0)
        bar_sums_a = step_scale * all_f
        seen = passes.plan_transposed_times(cost, rule.epsilon, *by_rows, bar_sums_a.unsqueeze(2)).squeeze(2)
        return all_f, bar_sums_a, seen

    def _g_before(self, step: int) -> Tensor:
        """The g (B, M) that the iteration `step` from the end started from: 0 for an element's first."""
        at = self.sums_a.shape[1] - 2 - step
        if at < 0:
            return torch.zeros_like(self.log_b)
        _, g = after(self.rule, self.log_a, self.log_b, self.sums_a[:, at], self.sums_b[:, at])
        return torch.where((self.n_iters > step + 1).unsqueeze(1), g, 0.0)


class _Pull:
    """What the translation t = scale (log sum a e^(-f/ta) - log sum b e^(-g/tb)) sends back."""

    def __init__(self, bar_f: Tensor, bar_g: Tensor, bar_log_a: Tensor, bar_log_b: Tensor, per_plan_mass: Tensor):
        self.bar_f, self.bar_g, self.bar_log_a, self.bar_log_b = bar_f, bar_g, bar_log_a, bar_log_b
        self.per_plan_mass = per_plan_mass


def _translation_pull(
    rule: Rule, f: Tensor, g: Tensor, log_a: Tensor, log_b: Tensor, bar_f: Tensor, bar_g: Tensor
) -> _Pull:
    zero_a, zero_b = torch.zeros_like(f), torch.zeros_like(g)
    if rule.is_balanced:
        return _Pull(zero_a, zero_b, zero_a, zero_b, torch.zeros_like(f[:, :1]))
    kept_a = log_a if rule.tau_a is None else log_a - f / rule.tau_a
    kept_b = log_b if rule.tau_b is None else log_b - g / rule.tau_b
    total_a = log_sum(kept_a).unsqueeze(1)
    share_a, share_b = torch.exp(kept_a - total_a), torch.exp(kept_b - log_sum(kept_b).unsqueeze(1))
    bar_t = rule.translation_scale * (bar_f.sum(1) - bar_g.sum(1)).unsqueeze(1)
    per_f = torch.zeros_like(bar_t) if rule.tau_a is None else -bar_t / rule.tau_a
    per_g = torch.zeros_like(bar_t) if rule.tau_b is None else bar_t / rule.tau_b
    # share_a_i is the row sum of the plan of (f, old g), over their total.
    return _Pull(per_f * share_a, per_g * share_b, bar_t * share_a, -bar_t * share_b, per_f * torch.exp(-total_a))


def _minus(sums: Tensor, log_mass: Tensor) -> Tensor:
    """-sums as an exponent: -inf where there is no mass or nothing was summed."""
    return torch.where((log_mass > -torch.inf) & (sums > -torch.inf), -sums, -torch.inf)


def _difference(one: Tensor, other: Tensor) -> Tensor:
    on = (one > -torch.inf) & (other > -torch.inf)
    return torch.where(on, one - torch.where(on, other, 0.0), -torch.inf)

"""The exact gradient of the iterations that were run, without their graph.

The forward solve records two vectors of log sums per iteration (`Recorder`). The backward walks the iterations from last
to first with one pass over the cost each, and sums the gradient of the cost as in `cost_gradient`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pairframe.tiled.cost import Cost
from pairframe.tiled.grad.cost_gradient import SAFE_EXPONENT, CostGradient, difference, empty_gradient
from pairframe.tiled.grad.settings import (
    AdjointFunction,
    BatchedFunction,
    Settings,
    cost_bars,
    cost_of,
    groups,
    wants_cost_gradient,
)
from pairframe.tiled.recorder import Recorder
from pairframe.tiled.side import Side, translation_rate
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
        log_a, log_b = log_a.detach(), log_b.detach()
        # One iteration more than is differentiated: the first of them needs the g it started from.
        keep = settings.grad_iters + 1 if settings.grad_iters else 0
        recorder = Recorder(log_a, log_b, settings.max_iters, keep)
        with torch.no_grad():
            loop = settings.loop(cost_of(first, second), log_a, log_b)
            state = loop.run(settings.stopping, recorder=recorder)
            ended = loop.end_on_a(state)
        recorder.trim(state.n_iters)
        return *loop.potentials(ended), state.n_iters, ended.f0, recorder.sums_a, recorder.sums_b, recorder.shifts

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
        end_f0: Tensor,
        sums_a: Tensor,
        sums_b: Tensor,
        shifts: Tensor,
        settings: Settings,
        wanted: bool,
    ) -> tuple[Tensor | None, ...]:
        cost = cost_of(first, second)
        gradient = empty_gradient(cost, wanted)
        bars = []
        with short_vectors():
            for b, part in groups(cost):
                sides = settings.sides(log_a[b], log_b[b])
                walk = _Walk(part, *sides, n_iters[b], end_f0[b], sums_a[b], sums_b[b], shifts[b], settings)
                bars.append(walk.back(bar_f[b], bar_g[b], tuple(one[b] for one in gradient)))
        bar_log_a, bar_log_b = (torch.cat(one) for one in zip(*bars, strict=True))
        return *cost_bars(gradient, first.dtype), bar_log_a, bar_log_b


@dataclass(frozen=True, eq=False)
class _Walk:
    """The backward of one group of the batch, last iteration first. Cotangents are of potentials over epsilon.

    Attributes
    ----------
    n_iters : (B,)
    end_f0 : (B, N)
        f0 of the result: that of the last iteration, or of `Loop.end_on_a`.
    sums_a, sums_b, shifts : (B, K, N), (B, K, M), (B, K)
        See `Recorder`.
    """

    cost: Cost
    a: Side
    b: Side
    n_iters: Tensor
    end_f0: Tensor
    sums_a: Tensor
    sums_b: Tensor
    shifts: Tensor
    settings: Settings

    def back(self, bar_f: Tensor, bar_g: Tensor, out: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        """Cotangents of log_a, log_b; those of the cost are added to `out`."""
        epsilon = self.settings.epsilon
        bar_f = torch.where(self.a.empty, 0.0, epsilon * bar_f)
        bar_g = torch.where(self.b.empty, 0.0, epsilon * bar_g)
        bars = _Bars(bar_f, bar_g, (bar_f.double().sum(1) - bar_g.double().sum(1)))
        last_a = self.a.exponents(self.a.potential(self.a.updated(self._at(self.sums_a, 0), self._before(0)[1])))
        last_b = _minus(self._at(self.sums_b, 0), self.b.empty)
        gradient = CostGradient(self.cost, epsilon, last_a, last_b, self.settings.passes, out)
        bar_log_a, bar_log_b = torch.zeros_like(bar_f), torch.zeros_like(bar_g)
        if self.a.tau is None and self.b.tau is not None:
            bars, bar_log_a = self._through_the_end(bar_f, bars, gradient)
        steps = int(self.n_iters.max())
        for step in range(min(steps, self.settings.grad_iters) if self.settings.grad_iters else steps):
            bars, more_a, more_b = self._step(step, bars, gradient)
            bar_log_a += more_a
            bar_log_b += more_b
        gradient.flush()
        return bar_log_a, bar_log_b

    def _through_the_end(self, bar_f: Tensor, bars: _Bars, gradient: CostGradient) -> tuple[_Bars, Tensor]:
        """The last update of f alone, f0 = log a - S, backwards: new cotangents, and that of log_a."""
        passes, epsilon = self.settings.passes, self.settings.epsilon
        rows = torch.where(self.a.empty, -torch.inf, self.end_f0 - self.a.log_mass)
        cols = self.b.exponents(self._before(-1)[0])
        gradient.add_rows(rows, cols, bar_f / epsilon)
        back = passes.plan_transposed_times(self.cost, epsilon, rows, cols, bar_f.unsqueeze(2)).squeeze(2)
        return _Bars(None, bars.g0 - back, bars.shift), bar_f.clone()

    def _step(self, step: int, bars: _Bars, gradient: CostGradient) -> tuple[_Bars, Tensor, Tensor]:
        """One iteration backwards: cotangents of its start, and of the log masses."""
        a, b, epsilon = self.a, self.b, self.settings.epsilon
        alive = (self.n_iters > step).unsqueeze(1)
        bars = bars.of(alive)
        sums_a, sums_b = self._at(self.sums_a, step), self._at(self.sums_b, step)
        g0, shift = self._before(step)
        f0 = a.potential(a.updated(sums_a, shift))
        # The exponents of the two softmaxes: over rows i for each j, and over columns j for each i.
        by_cols = torch.where(alive, a.exponents(f0), -torch.inf), _minus(sums_b, b.empty)
        by_rows = torch.where(alive, _minus(sums_a, a.empty), -torch.inf), b.exponents(g0)

        bar_shift = bars.shift + b.undamped * bars.g0.double().sum(1)
        pull = _translation_pull(a, b, f0, g0, shift, bar_shift)
        bar_sums_b = torch.where(by_cols[1] > -torch.inf, -b.damping * bars.g0, 0.0)
        gradient.add_cols(*by_cols, -bar_sums_b / epsilon)

        bar_f, bar_g = self._through_the_plan(by_cols, by_rows, bars.f0, bar_sums_b, pull)
        bar_sums_a = -a.damping * bar_f
        gradient.add_rows(*by_rows, -bar_sums_a / epsilon)
        start = _Bars(None, bar_g + pull.g0, -a.undamped * bar_f.double().sum(1))
        return start, pull.log_a - bar_sums_a, pull.log_b - bar_sums_b

    def _through_the_plan(
        self,
        by_cols: tuple[Tensor, Tensor],
        by_rows: tuple[Tensor, Tensor],
        bar_f: Tensor | None,
        bar_sums_b: Tensor,
        pull: _Pull,
    ) -> tuple[Tensor, Tensor]:
        """Cotangents of f0 (B, N), and of the g0 (B, M) that the row sums were made of.

        Both softmaxes are one kernel with different factors, by_rows = by_cols exp(to_row_i) exp(to_col_j), so one pass
        does both. The translation's part of the cotangent of f0 is a row sum of that kernel too. Separate passes are
        needed if f0 has a cotangent of its own, or if the factors would leave the range of the dtype.
        """
        cost, passes, epsilon = self.cost, self.settings.passes, self.settings.epsilon
        to_row, to_col = difference(by_rows[0], by_cols[0]), difference(by_rows[1], by_cols[1])
        widest = to_row.amax(1) + to_col.amax(1)
        if bar_f is None and not bool((widest > SAFE_EXPONENT[cost.dtype]).any()):
            into = bar_sums_b + pull.per_share * torch.exp(to_col - pull.log_total)
            scale = -self.a.damping * torch.exp(to_row)
            all_f, back = passes.plan_gram(cost, epsilon, *by_cols, into.unsqueeze(2), scale)
            return all_f.squeeze(2), torch.exp(to_col) * back.squeeze(2)
        all_f = passes.plan_times(cost, epsilon, *by_cols, bar_sums_b.unsqueeze(2)).squeeze(2) + pull.f0
        all_f = torch.where(by_rows[0] > -torch.inf, all_f if bar_f is None else all_f + bar_f, 0.0)
        back = passes.plan_transposed_times(cost, epsilon, *by_rows, (-self.a.damping * all_f).unsqueeze(2))
        return all_f, back.squeeze(2)

    def _at(self, record: Tensor, step: int) -> Tensor:
        """The record (B, ...) of the iteration `step` before each element's last one, or of its first iteration."""
        place = (self.n_iters - 1 - step).clamp(min=0) % record.shape[1]
        return record[torch.arange(len(record), device=record.device), place]

    def _before(self, step: int) -> tuple[Tensor, Tensor]:
        """g0 (B, M) and shift (B,) at the start of the iteration `step` before the last: 0 for an element's first."""
        shift = self._at(self.shifts, step + 1)
        g0 = self.b.potential(self.b.updated(self._at(self.sums_b, step + 1), -shift))
        exists = self.n_iters > step + 1
        return torch.where(exists.unsqueeze(1), g0, 0.0), torch.where(exists, shift, 0.0)


@dataclass(frozen=True, eq=False)
class _Bars:
    """Cotangents of a state: f0 (B, N) or None if it is 0, g0 (B, M), shift (B,) float64."""

    f0: Tensor | None
    g0: Tensor
    shift: Tensor

    def of(self, alive: Tensor) -> _Bars:
        """The cotangents, set to zero where not `alive` (B, 1)."""
        f0 = None if self.f0 is None else torch.where(alive, self.f0, 0.0)
        return _Bars(f0, torch.where(alive, self.g0, 0.0), torch.where(alive.squeeze(1), self.shift, 0.0))


@dataclass(frozen=True, eq=False)
class _Pull:
    """Cotangents that the translation sends back: f0, log_a (B, N), g0, log_b (B, M).

    f0 is `per_share` (B, 1) times the share of each row in the plan of (f0, g0), whose log total is `log_total` (B, 1).
    """

    f0: Tensor
    g0: Tensor
    log_a: Tensor
    log_b: Tensor
    per_share: Tensor
    log_total: Tensor


def _translation_pull(a: Side, b: Side, f0: Tensor, g0: Tensor, shift: Tensor, bar_shift: Tensor) -> _Pull:
    """Backwards through shift + t, t = (log sum a e^(-f/tau_a) - log sum b e^(-g/tau_b))/(1/tau_a + 1/tau_b).

    The old shift has cotangent 0, because t cancels it.
    """
    rate, dtype = translation_rate(a, b), f0.dtype
    if rate == 0.0:
        zero = torch.zeros_like(f0[:, :1])
        return _Pull(torch.zeros_like(f0), torch.zeros_like(g0), torch.zeros_like(f0), torch.zeros_like(g0), zero, zero)
    bar_t = (bar_shift / rate).unsqueeze(1)
    log_total = a.log_implied_total(f0, shift).unsqueeze(1)
    share_a = torch.exp(a.log_implied(f0, shift) - log_total)
    share_b = torch.exp(b.log_implied(g0, -shift) - b.log_implied_total(g0, -shift).unsqueeze(1))
    per_a = torch.zeros_like(bar_t) if a.tau is None else -bar_t / a.tau
    per_b = torch.zeros_like(bar_t) if b.tau is None else bar_t / b.tau
    parts = (per_a * share_a, per_b * share_b, bar_t * share_a, -bar_t * share_b, per_a, log_total)
    return _Pull(*(part.to(dtype) for part in parts))


def _minus(sums: Tensor, empty: Tensor) -> Tensor:
    """-sums as an exponent: -inf where there is no mass or the sum is empty."""
    return torch.where(empty | (sums == -torch.inf), -torch.inf, -sums)

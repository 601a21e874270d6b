"""The Sinkhorn loop: one rule for hard and soft marginals, stopping per batch element. All in units of epsilon."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import ModuleType

import torch
from torch import Tensor

from pairframe.tiled.cost import Cost
from pairframe.tiled.strips import short_vectors
from pairframe.tiled.translation import Side, optimal_translation, padded_sum


@dataclass(frozen=True, eq=False)
class State:
    """Where a loop is, or ended; float64 where (B,).

    Attributes
    ----------
    f0, g0 : (B, N), (B, M)
        Potentials over epsilon without their shift; 0 where there is no mass.
    shift : (B,)
        f = f0 + shift, g = g0 - shift.
    plan_mass : (B,)
        Sum of the plan.
    change : (B,)
        Largest step of a potential in the last iteration, over epsilon.
    residual : (B,)
        The larger relative L1 marginal residual at the last check.
    n_iters : (B,), int64
    converged : (B,), bool
    """

    f0: Tensor
    g0: Tensor
    shift: Tensor
    plan_mass: Tensor
    change: Tensor
    residual: Tensor
    n_iters: Tensor
    converged: Tensor


@dataclass(frozen=True)
class Stopping:
    """When an element is done: step and residual both at most `threshold`, looked at every `check_every` iterations."""

    max_iters: int
    threshold: float
    check_every: int = 1


@dataclass(frozen=True, eq=False)
class Loop:
    """A problem ready to iterate on: min <C,P> + eps KL(P || u (x) v) + the two sides' penalties."""

    cost: Cost
    epsilon: float
    a: Side
    b: Side
    passes: ModuleType

    @property
    def full_iteration(self) -> Callable[..., tuple[Tensor, Tensor, Tensor]]:
        """`rows_then_cols`; or, where the passes have it, the cheaper one that skips columns without mass."""
        found: Callable[..., tuple[Tensor, Tensor, Tensor]]
        found = getattr(self.passes, "full_iteration", self.passes.rows_then_cols)
        return found

    def run(self, stopping: Stopping, start: tuple[Tensor, Tensor, Tensor] | None = None, relax: float = 1.0) -> State:
        """Iterate from `start` (f0, g0, shift), or from zero. `relax` above 1 over-relaxes both updates."""
        with short_vectors():
            return self._run(stopping, start, relax)

    def _run(self, stopping: Stopping, start: tuple[Tensor, Tensor, Tensor] | None, relax: float) -> State:
        state, active = _Working.begin(self, start), list(range(self.cost.batch))
        done = _Finished(self)
        for k in range(1, stopping.max_iters + 1):
            last = k == stopping.max_iters
            look = last or (stopping.threshold > 0.0 and k % stopping.check_every == 0)
            state.iterate(_runs(active), relax, look)
            if not look:
                continue
            met = (state.change <= stopping.threshold) & (state.residual <= stopping.threshold)
            if last or bool(met.any()):
                leaving = torch.ones_like(met) if last else met
                done.put(torch.tensor(active, device=met.device)[leaving], state, leaving, k, met)
                if last or bool(met.all()):
                    break
                state = state.keep(~met)
                active = [b for b, out in zip(active, met.tolist(), strict=True) if not out]
        return done.state

    def run_symmetric(self, stopping: Stopping) -> State:
        """For a problem of a measure with itself (a = b, C = C'): f = g, averaged steps f <- (f + update of f)/2.

        They need tens of passes where alternating updates of the same problem may need thousands.
        """
        with short_vectors():
            return self._run_symmetric(stopping)

    def _run_symmetric(self, stopping: Stopping) -> State:
        side, state = self.a, _Finished(self).state
        open_ = torch.ones_like(state.converged)
        shift, f0 = torch.zeros_like(state.shift), torch.zeros_like(side.log_mass)
        for k in range(1, stopping.max_iters + 1):
            exponents = side.exponents(f0)
            sums = self.passes.log_sum_rows(self.cost, self.epsilon, exponents)
            updated = side.potential(_updated(side.update_base(shift), side.damping, sums))
            log_marginal = _plus(exponents, sums)
            change = _largest_step(updated, f0, shift, side)
            residual = side.residual(log_marginal, f0, shift)
            mass = padded_sum(torch.exp(log_marginal.double()))
            for whole, now in ((state.plan_mass, mass), (state.change, change), (state.residual, residual)):
                whole[open_] = now[open_]
            state.f0[open_], state.g0[open_], state.n_iters[open_] = f0[open_], f0[open_], k
            state.converged[open_] = ((change <= stopping.threshold) & (residual <= stopping.threshold))[open_]
            open_ = ~state.converged
            if not bool(open_.any()):
                break
            f0 = 0.5 * (f0 + updated)
        return state

    def end_on_a(self, state: State) -> State:
        """One more update of f alone: where a is the only hard side, the plan must end on it."""
        exponents_b = self.b.exponents(state.g0)
        sums = self.passes.log_sum_rows(self.cost, self.epsilon, exponents_b)
        exponents_a = _updated(self.a.update_base(state.shift), self.a.damping, sums)
        mass = padded_sum(torch.exp(_plus(exponents_a, sums).double()))
        return replace(state, f0=self.a.potential(exponents_a), plan_mass=mass)


class _Working:
    """The elements that still iterate, gathered: cheap, as everything here is of size N + M."""

    def __init__(self, loop: Loop, a: Side, b: Side, f0: Tensor, g0: Tensor, shift: Tensor) -> None:
        self.loop, self.a, self.b = loop, a, b
        self.f0, self.g0, self.shift = f0, g0, shift
        self.change = self.residual = self.plan_mass = torch.full_like(shift, math.inf)

    @classmethod
    def begin(cls, loop: Loop, start: tuple[Tensor, Tensor, Tensor] | None) -> _Working:
        if start is None:
            shift = torch.zeros(loop.cost.batch, dtype=torch.float64, device=loop.cost.device)
            return cls(
                loop, loop.a, loop.b, torch.zeros_like(loop.a.log_mass), torch.zeros_like(loop.b.log_mass), shift
            )
        return cls(loop, loop.a, loop.b, *start)

    def iterate(self, runs: list[tuple[int, int, int]], relax: float, look: bool) -> None:
        """One full iteration; `look` also finds out how good it was."""
        a, b = self.a, self.b
        f0, g0, shift = self.f0, self.g0, self.shift
        exponents_b = b.exponents(g0)
        base, old = a.update_base(shift), a.exponents(f0) if relax != 1.0 else None
        parts = []
        for start, stop, at in runs:
            window = slice(at, at + stop - start)
            update = _row_update(base[window], a.damping, relax, None if old is None else old[window])
            view = self.loop.cost.batch_slice(start, stop)
            parts.append(self.loop.full_iteration(view, self.loop.epsilon, exponents_b[window], update))
        sums_a, exponents_a, sums_b = parts[0] if len(parts) == 1 else (torch.cat(t) for t in zip(*parts, strict=True))
        self.f0 = a.potential(exponents_a)
        # The translation moves no exponent, only what the updates are damped towards: it is free.
        self.shift = shift + optimal_translation(a, self.f0, b, g0, shift)
        new_b = _updated(b.update_base(-self.shift), b.damping, sums_b)
        if relax != 1.0:
            new_b = _relaxed(exponents_b, new_b, relax)
        self.g0 = b.potential(new_b)
        if look:
            of_a = a.residual(_plus(exponents_a, sums_a), self.f0, shift)
            self.residual = torch.maximum(of_a, b.residual(_plus(exponents_b, sums_b), g0, -shift))
            self.plan_mass = padded_sum(torch.exp(_plus(new_b, sums_b).double()))
            step = self.shift - shift
            self.change = torch.maximum(_largest_step(self.f0, f0, step, a), _largest_step(self.g0, g0, -step, b))

    def keep(self, kept: Tensor) -> _Working:
        rest = _Working(
            self.loop, self.a.select(kept), self.b.select(kept), self.f0[kept], self.g0[kept], self.shift[kept]
        )
        for name in ("change", "residual", "plan_mass"):
            setattr(rest, name, getattr(self, name)[kept])
        return rest


class _Finished:
    """Results, filled in as elements leave."""

    def __init__(self, loop: Loop) -> None:
        batch, device = loop.cost.batch, loop.cost.device
        per_element = {name: torch.zeros(batch, dtype=torch.float64, device=device) for name in _SCALARS}
        self.state = State(
            f0=torch.zeros_like(loop.a.log_mass),
            g0=torch.zeros_like(loop.b.log_mass),
            n_iters=torch.zeros(batch, dtype=torch.int64, device=device),
            converged=torch.zeros(batch, dtype=torch.bool, device=device),
            **per_element,
        )

    def put(self, where: Tensor, working: _Working, leaving: Tensor, k: int, met: Tensor) -> None:
        for name in ("f0", "g0", *_SCALARS):
            getattr(self.state, name)[where] = getattr(working, name)[leaving]
        self.state.converged[where] = met[leaving]
        self.state.n_iters[where] = k


_SCALARS = ("shift", "plan_mass", "change", "residual")


def _row_update(
    base: Tensor, damping: float, relax: float, old: Tensor | None
) -> Callable[[tuple[slice, slice], Tensor], Tensor]:
    def update(rows: tuple[slice, slice], sums: Tensor) -> Tensor:
        new = _updated(base[rows], damping, sums)
        return new if old is None else _relaxed(old[rows], new, relax)

    return update


def _updated(base: Tensor, damping: float, sums: Tensor) -> Tensor:
    """base - damping sums; -inf where nothing was summed."""
    return torch.sub(base, sums, alpha=damping).masked_fill_(torch.isneginf(sums), -math.inf)


def _relaxed(old: Tensor, new: Tensor, relax: float) -> Tensor:
    return torch.where(torch.isneginf(new), new, old + relax * (new - old))


def _plus(exponents: Tensor, sums: Tensor) -> Tensor:
    """log of a marginal; the exponents are never +inf, so that NaN does not come up, but -inf does."""
    return (exponents + sums).nan_to_num_(nan=-math.inf, neginf=-math.inf)


def _largest_step(new: Tensor, old: Tensor, step: Tensor, side: Side) -> Tensor:
    moved = ((new - old).double() + step.unsqueeze(1)).abs_()
    return moved.masked_fill_(side.empty, 0.0).amax(1)


def _runs(active: list[int]) -> list[tuple[int, int, int]]:
    """Neighbours in the batch as (first, one past the last, position among the active)."""
    runs: list[tuple[int, int, int]] = []
    for position, b in enumerate(active):
        if runs and runs[-1][1] == b:
            runs[-1] = (runs[-1][0], b + 1, runs[-1][2])
        else:
            runs.append((b, b + 1, position))
    return runs

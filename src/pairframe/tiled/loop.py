"""The Sinkhorn loop: one rule for hard and soft marginals, stopping per batch element. All in units of epsilon.

`sinkhorn`, the gradients and the torch engine all run it. A `Recorder` keeps what a backward pass needs; autograd can
differentiate the loop itself if its passes are differentiable (`grad.dense_passes`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import ModuleType

import torch
from torch import Tensor

from pairframe.tiled.cost import Cost, is_stored, stored
from pairframe.tiled.passes import Update
from pairframe.tiled.recorder import Recorder
from pairframe.tiled.side import Side, optimal_translation
from pairframe.tiled.strips import short_vectors
from pairframe.tiled.sums import padded_sum

Progress = Callable[[int, int, float], None]
"""(iterations so far, elements that still iterate, their largest marginal error)."""


@dataclass(frozen=True, eq=False)
class State:
    """The end of a loop; (B,) tensors are float64 unless noted.

    Attributes
    ----------
    f0, g0 : (B, N), (B, M)
        Potentials over epsilon, without the shift; 0 where there is no mass.
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
    """When an element is done: step and residual at most `threshold`, checked every `check_every` iterations."""

    max_iters: int
    threshold: float
    check_every: int = 1


@dataclass(frozen=True, eq=False)
class Loop:
    """A problem ready to solve: min <C,P> + eps KL(P || u (x) v) + the penalties of the two sides."""

    cost: Cost
    epsilon: float
    a: Side
    b: Side
    passes: ModuleType

    @property
    def full_iteration(self) -> Callable[..., tuple[Tensor, Tensor, Tensor]]:
        """`rows_then_cols`, or a cheaper variant that skips columns without mass if the passes have one."""
        found: Callable[..., tuple[Tensor, Tensor, Tensor]]
        found = getattr(self.passes, "full_iteration", self.passes.rows_then_cols)
        return found

    def run(
        self,
        stopping: Stopping,
        start: tuple[Tensor, Tensor, Tensor] | None = None,
        relax: float = 1.0,
        recorder: Recorder | None = None,
        progress: Progress | None = None,
    ) -> State:
        """Iterate from `start` (f0, g0, shift), or from zero. `relax` above 1 over-relaxes both updates.

        `progress` is called at every check.
        """
        compiled: Callable[..., State] | None = getattr(self.passes, "solve_small", None)
        if compiled is not None and relax == 1.0 and progress is None:
            return compiled(self, stopping, start, recorder)
        loop = self.with_stored_cost()
        with short_vectors():
            return loop.iterate(stopping, start, relax, recorder, progress)

    def with_stored_cost(self) -> Loop:
        """The loop on stored distances, if points in many dimensions make them worth it."""
        return replace(self, cost=stored(self.cost)) if is_stored(self.cost) else self

    def iterate(
        self,
        stopping: Stopping,
        start: tuple[Tensor, Tensor, Tensor] | None = None,
        relax: float = 1.0,
        recorder: Recorder | None = None,
        progress: Progress | None = None,
    ) -> State:
        """`run` with torch's own threads left on, for passes that need them.

        With ``threshold=0`` the control flow depends on no value, so everything in torch.func works.
        """
        working, active = _Working.begin(self, start), list(range(self.cost.batch))
        done = None
        for k in range(1, stopping.max_iters + 1):
            last = k == stopping.max_iters
            check = last or (stopping.threshold > 0.0 and k % stopping.check_every == 0)
            sums_a, sums_b = working.iterate(_runs(active), relax, check)
            if recorder is not None:
                recorder.add(k - 1, active, sums_a, sums_b, working.shift)
            if not check:
                continue
            if progress is not None:
                progress(k, len(active), float(working.residual.max()))
            met = (working.change <= stopping.threshold) & (working.residual <= stopping.threshold)
            if not (last or bool(met.any())):
                continue
            everyone = last or bool(met.all())
            if done is None and everyone:
                return working.end(k, met)
            done = _unfilled(self) if done is None else done
            leaving = torch.ones_like(met) if everyone else met
            working.leave(done, torch.tensor(active, device=met.device)[leaving], leaving, k, met)
            if everyone:
                break
            working = working.keep(~met)
            active = [b for b, out in zip(active, met.tolist(), strict=True) if not out]
        assert done is not None  # max_iters >= 1, and the last iteration always checks
        return done

    def run_symmetric(self, stopping: Stopping) -> State:
        """Solve a measure against itself (a = b, C = C') with f = g, by averaged steps f <- (f + update of f)/2.

        This takes tens of passes on problems for which alternating updates may take thousands.
        """
        compiled: Callable[..., State] | None = getattr(self.passes, "solve_small_symmetric", None)
        if compiled is not None:
            return compiled(self, stopping)
        loop = self.with_stored_cost()
        with short_vectors():
            return loop._run_symmetric(stopping)

    def _run_symmetric(self, stopping: Stopping) -> State:
        side, state = self.a, _unfilled(self)
        open_ = torch.ones_like(state.converged)
        shift, f0 = torch.zeros_like(state.shift), torch.zeros_like(side.log_mass)
        for k in range(1, stopping.max_iters + 1):
            exponents = side.exponents(f0)
            sums = self.passes.log_sum_rows(self.cost, self.epsilon, exponents)
            updated = side.potential(side.updated(sums, shift))
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

    def at_epsilon(self, epsilon: float) -> Loop:
        """The same problem at another epsilon."""
        ratio = self.epsilon / epsilon
        a, b = (replace(side, tau=None if side.tau is None else side.tau * ratio) for side in (self.a, self.b))
        return replace(self, epsilon=epsilon, a=a, b=b)

    def end_on_a(self, state: State) -> State:
        """One more update of f alone if a is the only hard side, so that the plan meets it; else `state` itself."""
        if self.a.tau is not None or self.b.tau is None:
            return state
        sums = self.passes.log_sum_rows(self.cost, self.epsilon, self.b.exponents(state.g0))
        exponents_a = self.a.updated(sums, state.shift)
        with torch.no_grad():
            mass = padded_sum(torch.exp(_plus(exponents_a, sums).double()))
        return replace(state, f0=self.a.potential(exponents_a), plan_mass=mass)

    def potentials(self, state: State) -> tuple[Tensor, Tensor]:
        """f (B, N) and g (B, M) in cost units; 0 where there is no mass."""
        f = self.a.in_cost_units(state.f0, state.shift, self.epsilon)
        return f, self.b.in_cost_units(state.g0, -state.shift, self.epsilon)


class _Working:
    """The elements that still iterate, gathered; cheap, because everything here has size N + M."""

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

    def iterate(self, runs: list[tuple[int, int, int]], relax: float, check: bool) -> tuple[Tensor, Tensor]:
        """One full iteration, and its log sums; `check` also measures how good it was."""
        a, b = self.a, self.b
        f0, g0, shift = self.f0, self.g0, self.shift
        exponents_b = b.exponents(g0)
        base, old = a.update_base(shift), a.exponents(f0) if relax != 1.0 else None
        parts = []
        for start, stop, at in runs:
            window = slice(at, at + stop - start)
            update = _row_update(a, window, base[window], relax, None if old is None else old[window])
            view = self.loop.cost.batch_slice(start, stop)
            parts.append(self.loop.full_iteration(view, self.loop.epsilon, exponents_b[window], update))
        sums_a, exponents_a, sums_b = parts[0] if len(parts) == 1 else (torch.cat(t) for t in zip(*parts, strict=True))
        self.f0 = a.potential(exponents_a)
        # The translation changes no exponent, only what the updates are damped towards, so it needs no pass.
        self.shift = shift + optimal_translation(a, self.f0, b, g0, shift)
        new_b = b.updated(sums_b, -self.shift)
        if relax != 1.0:
            new_b = _relaxed(exponents_b, new_b, relax)
        self.g0 = b.potential(new_b)
        if check:
            with torch.no_grad():
                of_a = a.residual(_plus(exponents_a, sums_a), self.f0, shift)
                self.residual = torch.maximum(of_a, b.residual(_plus(exponents_b, sums_b), g0, -shift))
                self.plan_mass = padded_sum(torch.exp(_plus(new_b, sums_b).double()))
                step = self.shift - shift
                self.change = torch.maximum(_largest_step(self.f0, f0, step, a), _largest_step(self.g0, g0, -step, b))
        return sums_a, sums_b

    def keep(self, kept: Tensor) -> _Working:
        """The elements `kept` (k,) bool."""
        return _Working(
            self.loop, self.a.select(kept), self.b.select(kept), self.f0[kept], self.g0[kept], self.shift[kept]
        )

    def leave(self, done: State, where: Tensor, leaving: Tensor, k: int, met: Tensor) -> None:
        """Write the elements `leaving` after iteration `k` to the places `where` of `done`."""
        for name in ("f0", "g0", *_SCALARS):
            getattr(done, name)[where] = getattr(self, name)[leaving]
        done.converged[where] = met[leaving]
        done.n_iters[where] = k

    def end(self, k: int, met: Tensor) -> State:
        """The state if the whole batch ends after iteration `k`."""
        n_iters = torch.full((self.loop.cost.batch,), k, dtype=torch.int64, device=self.loop.cost.device)
        return State(
            self.f0, self.g0, self.shift, self.plan_mass, self.change, self.residual, n_iters=n_iters, converged=met
        )


_SCALARS = ("shift", "plan_mass", "change", "residual")


def _unfilled(loop: Loop) -> State:
    """Zeros, to be filled in as elements leave the loop."""
    batch, device = loop.cost.batch, loop.cost.device
    return State(
        f0=torch.zeros_like(loop.a.log_mass),
        g0=torch.zeros_like(loop.b.log_mass),
        n_iters=torch.zeros(batch, dtype=torch.int64, device=device),
        converged=torch.zeros(batch, dtype=torch.bool, device=device),
        **{name: torch.zeros(batch, dtype=torch.float64, device=device) for name in _SCALARS},
    )


def _row_update(side: Side, window: slice, base: Tensor, relax: float, old: Tensor | None) -> Update:
    def update(rows: tuple[slice, slice], sums: Tensor) -> Tensor:
        new = side.update(base[rows], sums)
        if side.bounds is not None:
            new = side.clipped(new, side.log_reference[window][rows])
        return new if old is None else _relaxed(old[rows], new, relax)

    return update


def _relaxed(old: Tensor, new: Tensor, relax: float) -> Tensor:
    return torch.where(torch.isneginf(new), new, old + relax * (new - old))


def _plus(exponents: Tensor, sums: Tensor) -> Tensor:
    """Log of a marginal; -inf where either term is."""
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

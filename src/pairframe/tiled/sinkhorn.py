"""`sinkhorn`: the forward solve, without gradients. For gradients see `sinkhorn_differentiable`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from pairframe.tiled.backends import backend_for, passes_of
from pairframe.tiled.cost import DenseCost, is_stored
from pairframe.tiled.entry_point import entry_point
from pairframe.tiled.inputs import (
    CostLike,
    as_cost,
    check_cost,
    check_epsilon,
    check_stopping,
    check_tau,
    equal_totals,
    log_masses,
    log_references,
    without_padding_places,
    without_stranded,
)
from pairframe.tiled.loop import Loop, Progress, State
from pairframe.tiled.output import SinkhornOutput
from pairframe.tiled.side import Side, backend_of_penalty
from pairframe.tiled.small.entry import Solved
from pairframe.tiled.small.entry import solve as short_way
from pairframe.tiled.start import Start, check_schedule, starting_point
from pairframe.tiled.transforms import refuse_func_gradients, refuse_mapped, refuse_tangents

_ROUGH = 1e-2  # the threshold at a larger epsilon


@entry_point
@torch.no_grad()
def sinkhorn(
    C: CostLike,
    a: Tensor | None = None,
    b: Tensor | None = None,
    epsilon: float = 0.1,
    tau_a: float | None = None,
    tau_b: float | None = None,
    mask_a: Tensor | None = None,
    mask_b: Tensor | None = None,
    backend: str = "auto",
    max_iters: int = 100,
    threshold: float = 1e-6,
    reference: str = "counting",
    log_a: Tensor | None = None,
    log_b: Tensor | None = None,
    renormalize: bool = False,
    *,
    check_every: int = 1,
    init: SinkhornOutput | tuple[Tensor, Tensor] | None = None,
    schedule: Sequence[float] = (),
    progress: Progress | None = None,
    penalty: str = "kl",
) -> SinkhornOutput:
    """Minimise <C,P> + eps KL(P || u (x) v) + tau_a KL(P1 || a) + tau_b KL(P'1 || b) over P >= 0, per batch element.

    Parameters
    ----------
    C : (B, N, M), or a pair of points ((B, N, d), (B, M, d))
        Cost, or points whose squared distances are computed tile by tile and never stored. +inf forbids a pair.
    a, b : (B, N), (B, M), optional
        Masses >= 0; zeros are allowed. Default: 1/n over the unmasked entries.
    tau_a, tau_b : float, optional
        Marginal penalties (lambda in formulas), in cost units; None or inf makes the marginal hard.
    mask_a, mask_b : (B, N), (B, M) bool, optional
        Entries that are False are ignored: their cost and mass may be anything, NaN and inf included.
    backend : {"auto", "torch", "triton"}
    max_iters : int
        Full iterations, f then g.
    threshold : float
        A batch element has converged when its potentials change by at most `threshold` times epsilon in an iteration
        *and* the relative error of its marginals is at most `threshold`.
    reference : {"counting", "product"}
        u (x) v: ones where there is mass, or a (x) b / sqrt(M_a M_b).
    log_a, log_b : (B, N), (B, M), optional
        Log masses, in place of `a` and `b`.
    renormalize : bool
        Scale the masses of both sides, after masking, to a sum of 1.
    check_every : int
        How many iterations to run between two checks of `threshold`.
    init : SinkhornOutput or (f, g), optional
        Where to start: a solve of a similar problem, or potentials (B, N), (B, M) in cost units. The first update is of f,
        so f itself is not used.
    schedule : sequence of floats
        Larger values of epsilon to solve first, in falling order, each to a threshold of at least 1e-2. For a small epsilon this
        takes fewer iterations than a start from zero. Each may take `max_iters` iterations; `n_iters` counts all of them.
    progress : callable (iterations, problems still open, their largest marginal error), optional
        Called at every check, which the loop on tiles makes: it is slower for small problems. Problems that end at this check still
        count as open.
    penalty : {"kl", "tv", "partial"}
        Of soft marginals: ``tau KL(p || a)``, ``tau sum |p - a|``, or the latter with p <= a. The last two need both taus,
        run on the tiles, and take more iterations.

    Returns
    -------
    SinkhornOutput
        `converged` tells per element whether the threshold was reached.
    """
    refuse_tangents("sinkhorn", "use sinkhorn_differentiable and reverse mode, or sinkhorn_jvp", C, a, b, log_a, log_b)
    refuse_func_gradients("sinkhorn", "use sinkhorn_differentiable or sinkhorn_value", C, a, b, log_a, log_b)
    stopping, taus = (
        check_stopping(max_iters, threshold, check_every),
        (check_tau("tau_a", tau_a), check_tau("tau_b", tau_b)),
    )
    backend = backend_of_penalty(penalty, taus, backend)
    is_simple = init is None and not schedule and progress is None and penalty == "kl"
    if is_simple and log_a is None and log_b is None and not renormalize and (taus[0] is not None or taus[1] is None):
        solved = short_way(C, (a, b), (mask_a, mask_b), epsilon, taus, reference, backend, stopping)
        if solved is not None:
            return _plain_output(solved, reference)
    problem = prepared(
        C, (a, b), (log_a, log_b), (mask_a, mask_b), epsilon, (tau_a, tau_b), reference, backend, renormalize, penalty
    )
    loop = problem.loop
    state, earlier = None, torch.zeros(loop.cost.batch, dtype=torch.int64, device=loop.cost.device)
    start = None if init is None else starting_point(init, loop)
    if start is not None and penalty != "kl":  # potentials with bounds are whole
        shift = start[2].unsqueeze(1)
        start = (start[0] + shift).to(start[0].dtype), (start[1] - shift).to(start[1].dtype), torch.zeros_like(start[2])
    for larger in check_schedule(schedule, loop.epsilon):
        above = loop.at_epsilon(larger)
        state = above.run(
            replace(stopping, threshold=max(stopping.threshold, _ROUGH)),
            _rescaled(start, loop, above),
            progress=progress,
        )
        start = _rescaled((state.f0, state.g0, state.shift), above, loop)
        earlier += state.n_iters
    state = loop.run(stopping, start, progress=progress)
    return problem.output(replace(loop.end_on_a(state), n_iters=state.n_iters + earlier))


def _rescaled(start: Start | None, before: Loop, after: Loop) -> Start | None:
    """A point in units of one epsilon in those of another."""
    if start is None:
        return None
    ratio = before.epsilon / after.epsilon
    return start[0] * ratio, start[1] * ratio, start[2] * ratio


def _plain_output(solved: Solved, reference: str) -> SinkhornOutput:
    mismatch = torch.from_numpy(solved.mismatch)
    side_a, side_b = solved.sides()
    stranded = torch.zeros_like(mismatch)
    return SinkhornOutput.of(
        solved.state(), side_a, side_b, solved.epsilon, reference, "compiled", mismatch, stranded, True
    )


@dataclass(frozen=True, eq=False)
class Prepared:
    """A checked problem, ready to solve."""

    loop: Loop
    reference: str
    backend: str
    mismatch: Tensor
    stranded: Tensor

    def output(self, state: State) -> SinkhornOutput:
        """The output for the end of the loop."""
        loop = self.loop
        is_given_or_stored = self.backend == "compiled" or isinstance(loop.cost, DenseCost) or is_stored(loop.cost)
        return SinkhornOutput.of(
            state,
            loop.a,
            loop.b,
            loop.epsilon,
            self.reference,
            self.backend,
            self.mismatch,
            self.stranded,
            is_given_or_stored,
        )


def prepared(
    C: CostLike,
    masses: tuple[Tensor | None, Tensor | None],
    logs: tuple[Tensor | None, Tensor | None],
    masks: tuple[Tensor | None, Tensor | None],
    epsilon: float,
    taus: tuple[float | None, float | None],
    reference: str,
    backend: str,
    renormalize: bool = False,
    penalty: str = "kl",
) -> Prepared:
    """Check a problem and set up its loop; parameters as in `sinkhorn`, those of the two sides as pairs."""
    refuse_mapped("sinkhorn (and divergence without gradients)", C, *masses, *logs, *masks)
    cost = as_cost(without_padding_places(C, *masks))
    forbids = check_cost(cost)
    epsilon = check_epsilon(epsilon, cost.dtype)
    tau_a, tau_b = check_tau("tau_a", taus[0]), check_tau("tau_b", taus[1])
    name = backend_for(backend, cost.device, cost.batch, cost.n, cost.m)
    log_a = log_masses("a", masses[0], logs[0], masks[0], cost, renormalize)
    log_b = log_masses("b", masses[1], logs[1], masks[1], cost, renormalize)
    mismatch = torch.zeros(cost.batch, dtype=torch.float64, device=cost.device)
    if tau_a is None and tau_b is None:
        log_a, log_b, mismatch = equal_totals(log_a, log_b)
    passes, stranded = passes_of(name), torch.zeros_like(mismatch)
    if forbids:
        log_a, log_b, stranded = without_stranded(cost, log_a, log_b, (tau_a, tau_b), passes)
    log_u, log_v = log_references(reference, log_a, log_b)
    side_a, side_b = (
        Side.of(log_mass, log_factor, tau, epsilon, penalty)
        for log_mass, log_factor, tau in ((log_a, log_u, tau_a), (log_b, log_v, tau_b))
    )
    return Prepared(Loop(cost, epsilon, side_a, side_b, passes), reference, name, mismatch, stranded)

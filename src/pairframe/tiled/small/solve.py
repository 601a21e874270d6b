"""The compiled loop for the solvers of this folder: a `Loop` in, a `State` out."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numba.core.event import install_listener
from torch import Tensor

from pairframe.compiler import CompileNotice
from pairframe.tiled.cost import Cost, DenseCost
from pairframe.tiled.recorder import Recorder
from pairframe.tiled.small import loops, plain
from pairframe.tiled.small.model import worth_threads
from pairframe.tiled.strips import n_threads, thread_pool

if TYPE_CHECKING:
    from pairframe.tiled.loop import Loop, State, Stopping

_GROUP_ENTRIES = 1 << 22  # of a cost that is stored for the solve
_RECORD_ENTRIES = 1 << 21  # a longer record is written in a second run, when its length is known
# Points are moved to their centre for the sake of digits, unless it is about as close to the origin as they are to it, squared:
# one digit less, but half of the time that distances take besides their product.
_OFF_CENTRE = 8.0
_lock = Lock()
_ready: set[torch.dtype] = set()


def solve_small(
    loop: Loop, stopping: Stopping, start: tuple[Tensor, Tensor, Tensor] | None = None, recorder: Recorder | None = None
) -> State:
    """`Loop.run` for small problems on the CPU."""
    batch, n, m = loop.cost.batch, loop.cost.n, loop.cost.m
    if start is None:
        f0, g0, figures = np.zeros((batch, n)), np.zeros((batch, m)), np.zeros((batch, loops.N_FIGURES))
    else:
        f0, g0 = (one.double().numpy(force=True).copy() for one in start[:2])
        figures = np.zeros((batch, loops.N_FIGURES))
        figures[:, loops.SHIFT] = start[2].numpy(force=True)
    size = 0
    if recorder is not None:
        size = recorder.most
        if size * batch * (n + m) > _RECORD_ENTRIES:
            size = min(size, int(solve_small(loop, stopping, start).n_iters.max()))
    sums_a, sums_b, shifts = np.zeros((batch, size, n)), np.zeros((batch, size, m)), np.zeros((batch, size))
    sides = [_doubles(one) for side in (loop.a, loop.b) for one in (side.log_mass, side.log_reference)]
    log_a, log_u, log_b, log_v = sides
    taus = tuple(loops.HARD if side.tau is None else side.tau for side in (loop.a, loop.b))
    stop = (stopping.max_iters, stopping.threshold, stopping.check_every)

    def solve(cost: np.ndarray[Any, Any], first: int, b0: int, b1: int) -> None:
        """Problems b0 to b1; the cost starts at problem `first`."""
        part = slice(first, first + len(cost))
        loops.solve_batch(
            cost,
            loop.epsilon,
            *(one[part] for one in (log_a, log_b, log_u, log_v)),
            taus,
            stop,
            *(one[part] for one in (f0, g0, figures, sums_a, sums_b, shifts)),
            b0 - first,
            b1 - first,
        )

    _across_cores(loop.cost, solve)
    if recorder is not None:
        dtype = loop.cost.dtype
        recorder.replace(_tensor(sums_a, dtype), _tensor(sums_b, dtype), torch.from_numpy(shifts))
    return _state(f0, g0, figures, loop.cost.dtype)


def solve_small_symmetric(loop: Loop, stopping: Stopping) -> State:
    """`Loop.run_symmetric` for small problems on the CPU."""
    f0, figures = np.zeros((loop.cost.batch, loop.cost.n)), np.zeros((loop.cost.batch, loops.N_FIGURES))
    log_a, log_u = _doubles(loop.a.log_mass), _doubles(loop.a.log_reference)
    tau = loops.HARD if loop.a.tau is None else loop.a.tau
    stop = (stopping.max_iters, stopping.threshold, stopping.check_every)

    def solve(cost: np.ndarray[Any, Any], first: int, b0: int, b1: int) -> None:
        part = slice(first, first + len(cost))
        sides = log_a[part], log_u[part]
        loops.solve_symmetric_batch(
            cost, loop.epsilon, *sides, tau, stop, f0[part], figures[part], b0 - first, b1 - first
        )

    _across_cores(loop.cost, solve)
    return _state(f0, f0.copy(), figures, loop.cost.dtype)


def stored(cost: Cost) -> Tensor:
    """The cost (B, N, M), contiguous, in float32 or float64; squared distances are float64."""
    if isinstance(cost, DenseCost):
        return cost.matrix.to(cost.dtype).contiguous()
    x, y = cost.x.double(), cost.y.double()
    if x.shape[2] > 3:
        centre, of_y = y.mean(1, keepdim=True), torch.linalg.vecdot(y, y)
        off = torch.linalg.vecdot(centre, centre)
        if not bool((off <= _OFF_CENTRE * (of_y.mean(1, keepdim=True) - off)).all()):
            x, y = x - centre, y - centre
            of_y = torch.linalg.vecdot(y, y)
        squares = torch.baddbmm(torch.linalg.vecdot(x, x).unsqueeze(2) + of_y.unsqueeze(1), x, y.mT, alpha=-2.0)
        return squares.clamp_(min=0.0)
    out = (x[:, :, None, 0] - y[:, None, :, 0]).square_()
    for k in range(1, x.shape[2]):
        out += (x[:, :, None, k] - y[:, None, :, k]).square_()
    return out


def stored_plan(cost: Cost, epsilon: float, log_a_hat: Tensor, log_b_hat: Tensor) -> Tensor | None:
    """The plan (B, N, M) in the dtype of the cost, or None if it would take more than 32 MB."""
    shape = (cost.batch, cost.n, cost.m)
    if cost.batch * cost.n * cost.m > _GROUP_ENTRIES:
        return None
    out, ones = np.empty(shape), np.ones(cost.batch)
    plain.plans(stored(cost).numpy(), epsilon, _doubles(log_a_hat), _doubles(log_b_hat), ones, out, 0, cost.batch)
    return _tensor(out, cost.dtype)


def make_ready(dtype: torch.dtype) -> None:
    """Load the loop for costs of that dtype, or compile it with a notice if it is not on disk yet."""
    if dtype in _ready:
        return
    name = str(dtype).removeprefix("torch.")
    with _lock:
        notice = CompileNotice("the small solver", f" for {name} numbers", 10, "pairframe.tiled.small.", is_quiet=False)
        with install_listener("numba:compile", notice):
            none, one, figures = np.zeros((1, 0, 0)), np.zeros((1, 1)), np.zeros((1, loops.N_FIGURES))
            ends = one.copy(), one.copy()
            cost, sides, stop = np.zeros((1, 1, 1), name), (one, one, one, one), (1, 0.0, 1)
            loops.solve_batch(cost, 1.0, *sides, (1.0, 1.0), stop, *ends, figures, none, none, none[0], 0, 1)
        _ready.add(dtype)


def _across_cores(cost: Cost, solve: Callable[[np.ndarray[Any, Any], int, int, int], None]) -> None:
    """Run `solve` over the batch, in threads if there is enough to do."""
    make_ready(cost.dtype if isinstance(cost, DenseCost) else torch.float64)
    threads, batch = n_threads(), cost.batch
    group = max(1, _GROUP_ENTRIES // max(1, cost.n * cost.m))
    if isinstance(cost, DenseCost):
        group, whole = batch, stored(cost).numpy()
    if threads == 1 or batch == 1 or not worth_threads(batch, cost.n * cost.m):
        pieces = [(b, min(b + group, batch)) for b in range(0, batch, group)]
    else:
        size = min(group, max(1, -(-batch // (4 * threads))))
        pieces = [(b, min(b + size, batch)) for b in range(0, batch, size)]

    def piece(ends: tuple[int, int]) -> None:
        b0, b1 = ends
        if isinstance(cost, DenseCost):
            solve(whole, 0, b0, b1)
        else:
            with torch.no_grad():
                solve(stored(cost.batch_slice(b0, b1)).numpy(), b0, b0, b1)

    if len(pieces) == 1 or threads == 1:
        for ends in pieces:
            piece(ends)
    else:
        list(thread_pool(threads).map(piece, pieces))


def _doubles(tensor: Tensor) -> np.ndarray[Any, Any]:
    return tensor.detach().double().contiguous().numpy()


def _tensor(array: np.ndarray[Any, Any], dtype: torch.dtype) -> Tensor:
    return torch.from_numpy(array).to(dtype)


def _state(
    f0: np.ndarray[Any, Any], g0: np.ndarray[Any, Any], figures: np.ndarray[Any, Any], dtype: torch.dtype
) -> State:
    from pairframe.tiled.loop import State

    shift, plan_mass, change, residual, n_iters, converged, _ = torch.from_numpy(figures).unbind(1)
    return State(
        _tensor(f0, dtype), _tensor(g0, dtype), shift, plan_mass, change, residual, n_iters.long(), converged.bool()
    )

"""The short way into the compiled loop: plain tensors on the CPU are checked, solved and packed by one compiled call.

A function here returns None for any input that is not plain. The general path then takes it, or refuses it with its reason.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pairframe.tiled.cost import PointCost
from pairframe.tiled.inputs import TOTALS_AGREE, lowest_cost, without_padding_places
from pairframe.tiled.loop import State, Stopping
from pairframe.tiled.side import Side
from pairframe.tiled.small import loops, plain
from pairframe.tiled.small.model import is_small, worth_threads
from pairframe.tiled.small.solve import make_ready, stored
from pairframe.tiled.strips import n_threads, thread_pool

Array = np.ndarray[Any, Any]
_PLAIN_TYPES = (Tensor, torch.nn.Parameter)
_NO_MASS, _NO_MASK = np.zeros((0, 0)), np.zeros((0, 0), dtype=bool)
_LEAST_EPSILON = {torch.float64: 1e-150, torch.float32: 1e-18}


@dataclass(frozen=True, eq=False)
class Solved:
    """A batch that was solved; see `plain.prepare` for the arrays."""

    cost: Array
    dtype: torch.dtype
    epsilon: float
    taus: tuple[float, float]
    masses: tuple[Array, Array]
    block_a: Array
    block_b: Array
    figures: Array
    mismatch: Array

    @property
    def is_converged(self) -> bool:
        """Whether every problem is."""
        return bool(self.figures[:, loops.CONVERGED].all())

    def state(self) -> State:
        """The end of the loop."""
        f0, g0 = self.planes(plain.F0)
        shift, plan_mass, change, residual, n_iters, converged, _ = torch.from_numpy(self.figures).unbind(1)
        return State(f0, g0, shift, plan_mass, change, residual, n_iters.long(), converged.bool())

    def planes(self, k: int) -> tuple[Tensor, Tensor]:
        """(B, N), (B, M) in the dtype of the cost."""
        a, b = torch.from_numpy(self.block_a[k]), torch.from_numpy(self.block_b[k])
        return (a, b) if self.dtype == torch.float64 else (a.to(self.dtype), b.to(self.dtype))

    def sides(self) -> tuple[Side, Side]:
        logs, references = self.planes(plain.LOG_MASS), self.planes(plain.LOG_REFERENCE)
        taus = [None if tau < 0.0 else tau for tau in self.taus]
        return Side(logs[0], references[0], taus[0]), Side(logs[1], references[1], taus[1])

    def values(self, with_reference: bool) -> Array:
        """Dual values (B,)."""
        values = np.empty(len(self.figures))
        plain.dual_values(self.epsilon, self.taus, self.block_a, self.block_b, self.figures, with_reference, values)
        return values

    def plans(self, factor: Array) -> Array:
        """factor_b P (B, N, M), float64."""
        hats = self.block_a[plain.LOG_HAT], self.block_b[plain.LOG_HAT]
        out = np.empty(self.cost.shape)

        def piece(b0: int, b1: int) -> None:
            plain.plans(self.cost, self.epsilon, *hats, factor, out, b0, b1)

        _in_pieces(self.cost.shape, piece)
        return out

    def mass_gradients(self, factor: Array) -> tuple[Array, Array]:
        """Gradients of factor_b times the values, (B, N), (B, M)."""
        bar_a, bar_b = np.empty(self.block_a.shape[1:]), np.empty(self.block_b.shape[1:])
        plain.mass_gradients(factor, self.epsilon, self.taus, self.masses, self.block_a, self.block_b, bar_a, bar_b)
        return bar_a, bar_b


def solve(
    C: Any,
    masses: tuple[Any, Any],
    masks: tuple[Any, Any],
    epsilon: Any,
    taus: tuple[float | None, float | None],
    reference: str,
    backend: str,
    stopping: Stopping,
    *,
    symmetric: bool = False,
    has_gradients: bool = False,
) -> Solved | None:
    """Solve a plain batch; None if it is not plain, or not small. Parameters as in `sinkhorn`, checked taus."""
    epsilon = float(epsilon) if type(epsilon) is int else epsilon
    if backend not in ("auto", "compiled") or type(epsilon) is not float or not epsilon < math.inf:
        return None
    if torch._C._functorch.maybe_current_level() is not None:  # grad, vmap, jacrev: values are not at hand
        return None
    if isinstance(C, tuple) and (masks[0] is not None or masks[1] is not None):  # masked points may lie anywhere
        if has_gradients:
            return None
        C = without_padding_places(C, *masks)
    found = _cost(C)
    if found is None or epsilon < _LEAST_EPSILON.get(found[1], math.inf) or reference not in ("counting", "product"):
        return None
    cost, dtype, (batch, n, m) = found
    if backend == "auto" and not is_small(batch, n, m, n_threads()):
        return None
    mass_a, mass_b = _mass(masses[0], (batch, n)), _mass(masses[1], (batch, m))
    mask_a, mask_b = _mask(masks[0], (batch, n)), _mask(masks[1], (batch, m))
    if mass_a is None or mass_b is None or mask_a is None or mask_b is None:
        return None
    given, where = (mass_a, mass_b), (mask_a, mask_b)
    make_ready(cost.dtype)
    over = tuple(loops.HARD if tau is None else tau / epsilon for tau in taus)
    stop = (stopping.max_iters, stopping.threshold, stopping.check_every)
    block_a, block_b = np.empty((plain.N_PLANES, batch, n)), np.empty((plain.N_PLANES, batch, m))
    figures, mismatch, none = np.zeros((batch, loops.N_FIGURES)), np.zeros(batch), np.zeros((batch, 0, 0))
    settings = (over, reference == "product", lowest_cost(dtype), TOTALS_AGREE)
    array = cost.numpy()
    status = []

    def piece(b0: int, b1: int) -> None:
        status.append(plain.prepare(array, given, where, *settings, block_a, block_b, mismatch, b0, b1))
        if status[-1] != plain.PLAIN:
            return
        log_a, log_u, f0 = block_a[plain.LOG_MASS], block_a[plain.LOG_REFERENCE], block_a[plain.F0]
        log_b, log_v, g0 = block_b[plain.LOG_MASS], block_b[plain.LOG_REFERENCE], block_b[plain.F0]
        if symmetric:
            loops.solve_symmetric_batch(array, epsilon, log_a, log_u, over[0], stop, f0, figures, b0, b1)
            g0[b0:b1] = f0[b0:b1]
        else:
            record = none, none, none.reshape(batch, 0)
            loops.solve_batch(array, epsilon, log_a, log_b, log_u, log_v, over, stop, f0, g0, figures, *record, b0, b1)
        plain.finish(block_a, epsilon, 1.0, figures, b0, b1)
        plain.finish(block_b, epsilon, -1.0, figures, b0, b1)

    _in_pieces((batch, n, m), piece)
    if any(status):
        return None
    return Solved(array, dtype, epsilon, (over[0], over[1]), given, block_a, block_b, figures, mismatch)


def _in_pieces(shape: tuple[int, ...], piece: Any) -> None:
    """Run `piece` (from, to) over a batch, in threads if there is enough to do."""
    batch, threads = shape[0], n_threads()
    if batch == 1 or threads == 1 or not worth_threads(batch, shape[1] * shape[2]):
        piece(0, batch)
        return
    size = max(1, -(-batch // (4 * threads)))
    starts = range(0, batch, size)
    list(thread_pool(threads).map(lambda b: piece(b, min(b + size, batch)), starts))


def _is_plain(tensor: Any) -> bool:
    return type(tensor) in _PLAIN_TYPES and tensor.layout is torch.strided and tensor.device.type == "cpu"


def _cost(C: Any) -> tuple[Tensor, torch.dtype, tuple[int, int, int]] | None:
    """A contiguous cost, its dtype and its shape; squared distances of points are stored in float64."""
    if isinstance(C, tuple) and len(C) == 2:
        x, y = C
        if not (_is_plain(x) and _is_plain(y) and x.dtype == y.dtype and x.dim() == y.dim() == 3):
            return None
        shape = (x.shape[0], x.shape[1], y.shape[1])
        is_one = x.dtype in _LEAST_EPSILON and x.shape[0] == y.shape[0] and x.shape[2] == y.shape[2] >= 1
        if not is_one or min(shape) < 1 or shape[0] * shape[1] * shape[2] > 1 << 22:
            return None
        return stored(PointCost(x.detach(), y.detach())), x.dtype, shape
    if not _is_plain(C) or C.dim() != 3 or C.dtype not in _LEAST_EPSILON or min(C.shape) < 1:
        return None
    cost = C.detach()
    return (cost if cost.is_contiguous() else cost.contiguous()), C.dtype, (C.shape[0], C.shape[1], C.shape[2])


def _mass(mass: Any, shape: tuple[int, int]) -> Array | None:
    if mass is None:
        return _NO_MASS
    if not _is_plain(mass) or mass.shape != shape or not mass.is_floating_point():
        return None
    array: Array = mass.detach().double().contiguous().numpy()
    return array


def _mask(mask: Any, shape: tuple[int, int]) -> Array | None:
    if mask is None:
        return _NO_MASK
    if not _is_plain(mask) or mask.shape != shape or mask.dtype is not torch.bool:
        return None
    array: Array = mask.contiguous().numpy()
    return array

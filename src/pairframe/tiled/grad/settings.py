"""Settings of the gradient functions, and the base class through which vmap and autograd call them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from pairframe.tiled.cost import Cost, DenseCost, PointCost
from pairframe.tiled.errors import TiledError
from pairframe.tiled.loop import Loop, Stopping
from pairframe.tiled.side import Side

# Above this many cost entries the backward works on one batch element at a time.
_ALONE = 1 << 16


@dataclass(frozen=True)
class Settings:
    """Everything but the tensors.

    Attributes
    ----------
    epsilon : float
        Cost units.
    tau_a, tau_b : float or None
        Marginal penalty of each side, cost units; None for a hard marginal.
    passes : module
        `pairframe.tiled.passes`, or a module with the same functions for another device.
    max_iters : int
    threshold : float
        See `Stopping`; 0 runs all of `max_iters`.
    grad_iters : int
        How many of the last iterations are differentiated; 0 means all.
    symmetric : bool
        The problem is of a measure with itself, and solved with f = g.
    renormalize : bool
        Masses are scaled to a sum of 1 after masking, and gradients are those of the given masses.
    penalty : str
        Of soft marginals; see `Side`.
    """

    epsilon: float
    tau_a: float | None
    tau_b: float | None
    passes: ModuleType
    max_iters: int
    threshold: float
    grad_iters: int = 0
    symmetric: bool = False
    renormalize: bool = False
    penalty: str = "kl"

    @property
    def is_balanced(self) -> bool:
        """Both marginals are hard: the potentials have a gauge."""
        return self.tau_a is None and self.tau_b is None

    @property
    def stopping(self) -> Stopping:
        return Stopping(self.max_iters, self.threshold)

    def sides(
        self, log_a: Tensor, log_b: Tensor, log_u: Tensor | None = None, log_v: Tensor | None = None
    ) -> tuple[Side, Side]:
        """Both sides of the problem; with the counting reference unless log u (B, N), log v (B, M) are given."""
        return (
            Side.of(log_a, log_u, self.tau_a, self.epsilon, self.penalty),
            Side.of(log_b, log_v, self.tau_b, self.epsilon, self.penalty),
        )

    def loop(
        self, cost: Cost, log_a: Tensor, log_b: Tensor, log_u: Tensor | None = None, log_v: Tensor | None = None
    ) -> Loop:
        """The loop that solves the problem; log masses and reference as in `sides`."""
        return Loop(cost, self.epsilon, *self.sides(log_a, log_b, log_u, log_v), self.passes)


def cost_of(first: Tensor, second: Tensor | None) -> Cost:
    """A stored cost (first = C), or points (first = x, second = y)."""
    return DenseCost(first.detach()) if second is None else PointCost(first.detach(), second.detach())


def groups(cost: Cost) -> Iterator[tuple[slice, Cost]]:
    """Slices of the batch to work on together: all of it for small problems, one element for large ones."""
    if cost.batch == 1 or cost.n * cost.m < _ALONE:
        yield slice(0, cost.batch), cost
        return
    for b in range(cost.batch):
        yield slice(b, b + 1), cost.batch_slice(b, b + 1)


def cost_bars(gradient: tuple[Tensor, ...], dtype: torch.dtype) -> tuple[Tensor | None, Tensor | None]:
    """Cotangents of (first, second) from (dC,), (dX, dY), or () if none is needed."""
    padded = (*(one.to(dtype) for one in gradient), None, None)
    return padded[0], padded[1]


def wants_cost_gradient(ctx: Any) -> bool:
    """Whether the first two inputs, a cost or points, need a gradient."""
    return bool(ctx.needs_input_grad[0] or ctx.needs_input_grad[1])


class BatchedFunction(torch.autograd.Function):
    """A function on batches: vmap folds its axis into the batch, and forward mode raises an error with advice."""

    @classmethod
    def call(cls, *args: Any) -> Any:
        """`apply`, typed."""
        return cls.apply(*args)  # type: ignore[no-untyped-call]

    @classmethod
    def vmap(cls, info: Any, in_dims: tuple[int | None, ...], *args: Any) -> tuple[Any, Any]:
        """(V, B, ...) runs as (V B, ...). Tensors without a mapped axis are repeated."""
        flat = [
            _fold(arg, dim, info.batch_size) if isinstance(arg, Tensor) else arg
            for arg, dim in zip(args, in_dims, strict=True)
        ]
        outputs = cls.call(*flat)
        many = isinstance(outputs, tuple)
        listed = [
            None if one is None else one.reshape(info.batch_size, one.shape[0] // info.batch_size, *one.shape[1:])
            for one in (outputs if many else (outputs,))
        ]
        dims = [None if one is None else 0 for one in listed]
        return (tuple(listed), tuple(dims)) if many else (listed[0], dims[0])

    @staticmethod
    def jvp(ctx: Any, *_: Any) -> Any:
        raise TiledError(
            "reverse mode (backward, torch.func.grad, jacrev)",
            "forward mode through the tiled Sinkhorn",
            'use sinkhorn_differentiable with grad="unrolled", or `sinkhorn_jvp` for the derivative of one iteration',
        )


class AdjointFunction(BatchedFunction):
    """The backward of a `BatchedFunction`. It saves nothing, and has no derivative itself."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor | None, ...]) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> None:
        raise TiledError(
            "a first derivative",
            "a derivative of a gradient of the tiled Sinkhorn",
            'use sinkhorn_differentiable with grad="unrolled" and threshold=0, which autograd can differentiate any number '
            "of times, and write a value or divergence as a function of its potentials",
        )


def _fold(tensor: Tensor, dim: int | None, size: int) -> Tensor:
    tensor = tensor.unsqueeze(0).expand(size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
    return tensor.reshape(size * tensor.shape[1], *tensor.shape[2:])

"""What a gradient function needs beside its tensors, and how tensors become costs and groups of the batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from pairframe.tiled.cost import Cost, DenseCost, PointCost
from pairframe.tiled.errors import TiledError
from pairframe.tiled.grad.rule import Rule
from pairframe.tiled.loop import State

# Above this many cost entries a batch element is worth a loop of its own: it stops when it has converged.
_ALONE = 1 << 16


@dataclass(frozen=True)
class Settings:
    """Everything that is no tensor.

    Attributes
    ----------
    rule : Rule
    passes : module
        `pairframe.tiled.passes` or the same functions for another device.
    max_iters : int
    threshold : float
        On max |df|/eps and on the marginal residual; 0 never stops early.
    grad_iters : int
        How many of the last iterations are differentiated; 0 means all.
    symmetric : bool
        The problem is of a measure with itself, and solved with f = g.
    """

    rule: Rule
    passes: ModuleType
    max_iters: int
    threshold: float
    grad_iters: int = 0
    symmetric: bool = False


def cost_of(first: Tensor, second: Tensor | None) -> Cost:
    """A stored cost (first = C), or points (first = x, second = y)."""
    return DenseCost(first.detach()) if second is None else PointCost(first.detach(), second.detach())


def groups(cost: Cost) -> Iterator[tuple[slice, Cost]]:
    """Slices of the batch that are worked on together: all of a small problem, one element of a large one."""
    if cost.batch == 1 or cost.n * cost.m < _ALONE:
        yield slice(0, cost.batch), cost
        return
    for b in range(cost.batch):
        yield slice(b, b + 1), cost.batch_slice(b, b + 1)


def cost_bars(gradient: tuple[Tensor, ...], dtype: torch.dtype) -> tuple[Tensor | None, Tensor | None]:
    """Cotangents of (first, second) from (dC,), (dX, dY), or () where none were wanted."""
    padded = (*(one.to(dtype) for one in gradient), None, None)
    return padded[0], padded[1]


def wants_cost_gradient(ctx: Any) -> bool:
    """Whether the first two inputs, a cost or points, need a gradient."""
    return bool(ctx.needs_input_grad[0] or ctx.needs_input_grad[1])


def exponents_of(state: State, log_a: Tensor, log_b: Tensor) -> tuple[Tensor, Tensor]:
    """Where a loop ended, without its shift: (B, N), (B, M), -inf where there is no mass."""
    return torch.where(log_a > -torch.inf, state.f0, -torch.inf), torch.where(log_b > -torch.inf, state.g0, -torch.inf)


class BatchedFunction(torch.autograd.Function):
    """A function on batches: vmap folds its axis into the batch, and a derivative of it is refused with advice."""

    @classmethod
    def call(cls, *args: Any) -> Any:
        """`apply`, which torch leaves without types."""
        return cls.apply(*args)  # type: ignore[no-untyped-call]

    @classmethod
    def vmap(cls, info: Any, in_dims: tuple[int | None, ...], *args: Any) -> tuple[Any, Any]:
        """(V, B, ...) runs as (V B, ...). What is not mapped over is repeated."""
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
            'use grad="unrolled", or `sinkhorn_jvp` for the derivative of one iteration',
        )


class AdjointFunction(BatchedFunction):
    """The backward of a `BatchedFunction`: keeps nothing, and there is no second derivative."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor | None, ...]) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> None:
        raise TiledError(
            "a first derivative",
            "a derivative of a gradient of the tiled Sinkhorn",
            'use grad="unrolled" (threshold=0), which autograd can differentiate any number of times',
        )


def _fold(tensor: Tensor, dim: int | None, size: int) -> Tensor:
    tensor = tensor.unsqueeze(0).expand(size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
    return tensor.reshape(size * tensor.shape[1], *tensor.shape[2:])

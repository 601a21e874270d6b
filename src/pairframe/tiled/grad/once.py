"""The limit to first derivatives, set where tensors enter.

The gradients here treat solutions as constants, so autograd's derivative of a gradient would lack terms, and might be
zero without any error. Tensors that went through `once_differentiable` raise one instead, whatever is computed from them.
"""

from __future__ import annotations

from typing import Any, TypeVar

from torch import Tensor

from pairframe.tiled.grad.settings import AdjointFunction, BatchedFunction

Anything = TypeVar("Anything")


def once_differentiable(tensor: Anything) -> Anything:
    """The same tensor, not copied, whose gradient raises a `TiledError` when differentiated. Anything else as it is."""
    once: Anything = _Once.call(tensor) if isinstance(tensor, Tensor) else tensor
    return once


def refuse_again(bar: Tensor, *tensors: Tensor) -> Tensor:
    """The gradient `bar`, whose derivative with respect to any of the tensors raises a `TiledError`."""
    guarded: Tensor = _OnceAdjoint.call(bar, sum(tensor.sum() for tensor in tensors))
    return guarded


class _Once(BatchedFunction):
    @staticmethod
    def forward(tensor: Tensor) -> Tensor:
        return tensor.view_as(tensor)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, bar: Tensor) -> Tensor:
        adjoint: Tensor = _OnceAdjoint.call(bar, *ctx.saved_tensors)
        return adjoint

    @classmethod
    def vmap(cls, info: Any, in_dims: tuple[int | None, ...], *args: Any) -> tuple[Any, Any]:
        """The mapped axis stays where it is."""
        return cls.call(*args), in_dims[0]


class _OnceAdjoint(AdjointFunction):
    """The cotangent itself. The tensor is an argument so that every derivative of the cotangent comes through here."""

    @staticmethod
    def forward(bar: Tensor, tensor: Tensor) -> Tensor:
        return bar.view_as(bar)

    @classmethod
    def vmap(cls, info: Any, in_dims: tuple[int | None, ...], *args: Any) -> tuple[Any, Any]:
        """The mapped axis stays where it is."""
        return cls.call(*args), in_dims[0]

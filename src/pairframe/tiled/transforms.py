"""The transforms of torch (vmap, grad, forward mode) around an argument, and refusals of those whose derivatives would be lost."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.forward_ad import unpack_dual

from pairframe.tiled.cost import DenseCost, PointCost
from pairframe.tiled.errors import TiledError


def is_mapped(*tensors: Any) -> bool:
    """Whether any of them is mapped over by `torch.func.vmap`, so that its values cannot be inspected."""
    for one in tensors:
        while isinstance(one, Tensor) and torch._C._functorch.is_functorch_wrapped_tensor(one):
            if torch._C._functorch.is_batchedtensor(one):
                return True
            one = torch._C._functorch.get_unwrapped(one)
    return False


def refuse_mapped(name: str, *tensors: Any) -> None:
    """Raise for tensors under vmap, with advice."""
    parts = [part for one in tensors for part in tensors_of(one)]
    if is_mapped(*parts):
        raise TiledError(
            f"{name} to be called outside of torch.func.vmap, as it takes a batch (B, ...) already",
            "a tensor that vmap maps over",
            "make the mapped axis part of B, e.g. C.flatten(0, 1), or map over sinkhorn_differentiable or sinkhorn_value",
        )


def has_tangent(tensor: Tensor) -> bool:
    """Whether it carries a derivative in forward mode."""
    return unpack_dual(tensor).tangent is not None  # type: ignore[no-untyped-call]


def refuse_tangents(name: str, fix: str, *tensors: Any) -> None:
    """Raise for tensors in forward mode, whose tangents would be lost without a word."""
    for one in tensors:
        for part in tensors_of(one):
            if isinstance(part, Tensor) and has_tangent(part):
                raise TiledError(
                    f"{name} outside of forward mode (jvp, jacfwd, dual tensors)", "a tensor with a tangent", fix
                )


def refuse_func_gradients(name: str, fix: str, *tensors: Any) -> None:
    """Raise for tensors that `torch.func` takes a gradient for, which would be lost; those under vmap have their own error."""
    if torch._C._functorch.maybe_current_level() is None or is_mapped(
        *(part for one in tensors for part in tensors_of(one))
    ):
        return
    for one in tensors:
        for part in tensors_of(one):
            if isinstance(part, Tensor) and torch._C._functorch.is_gradtrackingtensor(part):
                raise TiledError(
                    f"{name} outside of torch.func.grad, vjp, jacrev and hessian, as its output has no gradient",
                    "a tensor that a gradient is taken for",
                    fix,
                )


def tensors_of(one: Any) -> tuple[Any, ...]:
    """The tensors of an argument: those of a cost, of a pair of points, or itself."""
    if isinstance(one, DenseCost):
        return (one.matrix,)
    if isinstance(one, PointCost):
        return one.x, one.y
    return tuple(one) if isinstance(one, tuple | list) else (one,)

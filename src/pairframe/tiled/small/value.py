"""The optimal value of plain small problems with its gradients, as one function of autograd."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pairframe.tiled.grad.once import refuse_again
from pairframe.tiled.grad.settings import BatchedFunction
from pairframe.tiled.small.entry import Solved


def value_of(solved: Solved, tensors: tuple[Tensor | None, ...], with_reference: bool) -> Tensor:
    """The dual value (B,), float64.

    Parameters
    ----------
    tensors : (C or x, None or y, a, b)
        What was solved, as part of the graph.
    """
    value: Tensor = _Value.apply(*tensors, solved, with_reference)  # type: ignore[no-untyped-call]
    return value


class _Value(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        first: Tensor,
        second: Tensor | None,
        a: Tensor | None,
        b: Tensor | None,
        solved: Solved,
        with_reference: bool,
    ) -> Tensor:
        ctx.solved = solved
        ctx.save_for_backward(first, second, a, b)
        return torch.from_numpy(solved.values(with_reference))

    @staticmethod
    def backward(ctx: Any, bar: Tensor) -> tuple[Any, ...]:
        solved, tensors = ctx.solved, ctx.saved_tensors
        first, second, a, b = tensors
        factor = bar.detach().numpy()
        bars: list[Tensor | None] = [None] * 4
        if ctx.needs_input_grad[0] or ctx.needs_input_grad[1]:
            with torch.no_grad():
                bars[:2] = _cost_gradients(torch.from_numpy(solved.plans(factor)), first, second)
        if ctx.needs_input_grad[2] or ctx.needs_input_grad[3]:
            of_masses = solved.mass_gradients(factor)
            bars[2:] = [
                None if mass is None else torch.from_numpy(one).to(mass.dtype)
                for mass, one in zip((a, b), of_masses, strict=True)
            ]
        if torch.is_grad_enabled():  # for a derivative of the gradient, which does not exist
            bars = [
                None if one is None or tensor is None else refuse_again(one, tensor, bar)
                for one, tensor in zip(bars, tensors, strict=True)
            ]
        return *bars, None, None

    @staticmethod
    def jvp(ctx: Any, *_: Any) -> Any:
        return BatchedFunction.jvp(ctx)


def _cost_gradients(plans: Tensor, first: Tensor, second: Tensor | None) -> list[Tensor | None]:
    """Cotangents of (first, second): the plans themselves, or 2 (p_i x_i - sum_j P_ij y_j) and its counterpart."""
    if second is None:
        return [plans.to(first.dtype), None]
    x, y = first.detach().double(), second.detach().double()
    centre = y.mean(1, keepdim=True)
    x, y = x - centre, y - centre
    of_x = 2.0 * (plans.sum(2).unsqueeze(2) * x - torch.bmm(plans, y))
    of_y = 2.0 * (plans.sum(1).unsqueeze(2) * y - torch.bmm(plans.mT, x))
    return [of_x.to(first.dtype), of_y.to(second.dtype)]

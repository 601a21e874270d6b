"""What of torch.func works, and what says that it does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from helpers.tiled_grad_problems import SIDES, largest_difference, problem
from torch import Tensor
from torch.func import grad, hessian, jacrev, jvp, vmap

from pairframe.tiled.differentiable import sinkhorn_differentiable, sinkhorn_value
from pairframe.tiled.divergence import divergence
from pairframe.tiled.errors import TiledError
from pairframe.tiled.sinkhorn import sinkhorn

# torch's own forward mode calls a function that torch itself has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")

MODES = ["checkpoint", "truncated", "implicit", "envelope", "unrolled"]
STREAMED = MODES[:-1]


def loss_of(mode: str, sides: str):
    tau_a, tau_b = SIDES[sides]
    # unrolled: no threshold, so that no value is looked at
    options = {"tau_a": tau_a, "tau_b": tau_b, "grad": mode, "max_iters": 300, "threshold": 1e-9}
    options |= {"grad_iters": 9} if mode == "truncated" else {}
    options |= {"threshold": 0.0, "max_iters": 12} if mode == "unrolled" else {}

    def loss(C: Tensor, a: Tensor, b: Tensor) -> Tensor:
        f, g = sinkhorn_differentiable(C, a, b, 1.0, **options)
        return f.sin().sum() + g.square().sum()

    return loss


def stacked() -> tuple[Tensor, Tensor, Tensor]:
    """C (V, B, N, M), a (V, B, N), b (V, B, M) with V = 3, B = 2."""
    many = [problem(seed, (2, 5, 4)) for seed in range(3)]
    return tuple(torch.stack([getattr(one, name).detach() for one in many]) for name in ("C", "a", "b"))


@pytest.mark.parametrize("sides", ["balanced", "unbalanced"])
@pytest.mark.parametrize("mode", MODES)
def test_vmap_of_grad_is_backward_one_by_one(mode: str, sides: str) -> None:
    loss, tensors = loss_of(mode, sides), stacked()
    mapped = vmap(grad(loss, argnums=(0, 1, 2)))(*tensors)
    for v in range(3):
        leaves = [one[v].clone().requires_grad_() for one in tensors]
        wanted = torch.autograd.grad(loss(*leaves), leaves)
        assert largest_difference(tuple(one[v] for one in mapped), wanted) < 1e-12


@pytest.mark.parametrize("mode", MODES)
def test_what_is_not_mapped_over_is_shared(mode: str) -> None:
    loss, (C, a, b) = loss_of(mode, "unbalanced"), stacked()
    mapped = vmap(loss, in_dims=(None, 0, None))(C[0], a, b[0])
    assert torch.allclose(mapped, torch.stack([loss(C[0], one, b[0]) for one in a]), atol=1e-12)
    last = vmap(loss, in_dims=(3, 0, 0))(C.movedim(0, 3), a, b)
    assert torch.allclose(last, torch.stack([loss(*one) for one in zip(C, a, b, strict=True)]), atol=1e-12)


@pytest.mark.parametrize("mode", STREAMED)
def test_jacrev_equals_rows_of_backward(mode: str) -> None:
    C, a, b = (one[0] for one in stacked())
    tau = {"tau_a": 0.5, "tau_b": 0.5, "max_iters": 300, "threshold": 1e-9}
    tau |= {"grad_iters": 9} if mode == "truncated" else {}
    jacobian = jacrev(lambda mass: sinkhorn_differentiable(C, mass, b, 0.3, grad=mode, **tau)[0])(a)
    leaf = a.clone().requires_grad_()
    f, _ = sinkhorn_differentiable(C, leaf, b, 0.3, grad=mode, **tau)
    (row,) = torch.autograd.grad(f[1, 2], leaf)
    assert torch.allclose(jacobian[1, 2], row, atol=1e-12)


def test_vmap_of_grad_works_for_values() -> None:
    C, a, b = stacked()

    def value(cost: Tensor) -> Tensor:
        return sinkhorn_value(cost, a[0], b[0], 0.3, tau_a=0.5, tau_b=1.0, max_iters=500).sum()

    mapped = vmap(grad(value))(C)
    assert torch.allclose(mapped, torch.stack([grad(value)(one) for one in C]), atol=1e-12)


@pytest.mark.parametrize("mode", STREAMED)
def test_forward_mode_and_second_derivatives_are_refused_with_advice(mode: str) -> None:
    loss, (C, a, b) = loss_of(mode, "unbalanced"), (one[0] for one in stacked())
    with pytest.raises(TiledError, match="forward mode"):
        jvp(lambda cost: loss(cost, a, b), (C,), (torch.ones_like(C),))
    leaf = C.clone().requires_grad_()
    (first,) = torch.autograd.grad(loss(leaf, a, b), leaf, create_graph=True)
    with pytest.raises(TiledError, match="any number of times"):
        torch.autograd.grad(first.sum(), leaf)


@pytest.mark.parametrize("sides", ["balanced", "unbalanced"])
def test_unrolled_has_forward_mode_and_second_derivatives(sides: str) -> None:
    loss, (C, a, b) = loss_of("unrolled", sides), (one[0] for one in stacked())
    direction = torch.rand_like(C)
    _, slope = jvp(lambda cost: loss(cost, a, b), (C,), (direction,))
    assert torch.allclose(slope, (grad(loss)(C, a, b) * direction).sum(), atol=1e-12)
    move = torch.rand_like(a)
    _, slope = jvp(lambda mass: loss(C, mass, b), (a,), (move,))
    assert torch.allclose(slope, (grad(loss, argnums=1)(C, a, b) * move).sum(), atol=1e-12)
    matrix = hessian(lambda cost: loss(cost, a, b))(C).reshape(C.numel(), C.numel())
    assert torch.allclose(matrix, matrix.T, atol=1e-10)


def test_vmap_checks_values_too() -> None:
    C, a, b = stacked()
    a[1, 0, 0] = -1.0
    with pytest.raises(TiledError, match=">= 0"):
        vmap(loss_of("checkpoint", "unbalanced"))(C, a, b)


def dual_tensor(function: Callable[[Tensor], object], at: Tensor) -> None:
    with torch.autograd.forward_ad.dual_level():
        function(torch.autograd.forward_ad.make_dual(at, torch.ones_like(at)))


FORWARD = {
    "jvp": lambda function, at: torch.func.jvp(function, (at,), (torch.ones_like(at),)),
    "jacfwd": lambda function, at: torch.func.jacfwd(function)(at),
    "dual tensor": dual_tensor,
}


@pytest.mark.parametrize("n", [12, 600])
@pytest.mark.parametrize("mode", FORWARD)
@pytest.mark.parametrize("name", ["sinkhorn", "divergence"])
def test_tangents_are_refused_where_they_would_be_lost(name: str, mode: str, n: int) -> None:
    """In compiled code and on tiles: the derivative was 0 without a word."""
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.rand(1, n, 2, generator=generator, dtype=torch.float64) for _ in range(2))

    def function(moved: Tensor) -> Tensor:
        settings = {"epsilon": 0.5, "threshold": 1e-3}
        return divergence((moved, y), **settings) if name == "divergence" else sinkhorn((moved, y), **settings).f

    with pytest.raises(TiledError, match=f"{name} outside of forward mode"):
        FORWARD[mode](function, x)

"""A derivative of a gradient is right or refused, never silently incomplete."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from helpers.tiled_grad_problems import SIDES, problem
from torch import Tensor
from torch.func import jacrev

from pairframe.tiled import TiledError, divergence, sinkhorn_differentiable, sinkhorn_value

TIGHT = {"max_iters": 3000, "threshold": 1e-12}
NAMES = ("x", "y", "a", "b")
Function = Callable[..., Tensor]


def functions(sides: str) -> dict[str, Function]:
    """Everything with a gradient, as functions of (x, y, a, b); the potentials enter linearly, the hardest case."""
    taus = dict(zip(("tau_a", "tau_b"), SIDES[sides], strict=True))

    def value(reference: str) -> Function:
        return lambda x, y, a, b: sinkhorn_value((x, y), a, b, 0.5, **taus, **TIGHT, reference=reference)

    def potentials(mode: str) -> Function:
        more = {"grad_iters": 5} if mode == "truncated" else {}
        return lambda x, y, a, b: sinkhorn_differentiable((x, y), a, b, 0.5, **taus, **TIGHT, grad=mode, **more)[0]

    return {
        "value": value("counting"),
        "value, product reference": value("product"),
        "divergence": lambda x, y, a, b: divergence((x, y), a, b, 0.5, **taus, **TIGHT),
        **{mode: potentials(mode) for mode in ("checkpoint", "truncated", "implicit", "envelope")},
    }


@pytest.mark.parametrize("by", [("a",), ("b",), ("x",), ("x", "b"), NAMES], ids="".join)
@pytest.mark.parametrize("sides", ["balanced", "unbalanced"])
@pytest.mark.parametrize("name", functions("balanced"))
def test_a_derivative_of_a_gradient_is_refused(name: str, sides: str, by: tuple[str, ...]) -> None:
    data = problem(seed=1, shape=(1, 4, 3))
    tensors = [getattr(data, one).detach().requires_grad_(one in by) for one in NAMES]
    leaves = [one for one in tensors if one.requires_grad]
    gradients = torch.autograd.grad(functions(sides)[name](*tensors).sum(), leaves, create_graph=True)
    for one in gradients:
        with pytest.raises(TiledError, match=r'grad="unrolled" and threshold=0.*any number of times'):
            torch.autograd.grad(one.square().sum(), leaves, allow_unused=True, retain_graph=True)


def test_a_jacobian_of_a_jacobian_is_refused() -> None:
    data = problem(seed=1, shape=(1, 4, 3))
    C, b = data.C.detach(), data.b.detach()
    with pytest.raises(TiledError, match="a first derivative"):
        jacrev(jacrev(lambda a: sinkhorn_value(C, a, b, 0.5, tau_a=1.0, tau_b=1.0)))(data.a.detach())


def test_the_value_written_with_unrolled_potentials_has_the_second_derivatives_of_finite_differences() -> None:
    """The way out that the error names."""
    data, epsilon, tau_a, tau_b = problem(seed=2, shape=(1, 4, 3), mass_b=1.5), 0.5, 0.7, 0.4
    C, b = data.C.detach(), data.b.detach()

    def by_hand(a: Tensor) -> Tensor:
        f, g = sinkhorn_differentiable(
            C, a, b, epsilon, tau_a=tau_a, tau_b=tau_b, grad="unrolled", max_iters=200, threshold=0.0
        )
        plan = torch.exp((f.unsqueeze(2) + g.unsqueeze(1) - C) / epsilon)
        kept_a, kept_b = a * torch.expm1(-f / tau_a), b * torch.expm1(-g / tau_b)
        return -tau_a * kept_a.sum() - tau_b * kept_b.sum() - epsilon * (plan - 1.0).sum()

    def slope(a: Tensor) -> Tensor:
        leaf = a.clone().requires_grad_()
        value = sinkhorn_value(C, leaf, b, epsilon, tau_a=tau_a, tau_b=tau_b, **TIGHT)
        return torch.autograd.grad(value.sum(), leaf)[0]

    a, step = data.a.detach(), 1e-5
    plain = sinkhorn_value(C, a, b, epsilon, tau_a=tau_a, tau_b=tau_b, **TIGHT)
    assert torch.allclose(by_hand(a), plain.sum(), rtol=1e-10)
    found = torch.autograd.functional.hessian(by_hand, a)[0, :, 0]
    moves = step * torch.eye(4, dtype=torch.float64)
    wanted = torch.stack([(slope(a + move) - slope(a - move))[0] / (2 * step) for move in moves])
    assert wanted.abs().max() > 0.1
    assert torch.allclose(found, wanted, atol=1e-6)

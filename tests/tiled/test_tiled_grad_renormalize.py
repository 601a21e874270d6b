"""`renormalize=True` works wherever masses do, and its scaling is part of the gradient."""

from __future__ import annotations

import pytest
import torch
from helpers.tiled_grad_problems import SIDES, problem
from torch import Tensor
from torch.autograd import gradcheck
from torch.func import jvp

from pairframe.tiled import TiledError, divergence, sinkhorn, sinkhorn_differentiable, sinkhorn_jvp, sinkhorn_value

# torch's own forward mode calls a function that torch itself has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")

STOPPING = {
    "unrolled": {"max_iters": 4, "threshold": 0.0},
    "checkpoint": {"max_iters": 4, "threshold": 0.0},
    "implicit": {"max_iters": 1000, "threshold": 1e-12},
}
CONVERGED = STOPPING["implicit"]
MASK_A = torch.tensor([[True, True, True, True], [True, False, True, True]])
MASK_B = torch.tensor([[True, True, False], [True, True, True]])
MASKS = {"mask_a": MASK_A, "mask_b": MASK_B}


def masses() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """x (2, 4, 2), y (2, 3, 2) and masses of unequal totals."""
    data = problem(seed=21, shape=(2, 4, 3))
    a, b = 3.0 * data.a.detach(), 0.2 * data.b.detach()
    return data.x.detach(), data.y.detach(), a.requires_grad_(), b.requires_grad_()


def by_hand(mass: Tensor, mask: Tensor) -> Tensor:
    kept = torch.where(mask, mass, 0.0)
    return kept / kept.sum(1, keepdim=True)


@pytest.mark.parametrize("sides", SIDES)
@pytest.mark.parametrize("mode", STOPPING)
def test_potentials_of_renormalized_masses_have_the_gradient_of_finite_differences(mode: str, sides: str) -> None:
    x, y, a, b = masses()
    C = torch.cdist(x, y).square()
    taus = dict(zip(("tau_a", "tau_b"), SIDES[sides], strict=True))

    def potentials(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        return sinkhorn_differentiable(C, a, b, 1.0, **taus, **MASKS, grad=mode, renormalize=True, **STOPPING[mode])

    assert gradcheck(potentials, [a, b], atol=1e-6, rtol=1e-4, fast_mode=True)
    plain = sinkhorn_differentiable(
        C, by_hand(a, MASK_A), by_hand(b, MASK_B), 1.0, **taus, **MASKS, grad=mode, **STOPPING[mode]
    )
    for one, other in zip(potentials(a, b), plain, strict=True):
        assert torch.allclose(one, other, atol=1e-12)


@pytest.mark.parametrize("reference", ["counting", "product"])
@pytest.mark.parametrize("sides", SIDES)
def test_values_of_renormalized_masses_have_the_gradient_of_finite_differences(sides: str, reference: str) -> None:
    x, y, a, b = masses()
    taus = dict(zip(("tau_a", "tau_b"), SIDES[sides], strict=True))
    more = {**taus, **MASKS, **CONVERGED, "reference": reference, "renormalize": True}

    def both(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        return sinkhorn_value((x, y), a, b, 1.0, **more), divergence((x, y), a, b, 1.0, **more)

    assert gradcheck(both, [a, b], atol=1e-6, rtol=1e-4, fast_mode=True)
    value, distance = both(a, b)
    assert torch.allclose(value, sinkhorn((x, y), a, b, 1.0, **more).dual(), atol=1e-10)
    assert torch.allclose(distance, divergence((x, y), a.detach(), b.detach(), 1.0, **more), atol=1e-10)


def test_stranded_mass_is_renormalized_with_the_rest() -> None:
    x, y, a, b = masses()
    C = torch.cdist(x, y).square()
    C[:, 2] = torch.inf

    def value(a: Tensor, b: Tensor) -> Tensor:
        return sinkhorn_value(C, a, b, 1.0, tau_a=0.7, tau_b=0.4, renormalize=True, **CONVERGED)

    assert gradcheck(value, [a, b], atol=1e-6, rtol=1e-4, fast_mode=True)


@pytest.mark.parametrize("sides", ["balanced", "unbalanced"])
def test_forward_mode_and_second_derivatives_go_through_the_scaling(sides: str) -> None:
    x, y, a, b = masses()
    C = torch.cdist(x, y).square()
    taus = dict(zip(("tau_a", "tau_b"), SIDES[sides], strict=True))

    def loss(a: Tensor) -> Tensor:
        f, g = sinkhorn_differentiable(
            C, a, b.detach(), 1.0, **taus, **MASKS, grad="unrolled", renormalize=True, **STOPPING["unrolled"]
        )
        return f.sin().sum() + g.square().sum()

    def slope(a: Tensor) -> Tensor:
        leaf = a.detach().requires_grad_()
        return torch.autograd.grad(loss(leaf), leaf)[0]

    move = torch.rand(2, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    assert torch.allclose(jvp(loss, (a.detach(),), (move,))[1], (slope(a) * move).sum(), atol=1e-12)
    second = torch.autograd.functional.hvp(loss, a.detach(), move)[1]
    wanted = (slope(a + 1e-6 * move) - slope(a - 1e-6 * move)) / 2e-6
    assert torch.allclose(second, wanted, atol=1e-7)


def test_the_advice_on_unequal_totals_can_be_followed_everywhere() -> None:
    x, y, a, b = masses()
    f, g = torch.zeros_like(a), torch.zeros_like(b)
    calls = {
        "sinkhorn": lambda **more: sinkhorn((x, y), a, b, 1.0, **more).f,
        "differentiable": lambda **more: sinkhorn_differentiable((x, y), a, b, 1.0, **more)[0],
        "value": lambda **more: sinkhorn_value((x, y), a, b, 1.0, **more),
        "divergence": lambda **more: divergence((x, y), a, b, 1.0, **more),
        "jvp": lambda **more: sinkhorn_jvp((x, y), a, b, 1.0, f, g, f, g, **more)[0],
    }
    for name, call in calls.items():
        with pytest.raises(TiledError, match="renormalize=True"):
            call()
        assert torch.isfinite(call(renormalize=True)).all(), name

"""Finite differences confirm every mode that claims to be exact, on every kind of problem."""

from __future__ import annotations

import pytest
import torch
from helpers.tiled_grad_problems import SIDES, problem
from torch import Tensor
from torch.autograd import gradcheck

from pairframe.tiled.differentiable import sinkhorn_differentiable, sinkhorn_value

# Iteration counts are fixed for the modes that differentiate iterations; the fixed point is reached for the others.
STOPPING = {
    "unrolled": {"max_iters": 4, "threshold": 0.0},
    "checkpoint": {"max_iters": 4, "threshold": 0.0},
    "implicit": {"max_iters": 1000, "threshold": 1e-12},
}
MASK_A = torch.tensor([[True, True, True, True], [True, False, True, True]])
MASK_B = torch.tensor([[True, True, False], [True, True, True]])


def masses(logits_a: Tensor, logits_b: Tensor, log_total: Tensor, masked: bool) -> tuple[Tensor, Tensor]:
    """Two measures of one total, which moves too: every direction along which balanced problems stay feasible."""
    if masked:
        logits_a = torch.where(MASK_A, logits_a, -torch.inf)
        logits_b = torch.where(MASK_B, logits_b, -torch.inf)
    return log_total.exp() * logits_a.softmax(1), log_total.exp() * logits_b.softmax(1)


# One random direction of all inputs in the quick run, every entry of the Jacobian in the slow one.
EFFORTS = ["one direction", pytest.param("every entry", marks=pytest.mark.slow)]


@pytest.mark.parametrize("effort", EFFORTS)
@pytest.mark.parametrize("masked", [False, True], ids=["whole", "masked"])
@pytest.mark.parametrize("sides", SIDES)
@pytest.mark.parametrize("mode", STOPPING)
def test_potentials_have_the_gradient_of_finite_differences(mode: str, sides: str, masked: bool, effort: str) -> None:
    tau_a, tau_b = SIDES[sides]
    data = problem(seed=3, shape=(2, 4, 3))
    masks = {"mask_a": MASK_A, "mask_b": MASK_B} if masked else {}

    def potentials(C: Tensor, logits_a: Tensor, logits_b: Tensor, log_total: Tensor) -> tuple[Tensor, Tensor]:
        a, b = masses(logits_a, logits_b, log_total, masked)
        b = b if sides == "balanced" else 2.0 * b
        return sinkhorn_differentiable(C, a, b, 1.0, tau_a=tau_a, tau_b=tau_b, grad=mode, **masks, **STOPPING[mode])

    log_total = torch.zeros(2, 1, dtype=torch.float64, requires_grad=True)
    inputs = [data.C, *(one.detach().log().requires_grad_() for one in (data.a, data.b)), log_total]
    assert gradcheck(potentials, inputs, atol=1e-6, rtol=1e-4, fast_mode=effort == "one direction")


@pytest.mark.parametrize("effort", EFFORTS)
@pytest.mark.parametrize("sides", SIDES)
@pytest.mark.parametrize("mode", ["checkpoint", "implicit"])
def test_points_have_the_gradient_of_finite_differences(mode: str, sides: str, effort: str) -> None:
    tau_a, tau_b = SIDES[sides]
    data = problem(seed=4, shape=(2, 4, 3))

    def potentials(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return sinkhorn_differentiable(
            (x, y), data.a.detach(), data.b.detach(), 1.0, tau_a=tau_a, tau_b=tau_b, grad=mode, **STOPPING[mode]
        )

    assert gradcheck(potentials, [data.x, data.y], atol=1e-6, rtol=1e-4, fast_mode=effort == "one direction")


@pytest.mark.parametrize("effort", EFFORTS)
@pytest.mark.parametrize("mode", ["checkpoint", "implicit"])
@pytest.mark.parametrize("sides", ["unbalanced", "hard a", "hard b"])
def test_soft_masses_may_move_in_every_direction(mode: str, sides: str, effort: str) -> None:
    tau_a, tau_b = SIDES[sides]
    data = problem(seed=5, shape=(1, 4, 3), mass_b=2.0)

    def potentials(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        return sinkhorn_differentiable(
            data.C.detach(), a, b, 1.0, tau_a=tau_a, tau_b=tau_b, grad=mode, **STOPPING[mode]
        )

    assert gradcheck(potentials, [data.a, data.b], atol=1e-6, rtol=1e-4, fast_mode=effort == "one direction")


@pytest.mark.parametrize("effort", EFFORTS)
@pytest.mark.parametrize("reference", ["counting", "product"])
@pytest.mark.parametrize("sides", SIDES)
def test_values_have_the_gradient_of_finite_differences(sides: str, reference: str, effort: str) -> None:
    tau_a, tau_b = SIDES[sides]
    data = problem(seed=6, shape=(2, 4, 3))

    def value(x: Tensor, y: Tensor, logits_a: Tensor, logits_b: Tensor, log_total: Tensor) -> Tensor:
        a, b = masses(logits_a, logits_b, log_total, masked=True)
        b = b if sides == "balanced" else 2.0 * b
        return sinkhorn_value(
            (x, y), a, b, 1.0, tau_a=tau_a, tau_b=tau_b, mask_a=MASK_A, mask_b=MASK_B, reference=reference,
            max_iters=1000, threshold=1e-12,
        )  # fmt: skip

    log_total = torch.full((2, 1), 0.3, dtype=torch.float64, requires_grad=True)
    inputs = [data.x, data.y, *(one.detach().log().requires_grad_() for one in (data.a, data.b)), log_total]
    assert gradcheck(value, inputs, atol=1e-6, rtol=1e-4, fast_mode=effort == "one direction")

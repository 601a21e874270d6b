"""In the interpreter: gradients by the kernels are those by torch."""

from __future__ import annotations

import pytest
import torch
from helpers.tiled_grad_problems import largest_difference, problem

from pairframe.tiled import sinkhorn_differentiable


@pytest.mark.parametrize("points", [False, True], ids=["stored", "points"])
@pytest.mark.parametrize("mode", ["checkpoint", "implicit", "envelope"])
def test_gradients_by_the_kernels_are_those_by_torch(mode: str, points: bool) -> None:
    data = problem(seed=1, shape=(2, 7, 5))
    leaves = (data.x, data.y, data.a, data.b) if points else (data.C, data.a, data.b)
    cost = (data.x, data.y) if points else data.C
    stopping = {"max_iters": 3, "threshold": 0.0} if mode == "checkpoint" else {"max_iters": 50, "threshold": 1e-6}
    outcomes = []
    for backend in ("torch", "triton"):
        f, g = sinkhorn_differentiable(
            cost, data.a, data.b, 2.0, tau_a=1.0, tau_b=3.0, grad=mode, backend=backend, **stopping
        )
        outcomes.append((f.detach(), g.detach(), *torch.autograd.grad(data.loss(f, g), leaves)))
    assert largest_difference(*outcomes) < 1e-12

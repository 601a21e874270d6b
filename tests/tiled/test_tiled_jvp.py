"""The Jacobian-vector product is the derivative of the named map, at any potentials."""

from __future__ import annotations

import pytest
import torch
from helpers.tiled_grad_problems import SIDES, problem
from torch import Tensor

from pairframe.tiled.errors import TiledError
from pairframe.tiled.jvp import sinkhorn_jvp
from pairframe.tiled.sinkhorn import sinkhorn

EPSILON = 0.2


def plain_maps(C: Tensor, a: Tensor, b: Tensor, tau_a: float | None, tau_b: float | None):
    """F(g) and G(f), as section 3 of the maths has them."""

    def damping(tau: float | None) -> float:
        return 1.0 if tau is None else tau / (tau + EPSILON)

    def rows(g: Tensor) -> Tensor:
        return damping(tau_a) * EPSILON * (a.log() - torch.logsumexp((g.unsqueeze(1) - C) / EPSILON, 2))

    def cols(f: Tensor) -> Tensor:
        return damping(tau_b) * EPSILON * (b.log() - torch.logsumexp((f.unsqueeze(2) - C) / EPSILON, 1))

    return rows, cols


@pytest.mark.parametrize("points", [False, True], ids=["stored", "points"])
@pytest.mark.parametrize("map_name", ["jacobi", "alternating"])
@pytest.mark.parametrize("sides", SIDES)
def test_it_is_the_derivative_of_its_map(sides: str, map_name: str, points: bool) -> None:
    tau_a, tau_b = SIDES[sides]
    data = problem(seed=1, shape=(2, 6, 5))
    C, a, b = data.C.detach(), data.a.detach(), data.b.detach()
    f, v_f = torch.randn(2, 2, 6, dtype=torch.float64)
    g, v_g = torch.randn(2, 2, 5, dtype=torch.float64)
    rows, cols = plain_maps(C, a, b, tau_a, tau_b)
    maps = {"jacobi": lambda f, g: (rows(g), cols(f)), "alternating": lambda f, g: (rows(g), cols(rows(g)))}
    _, wanted = torch.func.jvp(maps[map_name], (f, g), (v_f, v_g))
    cost = (data.x, data.y) if points else C
    got = sinkhorn_jvp(cost, a, b, EPSILON, f, g, v_f, v_g, tau_a=tau_a, tau_b=tau_b, map=map_name)
    for one, other in zip(got, wanted, strict=True):
        assert torch.allclose(one, other, atol=1e-13)


def test_at_a_fixed_point_it_averages_with_the_plan() -> None:
    data = problem(seed=2, mass_b=2.0)
    solved = sinkhorn(data.C, data.a, data.b, EPSILON, 0.7, 0.4, max_iters=2000, threshold=1e-13)
    plan = solved.transport_plan(data.C)
    v_f, v_g = torch.rand_like(data.a), torch.rand_like(data.b)
    got = sinkhorn_jvp(data.C, data.a, data.b, EPSILON, solved.f, solved.g, v_f, v_g, tau_a=0.7, tau_b=0.4)
    rows = -(0.7 / 0.9) * (plan @ v_g.unsqueeze(2)).squeeze(2) / plan.sum(2)
    cols = -(0.4 / 0.6) * (plan.transpose(1, 2) @ v_f.unsqueeze(2)).squeeze(2) / plan.sum(1)
    assert torch.allclose(got[0], rows, atol=1e-11)
    assert torch.allclose(got[1], cols, atol=1e-11)


@pytest.mark.parametrize("map_name", ["jacobi", "alternating"])
def test_balanced_maps_keep_the_gauge(map_name: str) -> None:
    data = problem(seed=3)
    ones_f, ones_g = torch.ones_like(data.a), torch.ones_like(data.b)
    at = torch.zeros_like(data.a), torch.zeros_like(data.b)
    v_f, v_g = sinkhorn_jvp(data.C, data.a, data.b, EPSILON, *at, ones_f, -ones_g, map=map_name)
    assert torch.allclose(v_f, ones_f, atol=1e-14)
    assert torch.allclose(v_g, -ones_g, atol=1e-14)
    soft = sinkhorn_jvp(data.C, data.a, data.b, EPSILON, *at, ones_f, -ones_g, tau_a=1.0, tau_b=1.0, map=map_name)
    assert (soft[0].abs() < 1).all()


def test_the_alternating_map_forgets_f() -> None:
    data = problem(seed=4)
    g, v_g = torch.rand_like(data.b), torch.rand_like(data.b)
    one, other = (
        sinkhorn_jvp(data.C, data.a, data.b, EPSILON, f, g, v_f, v_g, map="alternating")
        for f, v_f in torch.rand(2, 2, 2, 5, dtype=torch.float64)
    )
    assert all(torch.equal(first, second) for first, second in zip(one, other, strict=True))


def test_masked_and_empty_entries_stay_zero_and_are_not_averaged() -> None:
    data = problem(seed=5, shape=(1, 6, 5))
    mask = torch.tensor([[True, True, False, True, True, True]])
    b = data.b.detach().clone()
    b[0, 1] = 0.0
    f, g = torch.rand(1, 6, dtype=torch.float64), torch.rand(1, 5, dtype=torch.float64)
    v_f, v_g = torch.rand_like(f), torch.rand_like(g)
    options = {"tau_a": 0.5, "tau_b": 0.5, "mask_a": mask}
    before = sinkhorn_jvp(data.C, data.a, b, EPSILON, f, g, v_f, v_g, **options)
    assert before[0][0, 2] == 0
    assert before[1][0, 1] == 0
    v_f[0, 2], v_g[0, 1], f[0, 2], g[0, 1] = 1e6, torch.nan, torch.nan, 1e6
    after = sinkhorn_jvp(data.C, data.a, b, EPSILON, f, g, v_f, v_g, **options)
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))


def test_bad_input_is_refused() -> None:
    data = problem(seed=6)
    f, g = torch.zeros_like(data.a), torch.zeros_like(data.b)
    with pytest.raises(TiledError, match="a map: jacobi, alternating"):
        sinkhorn_jvp(data.C, data.a, data.b, EPSILON, f, g, f, g, map="gauss")
    with pytest.raises(TiledError, match=r"v_f to be a tensor of shape \(2, 5\)"):
        sinkhorn_jvp(data.C, data.a, data.b, EPSILON, f, g, g, g)
    with pytest.raises(TiledError, match="epsilon to be positive"):
        sinkhorn_jvp(data.C, data.a, data.b, -1.0, f, g, f, g)

"""Warm starts, schedules, progress, the plan as an operator, and the softmin."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from pairframe.tiled import TiledError, sinkhorn, sinkhorn_differentiable, softmin


def problem(seed: int = 0, shape: tuple[int, int, int] = (2, 19, 23)) -> tuple[Tensor, ...]:
    """x, y, C, a, b in float64; totals are 1."""
    generator = torch.Generator().manual_seed(seed)
    batch, n, m = shape
    x = torch.rand(batch, n, 2, generator=generator, dtype=torch.float64)
    y = torch.rand(batch, m, 2, generator=generator, dtype=torch.float64)
    a = torch.rand(batch, n, generator=generator, dtype=torch.float64) + 0.01
    b = torch.rand(batch, m, generator=generator, dtype=torch.float64) + 0.01
    return x, y, (x[:, :, None] - y[:, None]).square().sum(3), a / a.sum(1, keepdim=True), b / b.sum(1, keepdim=True)


@pytest.mark.parametrize("backend", ["compiled", "torch"])
@pytest.mark.parametrize("tau", [None, 0.5])
def test_a_solution_is_a_start_that_needs_no_iterations(backend: str, tau: float | None) -> None:
    _, _, C, a, b = problem()
    options = {"tau_a": tau, "tau_b": tau, "max_iters": 5000, "backend": backend}
    cold = sinkhorn(C, a, b, 0.01, **options)
    assert int(cold.n_iters.min()) > 20
    for init in (cold, (cold.f, cold.g)):
        warm = sinkhorn(C, a, b, 0.01, init=init, **options)
        assert int(warm.n_iters.max()) <= 2
        assert torch.allclose(warm.f, cold.f, 0.0, 1e-6)
    other = sinkhorn(C, a, b, 0.02, init=cold, **options)  # a start from another epsilon
    assert torch.allclose(other.transport_plan(C), sinkhorn(C, a, b, 0.02, **options).transport_plan(C), 0.0, 1e-6)


def test_a_schedule_ends_at_the_same_solution_after_fewer_iterations() -> None:
    _, _, C, a, b = problem(1)
    wanted = sinkhorn(C, a, b, 1e-3, 0.1, 0.1, max_iters=20_000, threshold=1e-8)
    found = sinkhorn(C, a, b, 1e-3, 0.1, 0.1, max_iters=20_000, threshold=1e-8, schedule=(0.1, 0.01))
    assert torch.allclose(found.f, wanted.f, 0.0, 1e-9)
    assert bool(found.converged.all())
    assert int(found.n_iters.sum()) < int(wanted.n_iters.sum())


def test_progress_is_reported_at_every_check() -> None:
    _, _, C, a, b = problem(2)
    seen: list[tuple[int, int, float]] = []
    out = sinkhorn(C, a, b, 0.05, max_iters=500, check_every=5, progress=lambda *now: seen.append(now))
    assert [now[0] for now in seen] == list(range(5, int(out.n_iters.max()) + 1, 5))
    assert {now[1] for now in seen} <= {1, 2}
    assert seen[-1][2] <= 1e-6 < seen[0][2]


def test_an_infinite_tau_is_a_hard_marginal() -> None:
    _, _, C, a, b = problem(3)
    assert torch.equal(sinkhorn(C, a, b, 0.1, math.inf, math.inf).f, sinkhorn(C, a, b, 0.1).f)
    f, _ = sinkhorn_differentiable(C, a, b, 0.1, tau_a=math.inf)
    assert torch.equal(f, sinkhorn_differentiable(C, a, b, 0.1)[0])


@pytest.mark.parametrize("points", [False, True])
@pytest.mark.parametrize("backend", ["compiled", "torch"])
def test_the_plan_is_an_operator(points: bool, backend: str) -> None:
    x, y, C, a, b = problem(4)
    a[:, 3] = 0.0
    cost = (x, y) if points else C
    out = sinkhorn(cost, a, b, 0.05, 1.0, 1.0, backend=backend)
    plan, dense = out.plan(cost), out.transport_plan(cost)
    v, u = torch.rand(2, 23, dtype=torch.float64), torch.rand(2, 19, 4, dtype=torch.float64)
    assert plan.shape == (2, 19, 23)
    assert torch.allclose(plan @ v, (dense @ v.unsqueeze(2)).squeeze(2))
    assert torch.allclose(plan.T @ u, dense.mT @ u)
    assert all(torch.allclose(one, dense.sum(k)) for one, k in zip(plan.marginals(), (2, 1), strict=True))
    assert torch.allclose(plan.entropy(), -torch.xlogy(dense, dense).sum((1, 2)))
    with pytest.raises(TiledError, match=r"shape \(2, 23\).*P\.T"):
        plan @ torch.ones(2, 19)
    with pytest.raises(TiledError, match="list"):
        plan @ [1.0]


def test_softmin_is_the_log_sum_it_says_with_its_gradient() -> None:
    x, y, C, _, b = problem(5)
    g, log_w = torch.randn(2, 23, dtype=torch.float64), torch.log(b)
    log_w[:, 2] = -math.inf

    def plain(C: Tensor, g: Tensor) -> Tensor:
        return -0.1 * torch.logsumexp(log_w[:, None] + (g[:, None] - C) / 0.1, 2)

    leaves = [one.clone().requires_grad_() for one in (C, g)]
    found, wanted = softmin(*leaves, 0.1, log_weights=log_w), plain(*leaves)
    assert torch.allclose(found, wanted)
    weights = torch.randn(2, 19, dtype=torch.float64)
    for one, other in zip(
        torch.autograd.grad((weights * found).sum(), leaves),
        torch.autograd.grad((weights * wanted).sum(), leaves),
        strict=True,
    ):
        assert torch.allclose(one, other)
    assert torch.allclose(softmin((x, y), g, 0.1, log_weights=log_w), wanted)
    assert torch.allclose(softmin(C, None, 0.1), -0.1 * torch.logsumexp(-C / 0.1, 2))


BAD = {
    "init of another size": ({"init": (torch.zeros(2, 4), torch.zeros(2, 23))}, r"f of init.*\(2, 19\)"),
    "init of one": ({"init": torch.zeros(2, 19)}, r"SinkhornOutput or \(f, g\)"),
    "init of NaN": ({"init": (torch.zeros(2, 19), torch.full((2, 23), math.nan))}, "finite g of init"),
    "a rising schedule": ({"schedule": (0.2, 0.3)}, "falls towards epsilon"),
    "a schedule below": ({"schedule": (0.2, 0.05)}, "falls towards epsilon"),
    "a schedule of one number": ({"schedule": 0.5}, "a sequence of epsilons"),
    "a schedule of text": ({"schedule": ("large",)}, "epsilon to be positive"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_starts_are_refused(name: str) -> None:
    _, _, C, a, b = problem()
    options, message = BAD[name]
    with pytest.raises(TiledError, match=message):
        sinkhorn(C, a, b, 0.1, **options)


def test_bad_softmins_are_refused() -> None:
    _, _, C, *_ = problem()
    with pytest.raises(TiledError, match=r"g to be a tensor of shape \(2, 23\)"):
        softmin(C, torch.zeros(2, 19), 0.1)
    with pytest.raises(TiledError, match="log_weights without NaN"):
        softmin(C, None, 0.1, log_weights=torch.full((2, 23), math.nan))

"""The compiled loop gives what the passes of torch give: same iterations, same stopping, same values and gradients."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from pairframe.tiled import (
    NotConvergedWarning,
    TiledError,
    divergence,
    sinkhorn,
    sinkhorn_differentiable,
    sinkhorn_value,
)
from pairframe.tiled.backends import backend_name
from pairframe.tiled.cost import PointCost
from pairframe.tiled.small.model import LARGEST, is_small, is_worth_storing
from pairframe.tiled.small.solve import stored

SIDES = {"balanced": (None, None), "soft": (0.3, 0.7), "hard a": (None, 0.5), "hard b": (0.5, None)}


def problem(seed: int = 0, shape: tuple[int, int, int] = (3, 21, 17), dim: int = 2) -> tuple[Tensor, ...]:
    """x, y, C, a, b in float64; totals are 1."""
    generator = torch.Generator().manual_seed(seed)
    batch, n, m = shape
    x = torch.rand(batch, n, dim, generator=generator, dtype=torch.float64)
    y = torch.rand(batch, m, dim, generator=generator, dtype=torch.float64)
    a = torch.rand(batch, n, generator=generator, dtype=torch.float64) + 0.01
    b = torch.rand(batch, m, generator=generator, dtype=torch.float64) + 0.01
    C = (x[:, :, None] - y[:, None]).square().sum(3)
    return x, y, C, a / a.sum(1, keepdim=True), b / b.sum(1, keepdim=True)


@pytest.mark.parametrize("epsilon", [1.0, 0.05, 1e-3, 1e-5])
@pytest.mark.parametrize("sides", SIDES)
def test_it_takes_the_same_iterations_as_torch(sides: str, epsilon: float) -> None:
    _, _, C, a, b = problem()
    for options in ({"threshold": 0.0}, {"threshold": 1e-7}, {"threshold": 1e-7, "check_every": 7}):
        ours, wanted = (
            sinkhorn(
                C, a, 2.0 * b if sides == "soft" else b, epsilon, *SIDES[sides], max_iters=60, backend=name, **options
            )
            for name in ("compiled", "torch")
        )
        assert (ours.backend, wanted.backend) == ("compiled", "torch")
        assert torch.equal(ours.n_iters, wanted.n_iters)
        assert torch.equal(ours.converged, wanted.converged)
        tolerance = 1e-12 * max(1.0, 1.0 / epsilon)
        for name in ("log_a_hat", "log_b_hat", "plan_mass", "shift"):
            assert torch.allclose(getattr(ours, name), getattr(wanted, name), 1e-12, tolerance), name
        assert torch.allclose(ours.marginal_error, wanted.marginal_error, 1e-6, tolerance)
        assert torch.allclose(ours.potential_change, wanted.potential_change, 1e-6, tolerance)
        assert torch.allclose(ours.dual(), wanted.dual(), 1e-12, 1e-12)


def test_masses_of_any_size_survive_underflow() -> None:
    """Masses over 600 orders of magnitude, and an epsilon at which most of the kernel underflows."""
    _, _, C, a, _ = problem(1, (2, 12, 12))
    log_a = torch.log(a)
    log_a[:, 3], log_a[:, 5] = -800.0, -300.0
    log_b = torch.log(a.flip(1))
    ours, wanted = (
        sinkhorn(
            C, epsilon=1e-4, tau_a=1.0, tau_b=1.0, log_a=log_a, log_b=log_b, max_iters=50, threshold=0.0, backend=name
        )
        for name in ("compiled", "torch")
    )
    assert torch.allclose(ours.log_a_hat, wanted.log_a_hat, 1e-11, 1e-8)
    assert torch.allclose(ours.log_b_hat, wanted.log_b_hat, 1e-11, 1e-8)


def test_forbidden_pairs_and_warm_rows() -> None:
    _, _, C, a, b = problem(2)
    C[:, 0, :10] = math.inf
    ours, wanted = (sinkhorn(C, a, b, 0.05, 1.0, 1.0, max_iters=300, backend=name) for name in ("compiled", "torch"))
    assert torch.allclose(ours.transport_plan(C), wanted.transport_plan(C), 0.0, 1e-12)
    assert (ours.transport_plan(C)[:, 0, :10] == 0).all()


def test_an_element_does_not_depend_on_the_rest_of_its_batch_nor_on_padding() -> None:
    _, _, C, a, b = problem(3, (5, 19, 23))
    whole = sinkhorn(C, a, b, 0.02, max_iters=500)
    for k in range(5):
        alone = sinkhorn(C[k : k + 1], a[k : k + 1], b[k : k + 1], 0.02, max_iters=500)
        assert torch.equal(alone.f[0], whole.f[k])
        assert int(alone.n_iters) == int(whole.n_iters[k])
    padded = torch.nn.functional.pad(C, (0, 30, 0, 9), value=math.nan)
    mask_a, mask_b = (
        torch.nn.functional.pad(torch.ones_like(one, dtype=torch.bool), (0, k)) for one, k in ((a, 9), (b, 30))
    )
    more_a, more_b = torch.nn.functional.pad(a, (0, 9)), torch.nn.functional.pad(b, (0, 30))
    larger = sinkhorn(padded, more_a, more_b, 0.02, mask_a=mask_a, mask_b=mask_b, max_iters=500)
    assert larger.backend == "compiled"
    assert torch.equal(larger.f[:, :19], whole.f)
    assert (larger.f[:, 19:] == 0).all()


@pytest.mark.parametrize("sides", ["balanced", "soft"])
@pytest.mark.parametrize("dim", [2, 7])
def test_values_and_their_gradients_are_those_of_torch(sides: str, dim: int) -> None:
    x, y, C, a, b = problem(4, dim=dim)
    b = b if sides == "balanced" else 1.5 * b
    tau_a, tau_b = SIDES[sides]
    for cost in ((C,), (x, y)):
        found = {}
        for name in ("compiled", "torch"):
            leaves = [one.clone().requires_grad_() for one in (*cost, a, b)]
            first = leaves[0] if len(cost) == 1 else (leaves[0], leaves[1])
            value = sinkhorn_value(
                first, *leaves[-2:], 0.1, tau_a=tau_a, tau_b=tau_b, max_iters=5000, threshold=1e-12, backend=name
            )
            found[name] = (value, *torch.autograd.grad((value * torch.tensor([1.0, -2.0, 0.5])).sum(), leaves))
        for one, other in zip(found["compiled"], found["torch"], strict=True):
            assert torch.allclose(one, other, 1e-9, 1e-10)


@pytest.mark.parametrize("mode", ["checkpoint", "truncated", "implicit"])
def test_gradients_of_potentials_are_those_of_torch(mode: str) -> None:
    _, _, C, a, b = problem(5)
    found = []
    for name in ("compiled", "torch"):
        leaf = C.clone().requires_grad_()
        f, g = sinkhorn_differentiable(
            leaf, a, b, 0.1, tau_a=1.0, tau_b=1.0, max_iters=400, threshold=1e-9, grad=mode,
            grad_iters=5 * (mode == "truncated"), backend=name,
        )  # fmt: skip
        found.append(torch.autograd.grad((f.square().sum() + g.sum()), leaf)[0])
    assert torch.allclose(found[0], found[1], 1e-8, 1e-10)


def test_a_divergence_is_that_of_torch_with_and_without_gradients() -> None:
    x, y, _, a, b = problem(6)
    wanted = divergence((x, y), a, b, 0.1, threshold=1e-10, max_iters=5000, backend="torch")
    assert torch.allclose(divergence((x, y), a, b, 0.1, threshold=1e-10, max_iters=5000), wanted, 1e-10, 1e-12)
    leaf = x.clone().requires_grad_()
    assert torch.allclose(divergence((leaf, y), a, b, 0.1, threshold=1e-10, max_iters=5000), wanted, 1e-10, 1e-12)


def test_an_open_solve_warns_and_a_second_derivative_is_refused() -> None:
    _, _, C, a, b = problem(7)
    leaf = C.clone().requires_grad_()
    with pytest.warns(NotConvergedWarning, match="stopped after 2 iterations"):
        sinkhorn_value(leaf, a, b, 0.01, max_iters=2)
    value = sinkhorn_value(leaf, a, b, 0.5, max_iters=500)
    (gradient,) = torch.autograd.grad(value.sum(), leaf, create_graph=True)
    with pytest.raises(TiledError, match="a first derivative"):
        torch.autograd.grad(gradient.square().sum(), leaf)


def test_float32_and_turned_costs() -> None:
    _, _, C, a, b = problem(8)
    wanted = sinkhorn(C, a, b, 0.05, max_iters=300)
    short = sinkhorn(C.float(), a.float(), b.float(), 0.05, max_iters=300, threshold=1e-4)
    assert short.f.dtype == torch.float32
    assert short.backend == "compiled"
    assert torch.allclose(short.f.double(), wanted.f, 0.0, 1e-4)
    turned = C.mT.contiguous().mT
    assert not turned.is_contiguous()
    assert torch.equal(sinkhorn(turned, a, b, 0.05, max_iters=300).f, wanted.f)


def test_the_cost_model_leaves_large_problems_to_the_tiles() -> None:
    assert is_small(1, 300, 300, threads=2)
    assert is_small(1000, 32, 32, threads=2)
    assert not is_small(1, LARGEST, 2, threads=2)
    assert not is_small(1, 1024, 1024, threads=64)  # the passes spread one problem over all threads


def test_points_in_many_dimensions_are_stored_where_that_is_cheaper() -> None:
    x, y, C, a, b = problem(9, (2, 30, 40), dim=64)
    wanted = sinkhorn(C, a, b, 0.5, max_iters=300, backend="torch")
    found = sinkhorn((x, y), a, b, 0.5, max_iters=300, backend="torch")
    assert found.is_cost_stored
    assert torch.allclose(found.f, wanted.f, 0.0, 1e-10)
    flat = sinkhorn((x[..., :2].contiguous(), y[..., :2].contiguous()), a, b, 0.5, backend="torch")
    assert not flat.is_cost_stored
    assert not is_worth_storing(1, 50_000, 50_000, 512)  # 20 GB


def test_compiled_is_refused_elsewhere() -> None:
    with pytest.raises(TiledError, match="on the CPU"):
        backend_name("compiled", torch.device("cuda"))


@pytest.mark.parametrize("offset", [0.0, 0.5, 1e6])
def test_distances_in_many_dimensions_keep_their_digits_wherever_the_points_are(offset: float) -> None:
    """The products of points far from the origin cancel, unless the points are moved to their centre."""
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(2, n, 40, generator=generator, dtype=torch.float64).round(decimals=3) for n in (13, 17))
    wanted = (x[:, :, None] - y[:, None]).square().sum(3)
    found = stored(PointCost(x + offset, y + offset))
    assert torch.allclose(found, wanted, rtol=1e-13 if offset < 1 else 1e-9)

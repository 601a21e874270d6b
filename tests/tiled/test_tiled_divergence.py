"""The divergence is a divergence: zero at equality, positive elsewhere, symmetric, with gradients."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pairframe.tiled import NotConvergedWarning, TiledError, divergence

TIGHT = {"threshold": 1e-11, "max_iters": 5000}


def problem(seed: int = 0, n: int = 17, m: int = 22, ratio: float = 1.0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.rand(*shape, generator=generator, dtype=torch.float64)  # noqa: E731
    x, y, a, b = draw(2, n, 2), draw(2, m, 2), draw(2, n) + 0.1, draw(2, m) + 0.1
    return x, y, a / a.sum(1, keepdim=True), ratio * b / b.sum(1, keepdim=True)


@pytest.mark.parametrize("reference", ["counting", "product"])
@pytest.mark.parametrize("tau", [None, 0.2, 5.0])
def test_equal_measures_are_zero_apart_whatever_their_order(tau: float | None, reference: str) -> None:
    x, _, a, _ = problem()
    turned = torch.arange(16, -1, -1)
    found = divergence((x, x[:, turned]), a, a[:, turned], 0.05, tau, tau, reference=reference, **TIGHT)
    assert found.abs().max() <= 1e-12


@settings(max_examples=10, deadline=None)
@given(
    seed=st.integers(0, 500),
    epsilon=st.floats(0.2, 2.0),
    tau_a=st.floats(0.05, 20.0),
    tau_b=st.floats(0.05, 20.0),
    ratio=st.floats(0.05, 20.0),
    reference=st.sampled_from(["counting", "product"]),
)
def test_it_is_positive_and_symmetric(
    seed: int, epsilon: float, tau_a: float, tau_b: float, ratio: float, reference: str
) -> None:
    x, y, a, b = problem(seed, 6, 9, ratio)
    there = divergence((x, y), a, b, epsilon, tau_a, tau_b, reference=reference, **TIGHT)
    back = divergence((y, x), b, a, epsilon, tau_b, tau_a, reference=reference, **TIGHT)
    assert (there > 0).all()
    assert torch.allclose(there, back, rtol=1e-7, atol=1e-9)


def test_balanced_it_is_that_of_geomloss() -> None:
    geomloss = pytest.importorskip("geomloss", reason="geomloss is not installed")
    x, y, a, b = problem()
    peer = geomloss.SamplesLoss("sinkhorn", p=2, blur=0.3, scaling=0.97, backend="tensorized", debias=True)
    wanted = torch.stack([peer(a[k], x[k], b[k], y[k]) for k in range(2)])
    found = divergence((x, y), a, b, 2 * 0.3**2, reference="product", **TIGHT)  # their cost is |x - y|^2/2
    assert torch.allclose(0.5 * found, wanted, rtol=1e-3)


def test_a_shift_is_seen_in_full() -> None:
    """Two shifted copies are |shift|^2 apart, exactly, at any epsilon: the entropy has no say."""
    x, _, a, _ = problem()
    shift = torch.tensor([0.3, -0.4], dtype=torch.float64)
    for epsilon in (0.05, 1.0):
        found = divergence((x, x + shift), a, a, epsilon, reference="product", **TIGHT)
        assert torch.allclose(found, torch.full((2,), 0.25, dtype=torch.float64), atol=1e-9)


@pytest.mark.parametrize("reference", ["counting", "product"])
@pytest.mark.parametrize("taus", [(None, None), (0.5, 0.5), (0.3, 2.0)], ids=str)
def test_its_gradients_are_finite_differences(taus: tuple[float | None, float | None], reference: str) -> None:
    x, y, a, b = problem(ratio=1.0 if taus[0] is None else 1.5)
    more = {"reference": reference, "threshold": 1e-12, "max_iters": 20000}
    live_x, live_a = x.clone().requires_grad_(), a.clone().requires_grad_()
    value = divergence((live_x, y), live_a, b, 0.1, *taus, **more)
    plain = divergence((x, y), a, b, 0.1, *taus, **more)
    assert torch.allclose(value, plain, rtol=1e-9, atol=1e-11)
    value.sum().backward()
    generator = torch.Generator().manual_seed(1)
    move = torch.randn(x.shape, generator=generator, dtype=torch.float64)
    grow = torch.randn(a.shape, generator=generator, dtype=torch.float64) * a
    grow = grow - a * grow.sum(1, keepdim=True)  # keeps the total: hard marginals allow no other
    step = 1e-5
    slopes = [
        (
            divergence((x + h * move, y), a, b, 0.1, *taus, **more).sum(),
            divergence((x, y), a + h * grow, b, 0.1, *taus, **more).sum(),
        )
        for h in (step, -step)
    ]
    assert ((slopes[0][0] - slopes[1][0]) / (2 * step)).item() == pytest.approx(
        (live_x.grad * move).sum().item(), rel=1e-5
    )
    assert ((slopes[0][1] - slopes[1][1]) / (2 * step)).item() == pytest.approx(
        (live_a.grad * grow).sum().item(), rel=1e-5
    )


def test_three_costs_and_points_give_the_same() -> None:
    x, y, a, b = problem()
    squared = lambda p, q: ((p[:, :, None] - q[:, None]) ** 2).sum(3)  # noqa: E731
    mask = torch.ones(2, 17, dtype=torch.bool)
    mask[:, 3] = False
    costs = (squared(x, y), squared(x, x), squared(y, y))
    one, other = (divergence(c, a, b, 0.1, 1.0, 1.0, mask, **TIGHT) for c in ((x, y), costs))
    assert torch.allclose(one, other, rtol=1e-9)


def test_bad_costs_and_early_stops_are_said() -> None:
    x, y, a, b = problem()
    with pytest.raises(TiledError, match="needs the self-costs"):
        divergence(torch.zeros(1, 2, 2))  # type: ignore[arg-type]
    with pytest.raises(TiledError, match=r"C_aa of shape \(B, n, n\)"):
        divergence((torch.zeros(2, 17, 22), torch.zeros(2, 17, 22), torch.zeros(2, 22, 22)), a, b)
    with pytest.raises(TiledError, match="a symmetric C_bb"):
        divergence((torch.zeros(2, 17, 22), torch.zeros(2, 17, 17), torch.rand(2, 22, 22)), a, b)
    with pytest.warns(NotConvergedWarning, match="6 of 6 solves stopped after 2 iterations"):
        divergence((x, y), a, b, 0.01, max_iters=2)


@pytest.mark.parametrize("reference", ["counting", "product"])
def test_stranded_mass_counts_the_same_with_and_without_gradients(reference: str) -> None:
    """A row of a that no finite cost leads away from has a place in the self-problem of a, and none in U(a,b)."""
    x, y, a, b = problem(3, 6, 9, ratio=1.7)
    costs = [torch.cdist(one, other).square() for one, other in ((x, y), (x, x), (y, y))]
    costs[0][:, 2], costs[0][1, :, 4] = math.inf, math.inf
    plain = divergence(tuple(costs), a, b, 0.3, 0.8, 2.0, reference=reference, **TIGHT)
    with_gradients = divergence(tuple(costs), a.requires_grad_(), b, 0.3, 0.8, 2.0, reference=reference, **TIGHT)
    assert torch.allclose(plain, with_gradients.detach(), rtol=1e-9, atol=1e-11)
    (found,) = torch.autograd.grad(with_gradients.sum(), a)
    step = 1e-6 * torch.eye(6, dtype=torch.float64)[2]
    ahead, behind = (
        divergence(tuple(costs), a.detach() + k * step, b, 0.3, 0.8, 2.0, reference=reference, **TIGHT) for k in (1, -1)
    )
    assert torch.allclose((ahead - behind) / 2e-6, found[:, 2], rtol=1e-6)


def test_masked_entries_of_self_costs_may_hold_anything() -> None:
    x, y, a, b = problem(4, 6, 9)
    mask_a = torch.ones(2, 6, dtype=torch.bool)
    mask_a[0, 1] = False
    costs = [torch.cdist(one, other).square() for one, other in ((x, y), (x, x), (y, y))]
    wanted = divergence(tuple(costs), a, b, 0.3, 0.8, 2.0, mask_a, **TIGHT)
    costs[0][0, 1], costs[1][0, 1], costs[1][0, :, 1], a[0, 1] = math.nan, math.nan, -math.inf, math.nan
    assert torch.equal(divergence(tuple(costs), a, b, 0.3, 0.8, 2.0, mask_a, **TIGHT), wanted)
    live = divergence(tuple(costs), a.requires_grad_(), b, 0.3, 0.8, 2.0, mask_a, **TIGHT)
    assert torch.allclose(live.detach(), wanted, rtol=1e-9, atol=1e-11)
    (bar,) = torch.autograd.grad(live.sum(), a)
    assert bar[0, 1] == 0
    assert torch.isfinite(bar).all()

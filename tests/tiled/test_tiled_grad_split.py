"""Plans that nearly fall into two parts: the implicit gradient is right, or says that it is not."""

from __future__ import annotations

import math
import warnings

import pytest
import torch
from torch import Tensor

from pairframe.tiled import NotConvergedWarning, sinkhorn_differentiable

EPSILON = 0.1


def two_clusters(gap: float, n: int = 6, twins: bool = False) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Costs (1, 2n, 2n), masses that are equal per cluster (1, 2n), and weights (1, 2n) of a loss <w, f>.

    With `twins` the second cluster is the first one, moved: f and g are then found without any exchange between them.
    """
    generator = torch.Generator().manual_seed(0)
    draw = lambda *shape: torch.rand(*shape, generator=generator, dtype=torch.float64)  # noqa: E731
    x, y, a, b = draw(2 * n, 2), draw(2 * n, 2), draw(2, n) + 0.5, draw(2, n) + 0.5
    if twins:
        x[n:], y[n:], a[1], b[1] = x[:n], y[:n], a[0], b[0]
        x[n:, 0], y[n:, 0] = 1.0 - x[n:, 0], 1.0 - y[n:, 0]  # mirrored, so that both see the same
    x[n:, 0] += gap
    y[n:, 0] += gap
    a, b = (0.5 * one / one.sum(1, keepdim=True) for one in (a, b))
    cost = (x[:, None] - y[None]).square().sum(2)
    weights = torch.randn(1, 2 * n, generator=generator, dtype=torch.float64)
    if twins:  # a loss that asks nearly the same of both: the exchange is 1e-8 of the right side, and all of the answer
        weights[:, n:] = (1.0 + 1e-8) * weights[:, :n]
    return cost[None], a.reshape(1, -1), b.reshape(1, -1), weights


def gradient(mode: str, gap: float, twins: bool = False, **options: float) -> tuple[Tensor, Tensor, list[str]]:
    """Of <w, f>: dC, and below it da but for a constant, (2n + 1, 2n); f and g side by side, (2n, 2); the warnings."""
    cost, a, b, weights = two_clusters(gap, twins=twins)
    cost.requires_grad_()
    a.requires_grad_()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        f, g = sinkhorn_differentiable(cost, a, b, EPSILON, grad=mode, **options)
        bar, bar_a = torch.autograd.grad((weights * f).sum(), (cost, a))
    assert all(issubclass(one.category, NotConvergedWarning) for one in caught)
    return (
        torch.cat((bar[0], bar_a - bar_a.mean())),
        torch.stack((f[0], g[0]), 1).detach(),
        [str(one.message) for one in caught],
    )


def direct(gap: float, twins: bool, potentials: Tensor) -> tuple[Tensor, float]:
    """dC and da from a dense solve of the whole system at these potentials, and the smallest eigenvalue but the gauge's."""
    cost, a, b, weights = (one[0] for one in two_clusters(gap, twins=twins))
    n = len(a)
    plan = torch.exp((potentials[:, :1] + potentials[:, 1] - cost) / EPSILON)
    p, q = plan.sum(1), plan.sum(0)
    matrix = torch.cat((torch.cat((p.diag(), plan), 1), torch.cat((plan.T, q.diag()), 1)))
    total = weights.sum()
    right = torch.cat((weights - 0.5 * total * a / a.sum(), 0.5 * total * b / b.sum()))
    gauge = torch.cat((torch.ones(n), -torch.ones(n))).double() / math.sqrt(2 * n)
    solution = torch.linalg.solve(matrix + torch.outer(gauge, gauge), right)
    scaled = plan / (p[:, None] * q).sqrt()
    values = torch.linalg.eigvalsh(torch.eye(n, dtype=torch.float64) - scaled.T @ scaled)
    bar_a = EPSILON * solution[:n] * p / a - 0.5 * total * potentials[:, 0] / a.sum()  # the gauge has a in it too
    return torch.cat((plan * (solution[:n, None] + solution[n:]), (bar_a - bar_a.mean())[None])), float(values[1])


def off(found: Tensor, wanted: Tensor) -> float:
    """Largest difference relative to the largest entry: of dC, or of da where that is more."""
    pairs = ((found[:-1], wanted[:-1]), (found[-1], wanted[-1]))
    return max(float((one - other).abs().max() / other.abs().max()) for one, other in pairs)


def test_it_equals_the_unrolled_gradient_where_that_can_be_had() -> None:
    options = {"max_iters": 2000, "threshold": 1e-9}
    found, potentials, warned = gradient("implicit", 1.1, **options)
    wanted, _, _ = gradient("unrolled", 1.1, **options)
    assert direct(1.1, False, potentials)[1] < 0.1
    assert off(found, wanted) < 1e-6
    assert warned == []


@pytest.mark.parametrize("gap", [2.2, 2.4])
def test_a_small_residual_is_not_taken_for_a_small_error(gap: float) -> None:
    """Both clusters alike: the potentials are exact at once, and the linear solve alone has to see the exchange."""
    found, potentials, warned = gradient("implicit", gap, twins=True, max_iters=4000, threshold=1e-6)
    wanted, eigenvalue = direct(gap, True, potentials)
    assert 1e-12 < eigenvalue < 1e-8
    assert off(found, wanted) < 1e-3
    assert warned == []


@pytest.mark.parametrize("gap", [2.0, 2.3])
def test_potentials_that_only_seem_to_have_converged_raise_a_warning(gap: float) -> None:
    """Steps below the threshold, because hardly any mass goes between the parts: their potentials are off by epsilon."""
    found, potentials, warned = gradient("implicit", gap, max_iters=4000, threshold=1e-6)
    assert len(warned) == 1
    assert "nearly separates into parts" in warned[0]
    assert "lower threshold" in warned[0]
    # The linear solve itself is right: it is the place that is wrong.
    assert off(found, direct(gap, False, potentials)[0]) < 1e-3


def test_parts_that_exchange_nothing_raise_a_warning_if_the_loss_depends_on_them() -> None:
    _, _, warned = gradient("implicit", 3.5, max_iters=4000, threshold=1e-6)
    assert any("not determined" in one for one in warned)
    cost, a, b, _ = two_clusters(3.5, twins=True)
    cost.requires_grad_()
    f, g = sinkhorn_differentiable(cost, a, b, EPSILON, grad="implicit", max_iters=4000, threshold=1e-9)
    plan = torch.exp((f.unsqueeze(2) + g.unsqueeze(1) - cost) / EPSILON)  # what f and g of a part leave open cancels
    (bar,) = torch.autograd.grad((plan * cost.detach()).sum(), cost)
    assert torch.isfinite(bar).all()

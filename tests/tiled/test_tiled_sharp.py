"""``tv`` and ``partial`` in the tiled engine against the grid engine, finite differences, and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from pairframe.engines import SolveOptions, solve
from pairframe.problem import TV, Partial, TransportProblem
from pairframe.tiled import TiledError, divergence, sinkhorn, sinkhorn_value

EPSILON, TAU = 1.0, 6.0
SOLVE = {"max_iters": 20_000, "threshold": 1e-11}
KINDS = {"tv": TV, "partial": Partial}


def images() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    a, b = np.zeros((6, 12)), np.zeros((6, 12))
    a[1:5, 0:4], b[2:6, 2:5] = 0.5 + rng.random((4, 4)), 0.5 + rng.random((4, 3))
    b[0, 11] = 1.3  # farther from any source than the reach: created
    return a, b


def measures() -> tuple[tuple[Tensor, Tensor], Tensor, Tensor]:
    (x, a), (y, b) = (
        (torch.as_tensor(np.argwhere(one > 0).astype(float))[None], torch.as_tensor(one[one > 0])[None])
        for one in images()
    )
    return (x, y), a, b


@pytest.mark.parametrize("penalty", KINDS)
@pytest.mark.parametrize("reference", ["counting", "product"])
def test_values_and_plans_are_those_of_the_grid_engine(penalty: str, reference: str) -> None:
    points, a, b = measures()
    kind = KINDS[penalty](TAU)
    wanted = solve(TransportProblem(*images(), EPSILON, kind, kind, reference), "grid", SolveOptions(1e-9, 20_000))
    out = sinkhorn(points, a, b, EPSILON, TAU, TAU, penalty=penalty, reference=reference, **SOLVE)
    assert out.converged.all()
    assert out.backend == "torch"
    assert float(out.dual()) == pytest.approx(wanted.certificate.dual_lower, rel=1e-8)
    assert float(out.objective(points)) == pytest.approx(float(out.dual()), rel=1e-7)
    plan = out.transport_plan(points)[0]
    np.testing.assert_allclose(plan.sum(1).numpy(), wanted.marginal_a[images()[0] > 0], atol=1e-6)
    np.testing.assert_allclose(plan.sum(0).numpy(), wanted.marginal_b[images()[1] > 0], atol=1e-6)
    assert float(out.f.max()) <= TAU * (1 + 1e-12)
    if penalty == "partial":
        assert (plan.sum(0) <= b[0] * (1 + 1e-9)).all()
    else:
        assert float(out.f.min()) >= -TAU * (1 + 1e-12)


@pytest.mark.parametrize("penalty", KINDS)
def test_gradients_are_those_of_finite_differences(penalty: str) -> None:
    (x, y), a, b = measures()
    C = torch.cdist(x, y) ** 2
    leaves = [one.clone().requires_grad_() for one in (C, a, b)]

    def value(*tensors: Tensor) -> Tensor:
        return sinkhorn_value(*tensors, EPSILON, tau_a=TAU, tau_b=TAU, penalty=penalty, **SOLVE).sum()

    gradients = torch.autograd.grad(value(*leaves), leaves)
    generator = torch.Generator().manual_seed(0)
    for k, gradient in enumerate(gradients):
        direction, h = torch.rand(leaves[k].shape, generator=generator, dtype=torch.float64), 1e-4
        ends = []
        for sign in (1.0, -1.0):
            moved = [one.detach() + sign * h * direction if j == k else one.detach() for j, one in enumerate(leaves)]
            ends.append(float(value(*moved)))
        assert float((gradient * direction).sum()) == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-6)


def test_masks_starts_and_float32() -> None:
    points, a, b = measures()
    settings = {"penalty": "partial", **SOLVE}
    out = sinkhorn(points, a, b, EPSILON, TAU, TAU, **settings)
    again = sinkhorn(points, a, b, EPSILON, TAU, TAU, init=out, **settings)
    assert again.n_iters.sum() < out.n_iters.sum() // 4
    padded = torch.nn.functional.pad(points[1], (0, 0, 0, 3), value=float("nan"))
    mask = torch.arange(padded.shape[1])[None] < b.shape[1]
    masked = sinkhorn(
        (points[0], padded), a, torch.nn.functional.pad(b, (0, 3)), EPSILON, TAU, TAU, mask_b=mask, **settings
    )
    assert torch.allclose(masked.dual(), out.dual(), rtol=1e-9)
    single = sinkhorn(
        tuple(one.float() for one in points),
        a.float(),
        b.float(),
        EPSILON,
        TAU,
        TAU,
        penalty="partial",
        max_iters=2000,
        threshold=1e-4,
    )
    assert torch.allclose(single.dual(), out.dual(), rtol=1e-3)


@pytest.mark.parametrize("penalty", KINDS)
def test_the_divergence_is_zero_for_equal_measures_only(penalty: str) -> None:
    (x, y), a, b = measures()
    settings = {"epsilon": EPSILON, "tau_a": TAU, "tau_b": TAU, "penalty": penalty, **SOLVE}
    assert abs(float(divergence((x, x), a, a, **settings))) < 1e-8
    apart = divergence((x, y), a, b, **settings)
    assert float(apart) > 1.0
    x = x.requires_grad_()
    assert float(divergence((x, y), a, b, **settings).detach()) == pytest.approx(float(apart), rel=1e-9)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"penalty": "l2", "tau_a": 1.0, "tau_b": 1.0}, "a penalty: kl, tv, partial"),
        ({"penalty": "tv", "tau_a": 1.0}, 'tau_a and tau_b with penalty="tv"'),
        (
            {"penalty": "partial", "tau_a": 1.0, "tau_b": 1.0, "backend": "compiled"},
            'backend="torch" with penalty="partial"',
        ),
    ],
)
def test_bad_penalties_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(TiledError, match=message):
        sinkhorn(torch.zeros(1, 2, 2), **settings)

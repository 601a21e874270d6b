"""The same plans as POT, and as the dense float64 oracle."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

from pairframe.engines import SolveOptions, solve
from pairframe.problem import TransportProblem, penalty_of
from pairframe.tiled import sinkhorn

ot = pytest.importorskip("ot", reason="POT is not installed")


def problem(seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Costs up to 0.18: at epsilon = 0.001 that is 180 epsilons."""
    generator = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.rand(*shape, generator=generator, dtype=torch.float64)  # noqa: E731
    x, y, a, b = 0.3 * draw(1, 14, 2), 0.3 * draw(1, 17, 2), draw(1, 14) + 0.1, draw(1, 17) + 0.1
    return ((x[:, :, None] - y[:, None]) ** 2).sum(3), a / a.sum(), b / b.sum()


@pytest.mark.parametrize("epsilon", [1.0, 0.1, 0.01, 0.001])
def test_balanced_plans_equal_those_of_pot(epsilon: float) -> None:
    C, a, b = problem(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = ot.bregman.sinkhorn_log(
            a[0].numpy(), b[0].numpy(), C[0].numpy(), epsilon, numItermax=60000, stopThr=1e-13
        )
    out = sinkhorn(C, a, b, epsilon, max_iters=60000, threshold=1e-12)
    assert out.converged.all()
    assert np.abs(out.transport_plan(C)[0].numpy() - wanted).max() <= 1e-10


@pytest.mark.parametrize("epsilon", [1.0, 0.1, 0.01, 0.001])
@pytest.mark.parametrize("taus", [(0.05, 0.05), (0.02, 0.3)], ids=str)
def test_unbalanced_plans_equal_those_of_pot(epsilon: float, taus: tuple[float, float]) -> None:
    C, a, b = problem(2)
    b = 1.8 * b
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = ot.unbalanced.sinkhorn_unbalanced(
            a[0].numpy(), b[0].numpy(), C[0].numpy(), epsilon, taus, reg_type="entropy", numItermax=60000, stopThr=1e-15
        )
    out = sinkhorn(C, a, b, epsilon, *taus, max_iters=60000, threshold=1e-12)
    assert out.converged.all()
    assert np.abs(out.transport_plan(C)[0].numpy() - wanted).max() <= 1e-10


@pytest.mark.parametrize("kinds", [("kl", "kl"), ("kl", "balanced"), ("balanced", "balanced")], ids="-".join)
@pytest.mark.parametrize("reference", ["product", "counting"])
def test_values_and_plans_equal_those_of_the_oracle(kinds: tuple[str, str], reference: str) -> None:
    rng = np.random.default_rng(3)
    mass_a, mass_b = rng.random((5, 6)) * (rng.random((5, 6)) < 0.7), rng.random((5, 6)) * (rng.random((5, 6)) < 0.7)
    if kinds == ("balanced", "balanced"):
        mass_b *= mass_a.sum() / mass_b.sum()
    strengths = [np.inf if kind == "balanced" else 20.0 for kind in kinds]
    penalties = [penalty_of(kind, strength) for kind, strength in zip(kinds, strengths, strict=True)]
    stated = TransportProblem(mass_a, mass_b, 2.0, *penalties, reference=reference)
    oracle = solve(stated, "oracle", SolveOptions(tol=1e-13, max_iterations=5000))
    on_a, on_b = stated.support_a, stated.support_b
    x, y = (torch.as_tensor(np.argwhere(on), dtype=torch.float64)[None] for on in (on_a, on_b))
    a, b = torch.as_tensor(mass_a[on_a])[None], torch.as_tensor(mass_b[on_b])[None]
    taus = [None if kind == "balanced" else 20.0 for kind in kinds]
    out = sinkhorn((x, y), a, b, 2.0, *taus, reference=reference, max_iters=20000, threshold=1e-13)
    sums = np.add.outer(oracle.potential_a[on_a], oracle.potential_b[on_b])
    cost = ((x[0][:, None] - y[0][None]) ** 2).sum(2).numpy()
    wanted = np.exp(np.add.outer(stated.log_u[on_a], stated.log_v[on_b]) + (sums - cost) / 2.0)
    assert np.abs(out.transport_plan((x, y))[0].numpy() - wanted).max() <= 1e-10
    assert out.dual().item() == pytest.approx(oracle.certificate.dual_lower, rel=1e-10)

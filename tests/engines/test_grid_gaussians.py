"""Unbalanced Gaussians: the grid engine against an answer that no grid was used for."""

from __future__ import annotations

import numpy as np
import pytest

from pairframe.engines import SolveOptions, solve
from pairframe.problem import KL, TransportProblem
from pairframe.testing.closed_forms import Gaussian, unbalanced_gaussians

SHAPE = (120, 140)


def janati_plan_mass(a: Gaussian, b: Gaussian, epsilon: float, lam: float) -> float:
    """Total mass of the plan by the formula of Janati et al. (2020), theorem 3, for round Gaussians in the plane."""
    sigma2, gamma, d = epsilon / 2, lam, 2
    tau, shift = gamma / (gamma + 2 * sigma2), sigma2 + gamma / 2
    va, vb = a.variance, b.variance
    at, bt = (0.5 * gamma * (1 - shift / (v + shift)) for v in (va, vb))
    c = np.sqrt(at * bt / tau + sigma2**2 / 4) - sigma2 / 2
    gap2 = sum((p - q) ** 2 for p, q in zip(a.centre_yx, b.centre_yx, strict=True))
    inner = np.log(a.mass * b.mass) + d * np.log(c) + 0.5 * d * (tau * np.log(at * bt) - np.log(va * vb))
    log_mass = 0.5 * d * sigma2 / (gamma + sigma2) * np.log(sigma2)
    log_mass += (inner - 0.5 * gap2 / (va + vb + shift)) / (tau + 1)
    return float(np.exp(log_mass) / (c - 2 / gamma * at * bt) ** (d / 2))


@pytest.mark.parametrize(("epsilon", "lam"), [(8.0, 200.0), (30.0, 50.0), (4.0, 2000.0)])
def test_mass_means_and_value_of_the_plan(epsilon: float, lam: float) -> None:
    a, b = Gaussian(0.5, (55.0, 60.0), 40.0), Gaussian(2.0, (66.0, 75.0), 70.0)
    answer = unbalanced_gaussians(a, b, epsilon, lam)
    assert answer.plan_mass == pytest.approx(janati_plan_mass(a, b, epsilon, lam), rel=1e-10)
    kl = KL(lam)
    problem = TransportProblem(a.on_grid(SHAPE), b.on_grid(SHAPE), epsilon, kl, kl, reference="product")
    found = solve(problem, options=SolveOptions(tol=1e-9))
    # M_a M_b = 1, so our product reference is a (x) b itself.
    assert problem.total_a * problem.total_b == pytest.approx(1.0, rel=1e-9)
    assert found.marginal_a.sum() == pytest.approx(answer.plan_mass, rel=1e-6)
    assert found.certificate.primal_upper == pytest.approx(answer.objective, rel=1e-6)
    ys, xs = np.indices(SHAPE)
    for marginal, mean in ((found.marginal_a, answer.mean_source_yx), (found.marginal_b, answer.mean_target_yx)):
        centre = [(marginal * axis).sum() / marginal.sum() for axis in (ys, xs)]
        assert centre == pytest.approx(mean, abs=1e-5)

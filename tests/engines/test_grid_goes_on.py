"""The grid engine goes on while the error falls, and reaches the tolerance where it once gave up."""

from __future__ import annotations

import numpy as np
import pytest

import pairframe as pf
from pairframe.engines import SolveOptions, Status, solve
from pairframe.problem import KL, Balanced, TransportProblem


def ellipses() -> tuple[np.ndarray, np.ndarray]:
    y, x = np.mgrid[:48, :64]
    small, large = (((y - 24) / 7.0) ** 2 + ((x - 32) / 12.0) ** 2, ((y - 24) / 8.4) ** 2 + ((x - 32) / 14.4) ** 2)
    return small <= 1, large <= 1


@pytest.mark.parametrize("seed", range(4))
def test_random_masses_on_disjoint_halves(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = np.zeros((5, 8)), np.zeros((5, 8))
    a[:, :4], b[:, 4:] = rng.random((5, 4)), rng.random((5, 4))
    b *= a.sum() / b.sum()
    problem = TransportProblem(a, b, 0.03, Balanced(), Balanced())
    found, oracle = solve(problem, "grid"), solve(problem, "oracle")
    assert found.status is Status.converged
    assert found.certificate.meets(1e-6)
    assert found.certificate.dual_lower == pytest.approx(oracle.certificate.dual_lower, rel=1e-6)


@pytest.mark.parametrize(("centres", "widths"), [((30, 70), (9.0, 7.0)), ((30, 70), (9.0, 14.0))])
def test_a_strip_of_gaussians_with_a_sharp_blur(centres: tuple[int, int], widths: tuple[float, float]) -> None:
    x = np.arange(100.0)
    masses = [np.exp(-((x - c) ** 2) / (2 * w * w)) * np.ones((12, 1)) for c, w in zip(centres, widths, strict=True)]
    masses[1] *= masses[0].sum() / masses[1].sum()
    config = pf.TransportConfig(penalty="balanced", blur_um=0.3, mass_mode="intensity")
    result = pf.compare(*masses, config)
    assert result.status is Status.converged
    assert result.relative_gap <= 1e-6


@pytest.mark.parametrize("penalty", ["kl", "tv", "partial"])
@pytest.mark.parametrize("blur_um", [0.3, 0.1, 0.05])
def test_a_blur_far_below_a_pixel(penalty: str, blur_um: float) -> None:
    result = pf.compare(*ellipses(), pf.TransportConfig(penalty=penalty, blur_um=blur_um))
    assert result.status is Status.converged
    assert result.relative_gap <= 1e-6
    assert result.iterations < 500


@pytest.mark.parametrize("most", [3, 20, 80, 140])
def test_all_iterations_are_used_and_no_more(most: int) -> None:
    a, b = (mask[12:37, 15:50].astype(float) for mask in ellipses())
    problem = TransportProblem(a, b, 0.0025, KL(2500.0), KL(2500.0))
    found = solve(problem, "grid", SolveOptions(max_iterations=most))
    assert found.status is Status.max_iterations
    # A round takes two, a coarse correction and the certificate a few more.
    assert most - 4 <= found.iterations <= most + 8

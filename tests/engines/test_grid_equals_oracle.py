"""The grid engine gives the oracle's answer: objective, potentials and marginals, both solved to 1e-12."""

from __future__ import annotations

import numpy as np
import pytest

from pairframe.engines import SolveOptions, Status, solve
from pairframe.problem import TransportProblem, penalty_of

TIGHT = SolveOptions(tol=1e-12, max_iterations=20_000)
PENALTY_PAIRS = [(a, b) for a in ("kl", "tv", "partial", "balanced") for b in ("kl", "tv", "partial", "balanced")]


def random_masses(seed: int, shape: tuple[int, int], kind: str, ratio: float = 3.0) -> tuple[np.ndarray, np.ndarray]:
    """Two random masses on a grid: with holes, of one pixel, or everywhere."""
    rng = np.random.default_rng(seed)
    a, b = rng.random(shape) + 0.05, rng.random(shape) + 0.05
    if kind == "holes":
        a *= rng.random(shape) < 0.5
        b *= rng.random(shape) < 0.6
    if kind in ("one pixel", "one pixel each"):
        a = np.zeros(shape)
        a[rng.integers(shape[0]), rng.integers(shape[1])] = 1.7
    if kind == "one pixel each":
        b = np.zeros(shape)
        b[rng.integers(shape[0]), rng.integers(shape[1])] = 0.4
    a[0, 0] += 1e-3 * (a.sum() == 0)
    return a / a.sum(), ratio * b / b.sum()


def problem_of(
    a: np.ndarray, b: np.ndarray, epsilon: float, lam: float, kinds: tuple[str, str], reference: str
) -> TransportProblem:
    if kinds == ("balanced", "balanced"):
        b = b * (a.sum() / b.sum())
    if kinds == ("partial", "balanced"):
        b = b * min(1.0, 0.5 * a.sum() / b.sum())
    sides = [penalty_of(kind, lam) for kind in kinds]
    return TransportProblem(a, b, epsilon, *sides, reference=reference)


def assert_same(problem: TransportProblem, tol: float = 1e-8) -> None:
    """Objective, f_i + g_j on the supports and marginals agree; both are certified, or as good as their numbers allow."""
    grid, oracle = (solve(problem, backend, TIGHT) for backend in ("grid", "oracle"))
    for one in (grid, oracle):
        assert one.certificate.relative_gap <= 1e-10, one
        assert one.certificate.marginal_error <= 1e-9, one
    reached = max(grid.certificate.marginal_error, oracle.certificate.marginal_error, 1e-12)
    assert grid.certificate.primal_upper == pytest.approx(oracle.certificate.primal_upper, rel=tol)
    on_a, on_b = problem.support_a, problem.support_b
    sums = [np.add.outer(one.potential_a[on_a], one.potential_b[on_b]) for one in (grid, oracle)]
    # Where the plan has no mass to speak of, a pinned potential's partner is free: compare where there is some.
    ya, yb = np.argwhere(on_a), np.argwhere(on_b)
    cost = ((ya[:, None] - yb) ** 2).sum(axis=2)
    log_plan = np.add.outer(problem.log_u[on_a], problem.log_v[on_b]) + (sums[1] - cost) / problem.epsilon
    plan = np.exp(log_plan)
    seen = plan > 1e-9 * plan.max()
    scale = np.abs(sums[1][seen]).max() + problem.epsilon
    assert np.abs(sums[0] - sums[1])[seen].max() <= max(tol, 1e4 * reached) * scale
    for name in ("marginal_a", "marginal_b"):
        total = getattr(oracle, name).sum()
        assert np.abs(getattr(grid, name) - getattr(oracle, name)).max() <= max(1e-7, 10 * reached) * total


@pytest.mark.parametrize("reference", ["heat", "product", "counting"])
@pytest.mark.parametrize("kinds", PENALTY_PAIRS, ids="-".join)
def test_every_penalty_and_reference(kinds: tuple[str, str], reference: str) -> None:
    if kinds == ("balanced", "partial") and reference == "heat":
        reference = "product"
    a, b = random_masses(3, (9, 12), "holes")
    assert_same(problem_of(a, b, 4.0, 20.0, kinds, reference))


@pytest.mark.parametrize("epsilon", [0.3, 3.0, 30.0, 1000.0])
@pytest.mark.parametrize("lam", [1.0, 100.0, 1e4, 1e7])
def test_every_epsilon_and_strength(epsilon: float, lam: float) -> None:
    a, b = random_masses(5, (8, 15), "holes")
    assert_same(problem_of(a, b, epsilon, lam, ("kl", "kl"), "heat"))


@pytest.mark.parametrize("shape", [(1, 1), (1, 17), (13, 2), (12, 12)])
@pytest.mark.parametrize("kind", ["holes", "one pixel", "one pixel each", "full canvas"])
def test_every_kind_of_support(shape: tuple[int, int], kind: str) -> None:
    a, b = random_masses(7, shape, kind)
    assert_same(problem_of(a, b, 2.5, 50.0, ("kl", "kl"), "heat"))


@pytest.mark.parametrize("seed", range(6))
def test_random_mixtures(seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    a, b = random_masses(seed, (int(rng.integers(2, 14)), int(rng.integers(2, 14))), "holes", 10 ** rng.uniform(-2, 2))
    kinds = [("kl", "tv"), ("tv", "kl"), ("kl", "balanced"), ("partial", "kl"), ("tv", "tv"), ("kl", "kl")][seed]
    epsilon, lam = 10 ** rng.uniform(-0.3, 2), 10 ** rng.uniform(0, 4)
    assert_same(problem_of(a, b, epsilon, lam, kinds, ("heat", "product", "counting")[seed % 3]))


def test_the_default_tolerance_is_met_and_certified() -> None:
    a, b = random_masses(11, (20, 30), "holes")
    found = solve(problem_of(a, b, 4.0, 2500.0, ("kl", "kl"), "heat"))
    assert found.status is Status.converged
    assert found.certificate.meets(1e-6)

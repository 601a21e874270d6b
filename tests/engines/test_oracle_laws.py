"""The oracle reaches rounding over the whole range of parameters, and says so when it cannot."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from pairframe.engines import Solution, SolveOptions, TraceRecord, get_engine, solve
from pairframe.engines.points import Points
from pairframe.errors import StartError, UnsupportedProblemError
from pairframe.problem import KL, Potentials, TransportProblem, penalty_of

KINDS = ("kl", "tv", "partial", "balanced")
TIGHT = SolveOptions(tol=1e-12, max_iterations=5000)


def random_problem(
    seed: int, kind_a: str, kind_b: str, epsilon: float, lam: float, reference: str = "heat", ratio: float = 3.0
) -> TransportProblem:
    rng = np.random.default_rng(seed)
    a, b = (rng.random((11, 13)) * (rng.random((11, 13)) < 0.8) for _ in range(2))
    b *= ratio * a.sum() / b.sum()
    if kind_a == kind_b == "balanced":
        b *= a.sum() / b.sum()
    if (kind_a, kind_b) == ("partial", "balanced"):
        a, b = b, a
    penalties = [penalty_of(kind, lam) for kind in (kind_a, kind_b)]
    return TransportProblem(a, b, epsilon, *penalties, reference)


def potential_sums(solution: Solution) -> np.ndarray:
    """f_i + g_j: what does not depend on the constant that some penalties leave open."""
    problem = solution.problem
    return solution.potential_a[problem.support_a][:, None] + solution.potential_b[problem.support_b]


@pytest.mark.parametrize(("kind_a", "kind_b"), [*itertools.product(KINDS, KINDS)])
@pytest.mark.parametrize("epsilon", [0.3, 4.0, 1000.0])
def test_it_reaches_1e_12_for_every_penalty_and_strength(kind_a: str, kind_b: str, epsilon: float) -> None:
    for lam, reference in zip((1.0, 2500.0, 1e7), ("heat", "product", "counting"), strict=True):
        solution = solve(random_problem(1, kind_a, kind_b, epsilon, lam, reference), "oracle", TIGHT)
        assert solution.status == "converged", solution
        assert solution.certificate.relative_gap <= 1e-12
        assert solution.certificate.marginal_error <= 1e-12


@pytest.mark.parametrize(("kind_a", "kind_b"), [*itertools.product(KINDS, KINDS)])
def test_swapping_source_and_target_swaps_the_solution(kind_a: str, kind_b: str) -> None:
    problem = random_problem(2, kind_a, kind_b, 4.0, 50.0)
    one, other = solve(problem, "oracle", TIGHT), solve(problem.swapped(), "oracle", TIGHT)
    np.testing.assert_allclose(one.marginal_a, other.marginal_b, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(potential_sums(one), potential_sums(other).T, rtol=1e-8, atol=1e-8)


def test_the_answer_is_the_same_twice() -> None:
    problem = random_problem(3, "kl", "tv", 2.0, 30.0)
    one, other = solve(problem, "oracle", TIGHT), solve(problem, "oracle", TIGHT)
    np.testing.assert_array_equal(one.potential_a, other.potential_a)
    assert one.iterations == other.iterations


def test_potentials_are_nan_and_marginals_zero_off_the_support() -> None:
    problem = random_problem(3, "kl", "kl", 2.0, 30.0)
    solution = solve(problem, "oracle")
    np.testing.assert_array_equal(np.isfinite(solution.potential_a), problem.support_a)
    np.testing.assert_array_equal(solution.marginal_b > 0, problem.support_b)
    assert "converged by oracle" in repr(solution)


def test_a_warm_start_needs_fewer_iterations_and_finds_the_same() -> None:
    problem = random_problem(4, "kl", "kl", 2.0, 300.0)
    cold = solve(problem, "oracle", TIGHT)
    warm = solve(problem, "oracle", TIGHT, init=(cold.potential_a, cold.potential_b))
    assert warm.iterations < cold.iterations / 4
    np.testing.assert_allclose(potential_sums(warm), potential_sums(cold), rtol=1e-9, atol=1e-9)
    with pytest.raises(StartError, match=r"potentials of shape \(11, 13\), got \(2, 2\)"):
        solve(problem, "oracle", init=(np.zeros((2, 2)), np.zeros((2, 2))))


@pytest.mark.parametrize(("kind_a", "kind_b"), [*itertools.product(KINDS, KINDS)])
def test_stopped_early_it_says_so_and_its_bounds_still_hold(kind_a: str, kind_b: str) -> None:
    problem = random_problem(5, kind_a, kind_b, 0.5, 80.0)
    early = solve(problem, "oracle", SolveOptions(tol=1e-12, max_iterations=3))
    best = solve(problem, "oracle", TIGHT)
    assert early.status == "max_iterations"
    assert early.iterations < 12
    assert np.isfinite(early.marginal_a).all()
    slack = 1e-10 * abs(best.certificate.primal_upper)
    assert early.certificate.dual_lower <= best.certificate.dual_lower + slack
    assert early.certificate.primal_upper >= best.certificate.primal_upper - slack


def test_an_epsilon_below_rounding_ends_with_an_honest_status() -> None:
    problem = random_problem(6, "kl", "kl", 1e-5, 1e3)
    solution = solve(problem, "oracle", SolveOptions(tol=1e-12, max_iterations=3000))
    assert np.isfinite(solution.marginal_a).all()
    assert np.isfinite(solution.potential_a[problem.support_a]).all()
    assert solution.status == "max_iterations"
    assert not solution.certificate.meets(1e-12)
    assert solution.certificate.dual_lower <= solution.certificate.primal_upper < np.inf


def test_masses_from_1e_12_to_1e12_give_finite_numbers() -> None:
    rng = np.random.default_rng(7)
    a, b = 10.0 ** rng.uniform(-12, 12, (6, 7)), 10.0 ** rng.uniform(-12, 12, (6, 7))
    for kind in ("kl", "tv", "partial"):
        problem = TransportProblem(a, b, 2.0, penalty_of(kind, 20.0), penalty_of(kind, 20.0))
        solution = solve(problem, "oracle", SolveOptions(tol=1e-9))
        assert solution.status == "converged", (kind, solution)


def test_one_pixel_against_one_pixel_has_a_closed_form() -> None:
    a, b = np.zeros((3, 4)), np.zeros((3, 4))
    a[0, 0], b[2, 1] = 2.0, 3.0
    lam, eps, cost = 7.0, 2.0, 5.0
    problem = TransportProblem(a, b, eps, KL(lam), KL(lam), "counting")
    # d/dP of  C P + eps (P log P - P) + lam KL(P || a) + lam KL(P || b)  vanishes:
    log_p = (lam * np.log(2.0) + lam * np.log(3.0) - cost) / (eps + 2 * lam)
    assert solve(problem, "oracle", TIGHT).marginal_a[0, 0] == pytest.approx(np.exp(log_p), rel=1e-12)


def test_a_mask_against_itself_keeps_its_mass_with_the_heat_reference() -> None:
    y, x = np.mgrid[-9:10, -9:10]
    disc = (y**2 + x**2 <= 64).astype(float)
    lost = {}
    for reference in ("heat", "product"):
        problem = TransportProblem(disc, disc, 4.0, KL(400.0), KL(400.0), reference)
        solution = solve(problem, "oracle", TIGHT)
        lost[reference] = np.maximum(disc - solution.marginal_a, 0).sum() / disc.sum()
    assert lost["heat"] < 2e-3
    assert lost["product"] > 5 * lost["heat"]


def test_it_reports_its_progress() -> None:
    seen: list[TraceRecord] = []
    solution = solve(random_problem(8, "kl", "kl", 2.0, 30.0), "oracle", TIGHT, progress=seen.append)
    assert tuple(seen) == solution.trace
    assert [record.iterations for record in seen] == sorted(record.iterations for record in seen)
    assert seen[-1].marginal_error == pytest.approx(solution.certificate.marginal_error)


def test_it_refuses_what_it_cannot_do() -> None:
    penalty = KL(1.0)
    large = TransportProblem(np.ones((50, 50)), np.ones((50, 50)), 1.0, penalty, penalty)
    with pytest.raises(UnsupportedProblemError, match="6250000 pixel pairs; the dense oracle takes up to 4000000"):
        solve(large, "oracle")
    small = random_problem(0, "kl", "kl", 1.0, 1.0)
    with pytest.raises(UnsupportedProblemError, match="dtype float32; the oracle is float64 only"):
        solve(small, "oracle", SolveOptions(dtype="float32"))
    with pytest.raises(UnsupportedProblemError, match="device 'cuda'; the oracle runs on the cpu"):
        solve(small, "oracle", SolveOptions(device="cuda"))
    assert get_engine("oracle").supports(small, SolveOptions()) is None


@pytest.mark.parametrize(("kind_a", "kind_b"), [*itertools.product(KINDS, KINDS)])
def test_its_certificate_is_the_one_of_every_engine_on_points(kind_a: str, kind_b: str) -> None:
    problem = random_problem(5, kind_a, kind_b, 4.0, 30.0)
    found = solve(problem, "oracle", TIGHT)
    end = Points(problem).end(Potentials(found.potential_a[problem.support_a], found.potential_b[problem.support_b]))
    assert end.certificate.meets(1e-11)
    assert end.certificate.dual_lower == pytest.approx(found.certificate.dual_lower, rel=1e-11)
    assert end.marginal_b == pytest.approx(found.marginal_b[problem.support_b], rel=1e-9, abs=1e-12)

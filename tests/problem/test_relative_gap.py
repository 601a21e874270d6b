"""The relative gap is relative to what depends on the plan, and no constant makes it smaller."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from tests.problem.test_problem_objective import Dense, make_problem, random_potentials

import pairframe as pf
from pairframe.engines import SolveOptions, Status, solve
from pairframe.maps import PlanOperator
from pairframe.problem import KL, TransportProblem, certificate, penalty_of
from pairframe.problem.objective import unavoidable_translation
from pairframe.testing import disc

SOFT = ("kl", "tv")
KINDS = ("kl", "tv", "partial", "balanced")


def boxes() -> tuple[np.ndarray, np.ndarray]:
    a, b = np.zeros((48, 64), bool), np.zeros((48, 64), bool)
    a[14:34, 10:30] = b[13:35, 30:52] = True
    return a, b


@pytest.mark.parametrize("penalty", ["kl", "tv", "partial"])
@pytest.mark.parametrize("power", range(5, 13))
def test_a_huge_reach_moves_all_that_can_be_moved(penalty: str, power: int) -> None:
    result = pf.compare(*boxes(), pf.TransportConfig(penalty=penalty, reach_um=10.0**power))
    assert result.status is Status.converged
    assert result.relative_gap <= 1e-6
    assert result.total_mass_moved == pytest.approx(400.0, abs=1e-3)
    result.check_books()


@pytest.mark.parametrize("penalty", ["kl", "tv", "partial"])
def test_the_plan_of_a_huge_reach_is_that_of_a_large_one(penalty: str) -> None:
    large, huge = (pf.compare(*boxes(), pf.TransportConfig(penalty=penalty, reach_um=reach)) for reach in (1e5, 1e12))
    np.testing.assert_allclose(huge.velocity_field, large.velocity_field, atol=1e-2)
    np.testing.assert_allclose(huge.mass_created, large.mass_created, atol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("blur_um", [0.3, 2.0])
def test_a_mask_against_itself_converges_although_nothing_has_to_move(kind: str, blur_um: float) -> None:
    mask = disc((40, 40), (20, 20), 9)
    result = pf.compare(mask, mask.copy(), pf.TransportConfig(penalty=kind, blur_um=blur_um))
    assert result.status is Status.converged


@pytest.mark.parametrize("lam", [1e3, 1e6, 1e9, 1e12, 1e15])
def test_a_wrong_plan_is_no_better_for_a_larger_lambda(lam: float) -> None:
    problem = make_problem(0, "kl", "kl", lam=lam)
    problem = replace(problem, mass_b=1.5 * problem.mass_b)
    best = solve(problem, "oracle", SolveOptions(tol=1e-9))
    assert best.status is Status.converged
    f, g = best.plan_potentials
    f = f + 1e-3 * np.random.default_rng(1).standard_normal(problem.shape)
    assert best.split_potentials is not None
    p, q = Dense(problem).marginals(f, g)
    found = certificate(problem, f, g, p, q, shift=best.split_potentials.shift)
    assert found.relative_gap > 1e-5
    assert found.gap / abs(found.primal_upper) < 1e-5  # what a reach of 1e9 used to hide behind


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(SOFT),
    st.sampled_from(SOFT),
    st.sampled_from(["heat", "product", "counting"]),
    st.integers(0, 99),
    st.floats(0.2, 5.0),
)
def test_the_scale_is_the_primal_without_what_no_plan_avoids(
    kind_a: str, kind_b: str, reference: str, seed: int, ratio: float
) -> None:
    problem = make_problem(seed, kind_a, kind_b, reference)
    problem = replace(problem, mass_b=ratio * problem.mass_b)
    f, g = random_potentials(problem, seed, 1.0)
    dense = Dense(problem)
    plan = dense.plan(f, g)
    on_a, on_b = problem.support_a, problem.support_b
    a, b = problem.mass_a[on_a], problem.mass_b[on_b]
    paid = problem.penalty_a.divergence(plan.sum(1), a) + problem.penalty_b.divergence(plan.sum(0), b)

    def least(total: float) -> float:  # Jensen: the cheapest marginal of that total is the mass, scaled
        penalty_a, penalty_b = problem.penalty_a, problem.penalty_b
        return penalty_a.divergence(a * total / a.sum(), a) + penalty_b.divergence(b * total / b.sum(), b)

    bounds = sorted([0.5 * min(a.sum(), b.sum()), 2.0 * max(a.sum(), b.sum())])
    unavoidable = min(
        minimize_scalar(least, bounds=bounds, method="bounded", options={"xatol": 1e-10}).fun,
        least(float(a.sum())),
        least(float(b.sum())),
    )
    bracket = dense.cost_plus_entropy(plan) - problem.epsilon * problem.total_reference
    found = certificate(problem, f, g, *dense.marginals(f, g))
    expected = max(abs(bracket) + paid - unavoidable, problem.epsilon * plan.sum())
    assert found.scale == pytest.approx(expected, rel=1e-6)
    assert found.relative_gap == found.gap / found.scale


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(KINDS), st.sampled_from(KINDS), st.integers(0, 99), st.floats(0.01, 100.0), st.floats(-50, 50))
def test_units_and_constants_do_not_change_it(kind_a: str, kind_b: str, seed: int, unit: float, moved: float) -> None:
    problem = make_problem(seed, kind_a, kind_b)
    f, g = random_potentials(problem, seed, 0.3)
    dense = Dense(problem)
    known = certificate(problem, f, g, *dense.marginals(f, g), dense.each)

    heavier = replace(problem, mass_a=unit * problem.mass_a, mass_b=unit * problem.mass_b)
    weighed = Dense(heavier)
    found = certificate(heavier, f, g, *weighed.marginals(f, g), weighed.each)
    assert found.relative_gap == pytest.approx(known.relative_gap, rel=1e-8)
    assert found.scale == pytest.approx(unit * known.scale, rel=1e-8)

    # A constant in f and -g that the shift takes back.
    found = certificate(problem, f + moved, g - moved, *dense.marginals(f, g), dense.each, -moved)
    assert found.relative_gap == pytest.approx(known.relative_gap, rel=1e-8)


@pytest.mark.parametrize(("kind_a", "kind_b"), [("tv", "tv"), ("partial", "partial"), ("tv", "partial")])
@pytest.mark.parametrize("ratio", [0.5, 1.7])
def test_a_smaller_lambda_certifies_a_larger_one(kind_a: str, kind_b: str, ratio: float) -> None:
    small = make_problem(2, kind_a, kind_b, lam=60.0)
    small = replace(small, mass_b=ratio * small.mass_b)
    stated = replace(small, penalty_a=penalty_of(kind_a, 500.0), penalty_b=penalty_of(kind_b, 500.0))
    beyond = unavoidable_translation(stated) - unavoidable_translation(small)
    assert abs(beyond) == pytest.approx(440.0)
    best = solve(small, "oracle", SolveOptions(tol=1e-9))
    dense = Dense(small)
    for size in (0.0, 1e-3):
        noise = size * np.random.default_rng(0).standard_normal(small.shape)
        f = small.penalty_a.admissible(best.potential_a + noise)
        g, (p, q) = best.potential_b, dense.marginals(f, best.potential_b)
        found = certificate(small, f, g, p, q, dense.each, stated=stated)
        expected = certificate(stated, f + beyond, g - beyond, p, q, dense.each)
        for name in ("primal_upper", "dual_lower", "scale"):
            assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-9), name
        assert found.gap == pytest.approx(expected.gap, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("engine", ["grid", "oracle", "pot"])
def test_a_solution_keeps_the_digits_of_its_plan(engine: str) -> None:
    rng = np.random.default_rng(0)
    masses = rng.uniform(0.5, 1.0, (8, 9)), 1.3 * rng.uniform(0.5, 1.0, (8, 9))
    found = solve(TransportProblem(*masses, 1.0, KL(1e18), KL(1e18)), engine)
    assert found.status is Status.converged
    p, q = PlanOperator.of(found).marginals()
    np.testing.assert_allclose(p, found.marginal_a, rtol=1e-10)
    np.testing.assert_allclose(q, found.marginal_b, rtol=1e-10)
    total = math.sqrt(masses[0].sum() * masses[1].sum())
    assert p.sum() == pytest.approx(total, rel=1e-9)


def test_no_digits_are_an_honest_status_with_advice() -> None:
    """A lambda at which no plan of float64 is good enough."""
    a, b = boxes()
    result = pf.compare(a, b, pf.TransportConfig(penalty="kl", reach_um=1e16, max_iterations=400))
    assert result.status is not Status.converged
    assert result.relative_gap > 1e-6
    assert 'penalty="balanced"' in result.status.advice
    assert "reach_um" in result.status.advice

"""The laws of primal, dual and gap, at potentials that are nowhere near the solution."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pairframe.engines import SolveOptions, solve
from pairframe.problem import (
    TransportProblem,
    certificate,
    dual_value,
    optimal_translation,
    penalty_of,
    plan_cost_plus_entropy,
)
from pairframe.problem.objective import Marginals

KINDS = ("kl", "tv", "partial", "balanced")
REFERENCES = ("heat", "product", "counting")


def make_problem(
    seed: int, kind_a: str, kind_b: str, reference: str = "heat", eps: float = 1.5, lam: float = 6.0, **kwargs: str
) -> TransportProblem:
    rng = np.random.default_rng(seed)
    a, b = (rng.uniform(0.2, 1.5, (4, 5)) * (rng.random((4, 5)) < 0.7) for _ in range(2))
    a[1, 2] = b[2, 2] = 1.0
    if kind_a == kind_b == "balanced":
        b *= a.sum() / b.sum()
    elif (kind_a, kind_b) == ("balanced", "partial"):
        b *= 1.4 * a.sum() / b.sum()
    elif (kind_a, kind_b) == ("partial", "balanced"):
        a *= 1.4 * b.sum() / a.sum()
    penalties = [penalty_of(kind, lam) for kind in (kind_a, kind_b)]
    return TransportProblem(a, b, eps, *penalties, reference, **kwargs)


class Dense:
    """The plan, written out: the definition that the formulas are held against."""

    def __init__(self, problem: TransportProblem) -> None:
        yx_a, yx_b = np.argwhere(problem.support_a), np.argwhere(problem.support_b)
        self.problem = problem
        self.cost = ((yx_a[:, None] - yx_b[None]) ** 2).sum(-1).astype(float)
        if problem.metric == "euclidean":
            self.cost = np.sqrt(self.cost)
        self.reference = np.exp(problem.log_u[problem.support_a][:, None] + problem.log_v[problem.support_b])

    def plan(self, f: np.ndarray, g: np.ndarray) -> np.ndarray:
        p = self.problem
        return self.reference * np.exp((f[p.support_a][:, None] + g[p.support_b] - self.cost) / p.epsilon)

    def marginals(self, f: np.ndarray, g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        plan, problem = self.plan(f, g), self.problem
        p, q = np.zeros(problem.shape), np.zeros(problem.shape)
        p[problem.support_a], q[problem.support_b] = plan.sum(1), plan.sum(0)
        return p, q

    @property
    def each(self) -> Marginals:
        return Marginals(lambda f, g: self.marginals(f, g)[0], lambda f, g: self.marginals(f, g)[1])

    def cost_plus_entropy(self, plan: np.ndarray) -> float:
        kl = plan * np.log(plan / self.reference) - plan + self.reference
        return float((self.cost * plan).sum() + self.problem.epsilon * kl.sum())


def random_potentials(problem: TransportProblem, seed: int, size: float) -> tuple[np.ndarray, np.ndarray]:
    """Potentials that the dual allows, NaN off the support."""
    rng = np.random.default_rng(seed)
    f, g = (size * rng.standard_normal(problem.shape) for _ in range(2))
    f, g = problem.penalty_a.admissible(f), problem.penalty_b.admissible(g)
    return np.where(problem.support_a, f, np.nan), np.where(problem.support_b, g, np.nan)


@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize("metric", ["sqeuclidean", "euclidean"])
def test_the_primal_from_marginals_is_the_primal_of_the_plan(reference: str, metric: str) -> None:
    problem = make_problem(3, "kl", "tv", reference, metric=metric)
    dense = Dense(problem)
    f, g = random_potentials(problem, 1, 2.0)
    value = plan_cost_plus_entropy(problem, f, g, *dense.marginals(f, g))
    assert value == pytest.approx(dense.cost_plus_entropy(dense.plan(f, g)), rel=1e-12)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["kl", "tv"]),
    st.sampled_from(["kl", "tv"]),
    st.sampled_from(REFERENCES),
    st.integers(0, 99),
    st.floats(0.01, 3),
)
def test_the_gap_of_soft_sides_is_primal_minus_dual(
    kind_a: str, kind_b: str, reference: str, seed: int, size: float
) -> None:
    problem = make_problem(seed, kind_a, kind_b, reference)
    f, g = random_potentials(problem, seed + 1, size)
    p, q = Dense(problem).marginals(f, g)
    on_a, on_b = problem.support_a, problem.support_b
    primal = (
        plan_cost_plus_entropy(problem, f, g, p, q)
        + problem.penalty_a.divergence(p[on_a], problem.mass_a[on_a])
        + problem.penalty_b.divergence(q[on_b], problem.mass_b[on_b])
    )
    found = certificate(problem, f, g, p, q)
    assert found.dual_lower == pytest.approx(dual_value(problem, f, g, float(p.sum())), rel=1e-10, abs=1e-10)
    assert found.primal_upper == pytest.approx(primal, rel=1e-10)
    assert found.gap == pytest.approx(primal - found.dual_lower, rel=1e-8, abs=1e-8 * abs(primal))


@pytest.mark.parametrize("kind_a", KINDS)
@pytest.mark.parametrize("kind_b", KINDS)
@pytest.mark.parametrize("reference", REFERENCES)
def test_the_gap_bounds_the_true_error_at_any_potentials(kind_a: str, kind_b: str, reference: str) -> None:
    finite = 0
    for seed, metric in enumerate(("sqeuclidean", "euclidean", "sqeuclidean")):
        problem = make_problem(seed, kind_a, kind_b, reference, metric=metric)
        best = solve(problem, "oracle", SolveOptions(tol=1e-11, max_iterations=5000))
        assert best.status == "converged"
        optimum, slack = best.certificate.dual_lower, 1e-10 * abs(best.certificate.primal_upper)
        dense = Dense(problem)
        near_f, near_g = best.potential_a, best.potential_b
        for size in (1e-6, 1e-3, 0.3, 3.0):
            f, g = random_potentials(problem, 7 * seed + 1, size)
            starts = [(f, g), (problem.penalty_a.admissible(near_f + f), problem.penalty_b.admissible(near_g + g))]
            for f, g in starts:
                found = certificate(problem, f, g, *dense.marginals(f, g), dense.each)
                assert found.dual_lower <= optimum + slack
                assert found.primal_upper >= optimum - slack
                assert found.gap >= max(found.primal_upper - optimum, optimum - found.dual_lower) - 2 * slack
                finite += math.isfinite(found.gap)
    assert finite == 24  # rounding to a feasible plan always found one here


@pytest.mark.parametrize("reference", REFERENCES)
def test_what_a_partial_plan_misses_is_moved_instead_of_destroyed(reference: str) -> None:
    problem = make_problem(5, "partial", "partial", reference, lam=500.0)
    if problem.total_a > problem.total_b:
        problem = problem.swapped()
    best = solve(problem, "oracle", SolveOptions(tol=1e-11, max_iterations=5000))
    dense = Dense(problem)
    f, g = random_potentials(problem, 3, 1e-6)
    f, g = problem.penalty_a.admissible(best.potential_a + f), problem.penalty_b.admissible(best.potential_b + g)
    p, q = dense.marginals(f, g)
    found = certificate(problem, f, g, p, q, dense.each)
    missing = float(np.abs(p - problem.mass_a).sum())
    assert missing > 1e-8 * problem.total_a
    assert found.primal_upper >= best.certificate.dual_lower * (1 - 1e-10)
    assert found.gap < 0.1 * 500.0 * missing  # destroying it would cost lambda


def test_without_marginals_an_infeasible_hard_side_has_an_infinite_gap() -> None:
    problem = make_problem(0, "balanced", "kl")
    f, g = random_potentials(problem, 1, 1.0)
    p, q = Dense(problem).marginals(f, g)
    assert certificate(problem, f, g, p, q).gap == math.inf


def test_near_a_balanced_solution_the_rounding_bound_is_close() -> None:
    problem = make_problem(0, "balanced", "balanced")
    best = solve(problem, "oracle", SolveOptions(tol=1e-11))
    dense = Dense(problem)
    rng = np.random.default_rng(0)
    f = best.potential_a + 1e-5 * rng.standard_normal(problem.shape)
    found = certificate(problem, f, best.potential_b, *dense.marginals(f, best.potential_b), dense.each)
    assert 0 < found.relative_gap < 1e-4


@settings(max_examples=120, deadline=None)
@given(
    st.sampled_from(KINDS),
    st.sampled_from(KINDS),
    st.integers(0, 99),
    st.floats(0.0, 4),
    st.floats(0.01, 100),
    st.lists(st.floats(-40, 40), min_size=1, max_size=12),
)
def test_no_other_translation_has_a_larger_dual(
    kind_a: str, kind_b: str, seed: int, size: float, mass_ratio: float, others: list[float]
) -> None:
    problem = make_problem(seed, kind_a, kind_b)
    if "balanced" not in (kind_a, kind_b) or "kl" in (kind_a, kind_b) or "tv" in (kind_a, kind_b):
        problem = TransportProblem(
            problem.mass_a * mass_ratio, problem.mass_b, 1.5, problem.penalty_a, problem.penalty_b
        )
    f, g = random_potentials(problem, seed, size)
    t = optimal_translation(problem, f, g)

    def dual(t: float) -> float:
        f_t, g_t = f + t, g - t
        # a bound that is met up to rounding is met
        if problem.penalty_a.name == "tv":
            f_t = np.where(np.abs(f_t + 6.0) < 1e-9, -6.0, f_t)
        if problem.penalty_b.name == "tv":
            g_t = np.where(np.abs(g_t + 6.0) < 1e-9, -6.0, g_t)
        return dual_value(problem, f_t, g_t, 1.0)

    best = dual(t)
    assert math.isfinite(best)
    for other in [0.0, t + 1e-3, t - 1e-3, *others]:
        assert dual(other) <= best + 1e-9 * (1 + abs(best))


def test_two_balanced_sides_have_no_best_translation() -> None:
    problem = make_problem(0, "balanced", "balanced")
    assert optimal_translation(problem, *random_potentials(problem, 0, 1.0)) == 0.0

"""The books balance: for every penalty, reference and potential, converged or garbage."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from helpers.kernel_calls import applications
from hypothesis import given, settings
from hypothesis import strategies as st

from pairframe.engines import SolveOptions, solve
from pairframe.maps import FeasiblePart, PlanOperator, displacement, feasible_part
from pairframe.problem import KL, METRICS, PENALTIES, REFERENCES, TransportProblem, penalty_of
from pairframe.testing import disc

SHAPE = (8, 10)


def random_problem(
    seed: int,
    kinds: tuple[str, str] = ("kl", "kl"),
    reference: str = "heat",
    metric: str = "sqeuclidean",
    epsilon: float = 2.0,
    ratio: float = 1.0,
    spread: float = 0.0,
) -> TransportProblem:
    rng = np.random.default_rng(seed)
    a, b = (np.exp(rng.normal(0, spread, SHAPE)) * rng.random(SHAPE) * (rng.random(SHAPE) < 0.6) for _ in range(2))
    a, b = a / a.sum(), b / b.sum() * ratio
    penalties = [penalty_of(kind, 30.0) for kind in kinds]
    return TransportProblem(a, b, epsilon, penalties[0], penalties[1], reference, metric)


def assert_books(part: FeasiblePart, problem: TransportProblem, rtol: float = 1e-12) -> None:
    a, b = problem.mass_a, problem.mass_b
    assert (part.destroyed >= 0).all()
    assert (part.created >= 0).all()
    assert (part.left <= a).all()
    assert (part.arrived <= b).all()
    assert part.left.sum() == pytest.approx(part.transported, rel=rtol, abs=rtol * min(a.sum(), b.sum()))
    assert part.transported + part.destroyed.sum() == pytest.approx(a.sum(), rel=rtol)
    assert part.transported + part.created.sum() == pytest.approx(b.sum(), rel=rtol)
    assert np.isfinite(part.cost_source).all()
    assert (part.cost_source >= 0).all()
    assert (part.cost_target >= 0).all()


def feasible_by_hand(dense: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    def rows(plan: np.ndarray) -> np.ndarray:
        return plan * np.minimum(1, a / plan.sum(axis=1))[:, None]

    def columns(plan: np.ndarray) -> np.ndarray:
        return plan * np.minimum(1, b / plan.sum(axis=0))

    return 0.5 * (columns(rows(dense)) + rows(columns(dense)))


@pytest.mark.parametrize("metric", METRICS)
def test_the_feasible_part_equals_the_one_by_hand(metric: str) -> None:
    problem = random_problem(0, metric=metric, ratio=1.7)
    rng = np.random.default_rng(1)
    plan = PlanOperator(problem, *rng.normal(3, 3, (2, *SHAPE)))
    on_a, on_b = problem.support_a, problem.support_b
    q = feasible_by_hand(plan.dense(), problem.mass_a[on_a], problem.mass_b[on_b])
    part = feasible_part(plan)
    yx_a, yx_b = np.argwhere(on_a), np.argwhere(on_b)
    cost = ((yx_a[:, None] - yx_b) ** 2).sum(axis=2) ** (1.0 if metric == "sqeuclidean" else 0.5)
    assert part.transported == pytest.approx(q.sum(), rel=1e-12)
    np.testing.assert_allclose(part.left[on_a], q.sum(axis=1), rtol=1e-11)
    np.testing.assert_allclose(part.arrived[on_b], q.sum(axis=0), rtol=1e-11)
    np.testing.assert_allclose(part.cost_source[on_a], (q * cost).sum(axis=1), rtol=1e-9)
    np.testing.assert_allclose(part.cost_target[on_b], (q * cost).sum(axis=0), rtol=1e-9)
    np.testing.assert_allclose(part.displacement[on_a], q @ yx_b / q.sum(axis=1, keepdims=True) - yx_a, atol=1e-11)
    assert part.transport_cost == pytest.approx((q * cost).sum(), rel=1e-10)
    assert part.cost_target.sum() == pytest.approx((q * cost).sum(), rel=1e-10)
    assert_books(part, problem)


@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize("kinds", list(product(PENALTIES, repeat=2)))
def test_the_books_balance_for_every_penalty_and_reference_after_three_iterations(
    kinds: tuple[str, str], reference: str
) -> None:
    hard = {"balanced", "partial"}
    ratio = 1.0 if set(kinds) <= hard and "balanced" in kinds else 3.0
    problem = random_problem(4, kinds, reference, ratio=ratio)
    for max_iterations in (3, 2000):
        solution = solve(problem, "oracle", SolveOptions(max_iterations=max_iterations))
        assert_books(feasible_part(PlanOperator.of(solution)), problem)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    epsilon=st.sampled_from((1e-3, 0.3, 4.0, 1e3)),
    size=st.sampled_from((0.1, 10.0, 1e4, 1e9, 1e300)),
    ratio=st.sampled_from((1e-12, 1.0, 1e12)),
    metric=st.sampled_from(METRICS),
)
def test_the_books_balance_for_garbage(seed: int, epsilon: float, size: float, ratio: float, metric: str) -> None:
    problem = random_problem(seed % 7, epsilon=epsilon, ratio=ratio, spread=8.0, metric=metric)
    rng = np.random.default_rng(seed)
    f, g = rng.normal(0, 1, (2, *SHAPE)) * size
    f[rng.random(SHAPE) < 0.2] = rng.choice([np.nan, np.inf, -np.inf])
    assert_books(feasible_part(PlanOperator(problem, f, g)), problem)


def test_a_plan_that_carries_nothing_destroys_everything() -> None:
    problem = random_problem(0)
    part = feasible_part(PlanOperator(problem, np.full(SHAPE, -np.inf), np.zeros(SHAPE)))
    assert part.transported == 0
    np.testing.assert_array_equal(part.destroyed, problem.mass_a)
    np.testing.assert_array_equal(part.created, problem.mass_b)
    assert np.isnan(part.displacement).all()
    assert not displacement(part)[1].any()


@pytest.mark.parametrize("metric", METRICS)
def test_swapping_source_and_target_swaps_the_maps(metric: str) -> None:
    problem = random_problem(2, metric=metric, ratio=0.3)
    plan = PlanOperator(problem, *np.random.default_rng(3).normal(5, 5, (2, *SHAPE)))
    part, turned = (
        feasible_part(plan),
        feasible_part(PlanOperator(problem.swapped(), plan.potential_b, plan.potential_a)),
    )
    assert turned.transported == pytest.approx(part.transported, rel=1e-13)
    for one, other in ((part, turned), (turned, part)):
        np.testing.assert_allclose(one.destroyed, other.created, atol=1e-13)
        np.testing.assert_allclose(one.cost_source, other.cost_target, atol=1e-11)


def test_a_symmetric_plan_takes_the_short_way_to_the_same_books(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = random_problem(2).self_problem("a")
    f = np.random.default_rng(3).normal(1, 2, SHAPE)
    short = feasible_part(PlanOperator(problem, f, f))
    monkeypatch.setattr(PlanOperator, "is_symmetric", False)
    long = feasible_part(PlanOperator(problem, f, f))
    np.testing.assert_allclose(short.left, long.left, rtol=1e-12)
    np.testing.assert_allclose(short.displacement, long.displacement, atol=1e-12)
    np.testing.assert_allclose(short.cost_target, long.cost_target, atol=1e-12)


def test_a_part_keeps_its_books_in_other_units() -> None:
    problem = random_problem(6, ratio=2.0)
    plan = PlanOperator(problem, *np.random.default_rng(3).normal(5, 5, (2, *SHAPE)))
    part = feasible_part(plan)
    mass_a, mass_b = problem.mass_a * 7e5, problem.mass_b * 9e5  # more than the plan's share on one side
    scaled = feasible_part(plan, (mass_a, mass_b), 7e5)
    assert scaled.transported + scaled.destroyed.sum() == pytest.approx(7e5, rel=1e-13)
    assert scaled.transported + scaled.created.sum() == pytest.approx(18e5, rel=1e-13)
    assert scaled.transport_cost == pytest.approx(part.transport_cost * 7e5, rel=1e-13)


def test_a_part_that_one_side_cannot_hold_is_cut_on_both() -> None:
    problem = random_problem(6)
    plan = PlanOperator.of(solve(problem))
    part = feasible_part(plan)
    short = 0.9 * part.left  # less than the plan takes
    cut = feasible_part(plan, (short, problem.mass_b))
    assert cut.transported < 0.95 * part.transported
    assert cut.left.sum() == pytest.approx(cut.transported, rel=1e-13)
    assert cut.arrived.sum() == pytest.approx(cut.transported, rel=1e-13)
    assert cut.transported + cut.destroyed.sum() == pytest.approx(short.sum(), rel=1e-13)
    assert cut.transported + cut.created.sum() == pytest.approx(problem.mass_b.sum(), rel=1e-13)


def test_a_direction_is_known_where_more_than_a_millionth_of_the_mass_left() -> None:
    part = feasible_part(PlanOperator.of(solve(random_problem(6))))
    on = np.flatnonzero(part.left_share > 1e-3)[:3]
    for share, is_known in ((1e-4, True), (1e-5, True), (1e-7, False)):
        left_share = part.left_share.copy()
        left_share.flat[on] = share
        field, valid = displacement(replace(part, left_share=left_share))
        assert (valid.flat[on] == is_known).all()
        assert (np.isfinite(field[..., 0].flat[on]) == is_known).all()


def test_kernel_applications_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    from pairframe.engines.grid import stored

    monkeypatch.setattr(stored, "MOST_PAIRS", 0)  # as on a larger grid
    calls = applications(monkeypatch)
    problem = random_problem(2)
    plan = PlanOperator(problem, *np.zeros((2, *SHAPE)))
    feasible_part(plan)
    assert plan.transport_cost > 0
    assert len(calls) == 6


def test_velocity_is_unknown_where_next_to_nothing_left() -> None:
    a = disc((20, 60), (10, 10), 4) + disc((20, 60), (10, 50), 4)
    b = disc((20, 60), (10, 12), 4)
    problem = TransportProblem(a * 1.0, b * 1.0, 1.0, KL(9.0), KL(9.0))
    part = feasible_part(PlanOperator.of(solve(problem, "grid")))
    velocity, valid = displacement(part)
    assert valid[10, 10]
    assert not valid[10, 50]
    assert np.isnan(velocity[10, 50]).all()
    np.testing.assert_array_equal(np.isfinite(velocity[..., 0]), valid)
    assert not valid[~(a > 0)].any()

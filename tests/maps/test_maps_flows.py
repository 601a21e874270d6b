"""Flows between regions are those of the dense plan, for every penalty, metric and number of axes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from pairframe.engines import SolveOptions, solve
from pairframe.maps import PlanOperator, feasible_part, flows_between
from pairframe.problem import METRICS, TransportProblem, penalty_of


def random_shares(rng: np.random.Generator, n: int, n_regions: int) -> csr_array:
    """Whole pixels and divided ones."""
    shares = rng.random((n, n_regions)) * (rng.random((n, n_regions)) < 0.3)
    shares[np.arange(n), rng.integers(n_regions, size=n)] += 0.1
    return csr_array(shares / shares.sum(axis=1, keepdims=True))


def feasible_by_hand(dense: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    def rows(plan: np.ndarray) -> np.ndarray:
        return plan * np.minimum(1, a / plan.sum(axis=1))[:, None]

    def columns(plan: np.ndarray) -> np.ndarray:
        return plan * np.minimum(1, b / plan.sum(axis=0))

    return 0.5 * (columns(rows(dense)) + rows(columns(dense)))


def assert_flows_of_the_dense_plan(plan: PlanOperator, seed: int) -> None:
    problem, rng = plan.problem, np.random.default_rng(seed)
    on_a, on_b = problem.support_a, problem.support_b
    s, t = random_shares(rng, int(on_a.sum()), 5), random_shares(rng, int(on_b.sum()), 4)
    part = feasible_part(plan)
    flows = flows_between(plan, s, t)
    np.testing.assert_allclose(flows.left, part.left[on_a], rtol=1e-11)
    np.testing.assert_allclose(flows.arrived, part.arrived[on_b], rtol=1e-11)
    q = feasible_by_hand(plan.dense(), problem.mass_a[on_a], problem.mass_b[on_b])
    x, y = problem.positions(on_a), problem.positions(on_b)
    found = np.zeros((5, 4))
    found[flows.source, flows.target] = flows.mass
    np.testing.assert_allclose(found, s.T @ q @ t.toarray(), rtol=1e-9, atol=1e-13)
    for k, region, displacement, distance in zip(
        flows.source, flows.target, flows.displacement, flows.distance, strict=True
    ):
        entries = s[:, [k]].toarray() * q * t[:, [region]].toarray().T
        moved = (entries.sum(axis=0) @ y - entries.sum(axis=1) @ x) / entries.sum()
        np.testing.assert_allclose(displacement, moved, atol=1e-9)
        assert distance >= np.hypot.reduce(displacement) - 1e-9


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(
    "kinds",
    [
        ("partial", "partial"),
        ("tv", "tv"),
        ("kl", "kl"),
        ("balanced", "balanced"),
        ("partial", "kl"),
        ("tv", "balanced"),
    ],
)
def test_flows_are_those_of_the_dense_plan(kinds: tuple[str, str], metric: str) -> None:
    rng = np.random.default_rng(3)
    a, b = (rng.random((9, 11)) * (rng.random((9, 11)) < 0.6) for _ in range(2))
    a, b = a / a.sum(), b / b.sum() * (1.0 if "balanced" in kinds else 1.4)
    penalties = [penalty_of(kind, 20.0) for kind in kinds]
    problem = TransportProblem(a, b, 2.0, *penalties, metric=metric)
    solution = solve(problem, "oracle", SolveOptions(1e-8, 5000))
    assert_flows_of_the_dense_plan(PlanOperator.of(solution), 0)


def test_flows_of_potentials_that_are_far_from_a_solution_balance_as_well() -> None:
    rng = np.random.default_rng(5)
    a, b = (rng.random((7, 9)) for _ in range(2))
    problem = TransportProblem(a, b, 1.5, penalty_of("kl", 9.0), penalty_of("kl", 9.0))
    assert_flows_of_the_dense_plan(PlanOperator(problem, *rng.normal(0, 4, (2, 7, 9))), 1)


def test_flows_of_a_volume_with_anisotropic_voxels() -> None:
    rng = np.random.default_rng(6)
    a, b = (rng.random((3, 5, 6)) for _ in range(2))
    penalty = penalty_of("partial", 9.0)
    problem = TransportProblem(a, b, 2.0, penalty, penalty, spacing=(2.5, 1.0, 1.0))
    assert_flows_of_the_dense_plan(PlanOperator(problem, *rng.normal(0, 1, (2, 3, 5, 6))), 2)


def test_a_window_that_misses_a_distant_source_grows_until_the_mass_is_found() -> None:
    a, b = np.zeros((3, 300)), np.zeros((3, 300))
    a[1, 4:8], a[1, 290:294] = 1.0, 1e-6  # too little mass far away to widen the first window
    b[1, 10:14] = 1.0 + 1e-6
    penalty = penalty_of("balanced", 1.0)
    problem = TransportProblem(a, b, 4.0, penalty, penalty)
    plan = PlanOperator.of(solve(problem, "oracle", SolveOptions(1e-9, 20_000)))
    shares = csr_array(np.repeat(np.eye(2), 4, axis=0))
    flows = flows_between(plan, shares, csr_array(np.ones((4, 1))))
    assert flows.source.tolist() == [0, 1]
    assert flows.mass[1] == pytest.approx(4e-6, rel=1e-3)
    assert flows.displacement[1, 1] == pytest.approx(-280, abs=4)


def test_the_cost_depends_on_crowding_and_not_on_the_number_of_regions() -> None:
    costs = []
    for n_cells in (4, 12):
        side = 16 * n_cells
        mass, region = np.zeros((side, side)), np.zeros((side, side), dtype=int)
        for k in range(n_cells**2):
            y, x = 16 * (k // n_cells) + 3, 16 * (k % n_cells) + 3
            mass[y : y + 10, x : x + 10], region[y : y + 10, x : x + 10] = 1.0, k
        on = mass > 0
        shares = csr_array((np.ones(on.sum()), (np.arange(on.sum()), region[on])), shape=(int(on.sum()), n_cells**2))
        penalty = penalty_of("partial", 50.0)
        problem = TransportProblem(mass, mass, 2.0, penalty, penalty)
        plan = PlanOperator(problem, np.zeros(mass.shape), np.zeros(mass.shape))
        costs.append(flows_between(plan, shares, shares).applications)
    assert costs[1] < 1.5 * costs[0]

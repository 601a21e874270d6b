"""Maps of volumes: marginals, books, displacements and costs, against the plan written out."""

from __future__ import annotations

import numpy as np
import pytest

from pairframe.engines import SolveOptions, solve
from pairframe.maps import PlanOperator, displacement, divergence_of, feasible_part
from pairframe.maps.kernels import DenseKernel, SeparableKernel
from pairframe.problem import KL, METRICS, PENALTIES, Balanced, TransportProblem, penalty_of

SHAPE, SPACING = (5, 6, 7), (2.5, 1.0, 1.0)
TIGHT = SolveOptions(tol=1e-12, max_iterations=20_000)


def random_problem(kind: str = "kl", metric: str = "sqeuclidean") -> TransportProblem:
    rng = np.random.default_rng(5)
    a, b = (rng.random(SHAPE) * (rng.random(SHAPE) < 0.6) for _ in range(2))
    a, b = a / a.sum(), b / b.sum() * (1.0 if kind == "balanced" else 1.5)
    penalty = penalty_of(kind, 20.0)
    return TransportProblem(a, b, 3.0, penalty, penalty, metric=metric, spacing=SPACING)


def box_mass(corner: tuple[int, int, int], shape: tuple[int, int, int] = (9, 12, 14)) -> np.ndarray:
    mass = np.zeros(shape)
    mass[tuple(slice(k, k + side) for k, side in zip(corner, (3, 5, 6), strict=True))] = 1.0
    return mass


@pytest.mark.parametrize("metric", METRICS)
def test_a_plan_on_a_volume_is_its_dense_self(metric: str) -> None:
    problem = random_problem(metric=metric)
    plan = PlanOperator.of(solve(problem, "oracle", TIGHT))
    dense = plan.dense()
    on_a, on_b = problem.support_a, problem.support_b
    x_a, x_b = (np.argwhere(on) * np.array(SPACING) for on in (on_a, on_b))
    cost = ((x_a[:, None] - x_b) ** 2).sum(axis=-1)
    cost = cost if metric == "sqeuclidean" else np.sqrt(cost)
    p, q = plan.marginals()
    np.testing.assert_allclose(p[on_a], dense.sum(axis=1), rtol=1e-11)
    np.testing.assert_allclose(q[on_b], dense.sum(axis=0), rtol=1e-11)
    assert plan.transport_cost == pytest.approx((dense * cost).sum(), rel=1e-11)
    mean = dense @ x_b / dense.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(plan.barycentric_map()[on_a], mean, atol=1e-10)
    values = np.random.default_rng(0).standard_normal((2, *SHAPE))
    np.testing.assert_allclose(plan.apply(values[0])[on_a], dense @ values[0][on_b], atol=1e-12)
    np.testing.assert_allclose(plan.adjoint(values[0])[on_b], values[0][on_a] @ dense, atol=1e-12)
    means = plan.row_means(values)
    assert means.shape == (2, *SHAPE)
    np.testing.assert_allclose(
        means[:, on_a], (dense @ values[:, on_b].T / dense.sum(axis=1, keepdims=True)).T, atol=1e-10
    )
    assert plan.row_means(values[1]).shape == SHAPE


@pytest.mark.parametrize("kind", PENALTIES)
def test_the_books_of_a_volume_balance(kind: str) -> None:
    problem = random_problem(kind)
    solution = solve(problem, "grid", SolveOptions(tol=1e-9))
    part = feasible_part(PlanOperator.of(solution))
    assert (part.destroyed >= 0).all()
    assert (part.created >= 0).all()
    assert part.transported > 0
    assert part.transported + part.destroyed.sum() == pytest.approx(problem.total_a, rel=1e-12)
    assert part.transported + part.created.sum() == pytest.approx(problem.total_b, rel=1e-12)
    assert part.cost_source.sum() == pytest.approx(part.cost_target.sum(), rel=1e-9)
    assert part.displacement.shape == (*SHAPE, 3)


def test_a_shifted_box_is_displaced_by_its_shift_in_work_pixels() -> None:
    a, b = box_mass((1, 2, 3)), box_mass((4, 4, 1))
    problem = TransportProblem(a / a.sum(), b / b.sum(), 3.0, Balanced(), Balanced(), spacing=SPACING)
    pair, own = (solve(one, "grid", TIGHT) for one in (problem, problem.self_problem("a")))
    part, self_part = (feasible_part(PlanOperator.of(solution)) for solution in (pair, own))
    field, valid = displacement(part, self_part.displacement)
    np.testing.assert_array_equal(valid, a > 0)
    expected = np.broadcast_to((3 * 2.5, 2.0, -2.0), field[valid].shape)
    np.testing.assert_allclose(field[valid], expected, atol=1e-6)
    target_self = solve(problem.self_problem("b"), "grid", TIGHT)
    found = divergence_of(pair, (own, target_self))
    assert found.value == pytest.approx(7.5**2 + 2**2 + 2**2, rel=1e-9)


def test_a_volume_against_itself_shows_nothing() -> None:
    mass = box_mass((2, 3, 3))
    problem = TransportProblem(mass, mass, 3.0, KL(50.0), KL(50.0), spacing=SPACING)
    solution = solve(problem, "grid", TIGHT)
    part = feasible_part(PlanOperator.of(solution))
    field, _ = displacement(part, part.displacement)
    np.testing.assert_array_equal(field[mass > 0], 0.0)
    assert divergence_of(solution, (solution, solution)).value == 0.0


def test_the_separable_and_the_dense_kernel_have_the_same_moments() -> None:
    rng = np.random.default_rng(9)
    on_in, on_out = (rng.random(SHAPE) < 0.5 for _ in range(2))
    weight = rng.standard_normal(int(on_in.sum()))
    fast = SeparableKernel(on_in, on_out, 2.5, SPACING).moments(weight)
    slow = DenseKernel(on_in, on_out, 2.5, "sqeuclidean", SPACING).moments(weight)
    np.testing.assert_allclose(fast.log_sum, slow.log_sum, atol=1e-12)
    np.testing.assert_allclose(fast.displacement, slow.displacement, atol=1e-11)
    np.testing.assert_allclose(fast.cost, slow.cost, atol=1e-10)

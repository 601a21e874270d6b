"""The plan as an operator says what the written-out plan says."""

from __future__ import annotations

import numpy as np
import pytest

from pairframe.errors import ProblemError
from pairframe.maps import PlanOperator
from pairframe.maps import plan as plan_module
from pairframe.maps.kernels import DenseKernel, SeparableKernel
from pairframe.problem import KL, TransportProblem

SHAPE = (9, 12)
METRICS = ("sqeuclidean", "euclidean")


def random_plan(seed: int = 0, metric: str = "sqeuclidean", epsilon: float = 3.0, spread: float = 10.0) -> PlanOperator:
    rng = np.random.default_rng(seed)
    a, b = (rng.random(SHAPE) * (rng.random(SHAPE) < 0.6) for _ in range(2))
    problem = TransportProblem(a, b, epsilon, KL(40.0), KL(40.0), metric=metric)
    f, g = (np.where(mass > 0, rng.normal(0, spread, SHAPE), np.nan) for mass in (a, b))
    return PlanOperator(problem, f, g)


def written_out(plan: PlanOperator) -> np.ndarray:
    """(n, m), straight from the definition."""
    problem = plan.problem
    yx_a, yx_b = np.argwhere(problem.support_a), np.argwhere(problem.support_b)
    cost = ((yx_a[:, None] - yx_b) ** 2).sum(axis=2).astype(float)
    cost = cost if problem.metric == "sqeuclidean" else np.sqrt(cost)
    exponent = (
        plan.potential_a[problem.support_a][:, None] + plan.potential_b[problem.support_b] - cost
    ) / problem.epsilon
    return np.exp(exponent + problem.log_u[problem.support_a][:, None] + problem.log_v[problem.support_b])


@pytest.mark.parametrize("metric", METRICS)
def test_the_operator_equals_the_written_out_plan(metric: str) -> None:
    plan = random_plan(metric=metric)
    on_a, on_b = plan.problem.support_a, plan.problem.support_b
    dense = written_out(plan)
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, *SHAPE))
    np.testing.assert_allclose(plan.dense(), dense, rtol=1e-12)
    p, q = plan.marginals()
    np.testing.assert_allclose(p[on_a], dense.sum(axis=1), rtol=1e-12)
    np.testing.assert_allclose(q[on_b], dense.sum(axis=0), rtol=1e-12)
    assert not p[~on_a].any()
    assert not q[~on_b].any()
    np.testing.assert_allclose(plan.apply(y)[on_a], dense @ y[on_b], atol=1e-11 * dense.sum(axis=1).max())
    np.testing.assert_allclose(plan.adjoint(x)[on_b], dense.T @ x[on_a], atol=1e-11 * dense.sum(axis=0).max())
    channels = rng.normal(size=(3, *SHAPE))
    rows = plan.row_means(channels)
    np.testing.assert_allclose(
        rows[:, on_a], channels[:, on_b] @ (dense / dense.sum(axis=1, keepdims=True)).T, atol=1e-12
    )
    assert np.isnan(rows[:, ~on_a]).all()
    columns = plan.column_means(channels[0])
    np.testing.assert_allclose(columns[on_b], channels[0][on_a] @ (dense / dense.sum(axis=0)), atol=1e-12)
    target = plan.barycentric_map()
    np.testing.assert_allclose(target[on_a], dense @ np.argwhere(on_b) / dense.sum(axis=1, keepdims=True), atol=1e-11)
    assert np.isnan(target[~on_a]).all()
    cost = ((np.argwhere(on_a)[:, None] - np.argwhere(on_b)) ** 2).sum(axis=2) ** (
        1 if metric == "sqeuclidean" else 0.5
    )
    assert plan.transport_cost == pytest.approx((dense * cost).sum(), rel=1e-11)


def test_apply_and_adjoint_are_adjoint() -> None:
    plan = random_plan(3)
    x, y = np.random.default_rng(2).random((2, *SHAPE))
    assert (plan.apply(y) * x).sum() == pytest.approx((plan.adjoint(x) * y).sum(), rel=1e-12)


def test_both_kernels_say_the_same() -> None:
    rng = np.random.default_rng(5)
    on_in, on_out = rng.random((2, 11, 17)) < 0.4
    weight = rng.normal(0, 30, int(on_in.sum()))
    fast = SeparableKernel(on_in, on_out, 2.5).moments(weight)
    slow = DenseKernel(on_in, on_out, 2.5, "sqeuclidean").moments(weight)
    np.testing.assert_allclose(fast.log_sum, slow.log_sum, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(fast.displacement, slow.displacement, atol=1e-11)
    np.testing.assert_allclose(fast.cost, slow.cost, atol=1e-10)


@pytest.mark.parametrize("metric", METRICS)
def test_a_scaled_plan_is_the_plan_times_two_diagonals(metric: str) -> None:
    plan = random_plan(metric=metric)
    on_a, on_b = plan.problem.support_a, plan.problem.support_b
    log_r, log_c = np.random.default_rng(4).normal(size=(2, *SHAPE))
    log_r[np.nonzero(on_a)[0][0], np.nonzero(on_a)[1][0]] = -np.inf
    scaled = plan.scaled(log_r, log_c)
    expected = np.exp(log_r[on_a])[:, None] * plan.dense() * np.exp(log_c[on_b])
    np.testing.assert_allclose(scaled.dense(), expected, rtol=1e-11)
    np.testing.assert_allclose(scaled.marginals()[1][on_b], expected.sum(axis=0), rtol=1e-11)
    assert np.isnan(scaled.row_means(np.ones(SHAPE))[on_a][0])
    assert scaled.apply(np.ones(SHAPE))[on_a][0] == 0
    np.testing.assert_allclose(plan.scaled(0.0, -1.0).dense(), plan.dense() / np.e, rtol=1e-12)


def test_a_swapped_plan_is_the_transpose() -> None:
    plan = random_plan()
    np.testing.assert_array_equal(plan.swapped().dense(), plan.dense().T)


@pytest.mark.parametrize("k", [1, 5, 1000])
def test_top_rows_are_the_largest_entries(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pairframe.maps.kernels._CHUNK_ENTRIES", 200)  # several blocks
    plan = random_plan(7)
    dense = plan.dense()
    top = plan.top_rows(k)
    k = min(k, dense.shape[1])
    assert top.shape == dense.shape
    kept = top.toarray()
    assert ((kept == dense) | (kept == 0)).all()
    np.testing.assert_allclose(np.sort(kept, axis=1)[:, -k:], np.sort(dense, axis=1)[:, -k:], rtol=1e-14)
    assert top.nnz <= k * dense.shape[0]


def test_a_constant_moved_between_the_potentials_changes_nothing() -> None:
    plan = random_plan()
    moved = PlanOperator(plan.problem, plan.potential_a + 4e3, plan.potential_b - 4e3)
    np.testing.assert_allclose(moved.dense(), plan.dense(), rtol=1e-11)
    np.testing.assert_allclose(moved.marginals()[0], plan.marginals()[0], rtol=1e-11)


def test_what_is_not_a_number_carries_nothing() -> None:
    plan = random_plan()
    broken = plan.potential_a.copy()
    broken[np.nonzero(plan.problem.support_a)] = np.nan
    empty = PlanOperator(plan.problem, broken, plan.potential_b)
    assert not empty.dense().any()
    assert not empty.marginals()[0].any()
    assert not empty.marginals()[1].any()
    assert np.isnan(empty.barycentric_map()).all()


def test_bad_input_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = random_plan()
    with pytest.raises(ProblemError, match="potential_a of shape"):
        PlanOperator(plan.problem, np.zeros((2, 2)), plan.potential_b)
    with pytest.raises(ProblemError, match="9 x 12 work grid, got shape"):
        plan.apply(np.zeros((3, *SHAPE)))
    with pytest.raises(ProblemError, match="9 x 12 work grid, got shape"):
        plan.row_means(np.zeros((12, 9)))
    with pytest.raises(ProblemError, match="finite values on the support"):
        plan.apply(np.full(SHAPE, np.nan))
    for k in (0, 1.5, True):
        with pytest.raises(ProblemError, match="k to be an integer >= 1"):
            plan.top_rows(k)  # type: ignore[arg-type]
    monkeypatch.setattr(plan_module, "MAX_DENSE_ENTRIES", 100)
    with pytest.raises(ProblemError, match="at most 100 entries"):
        plan.dense()


def test_a_plan_says_what_it_is() -> None:
    assert repr(random_plan()).startswith("PlanOperator(")

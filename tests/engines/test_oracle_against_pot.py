"""The oracle and POT find one plan, once they are given one objective; unequal masses 1 : 100."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pairframe.engines import Solution, SolveOptions, solve
from pairframe.problem import KL, Balanced, Penalty, TransportProblem

ot = pytest.importorskip("ot")
pytestmark = pytest.mark.filterwarnings("ignore:If reg_type = entropy")

TIGHT = SolveOptions(tol=1e-12)


def random_problem(
    seed: int, reference: str, penalty_a: Penalty, penalty_b: Penalty, epsilon: float, ratio: float, metric: str
) -> TransportProblem:
    rng = np.random.default_rng(seed)
    a, b = (rng.uniform(0.2, 2, (7, 9)) * (rng.random((7, 9)) < 0.6) for _ in range(2))
    b *= ratio * a.sum() / b.sum()
    scale = math.sqrt(a.sum() * b.sum())  # so that POT's product reference is ours
    return TransportProblem(a / scale, b / scale, epsilon, penalty_a, penalty_b, reference, metric)


def dense(problem: TransportProblem) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    yx_a, yx_b = np.argwhere(problem.support_a), np.argwhere(problem.support_b)
    cost = ((yx_a[:, None] - yx_b[None]) ** 2).sum(-1).astype(float)
    if problem.metric == "euclidean":
        cost = np.sqrt(cost)
    on_a, on_b = problem.support_a, problem.support_b
    return problem.mass_a[on_a], problem.mass_b[on_b], cost, problem.log_u[on_a], problem.log_v[on_b]


def plan_of(solution: Solution) -> np.ndarray:
    problem = solution.problem
    _, _, cost, log_u, log_v = dense(problem)
    f, g = solution.potential_a[problem.support_a], solution.potential_b[problem.support_b]
    return np.exp(log_u[:, None] + log_v + (f[:, None] + g - cost) / problem.epsilon)


def pot_plan(problem: TransportProblem) -> np.ndarray:
    """POT's plan: its kl regulariser for `product`, its entropy for `counting`, and a bridge on the cost for `heat`."""
    a, b, cost, log_u, log_v = dense(problem)
    eps = problem.epsilon
    reg_type = "kl" if problem.reference == "product" else "entropy"
    if problem.reference == "heat":
        cost = cost - eps * log_u[:, None] - eps * log_v
    options = {"numItermax": 20_000, "stopThr": 1e-16}
    return np.asarray(
        ot.unbalanced.sinkhorn_unbalanced(
            a, b, cost, eps, problem.penalty_a.marginal_relaxation, reg_type=reg_type, **options
        )
    )


def assert_same_plan(problem: TransportProblem) -> None:
    solution = solve(problem, "oracle", TIGHT)
    # Against `counting` a plan may be a thousand times its mass, and its rounding is then above 1e-12 of that mass.
    assert solution.certificate.meets(1e-11)
    expected = pot_plan(problem)
    np.testing.assert_allclose(plan_of(solution), expected, rtol=1e-10, atol=1e-10 * expected.max())
    np.testing.assert_allclose(solution.marginal_a[problem.support_a], expected.sum(1), rtol=1e-10)
    np.testing.assert_allclose(solution.marginal_b[problem.support_b], expected.sum(0), rtol=1e-10)


@pytest.mark.parametrize("reference", ["product", "counting", "heat"])
@pytest.mark.parametrize("ratio", [1.0, 100.0])
@pytest.mark.parametrize(("epsilon", "lam"), [(1.0, 5.0), (4.0, 30.0), (20.0, 3.0)])
@pytest.mark.parametrize("metric", ["sqeuclidean", "euclidean"])
def test_oracle_equals_pot_unbalanced(reference: str, ratio: float, epsilon: float, lam: float, metric: str) -> None:
    penalty = KL(lam)
    seed = int(epsilon + ratio)
    assert_same_plan(random_problem(seed, reference, penalty, penalty, epsilon, ratio, metric))


@pytest.mark.parametrize("reference", ["product", "counting", "heat"])
@pytest.mark.parametrize("epsilon", [3.0, 20.0])
def test_oracle_equals_pot_balanced(reference: str, epsilon: float) -> None:
    penalty = Balanced()
    problem = random_problem(5, reference, penalty, penalty, epsilon, 1.0, "sqeuclidean")
    solution = solve(problem, "oracle", TIGHT)
    a, b, cost, log_u, log_v = dense(problem)
    bridged = cost - epsilon * log_u[:, None] - epsilon * log_v
    expected = np.asarray(ot.sinkhorn(a, b, bridged, epsilon, numItermax=20_000, stopThr=1e-15))
    assert solution.status == "converged"
    np.testing.assert_allclose(plan_of(solution), expected, rtol=1e-10, atol=1e-12 * expected.max())


def test_oracle_equals_pot_with_two_different_strengths() -> None:
    problem = random_problem(8, "product", KL(4.0), KL(40.0), epsilon=2.0, ratio=100.0, metric="sqeuclidean")
    a, b, cost, _, _ = dense(problem)
    expected = ot.unbalanced.sinkhorn_unbalanced(
        a, b, cost, 2.0, (4.0, 40.0), reg_type="kl", numItermax=20_000, stopThr=1e-16
    )
    np.testing.assert_allclose(
        plan_of(solve(problem, "oracle", TIGHT)), expected, rtol=1e-10, atol=1e-10 * expected.max()
    )

"""Every penalty and mixture against a generic convex solver on the explicit primal of tiny problems."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import LinearConstraint, minimize

from pairframe.engines import SolveOptions, solve
from pairframe.problem import TransportProblem, penalty_of

KINDS = ("kl", "tv", "partial", "balanced")
EPS, LAM = 1.2, 2.0


def tiny_problem(kind_a: str, kind_b: str, reference: str, seed: int) -> TransportProblem:
    """4 source and 5 target pixels on a 3 x 4 grid."""
    rng = np.random.default_rng(seed)
    a, b = np.zeros((3, 4)), np.zeros((3, 4))
    a.flat[[0, 1, 6, 11]] = rng.uniform(0.3, 1.5, 4)
    b.flat[[1, 3, 4, 8, 10]] = rng.uniform(0.3, 1.5, 5)
    ratio = {("balanced", "balanced"): 1.0, ("balanced", "partial"): 1.5, ("partial", "balanced"): 0.6}
    b *= ratio.get((kind_a, kind_b), 1.3) * a.sum() / b.sum()
    penalties = [penalty_of(kind, LAM) for kind in (kind_a, kind_b)]
    return TransportProblem(a, b, EPS, *penalties, reference)


def generic_optimum(problem: TransportProblem) -> tuple[float, np.ndarray]:
    """Minimise over (P, what is destroyed, what is in excess) with linear constraints; |x| becomes two positive parts."""
    on_a, on_b = problem.support_a, problem.support_b
    masses = [problem.mass_a[on_a], problem.mass_b[on_b]]
    yx_a, yx_b = np.argwhere(on_a), np.argwhere(on_b)
    cost = ((yx_a[:, None] - yx_b[None]) ** 2).sum(-1).astype(float)
    reference = np.exp(problem.log_u[on_a][:, None] + problem.log_v[on_b])
    n, m = cost.shape
    sums = [np.kron(np.eye(n), np.ones(m)), np.kron(np.ones(n), np.eye(m))]  # P.ravel() -> marginal
    kinds = [problem.penalty_a.name, problem.penalty_b.name]
    rows, targets, linear, blocks = [], [], [], []
    for kind, total, mass in zip(kinds, sums, masses, strict=True):
        parts = {"kl": 0, "tv": 2, "partial": 1, "balanced": 0}[kind]
        linear += [LAM] * (parts * mass.size)
        if kind != "kl":
            blocks.append([np.eye(mass.size), -np.eye(mass.size)][:parts])  # P1 + missing - excess = a
            rows.append(total)
            targets.append(mass)
        else:
            blocks.append([])
    extra = len(linear)
    matrix, column = [], n * m
    row_iterator = iter(rows)
    for kind, block in zip(kinds, blocks, strict=True):
        if kind == "kl":
            continue
        total = next(row_iterator)
        line = np.zeros((total.shape[0], n * m + extra))
        line[:, : n * m] = total
        for part in block:
            line[:, column : column + part.shape[1]] = part
            column += part.shape[1]
        matrix.append(line)

    def value(x: np.ndarray) -> tuple[float, np.ndarray]:
        plan = np.maximum(x[: n * m], 1e-14)
        log_ratio = np.log(plan / reference.ravel())
        total = cost.ravel() @ plan + EPS * (plan * log_ratio - plan + reference.ravel()).sum() + LAM * x[n * m :].sum()
        slope = np.concatenate([cost.ravel() + EPS * log_ratio, linear])
        for kind, summing, mass in zip(kinds, sums, masses, strict=True):
            if kind == "kl":
                marginal = summing @ plan
                total += LAM * (marginal * np.log(marginal / mass) - marginal + mass).sum()
                slope[: n * m] += LAM * summing.T @ np.log(marginal / mass)
        return float(total), slope

    if kinds == ["balanced", "balanced"]:  # one constraint follows from the others, and SLSQP minds
        matrix[-1], targets[-1] = matrix[-1][:-1], targets[-1][:-1]
    start = np.concatenate([reference.ravel() * 0.5, np.full(extra, 0.1)])
    constraints = [LinearConstraint(np.vstack(matrix), np.hstack(targets), np.hstack(targets))] if matrix else []
    found = minimize(
        value,
        start,
        jac=True,
        method="SLSQP",
        bounds=[(1e-13, None)] * (n * m) + [(0, None)] * extra,
        constraints=constraints,
        options={"ftol": 1e-13, "maxiter": 2000},
    )
    return float(found.fun), found.x[: n * m].reshape(n, m)


@pytest.mark.parametrize("kind_a", KINDS)
@pytest.mark.parametrize("kind_b", KINDS)
@pytest.mark.parametrize("reference", ["heat", "product", "counting"])
def test_oracle_equals_a_generic_convex_solver(kind_a: str, kind_b: str, reference: str) -> None:
    problem = tiny_problem(kind_a, kind_b, reference, seed=3)
    solution = solve(problem, "oracle", SolveOptions(tol=1e-12))
    assert solution.status == "converged"
    value, plan = generic_optimum(problem)
    assert solution.certificate.primal_upper == pytest.approx(value, rel=1e-6)
    assert solution.certificate.dual_lower <= value + 1e-9
    np.testing.assert_allclose(solution.marginal_a[problem.support_a], plan.sum(1), atol=2e-3)
    np.testing.assert_allclose(solution.marginal_b[problem.support_b], plan.sum(0), atol=2e-3)

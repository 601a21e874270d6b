"""Sharp penalties are solved as surely as kl: Newton steps on the listed plan, and random pairs of every kind."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.random_pairs import FAMILIES, random_problem
from scipy import sparse
from scipy.optimize import minimize

from pairframe.engines import SolveOptions, Status, solve
from pairframe.engines.grid.level import Level
from pairframe.engines.grid.listing import PlanSide, list_plan
from pairframe.engines.grid.newton import SideModel, box_step
from pairframe.problem import KL, Partial, TransportProblem, penalty_of
from pairframe.testing import disc, growing_embryo

OPTIONS = SolveOptions(tol=1e-6, max_iterations=5000)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", range(4))
def test_random_pairs_with_sharp_penalties_are_certified(family: str, seed: int) -> None:
    found = solve(random_problem(seed, family, side_px=(30, 70)), "grid", OPTIONS)
    assert found.status == Status.converged
    assert found.iterations <= 400


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_many_random_pairs_with_sharp_penalties_are_certified(family: str) -> None:
    for seed in range(100, 115):
        found = solve(random_problem(seed, family), "grid", OPTIONS)
        assert found.status == Status.converged, seed
        assert found.iterations <= 600, seed


@pytest.mark.parametrize("penalty", ["partial", "tv"])
@pytest.mark.parametrize("shift_px", [3, 10, 30, 60])
def test_a_shifted_embryo_is_moved_whole(penalty: str, shift_px: int) -> None:
    a = np.pad(growing_embryo(6)[3], ((0, 0), (0, 100)))
    b = np.roll(a, shift_px, axis=1)
    problem = TransportProblem(a / a.sum(), b / b.sum(), 4.0, *[penalty_of(penalty, 0.5 * 400.0**2)] * 2)
    found = solve(problem, "grid", OPTIONS)
    assert found.status == Status.converged
    assert abs(1.0 - found.marginal_a.sum()) < 1e-6
    assert found.iterations <= 60


@pytest.mark.parametrize("penalty", ["partial", "tv"])
def test_pieces_that_exchange_mass_are_certified(penalty: str) -> None:
    """Consecutive frames of a scene in which discs split, vanish and appear, with a reach beyond the next neighbour."""
    rng = np.random.default_rng(5)
    shape, a, b = (160, 160), np.zeros((160, 160)), np.zeros((160, 160))
    for _ in range(40):
        centre, radius = tuple(rng.uniform(8, 152, 2)), rng.uniform(3, 8)
        a = np.maximum(a, disc(shape, centre, radius))
        if rng.random() > 0.2:
            b = np.maximum(b, disc(shape, tuple(np.add(centre, rng.normal(0, 2, 2))), radius * rng.uniform(0.8, 1.2)))
    problem = TransportProblem(a / a.sum(), b / a.sum(), 4.0, *[penalty_of(penalty, 0.5 * 60.0**2)] * 2)
    found = solve(problem, "grid", OPTIONS)
    assert found.status == Status.converged
    assert found.iterations <= 250


@pytest.mark.parametrize("factor", [0.1, 1.0, 1.01, 2.0])
@pytest.mark.parametrize("seed", range(3))
def test_two_lambdas_beyond_all_costs_tell_which_side_gives_way(seed: int, factor: float) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.random((2, 4, 4))
    lam = 10.0 ** rng.uniform(2, 5)
    problem = TransportProblem(a, b, 3.0, penalty_of("tv", lam), penalty_of("tv", factor * lam))
    found = solve(problem, "grid", SolveOptions(1e-6, 2000))
    assert found.status == Status.converged
    truth = solve(problem, "oracle", SolveOptions(1e-8, 20_000))
    assert found.certificate.dual_lower == pytest.approx(truth.certificate.dual_lower, rel=1e-5)


def test_a_residual_of_zero_is_no_error() -> None:
    """At a lambda beyond all digits the marginals may be exact while the gap is not: that is said, not raised."""
    rng = np.random.default_rng(0)
    rng.random((2, 1, 5))
    a, b = rng.random((2, 1, 5))
    found = solve(TransportProblem(a, b, 1e6, KL(1e200), KL(1e200)), "grid", SolveOptions(1e-6, 500))
    assert found.status == Status.max_iterations
    assert min(record.marginal_error for record in found.trace) == 0.0


# --- the parts -------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(40,), (300,), (9, 14), (3, 170), (4, 5, 6)])
def test_the_listed_plan_has_every_entry_above_its_depth(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.random(shape) * (rng.random(shape) < 0.7) for _ in range(2))
    problem = TransportProblem(a, b, 3.0, Partial(30.0), Partial(30.0))
    level = Level(problem)
    point = level.complete(level.answer(rng.normal(0.0, 2.0, level.mass_a.size), 0.0))
    scales = level.log_scales(point.potentials)
    x_a, x_b = problem.positions(problem.support_a), problem.positions(problem.support_b)
    dense = np.exp(scales[0][:, None] + scales[1] - ((x_a[:, None] - x_b) ** 2).sum(axis=-1) / problem.epsilon)
    np.testing.assert_allclose(dense.sum(axis=1), point.marginal_a, rtol=1e-12)
    logs = np.log(point.marginal_a), np.log(point.marginal_b)
    side_a, side_b = PlanSide.of(x_a, scales[0], logs[0]), PlanSide.of(x_b, scales[1], logs[1])
    for depth in (3.0, 10.0, 60.0):
        found = list_plan(side_a, side_b, problem.epsilon, depth=depth, most_entries=10**6)
        share = np.maximum(dense / dense.sum(axis=1, keepdims=True), dense / dense.sum(axis=0))
        expected = np.where(share > np.exp(-depth), dense, 0.0)
        np.testing.assert_allclose(found.toarray(), expected, rtol=1e-12)
    assert list_plan(side_a, side_b, problem.epsilon, depth=60.0, most_entries=10) is None


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("dense", [True, False])
def test_a_box_step_maximises_the_quadratic_model(seed: int, dense: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not dense:
        monkeypatch.setattr("pairframe.engines.grid.newton._MOST_DENSE", 0)
        monkeypatch.setattr("pairframe.engines.grid.newton._MOST_PAIRS", 0.0 if seed % 2 else 1e9)
    rng = np.random.default_rng(seed)
    n, m = 14, 17
    plan = sparse.csr_matrix(rng.random((n, m)) * (rng.random((n, m)) < 0.4))

    def side(size: int, total: np.ndarray) -> SideModel:
        low, high = -rng.choice([0.0, 0.3, 5.0], size), rng.choice([0.0, 0.2, 5.0], size)
        return SideModel(rng.normal(0.0, 0.5, size), total + 0.05, low, high)

    a, b = side(n, np.asarray(plan.sum(axis=1)).ravel()), side(m, np.asarray(plan.sum(axis=0)).ravel())
    x, y = box_step(plan, a, b, sparse.csr_matrix(np.kron(np.eye(7), np.ones((2, 1)))))

    def loss(z: np.ndarray) -> tuple[float, np.ndarray]:
        x, y = z[:n], z[n:]
        pull = np.concatenate([a.gradient - a.diagonal * x - plan @ y, b.gradient - b.diagonal * y - plan.T @ x])
        quadratic = 0.5 * (a.diagonal @ x**2 + b.diagonal @ y**2) + x @ (plan @ y)
        return quadratic - a.gradient @ x - b.gradient @ y, -pull

    bounds = list(zip(np.r_[a.low, b.low], np.r_[a.high, b.high], strict=True))
    best = minimize(
        loss,
        np.zeros(n + m),
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"ftol": 1e-15, "gtol": 1e-12, "maxiter": 5000},
    )
    assert loss(np.r_[x, y])[0] <= best.fun + 1e-7 * (1.0 + abs(best.fun))

"""A measure against itself: the bias, the noise floor, the divergence, and the cache."""

from __future__ import annotations

import numpy as np
import pytest

from pairframe.engines import SolveOptions
from pairframe.maps import divergence_of
from pairframe.pipeline import self_problem
from pairframe.pipeline.self_problem import clear_self_cache, solve_self_problem
from pairframe.pipeline.solve import solve_with_self_problems
from pairframe.problem import KL, Penalty, TransportProblem, penalty_of
from pairframe.testing import disc

OPTIONS = SolveOptions(tol=1e-9)
PENALTY = KL(100.0)


@pytest.fixture(autouse=True)
def _empty_cache() -> None:
    clear_self_cache()


def random_pair(seed: int = 0, ratio: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    a, b = (rng.random((6, 8)) * (rng.random((6, 8)) < 0.6) for _ in range(2))
    return a, b * (ratio * a.sum() / b.sum())


def divergence(
    a: np.ndarray, b: np.ndarray, penalties: tuple[Penalty, Penalty] = (PENALTY, PENALTY), **kwargs: object
) -> float:
    problem = TransportProblem(a, b, 2.0, *penalties, **kwargs)  # type: ignore[arg-type]
    solution, self_a, self_b = solve_with_self_problems(problem, (a, b), "oracle", OPTIONS)
    found = divergence_of(solution, (self_a.solution, self_b.solution))
    assert found.error <= 1e-6 * abs(found.value) + 1e-12
    return found.value


@pytest.mark.parametrize("reference", ["heat", "product"])
@pytest.mark.parametrize("ratio", [1e-2, 1.0, 1e2])
def test_the_divergence_is_positive_symmetric_and_homogeneous(reference: str, ratio: float) -> None:
    a, b = random_pair(1, ratio)
    value = divergence(a, b, reference=reference)
    assert value > 0
    assert divergence(b, a, reference=reference) == pytest.approx(value, rel=1e-6)
    assert divergence(1e3 * a, 1e3 * b, reference=reference) == pytest.approx(1e3 * value, rel=1e-6)


@pytest.mark.parametrize("tol", [3e-1, 1e-1, 1e-2, 1e-3])
@pytest.mark.parametrize("ratio", [0.5, 3.0])
def test_the_divergence_of_a_loose_solve_is_within_its_error(tol: float, ratio: float) -> None:
    for seed in range(4):
        a, b = random_pair(seed, ratio)
        problem = TransportProblem(a, b, 0.3, PENALTY, PENALTY)
        solution, self_a, self_b = solve_with_self_problems(problem, (a, b), "oracle", SolveOptions(tol=1e-12))
        exact = divergence_of(solution, (self_a.solution, self_b.solution))
        solution, self_a, self_b = solve_with_self_problems(problem, (a, b), "oracle", SolveOptions(tol=tol))
        loose = divergence_of(solution, (self_a.solution, self_b.solution))
        assert exact.error < 1e-6 * exact.value
        assert abs(loose.value - exact.value) <= loose.error + exact.error


def test_the_error_of_the_divergence_adds_the_three_gaps() -> None:
    a, b = random_pair(3, 2.0)
    problem = TransportProblem(a, b, 0.3, PENALTY, PENALTY)
    solution, self_a, self_b = solve_with_self_problems(problem, (a, b), "oracle", SolveOptions(tol=1e-2))
    gaps = [own.solution.certificate.gap * mass.sum() / own.total for own, mass in ((self_a, a), (self_b, b))]
    assert min(gaps) > 0
    found = divergence_of(solution, (self_a.solution, self_b.solution))
    assert found.error == pytest.approx(0.5 * solution.certificate.gap + 0.25 * sum(gaps), rel=1e-12)


@pytest.mark.parametrize("reference", ["heat", "product", "counting"])
@pytest.mark.parametrize("metric", ["sqeuclidean", "euclidean"])
def test_the_divergence_is_the_formula(reference: str, metric: str) -> None:
    a, b = random_pair(2, 3.0)
    problem = TransportProblem(a, b, 2.0, PENALTY, PENALTY, reference, metric)
    solution, self_a, self_b = solve_with_self_problems(problem, (a, b), "oracle", OPTIONS)
    values = []
    for side in ("a", "b"):
        own = problem.self_problem(side)
        values.append(
            (
                solve_with_self_problems(own, (own.mass_a, own.mass_b), "oracle", OPTIONS)[0].certificate.dual_lower,
                np.exp(own.log_u).sum(),
            )
        )
    (u_aa, sum_a), (u_bb, sum_b) = values
    expected = solution.certificate.dual_lower - 0.5 * u_aa - 0.5 * u_bb + 0.5 * 2.0 * (sum_a - sum_b) ** 2
    assert divergence_of(solution, (self_a.solution, self_b.solution)).value == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    "kinds", [("kl", "tv"), ("balanced", "kl"), ("partial", "kl"), ("tv", "tv"), ("partial", "partial")]
)
def test_the_divergence_is_positive_for_other_penalties_too(kinds: tuple[str, str]) -> None:
    a, b = random_pair(3, 0.7)
    one, two = (penalty_of(kind, 20.0) for kind in kinds)
    assert divergence(a, b, (one, two)) > 0


def test_equal_measures_have_no_divergence() -> None:
    a, _ = random_pair()
    assert divergence(a, a) == 0
    assert divergence(a, a, (PENALTY, KL(50.0))) > 0  # unless their penalties differ


@pytest.mark.parametrize(("reach", "largest"), [(50.0, 0.0002), (5.0, 0.007)])
def test_the_noise_floor_of_a_disc_is_small(reach: float, largest: float) -> None:
    a = disc((40, 40), (20, 20), 18) * 1.0
    penalty = KL(reach**2)
    own = solve_self_problem(TransportProblem(a, a, 4.0, penalty, penalty), "a", a, "grid", SolveOptions())
    assert 0 < own.noise_floor < largest


def test_a_self_problem_is_solved_once_wherever_the_mask_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    solved = []
    solve = self_problem.solve
    monkeypatch.setattr(
        self_problem, "solve", lambda problem, *args: solved.append(problem.shape) or solve(problem, *args)
    )
    small = random_pair(5)[0]
    here, there = np.zeros((2, 30, 40))
    here[3:9, 2:10] = small
    there[20:26, 20:28] = small
    problem = TransportProblem(here * 0.1, there * 0.1, 2.0, PENALTY, PENALTY)
    first = solve_self_problem(problem, "a", here, "oracle", OPTIONS)
    assert solve_self_problem(problem, "b", there, "oracle", OPTIONS) is first
    assert len(solved) == 1
    assert solved[0] <= (6, 8)  # its tight box
    solve_self_problem(problem, "b", there, "oracle", SolveOptions(tol=1e-3))
    harder = TransportProblem(here, there, 2.0, KL(7.0), PENALTY)
    solve_self_problem(harder, "a", here, "oracle", OPTIONS)
    assert len(solved) == 3
    counting = TransportProblem(here * 0.1, there * 0.2, 2.0, PENALTY, PENALTY, "counting")
    assert solve_self_problem(counting, "a", here, "oracle", OPTIONS).total == pytest.approx(0.1 * here.sum())
    assert len(solved) == 4


def test_the_cache_forgets_what_was_used_longest_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(self_problem, "CACHE_ENTRIES", 2)
    masses = [random_pair(seed)[0] for seed in range(3)]
    found = [
        solve_self_problem(TransportProblem(m, m, 2.0, PENALTY, PENALTY), "a", m, "oracle", OPTIONS) for m in masses
    ]
    assert len(self_problem._cache) == 2
    m = masses[0]
    assert solve_self_problem(TransportProblem(m, m, 2.0, PENALTY, PENALTY), "a", m, "oracle", OPTIONS) is not found[0]
    monkeypatch.setattr(self_problem, "CACHE_BYTES", 10)
    clear_self_cache()
    solve_self_problem(TransportProblem(m, m, 2.0, PENALTY, PENALTY), "a", m, "oracle", OPTIONS)
    assert len(self_problem._cache) == 0


def test_an_entry_that_is_used_again_stays_in_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(self_problem, "CACHE_ENTRIES", 2)

    def found(seed: int) -> object:
        mass = random_pair(seed)[0]
        problem = TransportProblem(mass, mass, 2.0, PENALTY, PENALTY)
        return solve_self_problem(problem, "a", mass, "oracle", OPTIONS)

    first, second = found(0), found(1)
    assert found(0) is first  # now the second one was used longest ago
    found(2)
    assert found(0) is first
    assert found(1) is not second


def test_a_pair_of_equal_measures_is_its_own_self_problem() -> None:
    a = np.zeros((20, 20))
    a[4:10, 5:13] = random_pair(8)[0]
    problem = TransportProblem(5 * a, 5 * a, 2.0, PENALTY, PENALTY)
    assert problem.is_symmetric
    solution, _, _ = solve_with_self_problems(problem, (a, a), "oracle", OPTIONS)
    direct = self_problem.solve(problem, "oracle", OPTIONS)
    assert solution.certificate.dual_lower == pytest.approx(direct.certificate.dual_lower, rel=1e-8)
    np.testing.assert_allclose(solution.marginal_a, direct.marginal_a, atol=1e-8 * a.max())
    assert np.isnan(solution.potential_a[a == 0]).all()
    assert not TransportProblem(a, a, 2.0, PENALTY, KL(1.0)).is_symmetric

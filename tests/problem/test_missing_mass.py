"""What a plan misses is moved to where it is missing nearby, and the value of that is exact."""

from __future__ import annotations

import numpy as np
import pytest

from pairframe.problem import TransportProblem, penalty_of
from pairframe.problem.missing_mass import move_missing

EPSILON = 4.0


def line_problem(penalty: str = "balanced", lam: float = 1e6, n: int = 120) -> TransportProblem:
    mass = np.ones((1, n))
    penalties = penalty_of(penalty, lam), penalty_of(penalty, lam)
    return TransportProblem(mass, mass, EPSILON, *penalties, "product")


def at(n: int, places: dict[int, float]) -> np.ndarray:
    missing = np.zeros(n)
    for place, mass in places.items():
        missing[place] = mass
    return missing


def test_deficits_meet_their_neighbours_and_not_each_other() -> None:
    problem = line_problem()
    missing_a, missing_b = at(120, {0: 0.25, 100: 0.5}), at(120, {1: 0.25, 101: 0.5})
    moved = move_missing(problem, np.zeros((1, 120)), missing_a, missing_b)
    assert sum(moved.totals) == pytest.approx(0.75, rel=1e-14)
    assert moved.totals[0] == pytest.approx(0.75, rel=1e-14)  # all of it in the smallest cells
    # Two entries, one pixel far: <C, R> + eps sum R log(R/(u v)).
    log_uv = [problem.log_u[0, i] + problem.log_v[0, i + 1] for i in (0, 100)]
    expected = sum(m * (1.0 + EPSILON * (np.log(m) - uv)) for m, uv in zip((0.25, 0.5), log_uv, strict=True))
    assert sum(moved.values) == pytest.approx(expected, rel=1e-12)
    assert moved.share_a[[0, 100]] == pytest.approx([1.0, 1.0])
    assert moved.share_b[[1, 101]] == pytest.approx([1.0, 1.0])


def test_the_rest_goes_farther() -> None:
    moved = move_missing(line_problem(), np.zeros((1, 120)), at(120, {0: 1.0}), at(120, {1: 0.25, 90: 0.75}))
    assert moved.totals[0] == pytest.approx(0.25)
    assert sum(moved.totals) == pytest.approx(1.0)
    assert moved.share_b[[1, 90]] == pytest.approx([1.0, 1.0])
    entropy = sum(m * np.log(m) for m in (0.25, 0.75)) - sum(
        m * (line_problem().log_u[0, 0] + line_problem().log_v[0, j]) for m, j in ((0.25, 1), (0.75, 90))
    )
    assert sum(moved.values) == pytest.approx(0.25 * 1 + 0.75 * 90**2 + EPSILON * entropy, rel=1e-9)


def test_nothing_is_moved_for_more_than_it_costs_to_destroy_and_create_it() -> None:
    missing_a, missing_b = at(120, {0: 1.0, 50: 0.5}), at(120, {90: 1.0, 52: 0.25})
    moved = move_missing(line_problem("partial", lam=100.0), np.zeros((1, 120)), missing_a, missing_b)
    assert sum(moved.totals) == pytest.approx(0.25)  # 90 px far costs 8100, and lambda is 100 on either side
    assert moved.share_a[[0, 50]] == pytest.approx([0.0, 0.5])
    assert moved.share_b[[52, 90]] == pytest.approx([1.0, 0.0])


def test_the_slope_of_the_potential_tells_where_mass_comes_from() -> None:
    """A shift by 40 px: the target's potential has the slope 80, and pixel 45 takes its mass from pixel 5."""
    n = 120
    a, b = np.zeros((1, n)), np.zeros((1, n))
    a[0, :60], b[0, 40:100] = 1.0, 1.0
    problem = TransportProblem(a, b, EPSILON, penalty_of("balanced", 1.0), penalty_of("balanced", 1.0), "product")
    g = 80.0 * np.arange(n)[None] + np.zeros((1, n))
    missing_a, missing_b = at(60, {5: 0.5, 45: 0.5}), at(60, {5: 0.5, 45: 0.5})  # pixels 45 and 85 of the target
    moved = move_missing(problem, g, missing_a, missing_b)
    assert moved.totals[0] == pytest.approx(1.0)
    entropy = np.log(0.5) - 0.5 * sum(problem.log_u[0, i] + problem.log_v[0, i + 40] for i in (5, 45))
    assert moved.values[0] == pytest.approx(1600.0 + EPSILON * entropy, rel=1e-12)

"""Anderson mixing in compiled passes is the least-squares fit it says it is."""

from __future__ import annotations

import numpy as np
import pytest

from pairframe.engines.anderson import Anderson


def fitted(points: list[np.ndarray], residuals: list[np.ndarray], weight: np.ndarray, depth: int) -> np.ndarray:
    """The next point by a dense least-squares fit over the last `depth` differences."""
    dx, dr = (np.diff(np.array(rows), axis=0)[-depth:] for rows in (points, residuals))
    root = np.sqrt(weight)
    share = np.linalg.lstsq((root * dr).T, root * residuals[-1], rcond=None)[0]
    return points[-1] + residuals[-1] - share @ (dx + dr)


@pytest.mark.parametrize("n", [7, 5000])
def test_a_step_is_the_weighted_least_squares_fit(n: int) -> None:
    """Also when the memory is full and old differences make room, and over several blocks of the passes."""
    rng, depth = np.random.default_rng(0), 4
    weight = rng.random(n) + 0.1
    memory = Anderson(weight, depth)
    points, residuals = [], []
    for number in range(9):
        points.append(rng.normal(size=n))
        residuals.append(rng.normal(size=n))
        found = memory.step(points[-1], residuals[-1])
        wanted = fitted(points, residuals, weight, depth) if number else points[-1] + residuals[-1]
        np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-8)


def test_a_linear_map_is_solved_in_as_many_steps_as_it_has_dimensions() -> None:
    rng = np.random.default_rng(1)
    matrix, goal = 0.9 * rng.random((3, 3)) / 3, rng.random(3)
    x, memory = np.zeros(3), Anderson(np.ones(3), 5)
    for _ in range(5):
        x = memory.step(x, matrix @ x + goal - x)
    np.testing.assert_allclose(x, np.linalg.solve(np.eye(3) - matrix, goal), rtol=1e-6)


def test_steps_that_do_not_change_are_plain_ones() -> None:
    x, r = np.arange(3.0), np.ones(3)
    memory = Anderson(np.ones(3), 2)
    for _ in range(3):
        np.testing.assert_array_equal(memory.step(x, r), x + r)

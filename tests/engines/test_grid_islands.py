"""Islands that exchange mass: the leaps between them, and the step that is constant on each."""

from __future__ import annotations

import numpy as np
import pytest

from pairframe.engines import SolveOptions, Status, solve
from pairframe.engines.grid import islands as module
from pairframe.engines.grid.islands import IslandConstants, Islands, listed_leaps, shared_targets
from pairframe.engines.grid.level import Level, Round
from pairframe.problem import Partial, TransportProblem
from pairframe.testing import cell_scene
from pairframe.types import Float


def _crowd(seed: int) -> tuple[Level, Round, Float]:
    """A level of scattered 3 x 3 pieces, a point on it, and its dense plan (n, m)."""
    rng = np.random.default_rng(seed)
    a, b = np.zeros((60, 70)), np.zeros((60, 70))
    for y in range(4, 56, 8):
        for x in range(4, 66, 8):
            dy, dx = rng.integers(-2, 3, 2)
            a[y - 1 : y + 2, x - 1 : x + 2] = 1.0
            b[y + dy - 1 : y + dy + 2, x + dx - 1 : x + dx + 2] = 1.0
    problem = TransportProblem(a, b, 6.0, Partial(80.0), Partial(80.0))
    level = Level(problem)
    point = level.complete(level.answer(rng.normal(0.0, 1.0, level.mass_a.size), 0.0))
    one, other = level.log_scales(point.potentials)
    x_a, x_b = problem.positions(problem.support_a), problem.positions(problem.support_b)
    return level, point, np.exp(one[:, None] + other - ((x_a[:, None] - x_b) ** 2).sum(axis=-1) / problem.epsilon)


def _means_over_sources(plan: Float, channel: Float) -> Float:
    return channel @ plan / plan.sum(axis=0)


@pytest.mark.parametrize("at_once", [10**6, 3000])
@pytest.mark.parametrize("seed", range(3))
def test_listed_leaps_are_those_of_the_dense_plan(seed: int, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ENTRIES_AT_ONCE", at_once)
    monkeypatch.setattr(module, "_DEPTH", 60.0)
    level, point, plan = _crowd(seed)
    rng = np.random.default_rng(seed)
    islands = Islands.of(level.problem.support_a, level.epsilon)
    assert islands.count == 7 * 8
    free, slope_b = rng.random(plan.shape[0]) < 0.8, 1.0 * (rng.random(plan.shape[1]) < 0.8)
    codes = islands.codes()
    channels = [free * 1.0, free * codes, free * codes**2]
    shared = shared_targets(*(_means_over_sources(plan, channel) for channel in channels))
    found = listed_leaps(level, point, islands, free, slope_b, shared)
    member = np.eye(islands.count)[islands.number] * free[:, None]
    to_islands = (plan / plan.sum(axis=1, keepdims=True)) * slope_b @ ((plan / plan.sum(axis=0)).T @ member)
    to_islands[np.arange(free.size), islands.number] = 0.0
    expected = to_islands * free[:, None]
    assert expected.max() > 0.1
    np.testing.assert_allclose(
        found.toarray(), expected, atol=1e-5
    )  # targets with less than 1e-7 from others are left out


def test_too_many_leaps_are_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    level, point, plan = _crowd(0)
    islands = Islands.of(level.problem.support_a, level.epsilon)
    all_a, all_b = (np.ones(n, bool) for n in plan.shape)
    monkeypatch.setattr(module, "_FEWEST_ENTRIES", 100)
    monkeypatch.setattr(module, "_ENTRIES_PER_PIXEL", 1)
    assert listed_leaps(level, point, islands, all_a, 1.0 * all_b, all_b) is None


def test_a_step_constant_on_islands_serves_all_of_a_forcing_made_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_DEPTH", 60.0)
    level, point, plan = _crowd(1)
    islands = Islands.of(level.problem.support_a, level.epsilon)
    n, m = plan.shape
    free, slope_b = np.ones(n, bool), np.full(m, 0.9)
    leaps = listed_leaps(level, point, islands, free, slope_b, np.ones(m, bool))
    back = (plan / plan.sum(axis=1, keepdims=True)) * slope_b @ (plan / plan.sum(axis=0)).T  # J, (n, n)
    kill = 1.0 - back.sum(axis=1)
    constants = IslandConstants(islands.number, leaps, free, point.marginal_a, kill)
    truth = np.random.default_rng(0).normal(size=islands.count)[islands.number]
    step, rest = constants(point.marginal_a * (truth - back @ truth))
    np.testing.assert_allclose(step, truth, atol=1e-9)
    assert np.abs(rest).sum() < 1e-9 * np.abs(point.marginal_a * (truth - back @ truth)).sum()


@pytest.mark.parametrize("n_side", [8, pytest.param(21, marks=pytest.mark.slow)])
def test_a_crowd_of_touching_cells_takes_few_softmins(n_side: int) -> None:
    scene = cell_scene(0, n_side=n_side, pitch_px=28, event_share=0.2)
    a, b = ((labels > 0) * 1.0 for labels in (scene.source, scene.target))
    found = solve(TransportProblem(a, b, 4.0, Partial(128.0), Partial(128.0)), "grid", SolveOptions(1e-6, 5000))
    assert found.status == Status.converged
    assert found.iterations <= 110

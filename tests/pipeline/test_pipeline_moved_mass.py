"""Partial transport of a given mass, held against POT's own partial solvers and the dense oracle."""

from __future__ import annotations

import numpy as np
import ot
import pytest

import pairframe as pf
from pairframe.engines import SolveOptions, solve
from pairframe.engines.points import cost_matrix
from pairframe.errors import ConfigError
from pairframe.problem import Partial, TransportProblem

SHAPE = (9, 12)


def boxes() -> tuple[np.ndarray, np.ndarray]:
    source, target = np.zeros(SHAPE), np.zeros(SHAPE)
    source[1:5, 1:5] = target[3:8, 4:11] = 1.0
    return source, target


def dense(source: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    on_a, on_b = source > 0, target > 0
    cost = cost_matrix(np.argwhere(on_a).astype(float), np.argwhere(on_b).astype(float), "sqeuclidean")
    return source[on_a], target[on_b], cost


@pytest.mark.parametrize("mass", [8.0, 11.0, 15.0, 16.0])
def test_it_is_pots_entropic_partial_plan(mass: float) -> None:
    source, target = boxes()
    result = pf.compare(source, target, pf.TransportConfig(moved_mass=mass, blur_um=1.2, tol=1e-9, pad=0))
    assert result.total_mass_moved == pytest.approx(mass, rel=1e-6)
    a, b, cost = dense(source, target)
    # Pixels of one mass: the reference is a constant, which a given mass makes irrelevant.
    plan = ot.partial.entropic_partial_wasserstein(a, b, cost, 1.2**2, m=mass, numItermax=100_000, stopThr=1e-13)
    np.testing.assert_allclose(result.mass_destroyed[source > 0], a - plan.sum(1), atol=1e-5)
    np.testing.assert_allclose(result.mass_created[target > 0], b - plan.sum(0), atol=1e-5)
    assert result.total_transport_cost_work_px2 == pytest.approx((plan * cost).sum(), rel=1e-5)


@pytest.mark.parametrize("mass", [8.0, 12.0, 16.0])
def test_at_a_small_blur_it_is_pots_exact_partial_cost(mass: float) -> None:
    source, target = boxes()
    result = pf.compare(source, target, pf.TransportConfig(moved_mass=mass, blur_um=0.12, tol=1e-9, pad=0))
    a, b, cost = dense(source, target)
    exact = ot.partial.partial_wasserstein(a, b, cost, m=mass)
    assert result.total_transport_cost_work_px2 == pytest.approx((exact * cost).sum(), rel=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_partial_is_pots_exact_partial_and_the_oracles_answer(seed: int) -> None:
    rng = np.random.default_rng(seed)
    source, target = (rng.uniform(0.2, 1.5, (6, 7)) * (rng.random((6, 7)) < 0.6) for _ in range(2))
    a, b, cost = dense(source, target)
    problem = TransportProblem(source, target, 0.02, Partial(3.3), Partial(3.3))
    grid, oracle = (solve(problem, backend, SolveOptions(1e-10, 20_000)) for backend in ("grid", "oracle"))
    np.testing.assert_allclose(grid.marginal_a, oracle.marginal_a, atol=1e-5)
    np.testing.assert_allclose(grid.marginal_b, oracle.marginal_b, atol=1e-5)
    moved = min(float(grid.marginal_a.sum()), a.sum(), b.sum())
    exact = ot.partial.partial_wasserstein(a, b, cost, m=moved)
    penalty = 3.3 * (a.sum() + b.sum() - 2 * moved)
    # The entropic objective exceeds the exact one by the entropy; the plan's own cost does not.
    found = float(np.sum(exact * cost)) + penalty
    plan = pf.maps.PlanOperator.of(grid)
    assert plan.transport_cost + penalty == pytest.approx(found, rel=1e-6)


def test_a_share_is_a_mass_and_the_reach_is_found() -> None:
    source, target = boxes()
    share = pf.compare(source, target, pf.TransportConfig(moved_share=0.75, px_size_um=3.0))
    mass = pf.compare(source, target, pf.TransportConfig(moved_mass=12.0, px_size_um=3.0))
    assert share.total_mass_moved == pytest.approx(mass.total_mass_moved, rel=1e-5)
    assert share.reach_um == pytest.approx(mass.reach_um, rel=1e-3)
    again = pf.compare(source, target, pf.TransportConfig(reach_um=mass.reach_um, px_size_um=3.0))
    assert again.total_mass_moved == pytest.approx(12.0, rel=1e-4)
    assert pf.divergence(source, target, pf.TransportConfig(moved_share=0.75)) == pytest.approx(
        share.divergence, rel=1e-4
    )
    empty = pf.compare(source, 0 * target, pf.TransportConfig(moved_share=0.5))
    assert empty.status == "empty_target"


def test_a_mass_that_cannot_be_moved_is_refused() -> None:
    source, target = boxes()
    with pytest.raises(ConfigError, match="moved_mass of at most 16, the mass of the smaller mask, got 17"):
        pf.compare(source, target, pf.TransportConfig(moved_mass=17.0))
    with pytest.raises(ConfigError, match="that much need not move at all"):
        pf.compare(source, source, pf.TransportConfig(moved_share=0.1))
    with pytest.raises(ConfigError, match="at most one of reach_um, marginal_relaxation, moved_mass, moved_share"):
        pf.TransportConfig(reach_um=3.0, moved_mass=2.0)
    with pytest.raises(ConfigError, match=r"moved_share of at most 1, got 1\.5"):
        pf.TransportConfig(moved_share=1.5)
    with pytest.raises(ConfigError, match='penalty="partial" with moved_mass'):
        pf.TransportConfig(moved_mass=2.0, penalty="kl")
    for wrong in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(ConfigError):
            pf.TransportConfig(moved_mass=wrong)

"""Hard c-transforms are the true minimum, rounding to whole numbers loses nothing, and the flow ends at the optimum."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pairframe.engines.grid.flow import transport
from pairframe.engines.grid.hard import hard_transform, whole_potentials


def cost_of(on_in: np.ndarray, scale: int = 1) -> np.ndarray:
    """Every pixel against the support: (H W, n)."""
    everywhere = np.argwhere(np.ones(on_in.shape, dtype=bool))
    return scale * ((everywhere[:, None] - np.argwhere(on_in)) ** 2).sum(axis=2)


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    shape=st.tuples(st.integers(1, 17), st.integers(1, 17)),
    scale=st.sampled_from([1, 3, 2**20]),
    size=st.sampled_from([1, 30, 10_000]),
    share=st.sampled_from([0.05, 0.5, 1.0]),
)
def test_a_hard_transform_is_the_minimum_over_all_pairs(
    seed: int, shape: tuple[int, int], scale: int, size: int, share: float
) -> None:
    rng = np.random.default_rng(seed)
    on = rng.random(shape) < share
    on.flat[rng.integers(on.size)] = True
    potential = rng.integers(-size * scale, size * scale + 1, shape)
    found = hard_transform(potential, on, scale)
    assert (found.ravel() == (cost_of(on, scale) - potential[on]).min(axis=1)).all()


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 10_000), scale=st.sampled_from([2, 7, 2**20]))
def test_whole_potentials_are_feasible_and_no_worse(seed: int, scale: int) -> None:
    rng = np.random.default_rng(seed)
    shape = (7, 9)
    everywhere = np.ones(shape, dtype=bool)
    mass_a, mass_b = rng.integers(0, 9, shape), rng.integers(0, 9, shape)
    mass_a[0, 0] += max(0, mass_b.sum() - mass_a.sum())
    mass_b[0, 0] += max(0, mass_a.sum() - mass_b.sum())
    f = rng.integers(-40 * scale, 40 * scale, shape)
    g = hard_transform(f, everywhere, scale)
    f = hard_transform(g, everywhere, scale)
    before = (mass_a * f).sum() + (mass_b * g).sum()
    whole_f, whole_g = whole_potentials(f.ravel(), g.ravel(), mass_a.ravel(), mass_b.ravel(), scale)
    assert (np.add.outer(whole_f, whole_g) <= cost_of(everywhere)).all()
    assert scale * (mass_a.ravel() @ whole_f + mass_b.ravel() @ whole_g) >= before


@pytest.mark.parametrize("seed", range(8))
def test_the_flow_carries_all_mass_at_the_dual_value_from_any_start(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = (9, 14)
    on_a, on_b = rng.random(shape) < 0.6, rng.random(shape) < 0.3
    a, b = rng.integers(1, 20, int(on_a.sum())), rng.integers(1, 20, int(on_b.sum()))
    total = max(a.sum(), b.sum())
    a[0] += total - a.sum()
    b[0] += total - b.sum()
    start = np.where(on_a, rng.integers(-50, 50, shape), 0)
    g_grid = hard_transform(start, on_a)
    f, g = hard_transform(g_grid, on_b)[on_a], g_grid[on_b]
    left_a, left_b = a.copy(), b.copy()
    pixels = [np.ascontiguousarray(np.argwhere(on)) for on in (on_a, on_b)]
    duals = [a @ f + b @ g]
    for _ in range(3):  # stopped on the way, the dual has only risen
        left_a, left_b = a.copy(), b.copy()
        transport(*pixels, left_a, left_b, f, g, shape, 2)
        duals.append(a @ f + b @ g)
    left_a, left_b = a.copy(), b.copy()
    carried, _, _ = transport(*pixels, left_a, left_b, f, g, shape, 10_000)
    assert duals == sorted(duals)
    assert not left_a.any()
    assert not left_b.any()
    assert carried == a @ f + b @ g >= duals[-1]
    assert (np.add.outer(f, g) <= cost_of(on_b)[np.flatnonzero(on_a)]).all()

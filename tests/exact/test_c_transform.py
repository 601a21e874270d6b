"""Hard c-transforms are the true minimum, rounding to whole numbers loses nothing, and the flow ends at the optimum."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pairframe.exact.c_transform import hard_transform, whole_potentials
from pairframe.exact.flow import transport


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


def test_whole_potentials_weigh_masses_that_float64_cannot_tell_apart() -> None:
    """Of the shifts by 1/4 and 3/4 the second has the larger dual value, by 1 in 2^60."""
    f, g = np.array([-1, -3]), np.array([2, 0])
    whole_f, whole_g = whole_potentials(f, g, np.array([2**60, 2**60 + 1]), np.array([2**60, 2**60 + 1]), 4)
    assert (whole_f.tolist(), whole_g.tolist()) == ([0, 0], [0, 0])


def test_a_flow_of_almost_all_that_int64_holds_does_not_overflow() -> None:
    far = 1000
    a = np.array([2**61, 2**61 + 5])
    pixels = np.array([[0, 0], [0, 1]]), np.array([[0, far], [0, far + 1]])
    f, g = np.zeros(2, dtype=np.int64), np.zeros(2, dtype=np.int64)
    flow, cost, _ = transport(*pixels, a.copy(), a.copy(), f, g, (1, far + 2), 10**6)
    carried = sum(x * y for x, y in zip(flow.tolist(), cost.tolist(), strict=True))
    assert carried == (2**62 + 5) * far**2
    assert carried == sum(m * (int(x) + int(y)) for m, x, y in zip(a.tolist(), f, g, strict=True))


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
    flow, cost, _ = transport(*pixels, left_a, left_b, f, g, shape, 10_000)
    assert duals == sorted(duals)
    assert not left_a.any()
    assert not left_b.any()
    assert flow @ cost == a @ f + b @ g >= duals[-1]
    assert (np.add.outer(f, g) <= cost_of(on_b)[np.flatnonzero(on_a)]).all()

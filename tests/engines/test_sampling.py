"""Support sampling: what it keeps, what it may change, and that it always does the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pairframe.engines.sampling import sample_support
from pairframe.errors import ArgumentError, MaskError
from pairframe.testing import disc, embryo


@st.composite
def masses(draw: st.DrawFn) -> np.ndarray:
    """Random masses with holes, integer or not, some of them huge."""
    shape = draw(st.tuples(st.integers(1, 14), st.integers(1, 14)))
    rng = np.random.default_rng(draw(st.integers(0, 2**20)))
    mass = rng.integers(1, 17, shape) * 1.0
    if draw(st.booleans()):
        mass = 10 ** rng.uniform(-6, 6, shape)
    return np.asarray(mass * (rng.random(shape) < draw(st.sampled_from([0.2, 0.7, 1.0]))))


@settings(deadline=None)
@given(mass=masses(), max_points=st.integers(1, 220), seed=st.integers(0, 5))
def test_mass_is_kept_on_fewer_of_its_own_pixels(mass: np.ndarray, max_points: int, seed: int) -> None:
    sample = sample_support(mass, max_points, seed)
    assert sample.mass.sum() == pytest.approx(mass.sum(), rel=1e-13)
    assert sample.n_before == (mass > 0).sum()
    assert sample.n_after == (sample.mass > 0).sum() <= max_points
    assert not (sample.mass > 0)[mass == 0].any()
    assert (sample.n_after > 0) == (sample.n_before > 0)
    if sample.n_before <= max_points:
        np.testing.assert_array_equal(sample.mass, mass)


@settings(deadline=None)
@given(mass=masses(), max_points=st.integers(1, 60), seed=st.integers(0, 5), shift=st.tuples(*[st.integers(0, 6)] * 2))
def test_a_shifted_mask_gets_the_shifted_sample(
    mass: np.ndarray, max_points: int, seed: int, shift: tuple[int, int]
) -> None:
    wide = [(0, 6), (0, 6)]
    here = sample_support(np.pad(mass, wide), max_points, seed).mass
    there = sample_support(np.roll(np.pad(mass, wide), shift, axis=(0, 1)), max_points, seed).mass
    np.testing.assert_array_equal(np.roll(here, shift, axis=(0, 1)), there)


def test_the_same_seed_gives_the_same_sample_and_another_seed_another() -> None:
    mass = embryo((128, 288), growth=0.5) * 1.0
    first, again, other = (sample_support(mass, 300, seed).mass for seed in (7, 7, 8))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_integer_mass_is_kept_exactly() -> None:
    mass = embryo((128, 288), growth=0.5) * 16.0
    assert sample_support(mass, 100).mass.sum() == mass.sum()


def test_the_points_asked_for_are_used() -> None:
    mass = disc((60, 60), (30, 30), 25) * 1.0
    for max_points in (1, 2, 10, 500, 1900, int(mass.sum()) - 1):
        assert 0.97 * max_points <= sample_support(mass, max_points).n_after <= max_points


@pytest.mark.parametrize("max_points", [100, 400])
def test_boundary_and_interior_have_one_spacing(max_points: int) -> None:
    radius = 40
    mass = disc((100, 100), (50, 50), radius) * 1.0
    kept = sample_support(mass, max_points).mass > 0
    ys, xs = np.nonzero(kept)
    n_line = int((np.hypot(ys - 50, xs - 50) > radius - 1.2).sum())
    line_spacing = 2 * np.pi * radius / n_line
    area_spacing = np.sqrt(np.pi * radius**2 / (kept.sum() - n_line))
    assert 0.6 < line_spacing / area_spacing < 1.6


def test_mass_stays_where_it_was() -> None:
    mass = embryo((128, 288), growth=0.5) * 1.0
    sample = sample_support(mass, 500).mass
    spacing = np.sqrt(mass.sum() / 500)
    for axis in range(2):
        centres = [float(np.average(np.arange(m.shape[axis]), weights=m.sum(axis=1 - axis))) for m in (mass, sample)]
        assert abs(centres[0] - centres[1]) < 0.1 * spacing
    blocks = [m.reshape(8, 16, 9, 32).sum(axis=(1, 3)) for m in (mass, sample)]
    assert np.abs(blocks[0] - blocks[1]).sum() < 0.1 * mass.sum()


def test_an_empty_mass_stays_empty() -> None:
    sample = sample_support(np.zeros((4, 5)), 3)
    assert (sample.n_before, sample.n_after, sample.mass.sum()) == (0, 0, 0.0)


@pytest.mark.parametrize(
    ("max_points", "seed", "name"), [(0, 0, "max_support_points"), (2.5, 0, "max_support_points"), (3, -1, "seed")]
)
def test_bad_numbers_are_refused(max_points: int, seed: int, name: str) -> None:
    with pytest.raises(ArgumentError, match=f"expected {name} to be an integer"):
        sample_support(np.ones((3, 3)), max_points, seed)


def test_bad_masses_are_refused() -> None:
    with pytest.raises(MaskError, match="mass"):
        sample_support(-np.ones((3, 3)), 2)

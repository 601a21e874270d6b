"""`pf.w2`: bounds that hold for any image, and meet where masses are whole numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pairframe as pf
from pairframe.errors import ArgumentError, FrameError, MaskError, ProblemError, UnsupportedProblemError
from pairframe.exact.whole_mass import WholeMasses, above, below

ot = pytest.importorskip("ot", reason="POT is not installed")


def images(seed: int, shape: tuple[int, int], share: float = 0.7, top: int = 50) -> tuple[np.ndarray, np.ndarray]:
    """Two random images of whole numbers, with holes, of equal totals."""
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(1, top, shape) * (rng.random(shape) < share) for _ in range(2))
    a.flat[rng.integers(a.size)] += 1
    b.flat[rng.integers(b.size)] += 1
    lighter = a if a.sum() < b.sum() else b
    lighter.flat[rng.integers(a.size)] += abs(int(a.sum()) - int(b.sum()))
    return a.astype(np.int64), b.astype(np.int64)


def shares(seed: int, shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Two random images with holes, of total 1 each."""
    rng = np.random.default_rng(seed)
    a, b = (image * rng.random(shape) for image in images(seed, shape))
    return a / a.sum(), b / b.sum()


def emd2(a: np.ndarray, b: np.ndarray) -> float:
    yx_a, yx_b = np.argwhere(a > 0), np.argwhere(b > 0)
    cost = ((yx_a[:, None] - yx_b) ** 2).sum(axis=2).astype(float)
    total = float(a.sum())
    return total * float(ot.emd2(a[a > 0] / total, b[b > 0] / total, cost, numItermax=10**7))


def assert_feasible(found: pf.W2Bounds) -> None:
    """f_i + g_j <= |x_i - x_j|^2 on the supports, and whole numbers."""
    f, g = found.potential_a, found.potential_b
    yx_a, yx_b = np.argwhere(np.isfinite(f)), np.argwhere(np.isfinite(g))
    cost = ((yx_a[:, None] - yx_b) ** 2).sum(axis=2)
    assert (np.add.outer(f[np.isfinite(f)], g[np.isfinite(g)]) <= cost).all()
    assert (np.mod(f[np.isfinite(f)], 1.0) == 0).all()


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 10_000),
    shape=st.tuples(st.integers(1, 14), st.integers(1, 14)),
    share=st.sampled_from([0.05, 0.4, 1.0]),
    epsilon=st.sampled_from([0.25, 1.0, 9.0]),
)
def test_whole_numbers_give_the_exact_value(seed: int, shape: tuple[int, int], share: float, epsilon: float) -> None:
    a, b = images(seed, shape, share)
    found = pf.w2(a, b, epsilon=epsilon)
    assert found.is_exact
    assert found.lower == found.upper == round(found.lower)
    assert found.lower == pytest.approx(emd2(a, b), rel=1e-9, abs=1e-9)
    assert_feasible(found)


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 10_000),
    raises=st.integers(0, 3),
    epsilon=st.sampled_from([0.1, 2.0, 50.0]),
    whole=st.booleans(),
)
def test_the_value_is_between_the_bounds_wherever_it_stops(seed: int, raises: int, epsilon: float, whole: bool) -> None:
    a, b = images(seed, (11, 13))
    scale = 1.0 if whole else 1.0 / 3.0
    found = pf.w2(a * scale, b * scale, epsilon=epsilon, max_raises=raises)
    value = emd2(a, b) * scale
    rounding = 1e-9 * value  # of the peer's
    assert found.entropic_lower <= found.whole_lower * (1 + 1e-12) <= found.lower * (1 + 1e-12) <= value + rounding
    assert found.upper >= value - rounding
    assert found.raises <= raises
    assert_feasible(found)


@pytest.mark.parametrize("seed", range(4))
def test_other_numbers_give_the_value_to_many_digits(seed: int) -> None:
    a, b = shares(seed, (15, 12))
    found = pf.w2(a, b)
    assert not found.is_exact
    assert found.relative_gap < 1e-11
    assert found.lower == pytest.approx(emd2(a, b), rel=1e-9)


@pytest.mark.parametrize("side", [32, 96])
def test_larger_images_keep_the_bounds_of_other_numbers_close(side: int) -> None:
    """Units are as small as int64 allows, whatever the largest cost."""
    a, b = shares(0, (side, side))
    found = pf.w2(a, b)
    assert 0.0 < found.lower <= found.upper
    assert found.relative_gap < 1e-9


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 10_000), exponent=st.integers(-899, 899), factor=st.floats(1.0, 2.0))
def test_masses_of_any_size_are_cut_into_as_many_units(seed: int, exponent: int, factor: float) -> None:
    a, b = (np.ldexp(mass * factor, exponent) / 2 for mass in shares(seed, (5, 7)))
    masses = WholeMasses.of(a, b)
    for units, mass in ((masses.units_a, masses.mass_a), (masses.units_b, masses.mass_b)):
        assert 2**61 <= units.sum() < 2**62 + 1
        assert not units[mass == 0].any()
        # A unit by itself, and a few more that totals differ by.
        assert (np.abs(np.ldexp(mass, -math.frexp(masses.unit)[1] + 1) - units) <= 2.0**12).all()
    assert masses.units_a.sum() == masses.units_b.sum()
    assert masses.missing < 2.0**-48 * a.sum()


@pytest.mark.parametrize("exponent", [-890, -60, 70, 890])
def test_a_power_of_two_times_both_masses_multiplies_the_bounds_by_it(exponent: int) -> None:
    a, b = shares(1, (8, 9))
    found, scaled = pf.w2(a, b), pf.w2(np.ldexp(a, exponent), np.ldexp(b, exponent))
    assert scaled.lower == math.ldexp(found.lower, exponent)
    assert scaled.upper == math.ldexp(found.upper, exponent)


@pytest.mark.parametrize("size", [5e-324, 1e-300, 1e300])
def test_totals_that_float64_has_no_room_around_are_refused(size: float) -> None:
    with pytest.raises(UnsupportedProblemError, match=r"total masses between 2\^-900 and 2\^900"):
        pf.w2(np.full((2, 2), size), np.full((2, 2), size))


def test_totals_beyond_float64_are_refused() -> None:
    with pytest.raises(MaskError, match="a finite total mass in mass_a"):
        pf.w2(np.full((2, 2), 1e308), np.full((2, 2), 1e308))


def test_images_too_long_for_the_arithmetic_are_refused_before_any_work() -> None:
    with pytest.raises(
        UnsupportedProblemError, match=r"corners are less than 2\^20 px apart, got shape \(1, 1048577\)"
    ):
        pf.w2(*np.ones((2, 1, 2**20 + 1), dtype=bool))


def test_masses_at_the_far_ends_of_the_longest_image_allowed() -> None:
    a, b = np.zeros((2, 1, 2**20), dtype=np.int64)
    a[0, 0], b[0, -1] = 3, 3
    found = pf.w2(a, b)
    assert found.is_exact
    assert found.lower == 3 * (2**20 - 1) ** 2


def test_pixels_too_light_for_a_unit_keep_the_bounds_apart_but_true() -> None:
    a, b = np.zeros((6, 6)), np.zeros((6, 6))
    a[0, 0], a[5, 5], b[0, 1] = 1.0, 1e-17, 1.0 + 1e-17
    found = pf.w2(a, b)
    assert found.lower <= 1.0 <= found.upper
    assert found.relative_gap < 1e-9
    assert np.isfinite(found.potential_a[5, 5])


@pytest.mark.parametrize("shift", [(0, 0), (3, 1), (-2, 5)])
def test_a_shifted_image_costs_its_mass_times_the_way_squared(shift: tuple[int, int]) -> None:
    a = np.zeros((24, 20), dtype=np.int64)
    a[8:14, 7:12] = np.random.default_rng(0).integers(1, 9, (6, 5))
    found = pf.w2(a, np.roll(a, shift, axis=(0, 1)))
    way = shift[0] ** 2 + shift[1] ** 2
    assert found.is_exact
    assert (found.lower, found.upper) == (a.sum() * way, a.sum() * way)
    assert found.distance_px == (math.sqrt(way), math.sqrt(way))
    assert found.relative_gap == 0.0


def test_swapping_the_images_swaps_nothing_but_the_potentials() -> None:
    a, b = images(5, (12, 12))
    assert pf.w2(a, b).lower == pf.w2(b, a).lower


def test_pixels_far_apart_and_masses_of_one_pixel() -> None:
    a, b = np.zeros((200, 3), dtype=bool), np.zeros((200, 3), dtype=bool)
    a[0, 0] = a[1, 0] = b[199, 2] = b[198, 0] = True
    found = pf.w2(a, b)
    assert found.is_exact
    assert found.lower == min(199**2 + 4 + 197**2, 198**2 + 198**2 + 4)


def test_a_bad_start_costs_raises_and_not_the_answer() -> None:
    """At this epsilon the entropic potentials say next to nothing, and lists of pairs are widened several times."""
    a, b = images(9, (20, 20), 0.2)
    good = pf.w2(a, b)
    for epsilon in (1e5, 1e30):
        poor = pf.w2(a, b, epsilon=epsilon)
        assert poor.is_exact
        assert poor.lower == good.lower
        assert poor.raises > good.raises


def test_small_whole_numbers_of_any_type_are_taken_as_they_are() -> None:
    a, b = images(3, (9, 9), top=9)
    value = pf.w2(a, b)
    for dtype in (np.uint16, np.int32, np.float32, np.float64):
        same = pf.w2(a.astype(dtype), b.astype(dtype))
        assert same.is_exact
        assert same.lower == value.lower


def test_a_smaller_epsilon_gives_better_bounds_before_any_raise() -> None:
    a, b = images(2, (20, 20), 1.0)
    found = [pf.w2(a, b, epsilon=eps, max_raises=0) for eps in (4.0, 1.0, 0.25)]
    lower, upper = [one.entropic_lower for one in found], [one.upper for one in found]
    assert lower == sorted(lower)
    assert upper == sorted(upper, reverse=True)


def test_the_value_is_rounded_outwards_where_float64_cannot_hold_it() -> None:
    odd = 2**53 + 1
    assert below(odd) == 2**53
    assert above(odd) == 2**53 + 2
    assert below(-odd) == -above(odd)
    assert math.copysign(1.0, above(0)) == 1.0


def test_masses_that_would_leave_int64_are_cut_into_units() -> None:
    assert WholeMasses.of(*np.full((2, 3, 3), 2**62 // 9)).is_lossless
    a = np.full((3, 3), 2**60, dtype=np.int64)
    masses = WholeMasses.of(a, a)
    assert not masses.is_lossless
    assert masses.units_a.sum() == masses.units_b.sum() < 2**62
    found = pf.w2(a, a)
    assert found.lower == 0.0
    assert found.upper <= 1e-12 * found.total


def test_bad_input_says_what_is_wrong() -> None:
    a = np.ones((4, 4))
    with pytest.raises(ProblemError, match="two images of equal total mass, got 16 against 32"):
        pf.w2(a, 2 * a)
    with pytest.raises(FrameError, match="both images on one canvas"):
        pf.w2(a, np.ones((2, 8)))
    with pytest.raises(ProblemError, match="some mass in mass_b, got none"):
        pf.w2(a, 0 * a)
    with pytest.raises(MaskError, match="mass_a"):
        pf.w2(-a, a)
    with pytest.raises(ProblemError, match="positive, finite epsilon"):
        pf.w2(a, a, epsilon=0.0)
    with pytest.raises(ProblemError, match=r"epsilon to be at least 2\^-20"):
        pf.w2(a, a, epsilon=1e-7)
    for wrong in (-1, 1.5, True):
        with pytest.raises(ArgumentError, match="max_raises to be an integer >= 0"):
            pf.w2(a, a, max_raises=wrong)  # type: ignore[arg-type]


def test_volumes_are_refused() -> None:
    with pytest.raises(UnsupportedProblemError, match="exact distances are for images so far"):
        pf.w2(np.ones((3, 4, 5)), np.ones((3, 4, 5)))

"""Laws of the mass modes."""

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pairframe import errors
from pairframe.masks import Mask, MassMode, clean_mask, mass_density
from pairframe.masks.mass import MASS_MODES

BINARY = hnp.arrays(bool, hnp.array_shapes(min_dims=2, max_dims=2, max_side=10))
WIDTH = st.floats(min_value=0, exclude_min=True, allow_infinity=False)
MODES = st.sampled_from(["uniform", "intensity", "distance_transform"]).map(MassMode) | WIDTH.map(
    lambda width: MassMode("boundary_band", width)
)


def brute_distance(inside):
    """Distance of every pixel to the nearest pixel outside, by trying all of them."""
    padded = np.pad(inside, 1)
    outside = np.argwhere(~padded)
    distance = np.zeros(inside.shape)
    for y, x in itertools.product(*map(range, inside.shape)):
        if inside[y, x]:
            distance[y, x] = np.sqrt(((outside - (y + 1, x + 1)) ** 2).sum(axis=1).min())
    return distance


@given(MODES)
def test_a_mode_and_its_text_are_the_same(mode):
    assert MassMode.parse(str(mode)) == mode
    assert MassMode.parse(mode) is mode


def test_whole_widths_print_without_a_point():
    assert str(MassMode.parse(" boundary_band( 16.0 ) ")) == "boundary_band(16)"
    assert str(MassMode.parse("boundary_band(0.05)")) == "boundary_band(0.05)"


@given(BINARY)
def test_uniform_mass_is_the_area(inside):
    mask = Mask(inside, px_size_um=0.5)
    mass = mass_density(mask, "uniform")
    assert mass.dtype == np.float64
    assert mass.sum() == mask.area_px
    np.testing.assert_array_equal(mass_density(mask, "intensity"), mass)


@given(BINARY)
def test_the_distance_is_what_brute_force_says(inside):
    distance = mass_density(Mask(inside), "distance_transform")
    np.testing.assert_allclose(distance, brute_distance(inside), rtol=1e-12)
    np.testing.assert_array_equal(distance > 0, inside)


@given(BINARY, st.floats(1e-3, 20), st.floats(1e-2, 100) | st.none())
def test_a_band_is_a_part_of_the_mask_and_never_lost(inside, width_um, px_size_um):
    mask = Mask(inside, px_size_um=px_size_um)
    band = mass_density(mask, MassMode("boundary_band", width_um)) > 0
    assert not (band & ~inside).any()
    assert band.any() == inside.any()
    wider = mass_density(mask, MassMode("boundary_band", 2 * width_um)) > 0
    assert not (band & ~wider).any()


@given(BINARY)
def test_a_huge_band_is_the_uniform_mass(inside):
    mask = Mask(inside, px_size_um=0.1)
    np.testing.assert_array_equal(mass_density(mask, "boundary_band(1e9)"), mass_density(mask, "uniform"))


@pytest.mark.parametrize(("width", "px", "layers"), [(16, 8.0, 2), (0.3, 0.1, 3), (3, None, 3), (1, 100.0, 1)])
def test_the_width_of_a_band_is_in_micrometres(width, px, layers):
    mask = Mask(np.ones((9, 9), bool), px_size_um=px)
    expected = np.ones((9, 9))
    expected[layers:-layers, layers:-layers] = 0
    np.testing.assert_array_equal(mass_density(mask, f"boundary_band({width})"), expected)


def test_intensity_returns_the_values_in_a_new_array():
    mask = Mask(np.array([[0, 7], [300, 1]], np.uint16), density=True)
    mass = mass_density(mask, "intensity")
    np.testing.assert_array_equal(mass, [[0, 7], [300, 1]])
    assert mass.dtype == np.float64
    assert mass.flags.writeable


@pytest.mark.parametrize("mode", ["uniform", "distance_transform", "boundary_band(2)"])
def test_shapes_of_mass_need_a_binary_mask(mode):
    with pytest.raises(errors.GreyImageError, match=r'expected a binary mask for mass_mode.*use mass_mode="intensity"'):
        mass_density(Mask(np.array([[0.5]]), density=True), mode)


@pytest.mark.parametrize("text", ["volume", "", "uniform()", "uniform(3", None, 3, "boundary band(3)"])
def test_an_unknown_mode_gets_the_list_of_modes(text):
    with pytest.raises(errors.MaskError, match=r'"uniform", "intensity", "distance_transform" or "boundary_band'):
        MassMode.parse(text)


@pytest.mark.parametrize("text", ["boundary_band(0)", "boundary_band(-1)", "boundary_band(inf)", "boundary_band(nan)"])
def test_a_width_must_be_positive_and_finite(text):
    with pytest.raises(errors.MaskError, match="positive, finite band width"):
        MassMode.parse(text)


def test_a_width_belongs_to_the_band_alone():
    with pytest.raises(errors.MaskError, match="uniform without a parameter"):
        MassMode.parse("uniform(3)")
    with pytest.raises(errors.MaskError, match="boundary_band with a width, got None"):
        MassMode.parse("boundary_band")


@pytest.mark.parametrize("high", [1, 255])
def test_intensity_of_a_binary_image_is_what_it_came_with(high):
    values = np.array([[0, high], [high, 0]], np.uint8)
    mask = Mask(values, px_size_um=0.5)
    assert mask.is_binary
    for same in (mask, clean_mask(mask, fill_holes=True), pickle.loads(pickle.dumps(mask))):
        np.testing.assert_array_equal(mass_density(same, "intensity"), values)
        np.testing.assert_array_equal(mass_density(same, "uniform"), values > 0)
    np.testing.assert_array_equal(mass_density(Mask(values, density=True), "intensity"), values)
    with pytest.raises(errors.GreyImageError, match="inside_value of the mask to be 1 or 255, got 3"):
        Mask(values, inside_value=3)


def test_only_uniform_mass_is_the_area_and_only_intensity_takes_a_density() -> None:
    modes = [MassMode.parse(text) for text in ("uniform", "intensity", "distance_transform", "boundary_band(3)")]
    assert [mode.is_area for mode in modes] == [True, False, False, False]
    assert [mode.takes_density for mode in modes] == [False, True, False, False]
    assert MASS_MODES == ("uniform", "intensity", "distance_transform", "boundary_band(WIDTH_UM)")


def test_a_given_pixel_size_wins_over_that_of_the_mask():
    mask = Mask(np.ones((20, 20)), px_size_um=1.0)
    thin, thick = (mass_density(mask, "boundary_band(2)", size) for size in (2.0, 0.5))
    np.testing.assert_array_equal(thin, mass_density(mask, "boundary_band(1)"))
    np.testing.assert_array_equal(thick, mass_density(mask, "boundary_band(4)"))

"""Cleaning: what goes, what stays, and what is written down."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pairframe import errors
from pairframe.masks import Mask, clean_mask

BINARY = hnp.arrays(bool, hnp.array_shapes(min_dims=2, max_dims=2, max_side=12))


def drawn(*rows):
    return np.array([[char == "#" for char in row] for row in rows])


def test_corners_connect_objects_and_do_not_connect_background():
    ring = drawn(".#.", "#.#", ".#.")
    assert clean_mask(Mask(ring), keep_largest=True).area_px == 4
    np.testing.assert_array_equal(clean_mask(Mask(ring), fill_holes=True).values, drawn(".#.", "###", ".#."))


def test_a_bay_at_the_border_is_no_hole():
    bay = drawn("#.#", "#.#", "###")
    np.testing.assert_array_equal(clean_mask(Mask(bay), fill_holes=True).values, bay)


def test_among_equal_objects_the_first_in_scan_order_stays():
    # The right one starts in an earlier row.
    mask = Mask(drawn("....#", "##..#", "....."))
    np.testing.assert_array_equal(clean_mask(mask, keep_largest=True).values, drawn("....#", "....#", "....."))


def test_an_island_of_exactly_the_least_area_stays():
    mask = Mask(drawn("###..#", "......", "##...."), px_size_um=0.1)
    cleaned = clean_mask(mask, min_island_area_um2=0.02)
    np.testing.assert_array_equal(cleaned.values, drawn("###...", "......", "##...."))
    assert cleaned.history == ("dropped 1 of 3 objects smaller than 0.02 um2",)
    assert cleaned.px_size_um == 0.1


def test_without_a_pixel_size_the_area_is_in_pixels():
    cleaned = clean_mask(Mask(drawn("###..#")), min_island_area_um2=2)
    assert cleaned.area_px == 3
    assert cleaned.history == ("dropped 1 of 2 objects smaller than 2 px",)


def test_islands_go_before_holes_are_filled():
    # Filled first, the ring would have 9 px and stay.
    ring = Mask(drawn("###", "#.#", "###"), source="ring.png", history=("drawn",))
    cleaned = clean_mask(ring, keep_largest=True, fill_holes=True, min_island_area_um2=9)
    assert cleaned.is_empty
    assert cleaned.source == "ring.png"
    assert cleaned.history == (
        "drawn",
        "dropped 1 of 1 objects smaller than 9 px",
        "kept the largest of 0 objects",
        "filled holes of 0 px in total",
    )


@given(BINARY, st.booleans(), st.booleans(), st.none() | st.integers(1, 9))
def test_cleaning_twice_is_cleaning_once(inside, keep_largest, fill_holes, least):
    steps = {"keep_largest": keep_largest, "fill_holes": fill_holes, "min_island_area_um2": least}
    once = clean_mask(Mask(inside), **steps)
    np.testing.assert_array_equal(clean_mask(once, **steps).values, once.values)
    assert len(once.history) == keep_largest + fill_holes + (least is not None)


def test_no_step_returns_the_mask_itself():
    mask = Mask(np.eye(3))
    assert clean_mask(mask) is mask


@pytest.mark.parametrize("area", [0, -1, np.nan, np.inf, "3", True, 10**400])
def test_a_bad_area_is_refused(area):
    with pytest.raises(errors.MaskError, match="positive and finite"):
        clean_mask(Mask(np.eye(3)), min_island_area_um2=area)


def test_a_density_cannot_be_cleaned():
    with pytest.raises(errors.GreyImageError, match="a binary mask to clean"):
        clean_mask(Mask(np.eye(3) / 2, density=True), fill_holes=True)

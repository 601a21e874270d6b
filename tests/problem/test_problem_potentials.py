"""Potentials keep their shift apart, and values on a support find their pixels."""

from __future__ import annotations

import math

import numpy as np

from pairframe.problem import Potentials, on_grid


def test_the_shift_goes_up_on_one_side_and_down_on_the_other() -> None:
    potentials = Potentials(np.array([1.0, 2.0]), np.array([3.0]), 0.5)
    np.testing.assert_array_equal(potentials.a, [1.5, 2.5])
    np.testing.assert_array_equal(potentials.b, [2.5])


def test_swapping_exchanges_the_sides_and_twice_changes_nothing() -> None:
    potentials = Potentials(np.array([1.0, 2.0]), np.array([3.0]), 0.5)
    swapped = potentials.swapped()
    np.testing.assert_array_equal(swapped.a, potentials.b)
    np.testing.assert_array_equal(swapped.b, potentials.a)
    assert swapped.swapped().shift == potentials.shift


def test_one_bad_number_anywhere_is_noticed() -> None:
    good = np.zeros(2)
    assert Potentials(good, good).is_finite
    for bad in (Potentials(good + math.nan, good), Potentials(good, good + math.inf), Potentials(good, good, math.nan)):
        assert not bad.is_finite


def test_values_of_any_shape_go_back_to_their_pixels() -> None:
    support = np.array([[True, False], [False, True]])
    np.testing.assert_array_equal(on_grid(np.array([1.0, 2.0]), support), [[1.0, 0.0], [0.0, 2.0]])
    vectors = on_grid(np.array([[1.0, 2.0], [3.0, 4.0]]), support, np.nan)
    np.testing.assert_array_equal(vectors[1, 1], [3.0, 4.0])
    assert np.isnan(vectors[0, 1]).all()

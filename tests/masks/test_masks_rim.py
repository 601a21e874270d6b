"""Uncertain rims move by as much as they should, and nothing else changes."""

from __future__ import annotations

import numpy as np
import pytest

from pairframe.masks.rim import UncertainRim
from pairframe.testing import disc

SHAPE = (120, 120)
MASK = disc(SHAPE, (60, 60), 30).astype(np.float64)


def test_a_rim_that_does_not_move_leaves_the_mask_as_it_is() -> None:
    rim = UncertainRim.of(MASK, 1.0, 10.0)
    np.testing.assert_array_equal(rim.moved(np.zeros(SHAPE)), MASK)


@pytest.mark.parametrize("outward_px", [-4.0, -0.3, 0.5, 5.25])
def test_a_disc_whose_rim_moves_evenly_has_another_radius(outward_px: float) -> None:
    moved = UncertainRim.of(MASK, 1.0, 10.0).moved(np.full(SHAPE, outward_px))
    assert np.sqrt(moved.sum() / np.pi) == pytest.approx(30 + outward_px, abs=0.25)
    assert 0 <= moved.min() <= moved.max() == 1


def test_shifts_have_the_asked_deviation_and_correlation() -> None:
    rim = UncertainRim.of(MASK, 2.0, 12.0)
    rng = np.random.default_rng(0)
    shifts = np.stack([rim.shift_px(rng) for _ in range(400)])
    assert shifts.std() == pytest.approx(2.0, rel=0.05)
    even = shifts.mean(axis=(1, 2))
    assert even.std() == pytest.approx(1.0, rel=0.1)  # a quarter of the variance, and little of the smooth part
    rest = shifts - even[:, None, None]
    assert np.mean(rest[:, :, 12:] * rest[:, :, :-12]) / rest.var() == pytest.approx(np.exp(-1), abs=0.05)


def test_the_border_of_the_canvas_is_no_rim() -> None:
    half = np.zeros(SHAPE)
    half[:, :60] = 1
    moved = UncertainRim.of(half, 1.0, 10.0).moved(np.full(SHAPE, -5.0))
    np.testing.assert_array_equal(moved[:, :55], 1.0)
    np.testing.assert_array_equal(moved[:, 55:], 0.0)


def test_new_pixels_have_the_density_of_the_rim() -> None:
    grey = MASK * np.linspace(1, 2, 120)
    moved = UncertainRim.of(grey, 1.0, 10.0).moved(np.full(SHAPE, 3.0))
    inside = grey[60][grey[60] > 0]
    assert moved[60, 92] == inside[-1]
    assert moved[60, 28] == inside[0]

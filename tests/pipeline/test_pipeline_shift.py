"""A mask that was only shifted shows only the shift, at the defaults; and what the other penalties make of it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage

import pairframe as pf
from pairframe.results.features import features_of, shift_response
from pairframe.testing import disc, growing_embryo

EMBRYO = np.pad(growing_embryo(6)[3], ((0, 104), (0, 104)))


def lengths_of(result: pf.TransportResult) -> np.ndarray:
    return np.hypot(*result.velocity_field[result.velocity_valid].T)


@pytest.mark.parametrize("shift_yx", [(0, 3), (10, 0), (-18, 24), (0, 60), (100, 0)])
def test_a_mask_that_was_only_shifted_shows_only_the_shift(shift_yx: tuple[int, int]) -> None:
    config = pf.TransportConfig(px_size_um=10.0)
    result = pf.compare(EMBRYO, np.roll(EMBRYO, shift_yx, (0, 1)), config)
    assert result.status == "converged"
    length_um = 10.0 * np.hypot(*shift_yx)
    assert np.median(lengths_of(result)) == pytest.approx(length_um, rel=1e-3)
    np.testing.assert_allclose(np.quantile(lengths_of(result), (0.05, 0.95)), length_um, rtol=1e-3)
    np.testing.assert_allclose(np.nanmean(result.velocity_field, axis=(0, 1)), 10.0 * np.array(shift_yx), atol=0.01)
    assert result.total_mass_created <= 1e-6 * result.M_target
    assert result.total_mass_destroyed <= 1e-6 * result.M_source


@pytest.mark.parametrize("angle_deg", [5, 20, 45])
def test_a_mask_that_was_only_turned_is_neither_born_nor_dead(angle_deg: float) -> None:
    whole = np.pad(growing_embryo(6, shape_hw=(128, 288))[3], 90)
    turned = ndimage.rotate(whole.astype(float), angle_deg, reshape=False, order=1) > 0.5
    result = pf.compare(whole, turned)
    assert result.status == "converged"
    net = result.M_target - result.M_source  # by the pixels of the rim
    assert result.total_mass_created - max(net, 0.0) <= 1e-3 * result.M_target
    assert result.total_mass_destroyed - max(-net, 0.0) <= 1e-3 * result.M_source


def test_growth_at_one_end_is_new_mass_there_and_no_more_than_the_net() -> None:
    rod = np.zeros((40, 120), bool)
    longer = rod.copy()
    rod[15:25, 10:90] = longer[15:25, 10:100] = True
    result = pf.compare(rod, longer)
    assert result.total_mass_created == pytest.approx(100.0, rel=1e-6)
    assert result.total_mass_destroyed <= 1e-6 * result.M_source
    assert result.mass_created[:, 88:].sum() >= 0.98 * result.total_mass_created


def test_no_mass_travels_farther_than_the_reach() -> None:
    source, target = disc((60, 160), (30, 20), 8), disc((60, 160), (30, 20), 8) | disc((60, 160), (30, 120), 12)
    near = pf.compare(source | disc((60, 160), (30, 120), 4), target, pf.TransportConfig(reach_um=30.0))
    assert lengths_of(near).max() < 30.0
    far = pf.compare(disc((60, 160), (30, 20), 8), disc((60, 160), (30, 120), 8), pf.TransportConfig(reach_um=80.0))
    assert far.total_mass_moved <= 1e-6 * far.M_source
    within = pf.compare(disc((60, 160), (30, 20), 8), disc((60, 160), (30, 120), 8), pf.TransportConfig(reach_um=130.0))
    assert within.total_mass_moved >= (1 - 1e-6) * within.M_source


@pytest.mark.parametrize("semi_axis", [12, 30, 60])
def test_kl_sees_the_share_of_a_shift_that_its_response_says(semi_axis: int) -> None:
    ys, xs = np.ogrid[:80, :220]
    ellipse = ((ys - 40) / 12.0) ** 2 + ((xs - 100) / semi_axis) ** 2 <= 1
    shifted = np.roll(ellipse, 10, axis=1)
    soft = pf.compare(ellipse, shifted, pf.TransportConfig(penalty="kl", reach_um=50.0))
    response = shift_response(soft)
    assert response == (features_of(soft)["shift_response_long"], features_of(soft)["shift_response_short"])
    assert np.median(lengths_of(soft)) == pytest.approx(10.0 * response[0], abs=0.25)
    assert response[1] >= response[0]
    sharp = pf.compare(ellipse, shifted)
    assert shift_response(sharp) == (1.0, 1.0)
    assert np.median(lengths_of(sharp)) == pytest.approx(10.0, rel=1e-3)
    empty = pf.compare(ellipse, np.zeros_like(ellipse))
    assert np.isnan(shift_response(empty)).all()


def test_the_default_reach_is_recorded_and_depends_on_the_objects_alone() -> None:
    result = pf.compare(EMBRYO, np.roll(EMBRYO, 5, axis=1), pf.TransportConfig(px_size_um=10.0))
    height, width = (np.ptp(np.flatnonzero(EMBRYO.any(axis=axis))) + 1 for axis in (1, 0))
    assert result.reach_um == result.config.reach_um == pytest.approx(10.0 * np.hypot(height, width))
    dusty = EMBRYO.copy()
    dusty[::40, ::40] = True  # specks weigh little
    again = pf.compare(dusty, np.roll(dusty, 5, axis=1), pf.TransportConfig(px_size_um=10.0, downsample_factor=4))
    assert again.reach_um == pytest.approx(result.reach_um)
    assert np.isinf(pf.compare(EMBRYO, EMBRYO, pf.TransportConfig(penalty="balanced")).reach_um)
    many = disc((100, 100), (20, 20), 8) | disc((100, 100), (70, 20), 8) | disc((100, 100), (40, 80), 8)
    assert pf.compare(many, many).reach_um == pytest.approx(17 * np.sqrt(2))

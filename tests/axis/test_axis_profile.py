"""Profiles along the axis and around a centre sum to the result, and show planted changes in the right bin."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import pairframe as pf
from pairframe.axis import axis_table
from pairframe.errors import AxisError
from pairframe.results import ResultStore
from pairframe.results.features import features_of
from pairframe.testing import disc, embryo
from pairframe.types import Bool

EMBRYO = embryo((150, 400), centre_yx=(60, 190))
ROD = np.pad(np.ones((20, 150), bool), 30)
MASSES = {
    "mass_source": "M_source",
    "mass_target": "M_target",
    "mass_created": "total_mass_created",
    "mass_destroyed": "total_mass_destroyed",
    "mass_moved": "total_mass_moved",
}


def swollen(at_s: float) -> Bool:
    """The embryo with new tissue around one place of its axis."""
    axis = pf.body_axis(EMBRYO)
    y, x = axis.centreline_yx_um[round(at_s * 400)]
    ys, xs = np.indices(EMBRYO.shape) + 0.5
    return EMBRYO | (np.hypot(ys - y, xs - x) <= axis.thickness_um[round(at_s * 100)] / 2 + 6)


@pytest.mark.parametrize("at_s", [0.125, 0.825])
def test_planted_growth_is_found_in_its_bin(at_s: float) -> None:
    profile = pf.axis_profile(pf.compare(EMBRYO, swollen(at_s)), n_bins=10)
    most = profile.loc[profile["mass_created"].idxmax()]
    assert most["s_low"] <= at_s < most["s_high"]
    middle = (profile["s_low"] + profile["s_high"]) / 2
    assert (middle * profile["mass_created"]).sum() / profile["mass_created"].sum() == pytest.approx(at_s, abs=0.03)


@pytest.mark.parametrize("factor", [1, 2])
def test_profiles_sum_to_the_result(factor: int) -> None:
    config = pf.TransportConfig(downsample_factor=factor, px_size_um=2.0, reach_um=30.0)
    result = pf.compare(EMBRYO, np.roll(swollen(0.8), 5, axis=0) & (np.arange(400) > 40), config)
    profiles = [pf.axis_profile(result), *(pf.radial_profile(result, by=by) for by in ("centre", "outline", "angle"))]
    for profile in profiles:
        for column, name in MASSES.items():
            assert profile[column].sum() == pytest.approx(getattr(result, name), rel=1e-9, abs=1e-9)


def test_a_shift_is_along_or_across_the_axis() -> None:
    mask = ROD.copy()
    mask[22:30, 30:60] = True  # a thick end on the left
    tail, down = pf.TransportConfig(reach_um=400.0), pf.TransportConfig(px_size_um=0.5, reach_um=200.0)
    along = pf.axis_profile(pf.compare(mask, np.roll(mask, 4, axis=1), tail))
    np.testing.assert_allclose(along["displacement_along_um"], 4.0, rtol=0.01)
    assert along["displacement_across_um"].abs().max() < 0.5  # the axis leans where the thick end begins
    across = pf.axis_profile(pf.compare(mask, np.roll(mask, 4, axis=0), down))
    # From head (left) to tail (right), down is to the right.
    np.testing.assert_allclose(across["displacement_across_um"], 2.0, rtol=0.01)


def test_a_longer_rod_is_longer_at_its_end() -> None:
    longer = ROD.copy()
    longer[30:50, 180:190] = True
    profile = pf.axis_profile(pf.compare(ROD, longer, pf.TransportConfig(strain=True)), pf.body_axis(ROD), n_bins=10)
    at_end = profile["mass_created"].argmax()
    assert at_end in (0, 9)  # a rod has no head
    assert profile["mass_created"].iloc[at_end] > 0.95 * 200
    assert profile["local_growth_rate"].iloc[at_end] == pytest.approx(np.log(500 / 300), abs=0.03)
    assert profile["local_growth_rate"].drop(index=at_end).abs().max() < 0.02


def test_areal_expansion_leaves_out_the_rim_that_is_drawn_pale() -> None:
    ys, xs = np.indices((130, 200)) - np.array([65, 100])[:, None, None]
    small, large = ((ys / (28 * size)) ** 2 + (xs / (70 * size)) ** 2 <= 1 for size in (1.0, 1.1))
    least = pf.compare(small, large, pf.TransportConfig(strain=True))
    even = pf.compare(small, large, pf.TransportConfig(strain=True, penalty="balanced", normalization="each"))
    # With the rim, the mean under least motion is 0.05.
    for result, planted in ((least, 0.0), (even, large.sum() / small.sum() - 1)):
        features = features_of(result)
        assert features["areal_expansion_mean"] == pytest.approx(planted, abs=0.002)
        assert features["areal_expansion_rms"] == pytest.approx(planted, abs=0.005)
        np.testing.assert_allclose(pf.axis_profile(result)["areal_expansion"], planted, rtol=0, atol=0.01)
    growth = np.expm1(pf.axis_profile(least, n_bins=1)["local_growth_rate"].iloc[0])
    assert growth == pytest.approx(large.sum() / small.sum() - 1, abs=0.01)  # the rim counts


def test_growth_beyond_an_end_is_told_from_growth_beside_it() -> None:
    grown = ROD.copy()
    grown[30:50, 180:190] = True  # beyond one end
    grown[24:30, 30:40] = True  # beside the other
    axis = pf.body_axis(ROD)
    profile = pf.axis_profile(pf.compare(ROD, grown), axis, n_bins=10)
    right, left = (0, 9) if axis.head_yx_um[1] > 100 else (9, 0)
    assert profile["mass_created_beyond"].iloc[right] == pytest.approx(200, rel=0.08)  # less a blur at the old end
    assert profile["mass_created"].iloc[left] == pytest.approx(60, rel=0.1)
    assert profile["mass_created_beyond"].drop(index=right).abs().max() < 1.0
    assert profile["mass_destroyed_beyond"].max() < 0.1
    shorter = pf.axis_profile(pf.compare(grown, ROD), pf.body_axis(ROD), n_bins=10)
    assert shorter["mass_destroyed_beyond"].iloc[right] == pytest.approx(200, rel=0.08)


def test_a_growing_disc_moves_outwards_evenly() -> None:
    small, large = disc((120, 120), (60, 60), 36), disc((120, 120), (60, 60), 40)
    even = pf.compare(small, large, pf.TransportConfig(penalty="balanced", normalization="each"))
    profile = pf.radial_profile(even, n_bins=10)
    middle = (profile["from_centre_low_um"] + profile["from_centre_high_um"]) / 2
    known = profile["mass_moved"] > 200
    np.testing.assert_allclose(profile["displacement_outward_um"][known], middle[known] * (40 / 36 - 1), atol=0.15)
    assert profile["displacement_clockwise_um"].abs().max() < 0.05
    least = pf.radial_profile(pf.compare(small, large), by="outline", n_bins=12)
    outside = least["from_outline_low_um"] > -1e-9
    assert least["mass_source"][outside].sum() == 0
    assert least["mass_created"][outside].sum() > 0.85 * least["mass_created"].sum()


@pytest.mark.parametrize("factor", [1, 4])
def test_the_outline_runs_through_pixels_that_are_half_covered(factor: int) -> None:
    # Of the grey pixels beside the rod, those covered by 0.3 are outside and those covered by 0.7 inside.
    rod = np.zeros((60, 120))
    rod[20:40, 20:100] = 1.0
    rod[16:20, 20:100], rod[40:44, 20:100] = 0.7, 0.3
    result = pf.compare(rod, rod, pf.TransportConfig(mass_mode="intensity", downsample_factor=factor, blur_um=4.0))
    result = replace(result, config=replace(result.config, mass_mode="uniform"))  # the masses are areas
    profile = pf.radial_profile(result, by="outline", n_bins=200)
    outside = profile["from_outline_low_um"] > -1e-9
    assert profile["mass_source"][outside].sum() == pytest.approx(0.3 * 4 * 80)
    assert np.isnan(pf.body_axis(result).s[41, 60])
    assert np.isfinite(pf.body_axis(result).s[18, 60])


def test_a_source_that_covers_no_pixel_by_half_has_no_outline() -> None:
    thin = np.zeros((64, 64), bool)
    thin[30, 8:56] = True
    result = pf.compare(thin, thin, pf.TransportConfig(downsample_factor=4, blur_um=4.0))
    with pytest.raises(AxisError, match="a work pixel that is at least half covered"):
        pf.radial_profile(result, by="outline")


def test_growth_on_one_side_has_the_angle_of_that_side() -> None:
    source = disc((120, 120), (60, 60), 30)
    up = source | disc((120, 120), (32, 60), 12)
    profile = pf.radial_profile(pf.compare(source, up), by="angle", n_bins=12)
    most = profile.loc[profile["mass_created"].idxmax()]
    assert 60 <= most["angle_low_deg"] <= 90  # up is 90 degrees


def test_the_table_of_a_folder_has_all_pairs_and_says_why_one_is_missing(tmp_path: object) -> None:
    store = ResultStore(tmp_path)  # type: ignore[arg-type]
    masks = {"long": ROD, "round": disc(ROD.shape, (40, 100), 20)}
    for name, mask in masks.items():
        pf.compare(mask, mask).save(store.out, pair_id=name)
    table = axis_table(store, n_bins=5)
    assert len(table[table["pair_id"] == "long"]) == 5
    (note,) = table[table["pair_id"] == "round"]["note"]
    assert "elongated" in note
    assert (table[table["pair_id"] == "long"]["note"] == "head and tail cannot be told apart").all()


# --- bad input -------------------------------------------------------------------------------


def test_an_axis_of_another_canvas_is_refused() -> None:
    result = pf.compare(ROD, ROD)
    with pytest.raises(AxisError, match=r"an axis on the canvas of the result.*use body_axis\(result\)"):
        pf.axis_profile(result, pf.body_axis(EMBRYO))
    with pytest.raises(AxisError, match="an axis on the canvas"):
        pf.axis_profile(result, pf.body_axis(pf.Mask.from_array(ROD, px_size_um=2.0)))


@pytest.mark.parametrize("n_bins", [0, -1, 2.5, "many", 100_000])
def test_bins_are_a_count(n_bins: object) -> None:
    result = pf.compare(ROD, ROD)
    with pytest.raises(AxisError, match="n_bins"):
        pf.axis_profile(result, n_bins=n_bins)  # type: ignore[arg-type]
    with pytest.raises(AxisError, match="n_bins"):
        pf.radial_profile(result, n_bins=n_bins)  # type: ignore[arg-type]


def test_radial_profiles_of_wrong_input_are_refused() -> None:
    result, empty = pf.compare(ROD, ROD), np.zeros(ROD.shape, bool)
    with pytest.raises(AxisError, match="by to be one of centre, outline, angle"):
        pf.radial_profile(result, by="radius")  # type: ignore[arg-type]
    with pytest.raises(AxisError, match="centre_yx_um of two finite numbers"):
        pf.radial_profile(result, centre_yx_um=(1.0, np.nan))
    with pytest.raises(AxisError, match=r'a source with an outline.*use by="centre"'):
        pf.radial_profile(pf.compare(empty, ROD), by="outline")
    assert pf.radial_profile(pf.compare(empty, ROD))["mass_created"].sum() == ROD.sum()


@pytest.mark.parametrize("by", ["centre", "outline", "angle"])
def test_radial_profiles_of_volumes_are_refused(by: str) -> None:
    ball = np.zeros((6, 8, 9))
    ball[2:4, 3:6, 3:6] = 1
    result = pf.compare(ball, ball, pf.TransportConfig(volume=True))
    with pytest.raises(AxisError, match="radial profiles are for images"):
        pf.radial_profile(result, by=by)  # type: ignore[arg-type]

"""Features: closed forms on fields that are given, laws on pairs that are solved."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import pairframe as pf
from pairframe.results.features import band_energies, features_of, known_difference, weighted_quantiles
from pairframe.results.rows import result_row
from pairframe.results.schema import BAND_NAMES, FEATURES
from pairframe.testing import disc
from pairframe.types import Bool, Float

SHAPE = (40, 56)
# Hard marginals: a shifted mask moves as a whole, and nothing is created.
SHIFT = pf.TransportConfig(penalty="balanced", px_size_um=2.0, tol=1e-10)


def result_with(velocity_px: Float, mass: Float | None = None, **config: object) -> pf.TransportResult:
    """A result whose displacement field (H, W, 2), work px/frame, is given; where it is NaN nothing is known."""
    h, w = velocity_px.shape[:2]
    base = pf.compare(np.zeros((h, w), bool), np.ones((h, w), bool), pf.TransportConfig(pad=0, **config))  # type: ignore[arg-type]
    work = replace(
        base.work,
        mass_source=np.ones((h, w)) if mass is None else mass,
        mass_destroyed=np.zeros((h, w)),
        velocity_px=velocity_px,
        velocity_valid=np.isfinite(velocity_px).all(axis=-1),
    )
    return replace(base, work=work)


def test_a_row_has_every_feature_and_each_is_one_of_the_schema() -> None:
    features = features_of(
        pf.compare(disc(SHAPE, (20, 20), 7), disc(SHAPE, (20, 23), 8), pf.TransportConfig(strain=True))
    )
    assert set(features) == {column.name for column in FEATURES}
    assert all(type(value) is float and math.isfinite(value) for value in features.values())


def test_a_shift_is_a_mean_displacement_and_nothing_else() -> None:
    features = features_of(pf.compare(disc(SHAPE, (18, 20), 7), disc(SHAPE, (21, 16), 7), SHIFT))
    assert (features["mean_displacement_dy_um"], features["mean_displacement_dx_um"]) == pytest.approx(
        (6.0, -8.0), abs=1e-5
    )
    for name in ("p50", "p90", "max", "rms"):
        assert features[f"{name}_displacement_um"] == pytest.approx(10.0, abs=1e-5)
    for name in ("expansion_mean", "expansion_rms", "rotation_mean", "rotation_rms"):
        assert features[name] == pytest.approx(0.0, abs=1e-5)
    assert features["percent_moved"] == pytest.approx(100.0)
    assert features["growth_rate"] == 0.0


def test_a_mask_against_itself_has_no_motion() -> None:
    mask = disc(SHAPE, (18, 20), 9)
    features = features_of(pf.compare(mask, mask))
    assert features["max_displacement_um"] == 0.0
    assert features["expansion_rms"] == features["rotation_rms"] == 0.0
    assert all(math.isnan(features[name]) for name in BAND_NAMES)  # no energy has no shares


@pytest.mark.parametrize("penalty", ["kl", "tv"])
def test_the_books_of_the_features_balance(penalty: str) -> None:
    result = pf.compare(
        disc(SHAPE, (20, 18), 6),
        disc(SHAPE, (20, 30), 9),
        pf.TransportConfig(penalty=penalty, px_size_um=0.5, reach_um=4.0),
    )
    found = features_of(result)
    assert found["area_moved_um2"] + found["area_destroyed_um2"] == pytest.approx(result.area_source_um2)
    assert found["area_moved_um2"] + found["area_created_um2"] == pytest.approx(result.area_target_um2)
    assert found["fraction_moved"] + found["fraction_created"] + found["fraction_destroyed"] == pytest.approx(1.0)
    row = result_row(result, "x")
    assert row["percent_moved"] + row["percent_destroyed"] == pytest.approx(100.0)
    assert found["growth_rate"] == pytest.approx(math.log(result.area_target_um2 / result.area_source_um2))


def test_intensities_have_no_area_and_an_empty_mask_no_motion() -> None:
    grey = disc(SHAPE, (20, 20), 6) * 0.5
    assert math.isnan(features_of(pf.compare(grey, grey, pf.TransportConfig(mass_mode="intensity")))["area_moved_um2"])
    empty = features_of(pf.compare(np.zeros(SHAPE, bool), disc(SHAPE, (20, 20), 6)))
    assert empty["fraction_created"] == 1.0
    nothing = ("p50_displacement_um", "max_displacement_um", "mean_displacement_dy_um", "rotation_rms", "growth_rate")
    assert all(math.isnan(empty[name]) for name in (*nothing, *BAND_NAMES))


def test_neither_padding_nor_buckets_nor_the_place_on_the_canvas_change_a_feature() -> None:
    def found(corner: int, **config: object) -> dict[str, float]:
        a, b = disc((90, 110), (20 + corner, 22 + corner), 9), disc((90, 110), (22 + corner, 26 + corner), 10)
        return features_of(pf.compare(a, b, pf.TransportConfig(tol=1e-11, strain=True, **config)))  # type: ignore[arg-type]

    expected = found(0)
    for other in (found(0, pad=3), found(30), found(0, crop_policy="bucketed", bucket_shapes=((80, 96),))):
        assert other == pytest.approx(expected, rel=1e-5, abs=1e-7)


# --- derivatives -----------------------------------------------------------------------------


def linear_field(matrix: list[list[float]], valid: Bool) -> Float:
    y, x = np.indices(valid.shape)
    field = np.stack([y, x], axis=-1) @ np.array(matrix).T
    return np.where(valid[..., None], field, np.nan)


@pytest.mark.parametrize(
    ("matrix", "expansion", "rotation"),
    [
        ([[0.1, 0.0], [0.0, 0.2]], 0.3, 0.0),
        ([[0.0, 0.3], [-0.3, 0.0]], 0.0, 0.6),
        ([[0.1, 0.5], [0.5, -0.1]], 0.0, 0.0),
    ],
    ids=["expansion", "clockwise turn", "shear"],
)
def test_linear_fields_have_their_expansion_and_rotation_on_any_shape(
    matrix: list[list[float]], expansion: float, rotation: float
) -> None:
    ring = disc(SHAPE, (20, 25), 15) & ~disc(SHAPE, (20, 25), 6)
    features = features_of(result_with(linear_field(matrix, ring), px_size_um=7.0))
    for name, value in (("expansion", expansion), ("rotation", rotation)):
        assert features[f"{name}_mean"] == pytest.approx(value, abs=1e-12)
        assert features[f"{name}_rms"] == pytest.approx(value, abs=1e-7)


def test_a_pixel_without_known_neighbours_has_no_derivative() -> None:
    valid = np.zeros((3, 5), bool)
    valid[1, [0, 1, 2, 4]] = True
    field = np.where(valid, np.array([0.0, 1.0, 5.0, 0.0, 9.0]), np.nan)
    assert known_difference(field, valid, 1)[1].tolist() == pytest.approx([1.0, 2.5, 4.0, np.nan, np.nan], nan_ok=True)
    assert np.isnan(known_difference(field, valid, 0)).all()


# --- quantiles -------------------------------------------------------------------------------


@settings(deadline=None)
@given(
    values=hnp.arrays(float, st.integers(1, 12), elements=st.integers(0, 20).map(float)),
    counts=st.lists(st.integers(1, 5), min_size=12, max_size=12),
    share=st.sampled_from([0.1, 0.5, 0.9, 1.0]),
)
def test_weights_count_like_repetitions(values: Float, counts: list[int], share: float) -> None:
    weights = np.array(counts[: values.size], float)
    repeated = np.repeat(values, counts[: values.size])
    assert weighted_quantiles(values, weights, [share])[0] == np.quantile(repeated, share, method="inverted_cdf")


def test_quantiles_weigh_by_mass_not_by_pixels() -> None:
    velocity = np.zeros((4, 10, 2))
    velocity[0, 0] = (3.0, 4.0)
    mass = np.full((4, 10), 1.0)
    mass[0, 0] = 100.0
    features = features_of(result_with(velocity, mass, px_size_um=2.0))
    assert features["p50_displacement_um"] == features["p90_displacement_um"] == 10.0
    assert features_of(result_with(velocity))["p90_displacement_um"] == 0.0


# --- wavelengths -----------------------------------------------------------------------------


@pytest.mark.parametrize("wavelength_blur", [256, 96, 48, 24, 12, 6], ids=lambda w: f"{w} blur")
def test_a_wave_has_all_its_energy_in_its_band(wavelength_blur: int) -> None:
    # Half a period more or less at the border is what a DCT is made for: k half waves on n pixels.
    n, blur_px = 384, 0.5
    x = np.arange(n) + 0.5
    wave = np.cos(2 * np.pi * x / (wavelength_blur * blur_px))
    field = np.stack([np.tile(wave, (5, 1)), 2 * np.tile(wave, (5, 1))], axis=-1)
    shares = band_energies(field, np.ones((5, n), bool), blur_px)
    band = [256, 96, 48, 24, 12, 6].index(wavelength_blur)
    assert shares[band] == pytest.approx(1.0, abs=1e-12)


@settings(max_examples=30, deadline=None)
@given(
    field=hnp.arrays(float, (7, 9, 2), elements=st.floats(-3, 3)),
    valid=hnp.arrays(bool, (7, 9)),
    blur_px=st.floats(0.05, 5.0),
)
def test_bands_share_the_energy_and_ignore_scale_sign_and_what_is_unknown(
    field: Float, valid: Bool, blur_px: float
) -> None:
    unknown = np.where(valid[..., None], field, np.nan)
    shares = band_energies(unknown, valid, blur_px)
    if not np.square(field[valid]).sum() > 1e-200:
        return
    assert sum(shares) == pytest.approx(1.0)
    assert band_energies(-5 * unknown, valid, blur_px) == pytest.approx(shares)
    around = ((2, 1), (0, 4))
    padded = np.pad(unknown, (*around, (0, 0)), constant_values=np.nan)
    assert band_energies(padded, np.pad(valid, around), blur_px) == pytest.approx(shares)


def test_the_downsample_factor_does_not_move_energy_between_bands() -> None:
    a, b = disc((200, 240), (90, 100), 50), disc((200, 240), (96, 112), 58)
    fine, coarse = (
        features_of(pf.compare(a, b, pf.TransportConfig(blur_um=8.0, reach_um=100.0, downsample_factor=s)))
        for s in (2, 4)
    )
    assert [coarse[name] for name in BAND_NAMES] == pytest.approx([fine[name] for name in BAND_NAMES], abs=0.02)


def test_derivatives_and_bands_do_not_count_axes() -> None:
    rng = np.random.default_rng(8)
    flat, valid = rng.standard_normal((6, 7, 2)), rng.random((6, 7)) < 0.8
    deep = np.concatenate([np.zeros((6, 7, 1)), flat], axis=-1)[None]  # one plane, nothing moves across it
    assert band_energies(deep, valid[None], 1.5) == pytest.approx(band_energies(flat, valid, 1.5), rel=1e-12)
    for axis in (0, 1):
        expected = known_difference(flat[..., 0], valid, axis)
        np.testing.assert_array_equal(known_difference(deep[..., 1], valid[None], axis + 1)[0], expected)
    ramp = np.arange(5.0)[:, None, None] * np.ones((5, 3, 2))
    np.testing.assert_array_equal(known_difference(ramp, np.ones((5, 3, 2), bool), 0), 1.0)

"""`compare`: every field, its unit, and the edge cases."""

from __future__ import annotations

import math
import pickle
from pathlib import Path

import numpy as np
import pytest

from pairframe.engines import Status
from pairframe.errors import GoldenTestError
from pairframe.frame import BoxYX, GridTransform, golden
from pairframe.masks import Mask, write_mask
from pairframe.pipeline import compare, divergence
from pairframe.problem import TransportConfig
from pairframe.results import TransportResult
from pairframe.testing import disc

CANVAS = (40, 50)
SOURCE = disc(CANVAS, (18, 20), 8)
TARGET = disc(CANVAS, (20, 25), 10)


def assert_books(result: TransportResult, rtol: float = 1e-10) -> None:
    moved, created, destroyed = result.total_mass_moved, result.total_mass_created, result.total_mass_destroyed
    assert moved + destroyed == pytest.approx(result.M_source, rel=rtol, abs=1e-300)
    assert moved + created == pytest.approx(result.M_target, rel=rtol, abs=1e-300)
    assert result.mass_created.sum() == pytest.approx(created, rel=rtol, abs=rtol)
    assert result.mass_destroyed.sum() == pytest.approx(destroyed, rel=rtol, abs=rtol)
    assert result.mass_created.min() >= 0
    assert result.mass_destroyed.min() >= 0


@pytest.fixture(scope="module")
def result() -> TransportResult:
    return compare(SOURCE, TARGET, TransportConfig(px_size_um=2.0, downsample_factor=2, blur_um=4.0, reach_um=20.0))


def test_every_field_is_there_with_its_shape(result: TransportResult) -> None:
    for name in ("mass_created", "mass_destroyed", "cost_source", "cost_target", "velocity_valid"):
        assert getattr(result, name).shape == CANVAS, name
    assert result.velocity_field.shape == (*CANVAS, 2)
    assert result.status is Status.converged
    assert result.backend == "grid"
    assert (result.dtype, result.device) == ("float64", "cpu")
    assert result.iterations > 0
    assert {"pairframe", "python", "numpy"} <= set(result.versions)
    assert_books(result)


def test_units(result: TransportResult) -> None:
    assert result.M_source == SOURCE.sum()
    assert result.area_source_um2 == SOURCE.sum() * 4.0
    assert result.area_target_um2 == TARGET.sum() * 4.0
    # blur 4 um and reach 20 um are 1 and 5 work pixels of 4 um
    assert result.epsilon == pytest.approx(1.0)
    assert result.lambda_unbalanced == pytest.approx(25.0 / 2)
    assert result.blur_um == pytest.approx(4.0)
    assert result.reach_um == pytest.approx(20.0)
    assert result.total_transport_cost_um2 == pytest.approx(16.0 * result.total_transport_cost_work_px2)
    for cost_map in (result.cost_source, result.cost_target):
        assert cost_map.sum() == pytest.approx(result.total_transport_cost_um2, rel=1e-9)
    assert result.work.cost_source.sum() == pytest.approx(result.total_transport_cost_work_px2, rel=1e-9)
    valid = result.work.velocity_valid
    lifted = result.transform.rasterize_velocity_to_canon(result.work.velocity_px)
    np.testing.assert_array_equal(result.velocity_field[result.velocity_valid], lifted[result.velocity_valid])
    assert np.nanmax(np.abs(result.velocity_field)) <= 4.0 * np.abs(result.work.velocity_px[valid]).max() + 1e-12


def test_velocity_lives_on_source_pixels_only(result: TransportResult) -> None:
    assert not result.velocity_valid[~SOURCE].any()
    assert result.velocity_valid[SOURCE].all()
    assert np.isnan(result.velocity_field[~SOURCE]).all()


def test_the_terms_add_up_to_the_objective_and_the_gap_closes(result: TransportResult) -> None:
    terms = result.transport_cost + result.entropy_term + result.marginal_penalty
    assert terms == pytest.approx(result.objective, rel=1e-6)
    assert 0 <= result.gap <= 1e-6 * abs(result.objective)
    assert result.dual_objective == pytest.approx(result.objective - result.gap)
    assert result.relative_gap <= 1e-6
    assert result.marginal_error <= 1e-6


def test_a_result_is_frozen_also_after_pickling(result: TransportResult) -> None:
    again = pickle.loads(pickle.dumps(result))
    for one in (result, again):
        with pytest.raises(ValueError, match="read-only"):
            one.mass_created[0, 0] = 1
        with pytest.raises(ValueError, match="read-only"):
            one.work.potential_source[0, 0] = 1
    np.testing.assert_array_equal(again.velocity_field, result.velocity_field)
    assert again.config == result.config


def test_a_summary_has_units(result: TransportResult) -> None:
    text = str(result)
    for words in (
        "um^2",
        "per unit of mass",
        "blur 4 um, reach 20 um",
        "converged by grid",
        "bias of the method",
        "40 x 50 canvas",
    ):
        assert words in text
    assert "WorkMaps(" in repr(result.work)
    assert "advice" not in text


def test_a_list_of_results_has_a_line_for_each(result: TransportResult) -> None:
    one = repr(result)
    assert one.startswith("TransportResult(40 x 50 px: moved by ")
    assert one.endswith("% destroyed; converged)")
    assert len(one) < 120
    assert "\n" not in repr([result, result])
    nothing = compare(np.eye(4), np.zeros((4, 4)))
    assert "nothing moved" in repr(nothing)


def test_a_mask_against_itself_shows_nothing() -> None:
    mask = disc((60, 70), (30, 35), 18)
    same = compare(mask, mask)
    assert np.nanmax(np.abs(same.velocity_field)) == 0
    assert same.velocity_valid[mask].all()
    assert same.divergence == 0
    assert same.total_mass_destroyed / same.M_source == pytest.approx(same.noise_floor, rel=1e-12)
    assert 0 < same.noise_floor < 1e-3
    assert same.noise_floor_target == same.noise_floor
    assert same.mean_displacement_um == 0
    biased = compare(mask, mask, TransportConfig(debias=False))
    assert 0.5 < np.nanmax(np.abs(biased.velocity_field)) < 2.0  # what debiasing takes away


def test_a_shifted_mask_moves_by_the_shift() -> None:
    config = TransportConfig(penalty="balanced", tol=1e-10, px_size_um=0.5)
    shifted = compare(SOURCE, np.roll(SOURCE, (5, 9), (0, 1)), config)
    velocity = shifted.velocity_field[shifted.velocity_valid]
    np.testing.assert_allclose(velocity, np.broadcast_to([2.5, 4.5], velocity.shape), atol=1e-6)
    assert shifted.velocity_valid.sum() == SOURCE.sum()
    assert shifted.total_mass_destroyed < 1e-6 * shifted.M_source
    assert shifted.lambda_unbalanced == math.inf
    assert shifted.reach_um == math.inf
    assert shifted.marginal_penalty == 0


# --- edge cases ------------------------------------------------------------------------------


@pytest.mark.parametrize("side", ["source", "target"])
def test_one_empty_mask_is_a_status_without_a_solve(side: str) -> None:
    nothing = np.zeros(CANVAS, dtype=bool)
    empty = compare(nothing, TARGET) if side == "source" else compare(SOURCE, nothing)
    assert empty.status is (Status.empty_source if side == "source" else Status.empty_target)
    assert empty.iterations == 0
    assert np.isnan(empty.velocity_field).all()
    assert not empty.velocity_valid.any()
    assert empty.total_mass_moved == 0
    assert empty.objective == pytest.approx(
        empty.reach_um**2 / 2 * (TARGET.sum() if side == "source" else SOURCE.sum())
    )
    np.testing.assert_array_equal(empty.mass_created, TARGET if side == "source" else nothing)
    np.testing.assert_array_equal(empty.mass_destroyed, nothing if side == "source" else SOURCE)
    assert math.isnan(empty.divergence)
    assert_books(empty)
    assert "advice" in empty.summary()
    assert math.isnan(divergence(nothing, TARGET))
    # and nothing can be started from it, so it is not
    assert compare(SOURCE, TARGET, init=empty).status is Status.converged


def test_an_empty_mask_under_balanced_costs_without_bound() -> None:
    config = TransportConfig(penalty="balanced", normalization="each")
    assert compare(SOURCE, np.zeros(CANVAS), config).objective == math.inf


def odd_pairs() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    pixel = np.zeros(CANVAS, dtype=bool)
    pixel[7, 9] = True
    ring = disc(CANVAS, (20, 25), 12) & ~disc(CANVAS, (20, 25), 6)
    specks = np.random.default_rng(0).random(CANVAS) < 0.05
    full = np.ones(CANVAS, dtype=bool)
    far = disc(CANVAS, (5, 5), 3), disc(CANVAS, (34, 44), 3)
    return {
        "pixel": (pixel, TARGET),
        "full": (full, SOURCE),
        "both pixels": (pixel, np.roll(pixel, 20, 1)),
        "disjoint": far,
        "holes": (ring, specks),
    }


@pytest.mark.parametrize("name", odd_pairs())
def test_odd_masks_work(name: str) -> None:
    odd = compare(*odd_pairs()[name], TransportConfig(reach_um=10.0, debug=True))
    assert odd.status is Status.converged
    assert_books(odd)
    assert odd.divergence > 0
    assert np.isfinite(odd.velocity_field[odd.velocity_valid]).all()


def test_golden_tests_run_under_debug(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: float) -> None:
        raise GoldenTestError("books", "none", "report")

    monkeypatch.setattr(golden, "check_books", broken)
    compare(SOURCE, SOURCE)
    with pytest.raises(GoldenTestError):
        compare(SOURCE, SOURCE, TransportConfig(debug=True))
    monkeypatch.setenv("PAIRFRAME_DEBUG", "1")
    with pytest.raises(GoldenTestError):
        compare(SOURCE, SOURCE)


# --- where masks come from -------------------------------------------------------------------


def test_masks_come_as_arrays_masks_and_paths(tmp_path: Path) -> None:
    path = tmp_path / "source.npy"
    np.save(path, SOURCE)
    from_arrays = compare(SOURCE.astype(np.uint8) * 255, TARGET.tolist())
    from_files = compare(str(path), Mask(TARGET))
    np.testing.assert_array_equal(from_files.mass_created, from_arrays.mass_created)
    assert compare(path, path).divergence == 0
    assert divergence(path, TARGET) == pytest.approx(from_arrays.divergence, rel=1e-9)


def test_intensity_uses_values_as_they_are() -> None:
    grey = compare(SOURCE * 3.0, TARGET * 200, TransportConfig(mass_mode="intensity"))
    assert (grey.M_source, grey.M_target) == (3 * SOURCE.sum(), 200 * TARGET.sum())
    assert grey.area_source_um2 == SOURCE.sum()
    assert_books(grey)


def test_the_band_has_a_width_in_um() -> None:
    a, b = (Mask(values, px_size_um=0.5) for values in (SOURCE, TARGET))
    band = compare(a, b, TransportConfig(mass_mode="boundary_band(1.0)"))
    wide = compare(a, b, TransportConfig(mass_mode="boundary_band(1.0)", px_size_um=0.25))
    assert band.M_source < wide.M_source < SOURCE.sum()


def test_the_pixel_size_comes_from_the_masks_unless_given(tmp_path: Path) -> None:
    sized, bare = Mask(SOURCE, px_size_um=0.65), Mask(TARGET)
    path = write_mask(Mask(TARGET, px_size_um=0.65), tmp_path / "target.tif") or tmp_path / "target.tif"
    from_masks = compare(sized, path)
    assert from_masks.transform.px_size_um == pytest.approx(0.65, rel=1e-4)
    assert from_masks.config.px_size_um == from_masks.transform.px_size_um
    assert from_masks.notices == ()
    assert from_masks.blur_um == pytest.approx(1.3, rel=1e-4)  # 2 canonical pixels
    assert "only the source has a pixel size" in str(compare(sized, bare).notices[0])
    explicit = compare(sized, bare, TransportConfig(px_size_um=2.0))
    assert explicit.transform.px_size_um == 2.0
    assert tuple(map(str, explicit.notices)) == (
        "the pixel size is 2 um, from the config, although the source has 0.65 um",
    )
    assert "although" in str(explicit)
    assert compare(SOURCE, TARGET).transform.px_size_um is None


def test_a_transform_can_be_handed_in() -> None:
    frame = GridTransform.from_pair(np.ones(CANVAS), np.ones(CANVAS), 1, px_size_um=3.0)
    framed = compare(SOURCE, TARGET, TransportConfig(downsample_factor=4), transform=frame)
    own = compare(SOURCE, TARGET, TransportConfig(px_size_um=3.0))
    assert framed.transform == frame
    np.testing.assert_allclose(framed.mass_created, own.mass_created, atol=1e-5)
    loud = compare(SOURCE, TARGET, TransportConfig(px_size_um=2.0), transform=frame)
    assert tuple(map(str, loud.notices)) == (
        "the pixel size is 3 um, from the transform, although the config has 2 um",
    )


def test_allowed_clipping_is_recorded() -> None:
    box = BoxYX(0, 40, 0, 25)
    config = TransportConfig(crop_policy="fixed", override_pair_bbox=box, allow_clipping=True)
    clipped = compare(SOURCE, TARGET, config)
    assert clipped.M_target == TARGET[:, :25].sum()
    assert any("cuts off a share" in str(notice) for notice in clipped.notices)
    assert_books(clipped)
    handed = compare(SOURCE, TARGET, TransportConfig(allow_clipping=True), transform=clipped.transform)
    assert handed.transform.clipped_share_ab == pytest.approx(clipped.transform.clipped_share_ab)
    gone = TransportConfig(crop_policy="fixed", override_pair_bbox=BoxYX(0, 40, 0, 14), allow_clipping=True)
    assert compare(SOURCE, TARGET, gone).status is Status.empty_target

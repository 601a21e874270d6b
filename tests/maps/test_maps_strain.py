"""The gradient of the displacement is that of planted affine maps, and growth is found where it was planted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.kernel_calls import applications
from scipy import ndimage

import pairframe as pf
from pairframe.errors import ConfigError, ProblemError
from pairframe.maps import PlanOperator, map_gradient
from pairframe.problem import Partial, TransportProblem
from pairframe.testing import disc
from pairframe.types import Float

EVEN = pf.TransportConfig(penalty="balanced", normalization="each", mass_mode="intensity", strain=True)
AFFINE = {
    "5 % in all directions": [[1.05, 0.0], [0.0, 1.05]],
    "30 % in all directions": [[1.3, 0.0], [0.0, 1.3]],
    "15 % shorter": [[0.85, 0.0], [0.0, 0.85]],
    "30 % along x": [[1.0, 0.0], [0.0, 1.3]],
    "pure shear": [[1.1, 0.1], [0.1, 0.95]],
    "shear of 30 %": [[1.0, 0.3], [0.3, 1.0]],
}


def ellipse(
    matrix: Float, semi_axes_yx: tuple[float, float] = (30.0, 48.0), side: int = 150, samples: int = 8, off: float = 0.3
) -> Float:
    """The image of an ellipse under a matrix, as the share of each pixel inside it, a little off the middle."""
    at = (np.indices((samples * side, samples * side)) + 0.5) / samples - (side / 2 + off)
    back = np.tensordot(np.linalg.inv(matrix), at, 1)
    inside = sum((along / semi_axis) ** 2 for along, semi_axis in zip(back, semi_axes_yx, strict=True)) <= 1
    return inside.reshape(side, samples, side, samples).mean(axis=(1, 3))


def interior(result: pf.TransportResult, depth_px: float = 8.0) -> Float:
    source = result.transform.rasterize_to_canon(result.work.mass_source)
    return ndimage.distance_transform_edt(source >= 0.999 * source.max()) > depth_px


@pytest.mark.parametrize("name", AFFINE)
def test_strain_of_an_affine_map_is_exact_within_a_percent(name: str) -> None:
    matrix = np.array(AFFINE[name])
    result = pf.compare(ellipse(np.eye(2)), ellipse(matrix), EVEN)
    inside = interior(result)
    error = np.abs(result.strain[inside] - (matrix - np.eye(2)))
    assert error.max() < 0.002
    assert np.abs(result.areal_expansion[inside] - (np.linalg.det(matrix) - 1)).max() < 0.004
    stretches = np.linalg.eigvalsh(matrix)
    assert np.abs(result.anisotropy[inside] - np.log(stretches[1] / stretches[0])).max() < 0.004


@pytest.mark.parametrize(("direction_deg", "matrix"), [(0, [[1.0, 0.0], [0.0, 1.2]]), (90, [[1.2, 0.0], [0.0, 1.0]])])
def test_direction_is_that_of_the_larger_stretch(direction_deg: float, matrix: list[list[float]]) -> None:
    result = pf.compare(ellipse(np.eye(2)), ellipse(np.array(matrix)), EVEN)
    found = result.stretch_direction_deg[interior(result)]
    off = (found - direction_deg + 90) % 180 - 90
    assert np.abs(off).max() < 1.0


def test_direction_turns_counter_clockwise_as_the_image_is_shown() -> None:
    # Stretched towards the upper right: up is negative y, so the mixed entry is negative.
    result = pf.compare(ellipse(np.eye(2)), ellipse(np.array([[1.05, -0.1], [-0.1, 1.05]])), EVEN)
    assert np.abs(result.stretch_direction_deg[interior(result)] - 45.0).max() < 1.0


def test_a_plan_s_gradient_is_that_of_its_mean_target() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.random((2, 9, 11))
    problem = TransportProblem(a, b, 3.0, Partial(20.0), Partial(20.0), spacing=(1.0, 1.5))
    g = rng.normal(size=a.shape)
    gradient = map_gradient(PlanOperator(problem, np.zeros(a.shape), g))
    here, there = problem.positions(problem.support_a), problem.positions(problem.support_b)

    def mean_target(x: Float) -> Float:
        log_weight = problem.log_v[problem.support_b] + (g[problem.support_b] - ((x - there) ** 2).sum(axis=1)) / 3.0
        weight = np.exp(log_weight - log_weight.max())
        return weight @ there / weight.sum()

    for pixel in (0, 40, 98):
        for axis in (0, 1):
            step = np.eye(2)[axis] * 1e-5
            numeric = (mean_target(here[pixel] + step) - mean_target(here[pixel] - step)) / 2e-5
            np.testing.assert_allclose(gradient[pixel][:, axis], numeric, atol=1e-7)


def test_a_shifted_mask_has_no_strain_and_no_growth() -> None:
    mask = ellipse(np.eye(2)) >= 0.5
    result = pf.compare(mask, np.roll(mask, 9, axis=1), pf.TransportConfig(strain=True))
    assert np.nanmax(np.abs(result.strain)) < 1e-5
    assert np.nanmax(np.abs(result.local_growth_rate)) < 1e-5


def test_a_turned_mask_has_strain_unless_it_is_aligned() -> None:
    turn = np.array([[np.cos(0.6), -np.sin(0.6)], [np.sin(0.6), np.cos(0.6)]])
    masks = ellipse(np.eye(2), (25.0, 60.0), 160), ellipse(turn, (25.0, 60.0), 160)
    given, aligned = (
        pf.compare(*masks, pf.TransportConfig(strain=True, align=align, mass_mode="intensity"))
        for align in ("none", "rigid")
    )
    assert np.median(np.abs(given.strain[interior(given)]).max(axis=(1, 2))) > 0.2  # a plan shears; it does not turn
    left = np.abs(aligned.strain[interior(aligned)])
    assert np.median(left) < 7e-4
    assert left.max() < 2e-3


@pytest.mark.parametrize("blur_um", [1.5, 3.0])
def test_steps_of_a_binary_outline_are_below_a_percent_12_px_inside(blur_um: float) -> None:
    matrix = np.array(AFFINE["pure shear"])
    masks = (ellipse(one, (40.0, 70.0), 220) >= 0.5 for one in (np.eye(2), matrix))
    result = pf.compare(*masks, replace(EVEN, blur_um=blur_um))
    error = np.abs(result.strain - (matrix - np.eye(2)))
    assert error[interior(result, 12.0)].max() < 0.01
    assert error[interior(result, 12.0)].mean() < 0.003


@pytest.mark.parametrize("blur_um", [1.5, 2.0])
def test_steps_of_a_binary_outline_look_like_shear_and_not_like_expansion(blur_um: float) -> None:
    matrix = np.array(AFFINE["30 % in all directions"])
    masks = (ellipse(one, (40.0, 60.0), 190) >= 0.5 for one in (np.eye(2), matrix))
    result = pf.compare(*masks, replace(EVEN, blur_um=blur_um))
    inside = interior(result, 4 * blur_um)
    # The field of a step is that of a charge: outside the step, its gradient has no trace.
    assert np.abs(result.strain[inside] - (matrix - np.eye(2))).max() > 0.01
    assert np.abs(result.areal_expansion[inside] - (np.linalg.det(matrix) - 1)).max() < 0.003


def test_a_half_that_grows_is_told_from_one_that_rests_within_a_few_pixels() -> None:
    bar, grown = np.zeros((2, 60, 150))
    bar[10:50, 20:110] = 1.0
    grown[10:50, 20:65], grown[10:50, 65:119] = 1.0, 45 / 54  # the right half is 20 % longer and thinner in mass
    strain = pf.compare(bar, grown, EVEN).strain[30, 28:102, 1, 1]
    truth = np.where(np.arange(28, 102) < 65, 0.0, 0.2)
    off = np.abs(strain - truth) > 0.02
    assert off.sum() <= 4
    assert np.abs(np.flatnonzero(off) + 28 - 64.5).max() < 3


def test_errors_of_binary_masks_average_out_over_places_between_the_pixels() -> None:
    matrix, errors = np.array(AFFINE["pure shear"]), []
    for source_off, target_off in ((0.0, 0.5), (0.15, 0.85), (0.3, 0.2), (0.45, 0.65), (0.6, 0.1), (0.8, 0.35)):
        pairs = ((np.eye(2), source_off), (matrix, target_off))
        masks = [ellipse(one, (24.0, 40.0), 110, off=off) >= 0.5 for one, off in pairs]
        errors.append(pf.compare(*masks, EVEN).strain - (matrix - np.eye(2)))
    deep = interior(pf.compare(masks[0], masks[0], EVEN), 9.0)
    single = np.mean([np.abs(error[deep]).max() for error in errors])
    assert np.abs(np.mean(errors, axis=0)[deep]).max() < 0.55 * single


@pytest.mark.parametrize("turn_deg", [20, 41])
def test_a_finely_drawn_turned_mask_has_no_strain_once_it_is_aligned(turn_deg: float) -> None:
    # With 8 x 8 samples a pixel, the drawing itself is off by as much.
    angle = np.radians(turn_deg)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    masks = (ellipse(one, (25.0, 50.0), 120, samples=24) for one in (np.eye(2), turn))
    result = pf.compare(*masks, pf.TransportConfig(strain=True, align="rigid", mass_mode="intensity"))
    assert np.abs(result.strain[interior(result)]).max() < 6e-4


@pytest.mark.parametrize("penalty", ["partial", "tv", "kl"])
def test_growth_of_all_pixels_is_the_growth_of_the_mask(penalty: str) -> None:
    small, large = disc((70, 70), (35, 35), 20), disc((70, 70), (35, 35), 22)
    result = pf.compare(small, large, pf.TransportConfig(penalty=penalty, reach_um=60.0, strain=True))
    descending = np.nansum(np.exp(result.local_growth_rate))
    assert descending == pytest.approx(result.M_target, rel=1e-9)


def test_least_motion_grows_the_rim_and_even_growth_all_of_a_disc() -> None:
    small, large = disc((110, 110), (55, 55), 36), disc((110, 110), (55, 55), 39)
    core, rate = disc((110, 110), (55, 55), 26), np.log(large.sum() / small.sum())
    least = pf.compare(small, large, pf.TransportConfig(strain=True))
    even = pf.compare(small, large, pf.TransportConfig(penalty="balanced", normalization="each", strain=True, tol=1e-8))
    assert np.abs(least.local_growth_rate[core]).max() < 1e-3
    assert np.abs(least.areal_expansion[core]).max() < 1e-3
    np.testing.assert_allclose(even.local_growth_rate[small], rate, atol=1e-6)
    np.testing.assert_allclose(even.areal_expansion[core].mean(), np.exp(rate) - 1, atol=2e-3)


def test_mass_beyond_the_reach_has_no_parent() -> None:
    source = disc((60, 160), (30, 30), 15)
    target = source | disc((60, 160), (30, 120), 10)
    result = pf.compare(source, target, pf.TransportConfig(reach_um=20.0, strain=True))
    assert np.nanmax(np.abs(result.local_growth_rate)) < 1e-3


def test_strain_takes_a_few_more_kernel_applications(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = applications(monkeypatch)
    masks, counts = (ellipse(np.eye(2)) >= 0.5, ellipse(np.diag([1.1, 1.0])) >= 0.5), []
    for strain in (False, True):
        pf.pipeline.self_problem.clear_self_cache()
        calls.clear()
        pf.compare(*masks, pf.TransportConfig(strain=strain))
        counts.append(len(calls))
    assert counts[0] < counts[1] < 1.1 * counts[0]


# --- bad input -------------------------------------------------------------------------------


def test_other_distances_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"metric='sqeuclidean' with strain.*leave out metric or strain"):
        pf.TransportConfig(strain=True, metric="euclidean")
    mass = np.ones((3, 3))
    problem = TransportProblem(mass, mass, 1.0, Partial(9.0), Partial(9.0), metric="euclidean")
    with pytest.raises(ProblemError, match="leave metric out"):
        map_gradient(PlanOperator(problem, np.zeros((3, 3)), np.zeros((3, 3))))


def test_samples_and_a_biased_displacement_are_refused() -> None:
    with pytest.raises(ConfigError, match="max_support_points=None with strain, got 100"):
        pf.TransportConfig(strain=True, max_support_points=100, backend="pot")
    with pytest.raises(ConfigError, match="debias=True with strain, got False"):
        pf.TransportConfig(strain=True, debias=False)


def test_a_blur_below_a_work_pixel_is_refused() -> None:
    mask = disc((64, 64), (32, 32), 20)
    with pytest.raises(ConfigError, match=r"a blur of at least one work pixel \(4 px\) with strain, got 2 px"):
        pf.compare(mask, mask, pf.TransportConfig(strain=True, downsample_factor=4))
    result = pf.compare(mask, mask, pf.TransportConfig(strain=True, downsample_factor=4, blur_um=4.0))
    assert np.nanmax(np.abs(result.strain)) == 0


def test_a_result_without_strain_says_how_to_get_it() -> None:
    mask = disc((32, 32), (16, 16), 8)
    result = pf.compare(mask, mask)
    with pytest.raises(pf.PairframeError, match=r"compare with TransportConfig\(strain=True\)"):
        _ = result.areal_expansion


def test_an_empty_mask_has_no_strain() -> None:
    mask = disc((32, 32), (16, 16), 8)
    result = pf.compare(mask, np.zeros_like(mask), pf.TransportConfig(strain=True))
    assert result.strain.shape == (32, 32, 2, 2)
    assert np.isnan(result.strain).all()
    assert np.isnan(result.local_growth_rate).all()

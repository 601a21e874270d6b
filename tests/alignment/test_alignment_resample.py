"""Resampling keeps mass and centroid at any pose, and loses nothing silently."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pairframe.alignment import align
from pairframe.alignment.resample import Canvas, canvas_that_fits, needed_box, resample
from pairframe.alignment.similarity import Similarity
from pairframe.errors import AlignError
from pairframe.masks import Mask
from pairframe.parallel.threads import at_most
from pairframe.testing import disc, embryo
from pairframe.types import Float

ANGLES = st.floats(-180, 180)
SHIFTS = st.tuples(st.floats(-30, 30), st.floats(-30, 30))


def moments(values: Float, px: float, origin_yx: tuple[int, int] = (0, 0)) -> tuple[float, Float]:
    """Sum, and centroid in units of length."""
    total = values.sum()
    at = (np.indices(values.shape).reshape(2, -1).T + 0.5 - np.array(origin_yx)) * px
    return float(total), (values.reshape(-1) @ at) / total


@settings(max_examples=150)
@given(
    angle=ANGLES,
    shift=SHIFTS,
    flipped=st.booleans(),
    scale=st.floats(0.3, 3),
    px=st.floats(0.3, 3),
    seed=st.integers(0, 2**32 - 1),
)
def test_mass_and_centroid_survive_any_pose(
    angle: float, shift: tuple[float, float], flipped: bool, scale: float, px: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    values = rng.random((13, 17)) * (rng.random((13, 17)) < 0.4)
    values[3, 5] = 1.0
    change = Similarity(angle, shift, flipped, scale, (4.0, 6.0))
    canvas = Canvas((5, 5), 1.3)
    canvas = canvas_that_fits(needed_box(values, px, change, canvas), canvas)
    moved = resample(values, px, change, canvas)
    before, centre = moments(values, px)
    after, centre_after = moments(moved, canvas.px, canvas.origin_yx)
    assert after == pytest.approx(before, rel=1e-12)
    np.testing.assert_allclose(centre_after, change.of_points(centre), atol=1e-12 * 300)


@settings(max_examples=100)
@given(angle=ANGLES, shift=SHIFTS, flipped=st.booleans())
def test_the_needed_box_is_touched_and_nothing_beyond_it(
    angle: float, shift: tuple[float, float], flipped: bool
) -> None:
    values = disc((12, 15), (5, 8), 3.3)
    change = Similarity(angle, shift, flipped)
    top, bottom, left, right = needed_box(values, 1.0, change, Canvas((9, 9), 1.0))
    moved = resample(values, 1.0, change, Canvas((bottom - top + 5, right - left + 5), 1.0, (2 - top, 2 - left)))
    rows, columns = np.flatnonzero(moved.any(axis=1)), np.flatnonzero(moved.any(axis=0))
    # A weight of the outermost pixel may round to 0.
    assert rows[0] in (2, 3)
    assert rows[-1] in (bottom - top + 2, bottom - top + 1)
    assert columns[0] in (2, 3)
    assert columns[-1] in (right - left + 2, right - left + 1)


@pytest.mark.parametrize("quarter", [0, 1, 2, 3])
@pytest.mark.parametrize("flipped", [False, True])
def test_quarter_turns_copy_pixels(quarter: int, flipped: bool) -> None:
    values = np.random.default_rng(1).random((6, 9))
    expected = np.rot90(values[::-1] if flipped else values, quarter)
    side = Canvas(expected.shape, 1.0)
    middle, middle_after = np.array(values.shape) / 2, np.array(expected.shape) / 2
    shift = tuple(float(v) for v in middle_after - middle)
    change = Similarity(90.0 * quarter, shift, flipped, 1.0, (float(middle[0]), float(middle[1])))  # type: ignore[arg-type]
    np.testing.assert_array_equal(resample(values, 1.0, change, side), expected)


def test_a_shift_by_whole_pixels_copies_pixels() -> None:
    values = np.random.default_rng(1).random((6, 9))
    moved = resample(values, 0.65, Similarity(shift_yx_um=(2 * 0.65, 3 * 0.65)), Canvas((8, 12), 0.65))
    np.testing.assert_array_equal(moved[2:, 3:], values)


def test_a_canvas_that_is_too_small_is_an_error_with_the_canvas_that_fits() -> None:
    values, change = disc((20, 20), (10, 10), 6), Similarity(30.0, (-9.0, 14.0), False, 1.0, (10.0, 10.0))
    with pytest.raises(
        AlignError, match=r"canvas of 20 x 20 px.*use canvas_hw=\((\d+), (\d+)\) with origin_yx"
    ) as found:
        resample(values, 1.0, change, Canvas((20, 20), 1.0))
    words = found.value.fix
    named: dict[str, tuple[int, int]] = {}
    for part in words.removeprefix("use ").split(", on which")[0].split(" with "):
        name, text = part.split("=")
        named[name] = tuple(int(number) for number in text.strip("()").split(","))  # type: ignore[assignment]
    moved = resample(values, 1.0, change, Canvas(named["canvas_hw"], 1.0, named["origin_yx"]))
    assert moved.sum() == pytest.approx(values.sum(), rel=1e-12)


def test_magnified_pixels_leave_no_gaps() -> None:
    values = np.ones((8, 8))
    change = Similarity(20.0, (20.0, 20.0))
    box = needed_box(values, 3.0, change, Canvas((4, 4), 1.0))
    canvas = canvas_that_fits(box, Canvas((4, 4), 1.0))
    moved = resample(values, 3.0, change, canvas, 9.0)
    assert moved.sum() == pytest.approx(64 * 9, rel=1e-12)
    inner = change.inverse().of_points(np.indices(moved.shape).reshape(2, -1).T + 0.5 - np.array(canvas.origin_yx))
    inside = ((inner > 4) & (inner < 20)).all(axis=1).reshape(moved.shape)
    assert inside.sum() > 100
    np.testing.assert_allclose(moved[inside], 1.0, atol=0.2)


def test_a_magnification_beyond_reason_is_refused() -> None:
    with pytest.raises(AlignError, match="magnified by at most 32"):
        resample(np.ones((2, 2)), 100.0, Similarity(), Canvas((300, 300), 1.0))


def test_there_and_back_changes_little() -> None:
    values = embryo((120, 240), length_px=150, thickness_px=14, yolk_px=22).astype(float)
    change = Similarity(37.0, (3.3, -2.2), False, 1.0, (60.0, 120.0))
    origin = (60, 30)  # both canvases start 60 rows and 30 columns before the origin of positions
    there = resample(values, 1.0, change, Canvas((240, 300), 1.0, origin))
    corner = Similarity(shift_yx_um=(-60.0, -30.0))
    inverse = change.inverse()
    pivot = (inverse.pivot_yx_um[0] + 60, inverse.pivot_yx_um[1] + 30)
    shift = (inverse.shift_yx_um[0] + corner.shift_yx_um[0], inverse.shift_yx_um[1] + corner.shift_yx_um[1])
    back = resample(
        there, 1.0, Similarity(inverse.angle_deg, shift, False, 1.0, pivot), Canvas((240, 300), 1.0, origin)
    )
    assert np.abs(back[60:180, 30:270] - values).sum() / values.sum() < 0.1
    assert moments(back, 1.0, origin)[1] == pytest.approx(moments(values, 1.0)[1], abs=1e-10)


def test_an_empty_image_stays_empty() -> None:
    assert not resample(np.zeros((3, 4)), 1.0, Similarity(12.0), Canvas((5, 5), 1.0)).any()


def splatted(values: Float, change: Similarity, canvas: Canvas) -> Float:
    """Every pixel as 2 x 2 samples, one after the other: what `resample` has to return."""
    out = np.zeros(canvas.shape_hw)
    mass = values[values > 0]
    for dy in (-0.25, 0.25):
        for dx in (-0.25, 0.25):
            at = np.argwhere(values > 0) + 0.5 + np.array([dy, dx])
            y, x = (change.of_points(at) - 0.5 + np.array(canvas.origin_yx)).T
            i, j = np.floor(y).astype(int), np.floor(x).astype(int)
            for a, in_row in ((0, 1 - (y - i)), (1, y - i)):
                for b, in_column in ((0, 1 - (x - j)), (1, x - j)):
                    np.add.at(out, (i + a, j + b), 0.25 * mass * in_row * in_column)
    return out


@pytest.mark.parametrize("angle", [0.0, 1e-9, 33.0, 45.0, 88.0, 120.0, -90.00001])
@pytest.mark.parametrize("shape", [(3, 700), (700, 3), (300, 310)])
def test_bands_and_patches_are_the_sum_over_samples(angle: float, shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(3)
    values = rng.random(shape) * (rng.random(shape) < 0.7)
    change = Similarity(angle, (0.31, -0.77), angle > 100, 0.9, (shape[0] / 2, shape[1] / 2))
    canvas = Canvas((2, 2), 1.0)
    canvas = canvas_that_fits(needed_box(values, 1.0, change, canvas), canvas)
    # A multiple of 128 columns is the case in which rows are put apart.
    for width in (canvas.shape_hw[1], -(-canvas.shape_hw[1] // 128) * 128):
        wide = Canvas((canvas.shape_hw[0], width), 1.0, canvas.origin_yx)
        moved = resample(values, 1.0, change, wide)
        assert moved.shape == wide.shape_hw
        assert moved.min() >= 0
        np.testing.assert_allclose(moved, splatted(values, change, wide), rtol=0, atol=1e-12)


def test_the_number_of_threads_does_not_change_a_bit() -> None:
    values = np.random.default_rng(5).random((700, 650))
    change, canvas = Similarity(61.0, (0.0, 0.0), False, 1.0, (350.0, 325.0)), Canvas((1000, 1000), 1.0, (150, 175))
    with at_most(1):
        one = resample(values, 1.0, change, canvas)
    with at_most(3):
        np.testing.assert_array_equal(resample(values, 1.0, change, canvas), one)


@pytest.mark.parametrize("shape", [(2, 40), (40, 2)])
def test_a_canvas_of_two_rows_or_columns_may_be_enough(shape: tuple[int, int]) -> None:
    values = np.zeros(shape)
    values[0, : shape[1] - 1] = 1.0
    moved = resample(values, 1.0, Similarity(shift_yx_um=(0.3, 0.4)), Canvas(shape, 1.0))
    assert moved.sum() == pytest.approx(values.sum(), rel=1e-12)


def test_a_moved_mask_cannot_be_written_to_and_is_a_density() -> None:
    mask = Mask.from_array(disc((40, 40), (20, 20), 8), px_size_um=0.65)
    pose = align(mask, mask)
    moved = replace(pose, change=replace(pose.change, angle_deg=30.0)).apply(mask)
    assert moved.density
    assert not moved.is_binary
    assert moved.px_size_um == 0.65
    with pytest.raises(ValueError, match="read-only"):
        moved.values[0, 0] = 1.0
    again = pickle.loads(pickle.dumps(moved))
    np.testing.assert_array_equal(again.values, moved.values)


def test_samples_on_the_edge_of_a_pixel_fit_on_the_canvas_that_they_need() -> None:
    # A pixel is two thirds of one of the canvas: samples fall on its pixels exactly, or by rounding just beside them.
    values = np.ones((42, 65))
    for px, px_canvas in ((2.0, 3.0), (4.0, 6.0), (0.2, 0.3), (0.3, 0.1), (3.0, 2.0)):
        for step in range(36):
            change = Similarity(shift_yx_um=(px * step / 12, -px * step / 12))
            box = needed_box(values, px, change, Canvas((90, 90), px_canvas))
            canvas = Canvas((box[1] - box[0] + 1, box[3] - box[2] + 1), px_canvas, (-box[0], -box[2]))
            moved = resample(values, px, change, canvas)
            assert moved.min() >= 0
            total, centre = moments(moved, px_canvas, canvas.origin_yx)
            assert total == pytest.approx(values.sum(), rel=1e-12)
            np.testing.assert_allclose(centre, change.of_points(moments(values, px)[1]), rtol=0, atol=1e-9)


def test_masks_whose_pixels_are_as_three_to_two_are_aligned() -> None:
    ys, xs = np.indices((90, 90)) - 45
    source = Mask.from_array((ys / 12) ** 2 + (xs / 20) ** 2 <= 1, px_size_um=3.0)
    target = (ys / 14) ** 2 + (xs / 22) ** 2 <= 1
    for shift in ((0, 0), (1, 0), (0, 1), (2, 2)):
        pose = align(source, Mask.from_array(np.roll(target, shift, (0, 1)), px_size_um=2.0))
        assert pose.iou_after > 0.5

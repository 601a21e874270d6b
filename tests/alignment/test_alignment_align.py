"""Planted poses are found, and the answer says how sure it is."""

from __future__ import annotations

import math

import numpy as np
import pytest

import pairframe as pf
from pairframe.alignment import PoseStatus
from pairframe.testing import PlantedPair, disc, embryo, planted_pair
from pairframe.testing.planted import CHANGES


def masks_of(pair: PlantedPair, unit: float = 1.0) -> tuple[pf.Mask, pf.Mask]:
    return (
        pf.Mask.from_array(pair.source, px_size_um=unit * pair.px_source),
        pf.Mask.from_array(pair.target, px_size_um=unit * pair.px_target),
    )


def errors(pair: PlantedPair, pose: pf.Pose, unit: float = 1.0) -> tuple[float, float]:
    return pair.errors(pose.change.matrix, pose.change.offset_yx_um / unit)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("seed", range(4))
def test_planted_poses_are_found(change: str, seed: int) -> None:
    pair = planted_pair(seed, change)
    pose = pf.align(*masks_of(pair, 2.5), allow_flip=True)
    degrees, distance = errors(pair, pose, 2.5)
    assert pose.flipped == pair.flipped
    assert degrees < 8
    if change == "rigid":
        assert degrees < 0.1
        assert distance < 0.2
        assert pose.status == PoseStatus.aligned


@pytest.mark.slow
def test_a_thousand_planted_poses_are_found() -> None:
    wrong = 0
    for change in CHANGES:
        for seed in range(167):
            pair = planted_pair(seed, change)
            wrong += errors(pair, pf.align(*masks_of(pair), allow_flip=True))[0] > 20
    assert wrong <= 5


@pytest.mark.parametrize("ratio", [0.5, 1.7, 3.0])
def test_pixel_sizes_may_differ(ratio: float) -> None:
    pair = planted_pair(1, "rigid", px_ratio=ratio)
    pose = pf.align(*masks_of(pair, 0.8), allow_flip=True)
    degrees, distance = errors(pair, pose, 0.8)
    assert degrees < 0.5
    assert distance < 0.5 * max(1.0, ratio)
    target = pf.Mask.from_array(pair.target, px_size_um=0.8 * ratio)
    canvas_hw, origin_yx = pose.canvas_for(target)
    moved = pose.apply(target, canvas_hw=canvas_hw, origin_yx=origin_yx)
    assert moved.px_size_um == 0.8
    assert moved.values.sum() * 0.8**2 == pytest.approx(target.area_um2, rel=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_a_target_cut_by_the_border_is_found(seed: int) -> None:
    pair = planted_pair(seed, "rigid", cut_share=0.3)
    degrees, distance = errors(pair, pf.align(*masks_of(pair), allow_flip=True))
    assert degrees < 3
    assert distance < 5


@pytest.mark.parametrize("growth", [0.5, 1.6, 2.2])
def test_a_similarity_finds_the_scale(growth: float) -> None:
    pair = planted_pair(2, "rigid", growth=growth, flip=False)
    pose = pf.align(*masks_of(pair), kind="similarity")
    assert pose.scale == pytest.approx(1 / growth, rel=0.01)
    assert errors(pair, pose)[0] < 0.5
    assert pose.without_scale().scale == 1.0


def test_a_mask_against_itself_stays_where_it_is() -> None:
    mask = pf.Mask.from_array(embryo((96, 200), growth=0.4))
    pose = pf.align(mask, mask, allow_flip=True)
    assert (pose.angle_deg, pose.flipped, pose.scale, pose.status) == (0.0, False, 1.0, "aligned")
    assert pose.shift_yx_um == pytest.approx((0, 0), abs=1e-12)
    assert (pose.iou_before, pose.iou_after) == (1.0, 1.0)
    np.testing.assert_array_equal(pose.apply(mask).values, mask.values)


def test_a_shift_by_whole_pixels_is_found_exactly() -> None:
    inside = embryo((96, 200), growth=0.4)
    moved = np.roll(inside, (7, -11), axis=(0, 1))
    for kind in ("shift", "rigid", "similarity"):
        pose = pf.align(inside, moved, kind=kind)
        assert pose.shift_yx_um == pytest.approx((-7, 11), abs=0.2 if kind == "similarity" else 1e-12)
        assert pose.scale == pytest.approx(1, rel=0.01)
        if kind != "similarity":
            np.testing.assert_array_equal(pose.apply(pf.Mask.from_array(moved)).values, inside)


def test_the_applied_target_overlaps_as_promised_and_the_inverse_leads_back() -> None:
    pair = planted_pair(5, "mixed", flip=True)
    source, target = masks_of(pair)
    pose = pf.align(source, target, allow_flip=True)
    canvas_hw, origin_yx = pose.canvas_for(target)
    moved = pose.apply(target, canvas_hw=canvas_hw, origin_yx=origin_yx).values
    still = pose.place_source(source, canvas_hw, origin_yx).values
    both = (still * moved.clip(max=1)).sum()
    assert pose.iou_after == pytest.approx(both / (still.sum() + moved.sum() - both), rel=1e-9)
    points = np.random.default_rng(0).random((5, 2)) * 200
    back = pose.inverse().change.of_points(pose.change.of_points(points))
    np.testing.assert_allclose(back, points, atol=1e-9)
    assert pose.inverse().source_canvas == pose.target_canvas


def test_the_runner_up_is_another_pose_and_not_better() -> None:
    pair = planted_pair(3, "bend", flip=False)
    pose = pf.align(*masks_of(pair), allow_flip=True)
    assert pose.runner_up is not None
    assert pose.runner_up.change.turn_between(pose.change) > 19
    assert pose.runner_up.iou < pose.iou_after - pose.margin


def test_weight_by_thickness_follows_the_trunk_of_a_bent_body() -> None:
    by_area, by_thickness = [], []
    for seed in range(6):
        pair = planted_pair(seed, "bend")
        by_area.append(errors(pair, pf.align(*masks_of(pair), allow_flip=True))[0])
        by_thickness.append(errors(pair, pf.align(*masks_of(pair), allow_flip=True, weight="thickness"))[0])
    assert np.median(by_thickness) < 0.6 * np.median(by_area)


def test_a_pose_survives_plain_values() -> None:
    pair = planted_pair(3, "bend")
    pose = pf.align(*masks_of(pair), allow_flip=True, prove="flip")
    assert pf.Pose.from_plain(pose.to_plain()) == pose


def test_the_summary_names_pose_overlap_runner_up_and_proof() -> None:
    pair = planted_pair(3, "rigid")
    text = pf.align(*masks_of(pair), allow_flip=True, prove="flip").summary()
    for word in ("aligned: shift", "IoU", "runner-up", "flip: proven"):
        assert word in text


# --- scenes ----------------------------------------------------------------------------------


def test_several_objects_are_shifted_unless_moved_together() -> None:
    scene = disc((120, 160), (30, 40), 12) | disc((120, 160), (80, 60), 18) | disc((120, 160), (60, 120), 15)
    turned = np.rot90(scene)
    pose = pf.align(scene, turned)
    assert (pose.kind, pose.angle_deg) == ("shift", 0.0)
    assert any("several objects" in notice for notice in pose.notices)
    together = pf.align(scene, turned, several="together")
    assert together.kind == "rigid"
    assert together.angle_deg == pytest.approx(-90)
    assert together.iou_after == 1.0


def test_a_body_in_two_pieces_is_one_object() -> None:
    inside = embryo((120, 240), growth=0.5)
    broken = inside.copy()
    broken[:, 140:146] = False
    pose = pf.align(inside, broken[::-1, ::-1])
    assert pose.kind == "rigid"
    assert abs(pose.angle_deg) == pytest.approx(180, abs=1)


# --- bad input -------------------------------------------------------------------------------

BLOB = embryo((60, 120), growth=0.25)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((BLOB * 0, BLOB), {}, "a source with pixels, got an empty mask"),
        ((BLOB, BLOB * 0), {}, "a target with pixels, got an empty mask"),
        ((disc((9, 9), (4, 4), 0.5), BLOB), {}, 'source of at least 9 pixels.*got 1 pixel.*kind="shift"'),
        ((BLOB, BLOB), {"kind": "affine"}, "kind to be one of shift, rigid, similarity"),
        ((BLOB, BLOB), {"weight": "mass"}, "weight to be one of area, thickness"),
        ((BLOB, BLOB), {"several": "turn"}, "several to be one of shift, together"),
        ((BLOB, BLOB), {"allow_flip": 1}, "allow_flip to be true or false"),
        ((BLOB, BLOB), {"prove": "all"}, "prove to be None"),
        ((BLOB, BLOB), {"prove": 200}, "prove to be None"),
        ((BLOB, BLOB), {"prove": True}, "prove to be None"),
        ((pf.Mask.from_array(BLOB, px_size_um=2.0), BLOB), {}, "pixel sizes of both.*that of the source alone"),
        ((BLOB, pf.Mask.from_array(BLOB, px_size_um=2.0)), {}, "pixel sizes of both.*that of the target alone"),
    ],
)
def test_bad_input_is_explained(arguments: tuple[object, object], options: dict[str, object], message: str) -> None:
    with pytest.raises(pf.PairframeError, match=message):
        pf.align(*arguments, **options)  # type: ignore[arg-type]


def test_one_pixel_can_be_shifted() -> None:
    one, other = np.zeros((9, 9), bool), np.zeros((12, 14), bool)
    one[2, 3], other[8, 8] = True, True
    assert pf.align(one, other, kind="shift").shift_yx_um == pytest.approx((-6, -5))


def test_a_mask_in_another_unit_is_refused() -> None:
    pose = pf.align(BLOB, BLOB)
    with pytest.raises(pf.PairframeError, match="a mask without a pixel size, got 2 um"):
        pose.apply(pf.Mask.from_array(BLOB, px_size_um=2.0))
    with pytest.raises(pf.PairframeError, match="expected a Mask, got ndarray"):
        pose.apply(BLOB)  # type: ignore[arg-type]
    with pytest.raises(pf.PairframeError, match="canvas_hw to be two integers"):
        pose.apply(pf.Mask.from_array(BLOB), canvas_hw=(3,))  # type: ignore[arg-type]


def test_a_canvas_too_small_for_the_pose_says_which_is_needed() -> None:
    pair = planted_pair(0, "rigid", flip=False)
    source, target = masks_of(pair)
    pose = pf.align(source, target)
    rows, columns = (np.flatnonzero(pair.source.any(axis=axis)) for axis in (1, 0))
    crop = pf.Mask.from_array(pair.source[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1], px_size_um=1.0)
    tight = pf.align(crop, target)
    with pytest.raises(pf.PairframeError, match=r"use canvas_hw=\(\d+, \d+\) with origin_yx"):
        tight.apply(target)
    canvas_hw, origin_yx = tight.canvas_for(target)
    moved = tight.apply(target, canvas_hw=canvas_hw, origin_yx=origin_yx)
    assert moved.values.sum() == pytest.approx(pair.target.sum(), rel=1e-12)
    assert math.isclose(pose.iou_after, tight.iou_after, abs_tol=0.01)

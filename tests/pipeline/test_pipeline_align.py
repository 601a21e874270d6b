"""`compare` with alignment: the pose is found, recorded and undone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import pairframe as pf
from pairframe.frame import GridTransform
from pairframe.testing import PlantedPair, disc, embryo, planted_pair

SMALL = embryo((96, 200), growth=0.4)


@pytest.fixture(scope="module")
def pair() -> PlantedPair:
    return planted_pair(3, "head", flip=True)


@pytest.fixture(scope="module")
def result(pair: PlantedPair) -> pf.TransportResult:
    source, target = (pf.Mask.from_array(mask, px_size_um=2.0) for mask in (pair.source, pair.target))
    return pf.compare(source, target, pf.TransportConfig(align="rigid", allow_flip=True))


def test_masks_are_compared_as_given_by_default() -> None:
    result = pf.compare(SMALL, np.roll(SMALL, 5, axis=1))
    assert result.pose is None
    assert result.config.align == "none"


def test_a_turned_embryo_is_not_destroyed_and_created(result: pf.TransportResult, pair: PlantedPair) -> None:
    assert result.pose is not None
    assert (result.pose.status, result.pose.flipped) == ("aligned", True)
    assert result.M_target == pytest.approx(pair.target.sum(), rel=1e-12)
    assert result.area_target_um2 == pytest.approx(4.0 * pair.target.sum(), rel=1e-9)
    assert result.total_mass_destroyed < 0.1 * result.M_source
    result.check_books()
    assert "pose       aligned" in result.summary()


def test_the_whole_displacement_ends_on_the_targets_own_image(result: pf.TransportResult, pair: PlantedPair) -> None:
    assert result.pose is not None
    on = result.velocity_valid
    origin = np.array(result.pose.source_canvas.origin_yx)
    ends = (np.argwhere(on) + 0.5 - origin) * 2.0 + result.velocity_field[on]
    nearest = np.rint(ends / 2.0 - 0.5).astype(int).clip(0, np.array(pair.target.shape) - 1)
    assert pair.target[nearest[:, 0], nearest[:, 1]].mean() > 0.97
    left = result.deformation_field[on]
    assert np.median(np.hypot(left[:, 0], left[:, 1])) < 0.1 * np.median(np.hypot(*result.velocity_field[on].T))


def test_created_mass_comes_back_to_the_targets_image(result: pf.TransportResult, pair: PlantedPair) -> None:
    created = result.mass_created_on_target
    assert created.shape == pair.target.shape
    assert created.sum() == pytest.approx(result.total_mass_created, rel=1e-9)
    near = disc((7, 7), (3, 3), 3.2)
    grown = np.zeros(pair.target.shape, bool)
    for y, x in np.argwhere(near) - 3:
        grown |= np.roll(pair.target, (y, x), axis=(0, 1))
    assert created[grown].sum() > 0.999 * created.sum()


def test_the_pose_survives_saving(result: pf.TransportResult, tmp_path: Path) -> None:
    result.save(tmp_path / "out")
    loaded = pf.load(tmp_path / "out")
    assert isinstance(loaded, pf.TransportResult)
    assert loaded.pose == result.pose
    assert loaded.motion == result.motion
    np.testing.assert_array_equal(loaded.deformation_field, result.deformation_field)


def test_the_motion_of_a_shift_is_a_shift_aligned_or_not() -> None:
    for align in ("none", "shift"):
        config = pf.TransportConfig(align=align, penalty="balanced", blur_um=1.0)
        motion = pf.compare(SMALL, np.roll(SMALL, 5, axis=1), config).motion
        assert motion.shift_yx == pytest.approx((0, 5), abs=0.05)
        assert motion.shift_share > 0.99


def test_pixel_sizes_and_canvases_may_differ() -> None:
    pair = planted_pair(6, "rigid", flip=False, px_ratio=1.7)
    source = pf.Mask.from_array(pair.source, px_size_um=1.0)
    target = pf.Mask.from_array(pair.target, px_size_um=1.7)
    result = pf.compare(source, target, pf.TransportConfig(align="rigid"))
    assert result.M_target == pytest.approx(pair.target.sum() * 1.7**2, rel=1e-9)
    assert result.total_mass_created / result.M_target < 0.02


def test_a_canvas_that_grows_is_reported() -> None:
    cut = SMALL[:, 70:]
    result = pf.compare(cut, SMALL, pf.TransportConfig(align="rigid"))
    assert result.pose is not None
    assert result.transform.canon_shape_hw != cut.shape
    assert any("was extended to" in str(notice) for notice in result.notices)
    assert result.M_target == pytest.approx(SMALL.sum(), rel=1e-9)


def test_a_given_transform_keeps_its_canvas() -> None:
    moved = np.roll(SMALL, 5, axis=1)
    transform = GridTransform.from_pair(SMALL, moved, 1, px_size_um=None)
    result = pf.compare(SMALL, moved, pf.TransportConfig(align="shift"), transform=transform)
    assert result.transform.canon_shape_hw == SMALL.shape
    with pytest.raises(pf.PairframeError, match="use canvas_hw="):
        pf.compare(
            SMALL[:, 70:],
            SMALL,
            pf.TransportConfig(align="rigid"),
            transform=GridTransform.from_pair(SMALL[:, 70:], SMALL[:, 70:], 1, px_size_um=None),
        )


def test_an_undetermined_pose_is_a_notice() -> None:
    one, other = disc((70, 70), (30, 30), 20), disc((70, 70), (38, 36), 20)
    result = pf.compare(one, other, pf.TransportConfig(align="rigid"))
    assert any("the pose is undetermined" in str(notice) for notice in result.notices)


def test_an_empty_mask_is_not_aligned() -> None:
    result = pf.compare(SMALL, SMALL * False, pf.TransportConfig(align="rigid"))
    assert result.pose is None
    assert "not aligned, because the target is empty" in map(str, result.notices)


def test_distances_and_intensities_are_moved_too() -> None:
    turned = np.rot90(SMALL, 2)
    for mode in ("distance_transform", "boundary_band(3)", "intensity"):
        result = pf.compare(SMALL, turned, pf.TransportConfig(align="rigid", mass_mode=mode))
        assert result.pose is not None
        assert abs(result.pose.angle_deg) == 180
        assert result.total_mass_created < 1e-3 * result.M_target


def test_unknown_kinds_are_refused() -> None:
    with pytest.raises(pf.PairframeError, match="align to be one of none, shift, rigid, similarity"):
        pf.TransportConfig(align="affine")

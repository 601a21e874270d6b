"""A mask inside the other leaves a range of poses: the one in the middle is taken, so that growth on all sides looks like it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage

import pairframe as pf
from pairframe.testing import disc, embryo

SMALL = embryo((96, 200), growth=0.4)


@pytest.mark.parametrize(("first_px", "second_px"), [(20, 24), (20, 30), (24, 20), (30, 12), (50, 53)])
@pytest.mark.parametrize("seed", [0, 2])
def test_concentric_discs_stay_concentric(first_px: float, second_px: float, seed: int) -> None:
    at = 70 + np.random.default_rng(seed).uniform(-6, 6, 2)
    source, target = disc((140, 140), (70, 70), first_px), disc((140, 140), (at[0], at[1]), second_px)
    pose = pf.align(source, target)
    centres = [np.argwhere(mask).mean(axis=0) for mask in (source, target)]
    assert pose.status == "undetermined"
    np.testing.assert_allclose(pose.shift_yx_um, centres[0] - centres[1], atol=0.6)


@pytest.mark.parametrize("angle", [0.0, 30.0, 100.0])
def test_growth_on_all_sides_is_not_growth_on_one(angle: float) -> None:
    grown = np.pad(ndimage.binary_dilation(SMALL, iterations=6), 60)
    target = ndimage.rotate(grown, angle, order=0, reshape=False) if angle else grown
    pose = pf.align(SMALL, target)
    assert abs(np.remainder(pose.angle_deg + angle + 180, 360) - 180) < 1.5
    canvas_hw, origin = pose.canvas_for(pf.Mask.from_array(target))
    moved = pose.apply(pf.Mask.from_array(target), canvas_hw=canvas_hw, origin_yx=origin).values
    source = np.zeros(canvas_hw, bool)
    source[origin[0] : origin[0] + 96, origin[1] : origin[1] + 200] = SMALL
    # The rim is 6 px wide on every side: no pixel of the source is nearer than 4 px to the outside.
    distance = ndimage.distance_transform_edt(moved > 0.5)
    assert distance[source].min() > 3.5


def test_a_mask_that_fits_in_one_place_only_is_not_moved_from_it() -> None:
    missing = SMALL.copy()
    missing[:, :90] = False
    pose = pf.align(SMALL, np.roll(missing, (3, -5), (0, 1)))
    assert pose.shift_yx_um == (-3.0, 5.0)
    assert pose.angle_deg == 0.0

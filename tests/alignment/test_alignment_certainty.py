"""Round, symmetric and contained shapes are never called aligned."""

from __future__ import annotations

import numpy as np
import pytest

import pairframe as pf
from pairframe.testing import disc, embryo, symmetric_pair


def false_certainties(n: int, seed: int) -> list[str]:
    wrong = []
    for k in range(n):
        pair = symmetric_pair(n * seed + k)
        kind = "similarity" if k % 7 == 3 else "rigid"
        pose = pf.align(pair.source, pair.target, kind=kind, allow_flip=bool(k % 3))
        if pose.status == "aligned":
            wrong.append(f"{pair.name}, {kind}")
    return wrong


def test_no_symmetric_or_contained_shape_is_called_aligned() -> None:
    assert false_certainties(45, seed=0) == []


@pytest.mark.slow
def test_none_of_six_hundred_is() -> None:
    assert false_certainties(600, seed=1) == []


def test_a_disc_is_undetermined_and_only_shifted() -> None:
    pose = pf.align(disc((80, 90), (40, 41), 20), disc((80, 90), (30, 52), 20), allow_flip=True)
    assert (pose.status, pose.kind, pose.angle_deg, pose.flipped) == ("undetermined", "shift", 0.0, False)
    assert pose.shift_yx_um == pytest.approx((10, -11), abs=0.3)


def test_a_contained_disc_is_centred() -> None:
    pose = pf.align(disc((90, 90), (45, 45), 35), disc((90, 90), (38, 50), 12))
    assert pose.status == "undetermined"
    assert pose.shift_yx_um == pytest.approx((7, -5), abs=1)


def test_an_ellipse_is_ambiguous_and_the_runner_up_is_turned_by_half() -> None:
    y, x = np.indices((100, 140)) - np.array([50, 70])[:, None, None]
    ellipse = (y / 20) ** 2 + (x / 50) ** 2 <= 1
    pose = pf.align(ellipse, np.rot90(ellipse))
    assert pose.status == "ambiguous"
    assert pose.runner_up is not None
    assert pose.runner_up.change.turn_between(pose.change) == pytest.approx(180, abs=2)
    assert pose.runner_up.iou == pytest.approx(pose.iou_after, abs=0.03)
    assert "another pose" in pose.summary()


def test_a_shift_of_a_contained_mask_is_undetermined_and_of_two_places_ambiguous() -> None:
    inside = embryo((96, 200), growth=0.4)
    assert pf.align(inside, np.roll(inside, 9, axis=1), kind="shift").status == "aligned"
    assert pf.align(np.ones((90, 90), bool), disc((90, 90), (45, 45), 12), kind="shift").status == "undetermined"
    two = disc((60, 160), (30, 30), 14) | disc((60, 160), (30, 120), 14)
    assert pf.align(two, disc((60, 160), (30, 80), 14), kind="shift").status == "ambiguous"

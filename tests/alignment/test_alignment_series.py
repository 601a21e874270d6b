"""Along a series, the neighbours decide between near ties, and a jump is flagged unless they confirm it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import pairframe as pf
from pairframe.alignment import Similarity
from pairframe.alignment.ambiguity import PoseStatus
from pairframe.alignment.series import settle_series, swapped
from pairframe.testing import embryo
from pairframe.types import Bool

REFERENCE = embryo((120, 240), growth=0.5)


def masks_of(shapes: list[Bool]) -> list[pf.Mask]:
    return [pf.Mask.from_array(shape, px_size_um=2.0) for shape in shapes]


def test_changes_follow_each_other() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        one, two = (
            Similarity(
                float(rng.uniform(-180, 180)),
                (float(rng.normal()), float(rng.normal())),
                bool(rng.integers(2)),
                float(rng.uniform(0.5, 2)),
                (float(rng.normal()), float(rng.normal())),
            )
            for _ in range(2)
        )
        points = rng.normal(size=(5, 2))
        np.testing.assert_allclose(one.then(two).of_points(points), two.of_points(one.of_points(points)), atol=1e-12)


@pytest.fixture(scope="module")
def series() -> tuple[list[pf.Mask], list[pf.Pose]]:
    """Five frames that turn by 90 degrees from one to the next; every pose is right."""
    turns = [0, 1, 2, 3, 0]
    masks = masks_of([np.rot90(embryo((200, 240), growth=0.5 + 0.01 * t), k) for t, k in enumerate(turns)])
    reference = pf.Mask.from_array(REFERENCE, px_size_um=2.0)
    return masks, [pf.align(reference, mask, allow_flip=True) for mask in masks]


def test_turns_that_the_overlap_confirms_are_no_jumps(series: tuple[list[pf.Mask], list[pf.Pose]]) -> None:
    masks, poses = series
    found = settle_series(poses, masks.__getitem__)
    assert [one.pose.change for one in found] == [pose.change for pose in poses]
    assert [one.turn_deg for one in found[1:]] == pytest.approx([90] * 4, abs=3)
    assert not any(one.jumps or one.by_neighbours for one in found)


def test_neighbours_decide_an_ambiguous_pose(series: tuple[list[pf.Mask], list[pf.Pose]]) -> None:
    masks, poses = series
    wrong = replace(swapped(poses[2]), status=PoseStatus.ambiguous, iou_after=poses[2].iou_after + 0.01)
    found = settle_series([*poses[:2], wrong, *poses[3:]], masks.__getitem__)
    assert found[2].by_neighbours
    assert found[2].pose.change == poses[2].change


def test_a_wrong_pose_that_is_not_ambiguous_stays_and_is_flagged(series: tuple[list[pf.Mask], list[pf.Pose]]) -> None:
    masks, poses = series
    found = settle_series([*poses[:2], swapped(poses[2]), *poses[3:]], masks.__getitem__)
    assert found[2].pose.change != poses[2].change
    assert found[2].jumps
    assert not found[1].jumps


def test_an_undetermined_frame_tells_its_neighbours_nothing(series: tuple[list[pf.Mask], list[pf.Pose]]) -> None:
    masks, poses = series
    shifted = replace(poses[2], status=PoseStatus.undetermined, change=Similarity(), kind="shift")
    found = settle_series([*poses[:2], shifted, *poses[3:]], masks.__getitem__)
    assert found[2].turn_deg is None
    assert found[3].turn_deg == pytest.approx(180, abs=3)
    assert not found[3].jumps
    assert settle_series([], masks.__getitem__) == []

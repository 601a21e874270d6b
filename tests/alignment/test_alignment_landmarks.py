"""Landmarks decide what outlines leave open; a missing one is reported."""

from __future__ import annotations

import numpy as np
import pytest

import pairframe as pf
from pairframe.testing import disc

Y, X = np.indices((100, 160))
ELLIPSE = ((Y - 50) / 22) ** 2 + ((X - 80) / 55) ** 2 <= 1
YOLK = disc((100, 160), (55, 112), 9)


def test_a_landmark_tells_head_from_tail() -> None:
    turned, yolk = ELLIPSE[::-1, ::-1], YOLK[::-1, ::-1]
    assert pf.align(ELLIPSE, turned).status == "ambiguous"
    pose = pf.align(ELLIPSE, turned, landmarks=(YOLK, yolk))
    assert (pose.status, pose.landmark) == ("aligned", "used")
    assert abs(pose.angle_deg) == pytest.approx(180)
    np.testing.assert_array_equal(pose.apply(pf.Mask.from_array(yolk)).values, YOLK)


def test_a_landmark_tells_a_flip() -> None:
    mirrored, yolk = ELLIPSE[::-1], YOLK[::-1]
    pose = pf.align(ELLIPSE, mirrored, landmarks=(YOLK, yolk), allow_flip=True)
    assert pose.flipped
    assert pose.angle_deg == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(
    ("landmarks", "side"),
    [((YOLK, None), "target"), ((None, YOLK), "source"), ((YOLK * False, YOLK), "source")],
)
def test_a_missing_landmark_is_reported_and_not_replaced(landmarks: tuple[object, object], side: str) -> None:
    pose = pf.align(ELLIPSE, ELLIPSE, landmarks=landmarks)
    assert (pose.landmark, pose.status) == ("missing", "ambiguous")
    assert f"the landmark of the {side} is missing, so no landmark was used" in pose.notices


def test_a_landmark_outside_the_mask_is_refused() -> None:
    with pytest.raises(pf.PairframeError, match="landmark of the target to lie on its mask, got 100 % of it outside"):
        pf.align(ELLIPSE, ELLIPSE, landmarks=(YOLK, disc((100, 160), (10, 10), 5)))


def test_a_landmark_on_another_canvas_is_refused() -> None:
    with pytest.raises(pf.PairframeError, match="landmark of the source on the canvas of its mask, 100 x 160 px"):
        pf.align(ELLIPSE, ELLIPSE, landmarks=(YOLK[1:], YOLK))
    with pytest.raises(pf.PairframeError, match="landmarks to be a pair"):
        pf.align(ELLIPSE, ELLIPSE, landmarks=YOLK)  # type: ignore[arg-type]
    with pytest.raises(pf.PairframeError, match="with the pixel size of its mask"):
        pf.align(ELLIPSE, ELLIPSE, landmarks=(pf.Mask.from_array(YOLK, px_size_um=2.0), YOLK))

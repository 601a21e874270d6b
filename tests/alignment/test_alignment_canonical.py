"""Single masks come into a standard pose: by a reference, by their axis, by a landmark."""

from __future__ import annotations

import numpy as np
import pytest

import pairframe as pf
from pairframe.testing import disc, embryo, planted_pair
from pairframe.types import Float

DROP = embryo((160, 160), growth=0.3, yolk_px=60)


def on_canvas(pose: pf.Pose, inside: Float) -> Float:
    return np.asarray(pose.apply(pf.Mask.from_array(inside)).values, dtype=float)


@pytest.mark.parametrize("quarter", range(4))
def test_one_mask_at_any_turn_comes_to_one_pose(quarter: int) -> None:
    first = on_canvas(pf.canonical_pose(DROP, (120, 200)), DROP)
    pose = pf.canonical_pose(np.rot90(DROP, quarter), (120, 200))
    assert pose.status == "aligned"
    np.testing.assert_allclose(on_canvas(pose, np.rot90(DROP, quarter)), first, atol=1e-6)


def test_the_thick_end_comes_to_the_left_and_the_centroid_to_the_middle() -> None:
    moved = on_canvas(pf.canonical_pose(DROP, (120, 200)), DROP)
    at = np.indices(moved.shape).reshape(2, -1)
    centre = at @ moved.ravel() / moved.sum()
    assert centre == pytest.approx([59.5, 99.5], abs=1e-9)
    columns = moved.sum(axis=0)
    assert columns[:100].max() > columns[100:].max()
    assert 100 - np.flatnonzero(columns)[0] < np.flatnonzero(columns)[-1] - 100


def test_a_reference_gives_its_own_pose() -> None:
    pair = planted_pair(4, "rigid", flip=True)
    reference = pf.Mask.from_array(pair.source)
    pose = pf.canonical_pose(pair.target, (300, 620), reference=reference, allow_flip=True)
    moved = pose.apply(pf.Mask.from_array(pair.target)).values
    both = (moved[22:278, 22:598] * pair.source).sum()
    assert both / pair.source.sum() > 0.97
    assert pose.flipped


def test_a_landmark_becomes_the_middle_and_lies_below_the_axis() -> None:
    y, x = np.indices((100, 160))
    body = ((y - 50) / 22) ** 2 + ((x - 80) / 55) ** 2 <= 1
    yolk = disc((100, 160), (40, 112), 7)
    pose = pf.canonical_pose(body, (160, 240), landmark=yolk, allow_flip=True)
    assert pose.landmark == "used"
    moved, mark = on_canvas(pose, body), on_canvas(pose, yolk)
    at = np.indices(moved.shape).reshape(2, -1)
    centre, anchor = at @ moved.ravel() / moved.sum(), at @ mark.ravel() / mark.sum()
    assert anchor == pytest.approx([79.5, 119.5], abs=1e-6)
    assert centre[1] > anchor[1] + 20
    assert centre[0] < anchor[0] - 5


def test_a_missing_landmark_is_reported() -> None:
    pose = pf.canonical_pose(DROP, (120, 200), landmark=DROP * False)
    assert pose.landmark == "missing"
    assert "the landmark is missing, so no landmark was used" in pose.notices


def test_a_disc_has_no_axis_and_a_rod_no_head() -> None:
    assert pf.canonical_pose(disc((60, 60), (30, 30), 15), (60, 60)).status == "undetermined"
    rod = np.zeros((60, 60), bool)
    rod[28:33, 5:55] = True
    assert pf.canonical_pose(rod, (60, 60)).status == "ambiguous"


def test_the_pixel_size_of_the_canvas_may_differ() -> None:
    mask = pf.Mask.from_array(DROP, px_size_um=2.0)
    moved = pf.canonical_pose(mask, (260, 400), px_size_um=1.0).apply(mask)
    assert moved.px_size_um == 1.0
    assert moved.values.sum() == pytest.approx(mask.area_um2, rel=1e-12)


def test_bad_input_is_explained() -> None:
    with pytest.raises(pf.PairframeError, match=r"a mask of at least 9 pixels.*got an empty mask"):
        pf.canonical_pose(DROP * False, (60, 60))
    with pytest.raises(pf.PairframeError, match="canvas_hw to be two integers"):
        pf.canonical_pose(DROP, 60)  # type: ignore[arg-type]
    with pytest.raises(pf.PairframeError, match="a mask with a known pixel size"):
        pf.canonical_pose(DROP, (60, 60), px_size_um=2.0)
    with pytest.raises(pf.PairframeError, match="use canvas_hw="):
        pf.canonical_pose(DROP, (20, 20)).apply(pf.Mask.from_array(DROP))

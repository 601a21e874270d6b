"""The body axis does not depend on how a mask lies on its pixels, and growth is found where it was planted."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy import ndimage

import pairframe as pf
from pairframe.axis import axis_rows
from pairframe.errors import AlignError, AxisError
from pairframe.testing import disc, embryo, growing_embryo
from pairframe.types import Bool, Float

Carry = Callable[[Float], Float]
EMBRYO = embryo((150, 400), centre_yx=(60, 190))


def egg() -> Bool:
    ys, xs = np.indices((130, 240))
    return ((ys - 65) / (45 - 0.15 * (xs - 120))) ** 2 + ((xs - 120) / 100) ** 2 <= 1


SHAPES = {
    "embryo": EMBRYO,
    "bent embryo with a large yolk": growing_embryo(6)[0],
    "curled embryo": embryo((400, 576), bend=4.2, yolk_px=40),
    "no yolk": embryo(yolk_px=0),
    "rod": np.pad(np.ones((24, 160), bool), 20),
    "egg": egg(),
}


def turned(mask: Bool, degrees: float) -> tuple[Bool, Carry]:
    """A mask turned about its middle on a larger canvas, and the function that carries pixels (n, 2) along."""
    angle = np.deg2rad(degrees)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    middle, side = (np.array(mask.shape) - 1) / 2, int(np.hypot(*mask.shape)) + 20
    new_middle = np.full(2, (side - 1) / 2)
    soft = ndimage.gaussian_filter(mask.astype(float), 0.5)
    found = ndimage.affine_transform(soft, turn.T, middle - turn.T @ new_middle, output_shape=(side, side), order=1)
    return found >= 0.5, lambda at: (at - middle) @ turn.T + new_middle


def difference(one: Float, other: Float) -> float:
    """The largest difference of two coordinates, or of one and the reverse of the other, whichever agrees better."""
    return min(float(np.abs(one - other).max()), float(np.abs(one - (1 - other)).max()))


@pytest.mark.parametrize("name", SHAPES)
def test_s_does_not_depend_on_the_angle(name: str) -> None:
    mask, places = SHAPES[name], np.argwhere(SHAPES[name])
    before = pf.body_axis(mask)
    for degrees in (23, 45, 90, 117, 233):
        other, carry = turned(mask, degrees)
        after = pf.body_axis(other)
        there = np.rint(carry(places)).astype(int)
        on = other[tuple(there.T)]
        assert difference(before.s[tuple(places[on].T)], after.s[tuple(there[on].T)]) < 0.02
        if not before.is_ambiguous:
            assert np.abs(before.s[tuple(places[on].T)] - after.s[tuple(there[on].T)]).max() < 0.02


def test_grey_outlines_count_alike_in_source_target_and_mask() -> None:
    # Every pixel of the outline of a rod of 20.4 x 150.4 px is covered by a fifth on each side.
    covered = np.pad(np.pad(np.ones((20, 150)), 1, constant_values=0.2), 20)
    sharp = np.pad(np.ones((20, 150), bool), 21)
    grey = pf.Mask(covered, coverage=True)
    for factor in (1, 2):
        rows, axis = axis_rows(pf.compare(grey, grey, pf.TransportConfig(downsample_factor=factor)), "pair")
        assert axis is not None
        assert rows["axis_length_um"].iloc[0] == rows["target_axis_length_um"].iloc[0]
    expected = pf.body_axis(sharp)
    for one in (pf.body_axis(grey), pf.body_axis(pf.compare(grey, sharp))):
        assert one.length_um == expected.length_um
        np.testing.assert_array_equal(one.thickness_um, expected.thickness_um)


def test_every_pixel_with_an_intensity_counts() -> None:
    rod = np.pad(np.ones((20, 150)), 20)
    dim = pf.Mask.from_array(rod * np.where(np.arange(190) < 60, 0.1, 1.0), density=True)
    rows, axis = axis_rows(pf.compare(dim, dim, pf.TransportConfig(mass_mode="intensity")), "pair")
    assert axis is not None
    assert axis.length_um == pf.body_axis(rod > 0).length_um == rows["target_axis_length_um"].iloc[0]


@pytest.mark.parametrize("name", SHAPES)
def test_s_does_not_depend_on_single_pixels_of_the_outline(name: str) -> None:
    mask, before = SHAPES[name], pf.body_axis(SHAPES[name])
    outline = ndimage.binary_dilation(mask) & ~ndimage.binary_erosion(mask)
    for seed in range(3):
        flipped = mask ^ (outline & (np.random.default_rng(seed).random(mask.shape) < 0.5))
        labels, _ = ndimage.label(flipped, np.ones((3, 3)))
        one = labels == 1 + int(np.argmax(np.bincount(labels.ravel())[1:]))
        both = one & mask
        assert difference(before.s[both], pf.body_axis(one).s[both]) < 0.02
    for grown in (ndimage.binary_dilation(mask), ndimage.binary_erosion(mask)):
        both = grown & mask
        assert difference(before.s[both], pf.body_axis(grown).s[both]) < 0.02


def test_a_rod_is_measured_exactly() -> None:
    axis = pf.body_axis(pf.Mask.from_array(SHAPES["rod"], px_size_um=0.5))
    assert axis.length_um == pytest.approx(80.0, abs=0.1)
    np.testing.assert_allclose(axis.thickness_um[10:-10], 12.0, rtol=0.02)
    np.testing.assert_allclose(axis.centreline_yx_um[:, 0], (20 + 12) * 0.5, atol=0.02)
    expected = np.linspace(0, 1, 161)[:-1] + 0.5 / 160
    found = axis.s[30, 20:180]
    assert difference(found, expected) < 2e-3
    assert axis.orientation == "ambiguous"


def test_the_head_is_the_thick_end() -> None:
    axis = pf.body_axis(EMBRYO)
    assert axis.orientation == "thickest"
    assert axis.s[tuple(np.argwhere(EMBRYO)[np.argwhere(EMBRYO)[:, 1].argmin()])] < 0.05
    mirrored = pf.body_axis(EMBRYO[:, ::-1])
    np.testing.assert_allclose(mirrored.s[:, ::-1][EMBRYO], axis.s[EMBRYO], atol=5e-3)


def test_a_landmark_or_a_reference_says_where_the_head_is() -> None:
    tail_end = EMBRYO & (np.arange(EMBRYO.shape[1]) > 330)
    assert tail_end.any()
    by_rule, by_landmark = pf.body_axis(EMBRYO), pf.body_axis(EMBRYO, head=tail_end)
    assert by_landmark.orientation == "landmark"
    np.testing.assert_allclose(by_landmark.s[EMBRYO], 1 - by_rule.s[EMBRYO], atol=1e-12)
    by_reference = pf.body_axis(EMBRYO, reference=by_landmark)
    assert by_reference.orientation == "reference"
    np.testing.assert_array_equal(by_reference.s, by_landmark.s)


def test_a_landmark_in_the_middle_is_ambiguous() -> None:
    rod = SHAPES["rod"]
    middle = rod & (np.abs(np.arange(rod.shape[1]) - 99.5) < 5)
    assert pf.body_axis(rod, head=middle).is_ambiguous


def test_a_curled_body_is_not_short_cut_where_it_comes_near_itself() -> None:
    axis = pf.body_axis(SHAPES["curled embryo"])
    assert axis.length_um == pytest.approx(pf.body_axis(embryo((400, 576), bend=0.6, yolk_px=40)).length_um, rel=0.03)


def test_specks_and_holes_do_not_matter() -> None:
    spoiled = EMBRYO.copy()
    spoiled[2:4, 2:4] = True
    spoiled[tuple(np.argwhere(pf.body_axis(EMBRYO).s > 0.2)[500])] = False
    np.testing.assert_allclose(
        pf.body_axis(spoiled).s[spoiled & EMBRYO], pf.body_axis(EMBRYO).s[spoiled & EMBRYO], atol=1e-3
    )


# --- bad input -------------------------------------------------------------------------------


def test_masks_without_an_axis_say_why() -> None:
    with pytest.raises(AxisError, match=r"an elongated mask.*got one 1\.3 times as long.*use radial_profile"):
        pf.body_axis(disc((80, 80), (40, 40), 30))
    with pytest.raises(AxisError, match="a round object has no axis"):
        pf.body_axis(np.pad(np.ones((40, 40), bool), 4))
    with pytest.raises(AxisError, match="a mask with an object, got an empty mask"):
        pf.body_axis(np.zeros((20, 20), bool))
    with pytest.raises(AxisError, match=r"a mask of one piece, got 2 pieces, with 50 % of the pixels"):
        pf.body_axis(np.concatenate([SHAPES["rod"], SHAPES["rod"]]))
    with pytest.raises(AxisError, match="an object of at least 60 pixels, got 50"):
        pf.body_axis(np.pad(np.ones((2, 25), bool), 4))


def test_landmarks_that_do_not_fit_are_refused() -> None:
    with pytest.raises(AxisError, match="a landmark with pixels"):
        pf.body_axis(EMBRYO, head=np.zeros(EMBRYO.shape, bool))
    with pytest.raises(AlignError, match="on the canvas of its mask"):
        pf.body_axis(EMBRYO, head=np.ones((3, 3), bool))
    with pytest.raises(AlignError, match="to lie on its mask"):
        pf.body_axis(EMBRYO, head=~EMBRYO)


@pytest.mark.parametrize("shape", [(3, 60), (1, 80), (60, 3), (2, 400)])
def test_thin_rods_have_an_axis(shape: tuple[int, int]) -> None:
    axis = pf.body_axis(np.pad(np.ones(shape, bool), 3))
    assert axis.length_um == pytest.approx(max(shape), abs=3.0)
    assert np.isfinite(axis.s).sum() == np.prod(shape)


@pytest.mark.skipif("PAIRFRAME_DATA" not in os.environ, reason="real data are not shipped")
def test_real_bacteria_are_rods() -> None:
    with np.load(Path(os.environ["PAIRFRAME_DATA"]) / "ecoli_trpL_colony_20f.npz") as file:
        frame = file["labels"][8]
    for number in np.unique(frame)[1:]:
        axis = pf.body_axis(frame == number)
        assert 40 < axis.length_um < 150
        middle = axis.thickness_um[30:71]
        assert 12 < middle.min() <= middle.max() < 25  # one width along the whole cell

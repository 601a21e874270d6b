"""Round, symmetric and contained shapes are never called aligned."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import ndimage

import pairframe as pf
from pairframe.alignment.similarity import Similarity
from pairframe.testing import disc, embryo
from pairframe.types import Bool, Float

KINDS = ("disc", "ellipse", "rectangle", "polygon", "star")


def symmetric_shape(kind: str, radius: float, rng: np.random.Generator) -> Float:
    """Signed distance (about), positive inside, of a shape with some symmetry, on (401, 401) half pixels."""
    y, x = np.indices((401, 401)) - 200.0
    if kind in ("disc", "ellipse", "rectangle"):
        y = y * (1.0 if kind == "disc" else rng.uniform(1.02, 2.2))
        return radius - (np.maximum(np.abs(y), np.abs(x)) if kind == "rectangle" else np.hypot(y, x))
    n = int(rng.integers(3, 9))
    sector = np.mod(np.arctan2(y, x) + math.pi / n, 2 * math.pi / n) - math.pi / n
    wave = 1 + (rng.uniform(0.05, 0.3) * np.cos(n * sector) if kind == "star" else 0.0)
    return radius * math.cos(math.pi / n) / np.cos(sector) * wave - np.hypot(y, x)


def placed(shape: Float, noise: float, rng: np.random.Generator, hw: tuple[int, int] = (150, 170)) -> Bool:
    """The shape at a random pose with a rough boundary; its largest piece."""
    place = Similarity(float(rng.uniform(-180, 180)), (hw[0] / 2 + rng.uniform(-5, 5), hw[1] / 2 + rng.uniform(-5, 5)))
    positions = np.indices(hw).reshape(2, -1).T + 0.5
    at = place.inverse().of_points(positions) * 2 + 200
    found = ndimage.map_coordinates(shape, at.T, order=1, mode="nearest").reshape(hw)
    found += noise * 7 * ndimage.gaussian_filter(rng.standard_normal(hw), 2)
    ids, _ = ndimage.label(found > 0)
    largest: Bool = ids == np.bincount(ids.ravel())[1:].argmax() + 1
    return largest


def false_certainties(n: int, seed: int) -> list[str]:
    """The shapes called aligned: a third each of symmetric pairs, small ones and one contained in another."""
    rng = np.random.default_rng(seed)
    wrong = []
    for k in range(n):
        kind = KINDS[k % len(KINDS)]
        group = ("symmetric", "small", "contained")[(k // len(KINDS)) % 3]
        noise = float(rng.choice([0.0, 0.5, 1.5]))
        radius = rng.uniform(30, 120) if group == "symmetric" else rng.uniform(12, 40)
        shape = symmetric_shape(kind, radius, rng)
        source, target = placed(shape, noise, rng), placed(shape, noise, rng)
        if group == "contained":
            source = placed(symmetric_shape("disc", rng.uniform(90, 130), rng), noise, rng)
        if k % 2:
            source, target = target, source
        pose = pf.align(source, target, kind="similarity" if k % 7 == 3 else "rigid", allow_flip=bool(k % 3))
        if pose.status == "aligned":
            wrong.append(f"{group} {kind} of radius {radius:.0f}, noise {noise}")
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

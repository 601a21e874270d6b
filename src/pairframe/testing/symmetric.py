"""Pairs of masks whose outlines do not determine a pose: round, symmetric, small, or one inside the other."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import ndimage

from pairframe.alignment.similarity import Similarity
from pairframe.types import Bool, Float

SHAPES = ("disc", "ellipse", "rectangle", "polygon", "star")
GROUPS = ("symmetric", "small", "contained")


@dataclass(frozen=True, eq=False)
class SymmetricPair:
    """Two masks, (H, W) bool, and what they are."""

    source: Bool
    target: Bool
    name: str


def symmetric_pair(seed: int) -> SymmetricPair:
    """Two poses of one shape with some symmetry, or such a shape inside a disc; some have a rough boundary."""
    rng = np.random.default_rng(seed)
    shape = SHAPES[seed % len(SHAPES)]
    group = GROUPS[(seed // len(SHAPES)) % len(GROUPS)]
    noise = float(rng.choice([0.0, 0.5, 1.5]))
    radius = float(rng.uniform(15, 60) if group == "symmetric" else rng.uniform(6, 20))
    drawing = _draw(shape, radius, rng)
    source, target = _place(drawing, noise, rng), _place(drawing, noise, rng)
    if group == "contained":
        source = _place(_draw("disc", rng.uniform(45, 65), rng), noise, rng)
    if rng.random() < 0.5:
        source, target = target, source
    return SymmetricPair(source, target, f"{group} {shape} of radius {radius:.0f} px, roughness {noise:g} px")


def _draw(shape: str, radius: float, rng: np.random.Generator) -> Float:
    """About the signed distance to a shape, positive inside, px; on (401, 401) half pixels."""
    y, x = (np.indices((401, 401)) - 200.0) / 2
    distance: Float
    if shape in ("disc", "ellipse", "rectangle"):
        y = y * (1.0 if shape == "disc" else rng.uniform(1.02, 2.2))
        distance = radius - (np.maximum(np.abs(y), np.abs(x)) if shape == "rectangle" else np.hypot(y, x))
        return distance
    n = int(rng.integers(3, 9))
    sector = np.mod(np.arctan2(y, x) + math.pi / n, 2 * math.pi / n) - math.pi / n
    wave = 1 + (rng.uniform(0.05, 0.3) * np.cos(n * sector) if shape == "star" else 0.0)
    distance = radius * math.cos(math.pi / n) / np.cos(sector) * wave - np.hypot(y, x)
    return distance


def _place(drawing: Float, noise: float, rng: np.random.Generator) -> Bool:
    """A shape at a random pose, its boundary moved by about `noise` pixels; its largest piece."""
    height, width = 180, 200
    middle = (height / 2 + float(rng.uniform(-5, 5)), width / 2 + float(rng.uniform(-5, 5)))
    place = Similarity(float(rng.uniform(-180, 180)), middle)
    at = place.inverse().of_points(np.indices((height, width)).reshape(2, -1).T + 0.5) * 2 + 200
    found = ndimage.map_coordinates(drawing, at.T, order=1, mode="nearest").reshape(height, width)
    found += noise * 7 * ndimage.gaussian_filter(rng.standard_normal((height, width)), 2)
    ids, _ = ndimage.label(found > 0)
    largest: Bool = ids == np.bincount(ids.ravel())[1:].argmax() + 1
    return largest

"""Pairs of embryo-like masks with a known pose between them, to test alignment."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import ndimage

from pairframe.alignment.similarity import Similarity
from pairframe.types import Bool, Float

CHANGES = ("rigid", "head", "tail", "bend", "missing", "mixed")
_FINE = 2  # pixels of the drawing of a body per pixel of an image


@dataclass(frozen=True, eq=False)
class PlantedPair:
    """A pair with its true pose.

    Attributes
    ----------
    source, target : (H, W) bool
        The same body, changed and moved in the target.
    px_source, px_target : float
        Side of a pixel.
    matrix : (2, 2), offset : (2,)
        Target positions move to ``matrix @ p + offset`` on the source; (y, x) from the corner of the canvas, with pixel
        ``i`` centred at ``(i + 0.5) * px``.
    flipped : bool
        Whether the target is mirrored.
    change : str
        Of `CHANGES`.
    """

    source: Bool
    target: Bool
    px_source: float
    px_target: float
    matrix: Float
    offset: Float
    flipped: bool
    change: str

    def errors(self, matrix: Float, offset: Float) -> tuple[float, float]:
        """Degrees between a pose and the truth (180 for the wrong handedness), and rms distance over the target."""
        if np.linalg.det(matrix) * np.linalg.det(self.matrix) < 0:
            return 180.0, math.inf
        rest = matrix @ np.linalg.inv(self.matrix)
        angle = abs(math.degrees(math.atan2(rest[1, 0] - rest[0, 1], rest[0, 0] + rest[1, 1])))
        points = (np.argwhere(self.target) + 0.5) * self.px_target
        apart = points @ (matrix - self.matrix).T + (offset - self.offset)
        return angle, float(np.sqrt((apart**2).sum(axis=1).mean()))


def planted_pair(
    seed: int,
    change: str = "rigid",
    *,
    flip: bool | None = None,
    px_ratio: float = 1.0,
    cut_share: float = 0.0,
    shape_hw: tuple[int, int] = (256, 576),
    growth: float = 1.0,
) -> PlantedPair:
    """A random embryo, and the same embryo changed, turned and shifted.

    Parameters
    ----------
    change : str
        ``rigid``: none. ``head``, ``tail``: grown by up to 1.5 there. ``bend``: the tail bent by 8 to 30 degrees.
        ``missing``: a piece of 5 to 15 % bitten off. ``mixed``: a weaker form of each.
    flip : bool, optional
        Mirror the target; at random if not given.
    px_ratio : float
        Pixel of the target over that of the source.
    cut_share : float
        Share of the target that lies beyond the border of its canvas.
    growth : float
        Factor of every length of the target.
    """
    rng = np.random.default_rng((seed, CHANGES.index(change)))
    body = {
        "length": rng.uniform(200, 330),
        "thickness": rng.uniform(16, 28),
        "curve": rng.uniform(0.2, 0.9),
        "yolk": rng.uniform(28, 46),
        "head": 1.0,
        "tail": 1.0,
        "bend": 0.0,
    }
    changed = dict(body)
    strength = 0.6 if change == "mixed" else 1.0
    if change in ("head", "mixed"):
        changed["head"] = 1 + strength * rng.uniform(0.1, 0.5)
    if change in ("tail", "mixed"):
        changed["tail"] = 1 + strength * rng.uniform(0.1, 0.5)
    if change in ("bend", "mixed"):
        changed["bend"] = strength * math.radians(rng.uniform(8, 30)) * rng.choice((-1, 1))
    bite = strength * rng.uniform(0.05, 0.15) if change in ("missing", "mixed") else 0.0
    place_source = Similarity(
        float(rng.uniform(-8, 8)), (shape_hw[0] / 2 + rng.uniform(-8, 8), shape_hw[1] / 2 + rng.uniform(-20, 20))
    )
    flipped = bool(rng.random() < 0.5) if flip is None else flip
    drawing_source, drawing_target = _draw(body, 0.0, rng), _draw(changed, bite, rng)
    side = 2 * growth * _radius(drawing_target) / px_ratio + 24
    target_hw = (round(side + rng.uniform(0, 60)), round(side + rng.uniform(0, 60)))
    centre = (target_hw[0] * px_ratio / 2 + rng.uniform(-5, 5), target_hw[1] * px_ratio / 2 + rng.uniform(-5, 5))
    place_target = Similarity(float(rng.uniform(-180, 180)), centre, flipped, growth)
    source, target = (
        _place(drawing_source, place_source, shape_hw, 1.0),
        _place(drawing_target, place_target, target_hw, px_ratio),
    )
    if cut_share > 0:
        target, moved = _cut(target, cut_share, int(rng.integers(4)))
        place_target = Similarity(
            place_target.angle_deg,
            (centre[0] - moved[0] * px_ratio, centre[1] - moved[1] * px_ratio),
            flipped,
            growth,
        )
    back = np.linalg.inv(place_target.matrix)
    matrix = place_source.matrix @ back
    offset = place_source.offset_yx_um - matrix @ place_target.offset_yx_um
    return PlantedPair(source, target, 1.0, px_ratio, matrix, offset, flipped, change)


def _draw(body: dict[str, float], bite: float, rng: np.random.Generator) -> Float:
    """Signed distance to a body (positive inside), with the point that keeps its place in the middle; fine pixels."""
    along = np.linspace(0.0, 1.0, int(_FINE * body["length"] * body["tail"]))
    angle = -2 * body["curve"] * (along - 0.3) ** 2 + body["bend"] * np.clip((along - 0.4) / 0.6, 0, None)
    step = np.where(along < 0.3, body["length"], body["length"] * body["tail"]) * _FINE / len(along)
    third = int(0.3 * len(along))
    ys, xs = np.cumsum(np.sin(angle) * step), np.cumsum(np.cos(angle) * step)
    ys, xs = ys - ys[third], xs - xs[third]
    radius = _FINE * body["thickness"] * (1 - 0.75 * along) * (0.6 + 0.4 * np.minimum(1.0, along / 0.08))
    radius = radius * (1 + (body["head"] - 1) * np.exp(-((along / 0.2) ** 2)))
    reach = int(np.hypot(ys, xs).max() + 2.5 * _FINE * body["yolk"]) + 8
    inside = np.zeros((2 * reach + 1, 2 * reach + 1), bool)
    for y, x, r in zip(ys + reach, xs + reach, radius, strict=True):
        top, left, size = int(y - r), int(x - r), int(2 * r) + 3
        gy, gx = np.ogrid[top : top + size, left : left + size]
        inside[top : top + size, left : left + size] |= (gy - y) ** 2 + (gx - x) ** 2 <= r * r
    gy, gx = np.ogrid[-reach : reach + 1, -reach : reach + 1]
    yolk = _FINE * body["yolk"]
    inside |= ((gy - 0.9 * _FINE * body["thickness"]) / (0.75 * yolk)) ** 2 + (gx / yolk) ** 2 <= 1
    if bite > 0:
        pixels = np.argwhere(inside)
        edge = np.argwhere(inside & ~ndimage.binary_erosion(inside))
        centre = edge[rng.integers(len(edge))]
        order = np.argsort(((pixels - centre) ** 2).sum(axis=1))[: int(bite * len(pixels))]
        inside[tuple(pixels[order].T)] = False
    distance: Float = ndimage.distance_transform_edt(inside) - ndimage.distance_transform_edt(~inside)
    return distance


def _radius(drawing: Float) -> float:
    points = np.argwhere(drawing > 0) - drawing.shape[0] // 2
    return float(np.sqrt((points**2).sum(axis=1).max())) / _FINE


def _place(drawing: Float, place: Similarity, shape_hw: tuple[int, int], px: float) -> Bool:
    positions = (np.indices(shape_hw).reshape(2, -1).T + 0.5) * px
    at = place.inverse().of_points(positions) * _FINE + drawing.shape[0] // 2
    found = ndimage.map_coordinates(drawing, at.T, order=1, mode="nearest").reshape(shape_hw)
    inside: Bool = found > 0
    return inside


def _cut(target: Bool, share: float, side: int) -> tuple[Bool, tuple[int, int]]:
    """Move the border of the canvas over a share of the target; the new canvas, and its corner on the old one."""
    turned = np.rot90(target, side)
    kept = np.cumsum(turned.sum(axis=1)) / target.sum()
    first = int(np.searchsorted(kept, share)) + 1
    cut = np.rot90(turned[first:], -side)
    corner = {0: (first, 0), 1: (0, 0), 2: (0, 0), 3: (0, first)}[side]
    return np.ascontiguousarray(cut), corner

"""The centreline of an elongated mask: a smooth curve through the middle, from outline to outline.

Geodesic distances inside the mask find the two tips and a first coordinate along the body. Then the curve through the mean
position of the pixels at each coordinate, and the coordinate of the nearest point of that curve, are computed in turns
(a principal curve). Each point of the curve is a mean over many pixels, so single pixels of the outline hardly matter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import ndimage
from scipy.interpolate import make_smoothing_spline
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra
from scipy.spatial import cKDTree

from pairframe.types import Bool, Float, Int

_POINTS = 4000  # blocks that the curve is fitted to, about
_BINS = 120
_SAMPLES = 401  # of the curve
_ROUNDS = 12
_STIFFNESS = 0.8  # widths of the body below which the curve does not bend
_SETTLED_PX = 0.02
_SMOOTH_OUTLINE_PX = 1.5  # sigma; where the curve leaves the mask
_EVERY_STEP = ((0, 1), (1, 0), (1, 1), (1, -1), (1, 2), (2, 1), (1, -2), (2, -1))  # half of 16 directions


@dataclass(frozen=True, eq=False)
class Centreline:
    """A curve from outline to outline.

    Attributes
    ----------
    points_yx : (n, 2)
        At equal steps of arc length; px, centres of pixels at integers.
    length : float
        px.
    """

    points_yx: Float
    length: float

    def reversed(self) -> Centreline:
        """The same curve from the other end."""
        return Centreline(self.points_yx[::-1], self.length)


@dataclass(frozen=True, eq=False)
class Geodesic:
    """Distances inside a mask from its two tips, on blocks of pixels.

    Attributes
    ----------
    block_of : (H, W) int
        Number of the block of each pixel; -1 outside.
    at_yx, weight : (n, 2), (n,)
        Mean position of the pixels of each block, px, and their number.
    share : (n,)
        Distance from the first tip over that from both: 0 at the first, 1 at the second.
    length : float
        Distance of the tips, px.
    """

    block_of: Int
    at_yx: Float
    weight: Float
    share: Float
    length: float


def geodesic(inside: Bool) -> Geodesic:
    """Tips of a connected mask (H, W), farthest from each other inside it, and the distances to them."""
    side = max(1, math.ceil(math.sqrt(np.count_nonzero(inside) / _POINTS)))
    y, x = np.nonzero(inside)
    rows = -(-inside.shape[0] // side)
    columns = -(-inside.shape[1] // side)
    number = (y // side) * columns + x // side
    found, block, count = np.unique(number, return_inverse=True, return_counts=True)
    at = np.stack([np.bincount(block, along) / count for along in (y, x)], axis=1)
    block_of = np.full(inside.shape, -1)
    block_of[y, x] = block
    graph = _graph(found, at, (rows, columns))
    # The block farthest from any other is a tip, and the one farthest from it is the other tip.
    first = _farthest(_distances(graph, _farthest(_distances(graph, 0))))
    from_first = _distances(graph, first)
    second = _farthest(from_first)
    from_second = _distances(graph, second)
    with np.errstate(invalid="ignore"):
        share = from_first / (from_first + from_second)
    return Geodesic(block_of, at, count.astype(np.float64), share, float(from_first[second]))


def centreline(geo: Geodesic, inside: Bool) -> Centreline:
    """The centreline of a mask from its first tip to its second."""
    width = np.count_nonzero(inside) / geo.length
    # A thin body must not vanish.
    sigma = min(_SMOOTH_OUTLINE_PX, 0.25 * width)
    soft = ndimage.gaussian_filter(np.pad(inside, 1).astype(np.float64), sigma, mode="constant")
    curve = _to_outline(_fitted(geo.share * geo.length, geo, width), soft, width)
    for _ in range(_ROUNDS):
        coordinate = project(curve, geo.at_yx, geo.share, width) * curve.length
        before, curve = curve, _to_outline(_fitted(coordinate, geo, width), soft, width)
        if np.abs(curve.points_yx - before.points_yx).max() < _SETTLED_PX:
            break
    return curve


def project(curve: Centreline, at_yx: Float, near: Float, width: float) -> Float:
    """Coordinate in [0, 1] of the nearest point of a curve, for points (n, 2).

    A curled body comes near itself, so only points of the curve about as far along as `near` (n,) says are considered.
    """
    step, points = 1.0 / (len(curve.points_yx) - 1), curve.points_yx
    window = 0.1 + 0.75 * width / curve.length
    index = np.array(cKDTree(points).query(at_yx)[1], dtype=np.int64).reshape(-1)
    far = np.flatnonzero(np.abs(index * step - near) > window)
    places = np.arange(len(points)) * step
    for some in np.array_split(far, max(1, len(far) // 2000)):
        squared = ((at_yx[some, None] - points) ** 2).sum(axis=-1)
        squared[np.abs(places - near[some, None]) > window] = np.inf
        index[some] = np.argmin(squared, axis=1)
    # The nearest point lies on one of the two segments that meet in the nearest sample.
    best, coordinate = np.full(len(at_yx), np.inf), np.zeros(len(at_yx))
    for start in (np.maximum(index - 1, 0), np.minimum(index, len(points) - 2)):
        along = points[start + 1] - points[start]
        t = np.clip(((at_yx - points[start]) * along).sum(axis=1) / (along**2).sum(axis=1), 0.0, 1.0)
        squared = ((points[start] + t[:, None] * along - at_yx) ** 2).sum(axis=1)
        closer = squared < best
        best, coordinate = np.where(closer, squared, best), np.where(closer, (start + t) * step, coordinate)
    return coordinate


def _graph(found: Int, at: Float, shape: tuple[int, int]) -> csr_array:
    """Blocks that are neighbours in one of 16 directions, with their distances; a knight's move needs a way around the corner."""
    row, column = np.divmod(found, shape[1])
    place = np.full((shape[0] + 4, shape[1] + 4), -1)
    place[row + 2, column + 2] = np.arange(len(found))
    pairs = []
    for dy, dx in _EVERY_STEP:
        other = place[row + 2 + dy, column + 2 + dx]
        on = other >= 0
        if abs(dy) + abs(dx) == 3:
            corner = place[row + 2 + (dy if abs(dy) == 1 else dy // 2), column + 2 + (dx if abs(dx) == 1 else dx // 2)]
            on &= corner >= 0
        pairs.append(np.stack([np.flatnonzero(on), other[on]]))
    start, end = np.concatenate(pairs, axis=1)
    lengths = np.maximum(np.hypot(*(at[start] - at[end]).T), 1e-6)
    return csr_array((lengths, (start, end)), shape=(len(found),) * 2)


def _distances(graph: csr_array, start: int) -> Float:
    """From one block to all, (n,); inf where there is no way."""
    found: Float = dijkstra(graph, directed=False, indices=np.array(start))
    return found.reshape(-1)


def _farthest(distances: Float) -> int:
    return int(np.argmax(np.where(np.isfinite(distances), distances, -1.0)))


def _fitted(coordinate: Float, geo: Geodesic, width: float) -> Float:
    """A smooth curve (n, 2) through the mean positions at each coordinate (px), a little beyond both ends."""
    known = np.isfinite(coordinate)
    coordinate, at, weight = coordinate[known], geo.at_yx[known], geo.weight[known]
    low, high = float(coordinate.min()), float(coordinate.max())
    step = (high - low) / _BINS
    index = np.minimum(((coordinate - low) / step).astype(int), _BINS - 1)
    total = np.bincount(index, weight, _BINS)
    on = total > 0
    means = [np.bincount(index, weight * values, _BINS)[on] / total[on] for values in (coordinate, *at.T)]
    # Bends shorter than the body is wide there are not followed: a smoothing spline forgets lengths below (lam / weight)^(1/4).
    local = ndimage.gaussian_filter1d(total, 0.5 * width / step, mode="nearest")[on] / step
    weight_of = np.clip(local / width, 0.2, 3.0) ** -4.0
    lam = (_STIFFNESS * width) ** 4 / step
    places = np.linspace(low - 0.5 * width, high + 0.5 * width, _SAMPLES)
    smooth = [_natural(means[0], values, weight_of, lam, places) for values in means[1:]]
    return np.stack(smooth, axis=1)


def _natural(x: Float, y: Float, weight: Float, lam: float, at: Float) -> Float:
    """A cubic smoothing spline, straight beyond its ends."""
    spline = make_smoothing_spline(x, y, weight, lam)
    inner = np.clip(at, x[0], x[-1])
    slope = spline.derivative()(inner)
    values: Float = spline(inner) + slope * (at - inner)
    return values


def _to_outline(curve_yx: Float, soft: Float, width: float) -> Centreline:
    """Cut or extend a curve to where it enters and leaves the mask, and sample it at equal steps."""
    ends = []
    for tip, inner in ((0, 1), (-1, -2)):
        along = curve_yx[tip] - curve_yx[inner]
        along /= np.hypot(*along)
        ends.append(curve_yx[tip] + along * np.linspace(0.0, 2.0 * width, 101)[1:, None])
    curve = np.concatenate([ends[0][::-1], curve_yx, ends[1]])
    along = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(curve, axis=0).T))])
    fine = np.linspace(0.0, along[-1], max(_SAMPLES, int(4 * along[-1])))
    dense = np.stack([np.interp(fine, along, values) for values in curve.T], axis=1)
    level = ndimage.map_coordinates(soft, dense.T + 1.0, order=1, mode="constant") - 0.5
    on = np.flatnonzero(level >= 0)
    first, last = _crossing(fine, level, on[0], on[0] - 1), _crossing(fine, level, on[-1], on[-1] + 1)
    places = np.linspace(first, last, _SAMPLES)
    points = np.stack([np.interp(places, along, values) for values in curve.T], axis=1)
    return Centreline(points, last - first)


def _crossing(fine: Float, level: Float, inner: int, outer: int) -> float:
    if not 0 <= outer < len(fine):
        return float(fine[inner])
    share = level[inner] / (level[inner] - level[outer])
    return float(fine[inner] + share * (fine[outer] - fine[inner]))

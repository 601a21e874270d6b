"""Sampling of support points for engines that need a dense matrix; seeded, and only if `max_support_points` is given.

A mass is gathered on some of its pixels. Boundary and interior are sampled separately at the same spacing, so the outline
keeps its shape. Every pixel gives its mass to the nearest kept pixel of its part, so mass hardly moves. The sample depends
only on the seed and on the mass relative to its tight box. Equal masks therefore get equal samples, and a shifted mask gets
the shifted sample.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairframe import checks
from pairframe.frame.crop import check_density
from pairframe.types import Bool, Float, Int

Array = TypeVar("Array", bound=NDArray[Any])


@dataclass(frozen=True, eq=False)
class Sample:
    """A mass on fewer pixels.

    Attributes
    ----------
    mass : (H, W)
        Mass per pixel, with the same total on fewer of the same pixels.
    n_before, n_after : int
        Number of pixels with mass.
    owner : (H, W) int
        For every pixel that had mass, the flat index of the kept pixel that took it; -1 elsewhere.
    """

    mass: Float
    n_before: int
    n_after: int
    owner: Int

    @property
    def is_whole(self) -> bool:
        """Whether all pixels were kept."""
        return self.n_after == self.n_before

    def spread(self, values: Array) -> Array:
        """Give every pixel the value (H, W, ...) of its owner; 0 (or NaN) elsewhere stays.

        Shares and displacements spread this way, masses do not.
        """
        flat = values.reshape(-1, *values.shape[self.owner.ndim :])
        result = values.copy()
        support = self.owner >= 0
        result[support] = flat[self.owner[support]]
        return result


def sample_support(mass: ArrayLike, max_points: int, seed: int = 0) -> Sample:
    """Gather a mass on at most `max_points` of its pixels.

    Parameters
    ----------
    mass : (H, W)
        Mass per pixel, finite and >= 0.
    max_points : int
        A mass with no more pixels than that is returned unchanged.
    seed : int
        The same mass and seed always give the same sample.
    """
    max_points, seed = checks.integer(max_points, "max_support_points", 1), checks.integer(seed, "seed", 0)
    array, box = check_density(mass, "mass")
    before = np.array(array, dtype=np.float64)
    support = before > 0
    n_before = int(support.sum())
    if box is None or n_before <= max_points:
        flat = np.arange(before.size).reshape(before.shape)
        return Sample(before, n_before, n_before, np.where(support, flat, -1))
    boundary = support & ~_interior(support)
    rng = np.random.default_rng(seed)
    after, owner = np.zeros(before.shape), np.full(before.shape, -1, dtype=np.int64)
    for part, n_points in _shares(boundary, support & ~boundary, max_points):
        yx = np.argwhere(part)
        kept, nearest = _gather(yx - box.lo, before[part], n_points, rng)
        owner[part] = np.ravel_multi_index(tuple(yx[kept].T), before.shape)[nearest]
        after[tuple(yx[kept].T)] = np.bincount(nearest, weights=before[part], minlength=kept.size)
    return Sample(after, n_before, int((after > 0).sum()), owner)


def _interior(support: Bool) -> Bool:
    """Pixels whose four neighbours all have mass; pixels outside the canvas count as empty."""
    padded = np.pad(support, 1)
    return padded[1:-1, 1:-1] & padded[:-2, 1:-1] & padded[2:, 1:-1] & padded[1:-1, :-2] & padded[1:-1, 2:]


def _shares(boundary: Bool, interior: Bool, max_points: int) -> list[tuple[Bool, int]]:
    """The parts and the number of points of each, at most `max_points` in total.

    At a spacing of h pixels a line of B pixels needs B/h points and an area of I pixels I/h^2: h solves
    B/h + I/h^2 = max_points.
    """
    n_line, n_area = int(boundary.sum()), int(interior.sum())
    if n_area == 0 or max_points == 1:
        return [(boundary | interior, max_points)]
    spacing = (n_line + math.sqrt(n_line**2 + 4.0 * max_points * n_area)) / (2.0 * max_points)
    # Each part gets at least one point, and at most as many as it has pixels.
    on_line = min(max(round(n_line / spacing), 1, max_points - n_area), n_line, max_points - 1)
    return [(boundary, on_line), (interior, max_points - on_line)]


def _gather(yx: Int, mass: Float, n_points: int, rng: np.random.Generator) -> tuple[Int, Int]:
    """Indices (k,) of the kept pixels among yx (n, 2), k <= n_points, and the nearest of these k for each pixel (n,).

    A curve through all pixels is divided into `n_points` stretches of equal mass from a random start, and one pixel is
    taken after each, so the points are distributed like the mass. A pixel with more than one stretch of mass may be taken
    twice and counts once.
    """
    from scipy.spatial import cKDTree  # slow to import, and only sampling needs it

    order = np.argsort(_morton_code(yx), kind="stable")
    cumulated = np.cumsum(mass[order])
    taken = (np.arange(n_points) + rng.random()) / n_points * cumulated[-1]
    kept = np.unique(order[np.minimum(np.searchsorted(cumulated, taken, side="right"), len(order) - 1)])
    nearest = np.asarray(cKDTree(yx[kept]).query(yx)[1], dtype=np.int64)
    return kept, nearest


def _morton_code(yx: Int) -> Int:
    """Positions (n,) of pixels (n, 2) along a Z-order curve, on which close codes are close pixels; indices below 2^31."""
    code = np.zeros(len(yx), dtype=np.int64)
    for bit in range(int(yx.max(initial=0)).bit_length()):
        code |= ((yx[:, 1] >> bit) & 1) << (2 * bit)
        code |= ((yx[:, 0] >> bit) & 1) << (2 * bit + 1)
    return code

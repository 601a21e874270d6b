"""Fewer support points for engines that need a dense matrix: explicit, seeded, and never without being asked for.

A mass is gathered on some of its own pixels. Boundary and interior are sampled apart, at the same spacing, so the
outline keeps its shape; every pixel gives its mass to the nearest kept pixel of its part, so mass stays where it was.
The sample depends on the mass relative to its tight box and on the seed only: a mask against itself stays one, and a
shifted mask gets the shifted sample.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from operator import index
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairframe.errors import SolveOptionsError
from pairframe.frame.crop import check_density

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]
Int = NDArray[np.int64]
Array = TypeVar("Array", bound=NDArray[Any])


@dataclass(frozen=True, eq=False)
class Sample:
    """A mass on fewer pixels.

    Attributes
    ----------
    mass : (H, W)
        Mass per pixel; the same total, on a part of the same pixels.
    n_before, n_after : int
        Pixels with mass.
    owner : (H, W) int
        For every pixel with mass before, the flat index of the kept pixel that took it; -1 elsewhere.
    """

    mass: Float
    n_before: int
    n_after: int
    owner: Int

    @property
    def is_whole(self) -> bool:
        """Whether nothing had to be gathered."""
        return self.n_after == self.n_before

    def spread(self, values: Array) -> Array:
        """Values (H, W, ...) of kept pixels on all the pixels that each of them stands for; 0 (or NaN) elsewhere stays.

        Every pixel gets its owner's value: shares and displacements spread this way, masses do not.
        """
        flat = values.reshape(-1, *values.shape[2:])
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
        With no more pixels than that, the mass comes back as it is.
    seed : int
        The same mass and seed always give the same sample.
    """
    max_points, seed = _integer("max_support_points", max_points, 1), _integer("seed", seed, 0)
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
        kept, nearest = _gather(yx - (box.y0, box.x0), before[part], n_points, rng)
        owner[part] = np.ravel_multi_index(tuple(yx[kept].T), before.shape)[nearest]
        after[tuple(yx[kept].T)] = np.bincount(nearest, weights=before[part], minlength=kept.size)
    return Sample(after, n_before, int((after > 0).sum()), owner)


def _interior(support: Bool) -> Bool:
    """Pixels whose four neighbours all have mass; beyond the canvas there is none."""
    padded = np.pad(support, 1)
    return padded[1:-1, 1:-1] & padded[:-2, 1:-1] & padded[2:, 1:-1] & padded[1:-1, :-2] & padded[1:-1, 2:]


def _shares(boundary: Bool, interior: Bool, max_points: int) -> list[tuple[Bool, int]]:
    """The parts and how many points each gets, at most `max_points` together.

    At a spacing of h pixels a line of B pixels needs B/h points and an area of I pixels I/h^2: h solves
    B/h + I/h^2 = max_points.
    """
    n_line, n_area = int(boundary.sum()), int(interior.sum())
    if n_area == 0 or max_points == 1:
        return [(boundary | interior, max_points)]
    spacing = (n_line + math.sqrt(n_line**2 + 4.0 * max_points * n_area)) / (2.0 * max_points)
    # Both parts get a point, and neither more than it has pixels.
    on_line = min(max(round(n_line / spacing), 1, max_points - n_area), n_line, max_points - 1)
    return [(boundary, on_line), (interior, max_points - on_line)]


def _gather(yx: Int, mass: Float, n_points: int, rng: np.random.Generator) -> tuple[Int, Int]:
    """Indices (k,) of the kept pixels among yx (n, 2), k <= n_points, and which of these k each pixel (n,) goes to.

    Along a curve through all pixels, one is taken after each of `n_points` stretches of equal mass, from a random start
    on: they are spread as the mass is. A pixel with more than a stretch of mass may be taken twice, and counts once.
    """
    from scipy.spatial import cKDTree  # a moment to import, and only sampling needs it

    order = np.argsort(_morton_code(yx), kind="stable")
    cumulated = np.cumsum(mass[order])
    taken = (np.arange(n_points) + rng.random()) / n_points * cumulated[-1]
    kept = np.unique(order[np.minimum(np.searchsorted(cumulated, taken, side="right"), len(order) - 1)])
    nearest = np.asarray(cKDTree(yx[kept]).query(yx)[1], dtype=np.int64)
    return kept, nearest


def _morton_code(yx: Int) -> Int:
    """(n,): place along the Z-order curve of pixels (n, 2) with indices below 2^31; close codes are close pixels."""
    code = np.zeros(len(yx), dtype=np.int64)
    for bit in range(int(yx.max(initial=0)).bit_length()):
        code |= ((yx[:, 1] >> bit) & 1) << (2 * bit)
        code |= ((yx[:, 0] >> bit) & 1) << (2 * bit + 1)
    return code


def _integer(name: str, value: object, smallest: int) -> int:
    try:
        number = smallest - 1 if isinstance(value, bool) else index(value)  # type: ignore[arg-type]
    except TypeError:
        number = smallest - 1
    if number < smallest:
        raise SolveOptionsError(f"{name} to be an integer >= {smallest}", repr(value), f"give {name} as such a number")
    return number

"""Plans for the mass that a plan misses, cell by cell: with them the primal bound is close to the optimum.

Scaling a plan down into its marginals leaves little deficits on both sides. To destroy them costs lambda, and to move them
anywhere costs the square of the object's size. Most deficits, however, have their counterpart nearby, where the plan takes
its mass. So both sides are cut into the same cells, about as wide as the blur; within a cell as much is moved as both
sides have, by a product of both deficits; the rest goes to cells twice as wide, and so on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce

import numpy as np

from pairframe.problem.problem import TransportProblem
from pairframe.types import Bool, Float, Index

_CELL = 2.0  # side of the smallest cells, in sqrt(eps)


@dataclass(frozen=True, eq=False)
class MovedMass:
    """Plans R_1, R_2, ... that move what is missing, one per width of cells.

    Attributes
    ----------
    values : tuple of floats
        ``<C, R> + eps sum R log(R/(u (x) v))`` of each.
    totals : tuple of floats
        Mass of each.
    share_a, share_b : (n,), (m,)
        Share of each deficit that is moved, 0..1.
    """

    values: tuple[float, ...]
    totals: tuple[float, ...]
    share_a: Float
    share_b: Float


def move_missing(problem: TransportProblem, g: Float, missing_a: Float, missing_b: Float) -> MovedMass:
    """Move what is missing on a, (n,) over its support, to where it is missing on b, (m,).

    Parameters
    ----------
    g : array over the grid
        The potential on b. Its slope tells where a pixel's mass comes from, and so which cell of a it belongs to.

    Notes
    -----
    All is moved that has a counterpart, except at a cost beyond the price of destroying and creating it.
    """
    on_a, on_b, eps = problem.support_a, problem.support_b, problem.epsilon
    x = problem.positions(on_a)
    low, high = x.min(axis=0), x.max(axis=0)
    side = max(_CELL * math.sqrt(eps), *problem.spacing)
    shape = tuple(int(n) for n in (high - low) // side + 1)
    centre = 0.5 * (low + high)
    # One side after the other: the positions of a large one are as large as two images.
    place_a = _places(x - low, side, shape)
    cells_a = _sums(place_a, shape, missing_a, x - centre, problem.log_u[on_a])
    x = problem.positions(on_b)
    place_b = _places(np.clip(x - 0.5 * _slope(g, on_b, problem.spacing), low, high) - low, side, shape)
    cells_b = _sums(place_b, shape, missing_b, x - centre, problem.log_v[on_b])
    del x
    most = problem.penalty_a.bounds[1] + problem.penalty_b.bounds[1]
    values: list[float] = []
    totals: list[float] = []
    kept: list[tuple[Float, Float]] = []
    while True:
        moved, value = _matched(cells_a, cells_b, eps, problem.metric, most)
        values.append(value)
        totals.append(float(moved.sum()))
        left = _left(cells_a[0], moved), _left(cells_b[0], moved)
        kept.append(left)
        if moved.size == 1:
            break
        cells_a, cells_b = (_wider(_scaled(cells, s)) for cells, s in zip((cells_a, cells_b), left, strict=True))
    left_a, left_b = kept.pop()
    while kept:
        finer_a, finer_b = kept.pop()
        left_a, left_b = finer_a * _finer(left_a, finer_a.shape), finer_b * _finer(left_b, finer_b.shape)
    return MovedMass(
        values=tuple(values),
        totals=tuple(totals),
        share_a=1.0 - left_a.ravel()[place_a],
        share_b=1.0 - left_b.ravel()[place_b],
    )


def _slope(g: Float, on: Bool, spacing: tuple[float, ...]) -> Float:
    """Slope of a potential over the grid on its support, (m, ndim), from whichever neighbours there are."""
    slopes = []
    for axis, length in enumerate(spacing):
        n = g.shape[axis]
        upper, lower = ((slice(None),) * axis + (slice(first, n - 1 + first),) for first in (1, 0))
        step = (g[upper] - g[lower]) / length
        has_step = on[upper] & on[lower] & np.isfinite(step)
        step[~has_step] = 0.0
        total, n_steps = np.zeros(g.shape), np.zeros(g.shape, np.int8)
        for place in (lower, upper):  # the step belongs to the pixels on both sides of it
            total[place] += step
            n_steps[place] += has_step
        slopes.append(total[on] / np.maximum(n_steps[on], 1))
    return np.stack(slopes, axis=1)


def _places(position: Float, side: float, shape: tuple[int, ...]) -> Index:
    """Flat index of the cell of each position (n, ndim)."""
    steps = (position * (1.0 / side)).astype(np.intp)  # many times as fast as a floor division
    return np.asarray(np.ravel_multi_index(tuple(steps.T), shape, mode="clip"))


def _sums(place: Index, shape: tuple[int, ...], mass: Float, position: Float, log_reference: Float) -> Float:
    """Per cell: mass, its product with the squared position, with ``log(mass/reference)``, and with each coordinate."""
    n_cells = math.prod(shape)

    def summed(values: Float) -> Float:
        return np.asarray(np.bincount(place, values, n_cells), dtype=np.float64).reshape(shape)

    square = reduce(np.add, (x**2 for x in position.T))
    log_ratio = np.log(np.maximum(mass, 1e-300)) - log_reference
    along = (summed(mass * x) for x in position.T)
    return np.stack([summed(mass), summed(mass * square), summed(mass * log_ratio), *along])


def _matched(cells_a: Float, cells_b: Float, eps: float, metric: str, most: float) -> tuple[Float, float]:
    """Mass that each cell moves by a product of what its sides miss, and the value of that plan."""
    mass_a, mass_b = cells_a[0], cells_b[0]
    on = (mass_a > 0) & (mass_b > 0)
    mean_a, mean_b = cells_a[1:, on] / mass_a[on], cells_b[1:, on] / mass_b[on]
    cost = mean_a[0] + mean_b[0] - 2.0 * (mean_a[2:] * mean_b[2:]).sum(axis=0)
    cost = np.maximum(cost, 0.0)
    if metric != "sqeuclidean":
        cost = np.sqrt(cost)  # Jensen: at least the mean distance
    mass = np.where(cost < most, np.minimum(mass_a[on], mass_b[on]), 0.0)
    log_plan = np.log(np.maximum(mass, 1e-300)) + mean_a[1] + mean_b[1] - np.log(mass_a[on]) - np.log(mass_b[on])
    moved = np.zeros(mass_a.shape)
    moved[on] = mass
    return moved, float(np.sum(mass * (cost + eps * log_plan)))


def _left(mass: Float, moved: Float) -> Float:
    """Share of each cell's mass that is not moved."""
    return np.maximum(1.0 - np.divide(moved, mass, out=np.zeros(mass.shape), where=mass > 0), 0.0)


def _scaled(cells: Float, share: Float) -> Float:
    """The sums of `share` of the mass of each cell."""
    scaled = cells * share
    scaled[2] += scaled[0] * np.log(np.maximum(share, 1e-300))
    return scaled


def _wider(cells: Float) -> Float:
    """The sums of cells twice as wide."""
    for axis in range(1, cells.ndim):
        cells = np.add.reduceat(cells, np.arange(0, cells.shape[axis], 2), axis=axis)
    return cells


def _finer(values: Float, shape: tuple[int, ...]) -> Float:
    """The value of each cell on the cells half as wide within it."""
    for axis, n in enumerate(shape):
        values = np.take(values, np.arange(n) // 2, axis=axis)
    return values

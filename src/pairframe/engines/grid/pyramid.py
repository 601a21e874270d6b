"""Coarse to fine: pooled problems, and potentials carried from one resolution to the next."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pairframe.frame.pool import sum_pool
from pairframe.problem import Penalty, TransportProblem

Float = NDArray[np.float64]
COARSEST_PX = 24  # the longer side of the coarsest grid is at least this
BLUR_PX = 1.5  # a level blurs by at least this many of its own pixels: less would not see its neighbours


def coarse_problems(problem: TransportProblem) -> list[tuple[int, TransportProblem]]:
    """Block sides and pooled problems, coarsest first, the problem itself (block side 1) last.

    Lengths are in pixels of each level, so costs, `epsilon` and strengths are divided by the block's area. Epsilon is
    raised where the blur would be below `BLUR_PX` of that level's pixels; the coarsest level comes three times, with 16,
    4 and 1 times that epsilon.
    """
    sides = [1]
    while max(problem.shape_hw) / (2 * sides[-1]) >= COARSEST_PX:
        sides.append(2 * sides[-1])
    levels = [(1, problem)]
    for side in sides[1:]:
        levels.append((side, _pooled(problem, side, 1.0)))
    coarsest = sides[-1]
    if coarsest > 1:
        levels += [(coarsest, _pooled(problem, coarsest, 4.0)), (coarsest, _pooled(problem, coarsest, 16.0))]
    return levels[::-1]


def _pooled(problem: TransportProblem, side: int, factor: float) -> TransportProblem:
    epsilon = factor * max(problem.epsilon / side**2, BLUR_PX**2)
    return replace(
        problem,
        mass_a=_pool(problem.mass_a, side),
        mass_b=_pool(problem.mass_b, side),
        epsilon=epsilon,
        penalty_a=_scaled(problem.penalty_a, side),
        penalty_b=_scaled(problem.penalty_b, side),
    )


def _pool(mass: Float, side: int) -> Float:
    pooled = np.empty((-(-mass.shape[0] // side), -(-mass.shape[1] // side)))
    sum_pool(mass, side, pooled)
    return pooled


def _scaled(penalty: Penalty, side: int) -> Penalty:
    return penalty if penalty.kind == "balanced" else replace(penalty, strength=penalty.strength / side**2)


def prolong(potential: Float, coarse: TransportProblem, fine: TransportProblem) -> Float:
    """A potential on the source of `coarse`, (n,), bilinearly on that of `fine` (twice as fine, or the same): (m,).

    Averages run over the coarse support only; every fine pixel with mass lies in a coarse one with mass.
    """
    if coarse.shape_hw == fine.shape_hw:
        return potential
    values = np.zeros(coarse.shape_hw)
    values[coarse.support_a] = potential
    total = _stretch(_stretch(values, 0), 1)
    share = _stretch(_stretch(coarse.support_a.astype(np.float64), 0), 1)
    h, w = fine.shape_hw
    on = fine.support_a
    # Costs are in pixels of the level: twice the pixels, four times the number.
    carried: Float = 4.0 * total[:h, :w][on] / share[:h, :w][on]
    return carried


def _stretch(array: Float, axis: int) -> Float:
    """Twice as many samples along an axis, by linear interpolation between pixel centres."""
    array = np.moveaxis(array, axis, 0)
    before = np.concatenate([array[:1], array[:-1]])
    after = np.concatenate([array[1:], array[-1:]])
    fine = np.empty((2 * array.shape[0], *array.shape[1:]))
    fine[0::2] = 0.75 * array + 0.25 * before
    fine[1::2] = 0.75 * array + 0.25 * after
    return np.moveaxis(fine, 0, axis)

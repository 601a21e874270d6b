"""Coarse to fine: pooled problems, and potentials carried from one resolution to the next."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from pairframe.frame.pool import sum_pool
from pairframe.problem import TransportProblem
from pairframe.types import Float

COARSEST_PX = 24  # the longest side of the coarsest grid is at least this
_COARSEST_STEP = 16.0  # in epsilon, at the coarsest level
_LARGEST_STEP = 4.0  # in epsilon, from the last coarse level, with pinned potentials
_STEEP = 64.0  # a larger step in epsilon is made in steps of at least `_LADDER`, at most `_MOST_RUNGS` of them
_LADDER, _MOST_RUNGS = 4.0, 12
BLUR_PX = 1.5  # a level blurs by at least this many of its own pixels: with less it would not see its neighbours


def coarse_problems(problem: TransportProblem) -> list[tuple[int, TransportProblem]]:
    """Pixels per block and pooled problems, coarsest first, the problem itself (one pixel per block) last.

    Each level doubles the block sides and the unit of length, so `epsilon` and penalties are divided by 4. Along an axis
    with pixels far apart blocks stay as they are until those of the other axes have caught up. Epsilon is raised where
    the blur would be below `BLUR_PX` of that level's pixels; the coarsest level comes twice, with `_COARSEST_STEP` times
    that epsilon first. With pinned potentials the full grid comes twice where the last step in epsilon would be large. With a blur
    far below a pixel it comes several times, with epsilon falling by a factor of 4 or more.
    """
    blocks = _block_sides(problem)
    levels = [(1, problem)]
    for depth, sides in enumerate(blocks[1:], start=1):
        levels.append((math.prod(sides), _pooled(problem, sides, depth, 1.0)))
    if len(blocks) > 1:
        n_pixels, depth = math.prod(blocks[-1]), len(blocks) - 1
        levels.append((n_pixels, _pooled(problem, blocks[-1], depth, _COARSEST_STEP)))
    return levels[:0:-1] + [(1, rung) for rung in rungs(problem)] + levels[:1]


def rungs(problem: TransportProblem) -> list[TransportProblem]:
    """The same problem with larger epsilons, falling, that come between the last coarse level and itself."""
    blocks = _block_sides(problem)
    is_alone = len(blocks) == 1
    longest = max(problem.spacing[axis] * (1 if is_alone else blocks[1][axis]) for axis in problem.long_axes)
    # Of the last coarse level, in units of the finest; without one, of a level with pixels twice as large.
    before = max(problem.epsilon, (BLUR_PX * longest * (2 if is_alone else 1)) ** 2)
    ratio = before / problem.epsilon
    pins = problem.penalty_a.pins or problem.penalty_b.pins
    epsilons = []
    if ratio > _STEEP:
        step = max(_LADDER, ratio ** (1.0 / (_MOST_RUNGS + 1)))
        count = math.ceil(math.log(ratio) / math.log(step) - 1e-9) - 1
        epsilons = [problem.epsilon * step**k for k in range(count + is_alone, 0, -1)]
    elif pins and not is_alone and ratio > _LARGEST_STEP:
        epsilons = [math.sqrt(before * problem.epsilon)]
    return [replace(problem, epsilon=epsilon) for epsilon in epsilons]


def _block_sides(problem: TransportProblem) -> list[tuple[int, ...]]:
    """Block sides of every level, one per axis, finest first."""
    found = [(1,) * len(problem.shape)]
    while True:
        lengths = [spacing * side for spacing, side in zip(problem.spacing, found[-1], strict=True)]
        shortest = min(lengths[axis] for axis in problem.long_axes)
        doubled = [axis for axis in problem.long_axes if lengths[axis] < 2.0 * shortest]
        if max(problem.shape[axis] / (2 * found[-1][axis]) for axis in doubled) < COARSEST_PX:
            return found
        found.append(tuple(2 * side if axis in doubled else side for axis, side in enumerate(found[-1])))


def _pooled(problem: TransportProblem, sides: tuple[int, ...], depth: int, factor: float) -> TransportProblem:
    """The problem on blocks, in units of 2^depth work pixels."""
    unit = 2**depth
    spacing = tuple(length * side / unit for length, side in zip(problem.spacing, sides, strict=True))
    longest = max(spacing[axis] for axis in problem.long_axes)
    return replace(
        problem,
        mass_a=_pool(problem.mass_a, sides),
        mass_b=_pool(problem.mass_b, sides),
        epsilon=factor * max(problem.epsilon / unit**2, (BLUR_PX * longest) ** 2),
        penalty_a=problem.penalty_a.rescaled(unit**2),
        penalty_b=problem.penalty_b.rescaled(unit**2),
        spacing=spacing,
    )


def _pool(mass: Float, sides: tuple[int, ...]) -> Float:
    pooled = np.empty(tuple(-(-n // side) for n, side in zip(mass.shape, sides, strict=True)))
    sum_pool(mass, sides, pooled)
    return pooled


def prolong(potential: Float, shift: float, coarse: TransportProblem, fine: TransportProblem) -> tuple[Float, float]:
    """A potential on the source of `coarse`, (n,), interpolated on that of `fine`, one level finer or the same: (m,).

    The shift comes along in the units of the finer level.
    """
    if coarse.shape == fine.shape:
        return potential, shift
    # The finer level's unit of length is half as long, and costs are lengths squared.
    return 4.0 * interpolate(potential, coarse, fine), 4.0 * shift


def interpolate(values: Float, coarse: TransportProblem, fine: TransportProblem) -> Float:
    """Values on the source of `coarse`, (n,), between them on that of `fine`, one level finer: (m,).

    Averages run over the coarse support only; every fine pixel with mass lies in a coarse one with mass.
    """
    total, share = np.zeros(coarse.shape), coarse.support_a.astype(np.float64)
    total[coarse.support_a] = values
    for axis, (n_coarse, n_fine) in enumerate(zip(coarse.shape, fine.shape, strict=True)):
        if n_fine > n_coarse:
            total, share = _stretch(total, axis), _stretch(share, axis)
    inside = tuple(slice(n) for n in fine.shape)
    on = fine.support_a
    between: Float = total[inside][on] / share[inside][on]
    return between


def _stretch(array: Float, axis: int) -> Float:
    """Twice as many samples along an axis, by linear interpolation between pixel centres."""
    array = np.moveaxis(array, axis, 0)
    before = np.concatenate([array[:1], array[:-1]])
    after = np.concatenate([array[1:], array[-1:]])
    fine = np.empty((2 * array.shape[0], *array.shape[1:]))
    fine[0::2] = 0.75 * array + 0.25 * before
    fine[1::2] = 0.75 * array + 0.25 * after
    return np.moveaxis(fine, 0, axis)

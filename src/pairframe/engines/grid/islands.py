"""Separate islands that exchange mass: their potentials follow each other like the nodes of a graph, which is no diffusion.

A target pixel that takes mass from two islands couples their potentials. Where many pieces lie in a crowd, such couplings form
long chains, and errors that are constant on each island decay as slowly as in a random walk from island to island.
`IslandConstants` solves for them: one unknown per island, with the mass that leaps between islands as coupling. Only the
columns of the plan at shared target pixels are listed for that, and they are few.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sparse

from pairframe.engines.grid.level import Level, Round
from pairframe.engines.grid.listing import PlanSide, list_plan
from pairframe.engines.grid.smooth import factored
from pairframe.types import Bool, Float, Int

_DEPTH = 8.0  # entries above e^-depth of a marginal are listed: the rest of the coupling is small
_ENTRIES_AT_ONCE = 2_000_000
_FEWEST_ENTRIES, _ENTRIES_PER_PIXEL = 2_000_000, 60  # listing so many takes as long as about ten rounds
_MOST_COUPLINGS = 20_000_000  # of pixels with islands
_SHARED = 1e-7  # variance of the islands' codes over the sources of a target pixel that takes mass from several
_REGULAR = 1e-10  # of the diagonal
_CODES = 4  # random signs per island, where leaps cannot be listed


@dataclass(frozen=True, eq=False)
class Islands:
    """The connected parts of a support, those closer than a blur taken as one.

    Attributes
    ----------
    number : (n,) int
        Of the island of each pixel with mass.
    count : int
    """

    number: Int
    count: int

    @classmethod
    def of(cls, support: Bool, epsilon: float) -> Islands:
        from scipy import ndimage

        near = ndimage.binary_dilation(
            support, np.ones((3,) * support.ndim, bool), max(1, math.ceil(0.5 * math.sqrt(epsilon)))
        )
        labels, count = ndimage.label(near)
        number: Int = labels[support].astype(np.int64) - 1
        return cls(number, count)

    def codes(self) -> Float:
        """(n,): a random number per island, in [0, 1]."""
        return np.random.default_rng(0).uniform(size=self.count)[self.number]

    def signs(self) -> Float:
        """(codes, n): random signs per island."""
        return np.random.default_rng(0).choice([-1.0, 1.0], (_CODES, self.count))[:, self.number]


def shared_targets(free: Float, code: Float, code_squared: Float) -> Bool:
    """Target pixels that take mass from several islands, by the means (m,) of three channels over their sources.

    The channels are 1 on the free sources and 0 elsewhere, and that times the islands' codes and their squares.
    """
    share = np.maximum(free, 1e-300)
    return (free > 1e-12) & (code_squared / share - (code / share) ** 2 > _SHARED)


def listed_leaps(
    level: Level, point: Round, islands: Islands, free: Bool, slope_b: Float, shared: Bool
) -> sparse.csr_matrix | None:
    """(n, islands): the share of a free source pixel's mass that shares its target with another island; None if too many to list.

    Targets are listed in parts, because all of them may be more than memory should hold.
    """
    problem, epsilon = level.problem, level.epsilon
    log_scale_a, log_scale_b = level.log_scales(point.potentials)
    log_p, log_q = (np.log(np.maximum(marginal, 1e-300)) for marginal in (point.marginal_a, point.marginal_b))
    positions_b = problem.positions(problem.support_b)
    sources = PlanSide.of(problem.positions(problem.support_a)[free], log_scale_a[free], log_p[free])
    own, rows = islands.number[free], np.flatnonzero(free)
    member = sparse.csr_matrix((np.ones(rows.size), (np.arange(rows.size), own)), shape=(rows.size, islands.count))
    entries_left = max(_FEWEST_ENTRIES, _ENTRIES_PER_PIXEL * rows.size)
    found = sparse.csr_matrix((free.size, islands.count))
    waiting = [np.flatnonzero(shared & (slope_b > 0))]
    while waiting:
        some = waiting.pop()
        if some.size == 0:
            continue
        targets = PlanSide.of(positions_b[some], log_scale_b[some], log_q[some])
        plan = list_plan(targets, sources, epsilon, depth=_DEPTH, most_entries=min(_ENTRIES_AT_ONCE, entries_left))
        if plan is None:
            if some.size == 1 or entries_left < _ENTRIES_AT_ONCE:
                return None
            waiting += np.array_split(some, 2)
            continue
        entries_left -= plan.nnz
        weight = slope_b[some] / np.maximum(point.marginal_b[some], 1e-300)
        leaps = sparse.coo_matrix(plan.T @ (sparse.diags(weight) @ (plan @ member)))
        other = leaps.col != own[leaps.row]
        row, column = rows[leaps.row[other]], leaps.col[other]
        shares = leaps.data[other] / np.maximum(point.marginal_a[row], 1e-300)
        found = found + sparse.csr_matrix((shares, (row, column)), shape=found.shape)
    return found if found.nnz <= _MOST_COUPLINGS else None


def leaving(leaps: sparse.csr_matrix) -> Float:
    """The share of each pixel's mass, (n,), that shares its target with any other island."""
    return np.asarray(leaps.sum(axis=1), dtype=np.float64).ravel()


class IslandConstants:
    """Solves ``(1/theta_a - J) d = r`` for steps d that are constant on each island.

    Parameters
    ----------
    number : (n,) int
        Of the island of each pixel.
    leaps : (n, islands) sparse
        See `listed_leaps`.
    free : (n,) bool
    weight : (n,)
        Mass of each pixel, > 0 on free ones.
    kill : (n,)
        Share of a constant over all islands that is undone, > 0.
    """

    def __init__(self, number: Int, leaps: sparse.csr_matrix, free: Bool, weight: Float, kill: Float) -> None:
        count = leaps.shape[1]
        weight = np.where(free, weight, 0.0)
        self._number, self._free, self._leaps = number, free, leaps
        self._leaving = leaving(leaps)
        self._kill, self._weight = kill, weight
        member = sparse.csr_matrix((weight, (number, np.arange(number.size))), shape=(count, number.size))
        own = np.asarray(member @ (kill + self._leaving)).ravel()
        coupling = sparse.csr_matrix(member @ leaps)
        # Without killing, groups of islands that exchange mass among themselves have a constant in the null space.
        matrix = sparse.csc_matrix(sparse.diags((1.0 + _REGULAR) * own) - 0.5 * (coupling + coupling.T))
        self._used = np.flatnonzero(own > 1e-13 * own.max())
        if self._used.size:
            self._solve = factored(matrix[self._used][:, self._used])
        self._count = count

    def __call__(self, pull: Float) -> tuple[Float, Float]:
        """The step (n,) for a forcing times weight (n,), and what it leaves of the forcing."""
        forcing = np.where(self._free, pull, 0.0)
        per_island: Float = np.bincount(self._number, weights=forcing, minlength=self._count).astype(np.float64)
        step = np.zeros(self._count)
        if self._used.size:
            step[self._used] = self._solve(per_island[self._used])
        at_pixels: Float = np.where(self._free, step[self._number], 0.0)
        served = (self._kill + self._leaving) * at_pixels - self._leaps @ step
        return at_pixels, pull - self._weight * served

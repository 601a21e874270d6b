"""A coarse correction for the slow modes of alternating updates: they are smooth, and a diffusion on a coarse mesh.

Near the optimum one round of updates multiplies an error phi of the potential by ``theta_a J``, ``J = K_a theta_b K_b``: two
conditional means under the plan, with the slopes theta of both penalties. The Newton step solves ``(1/theta_a - J) d = r``
on the free pixels F = {theta_a > 0}; pinned ones stay. For smooth d the operator is a diffusion with killing,
``kill d - div(D grad d)``: ``kill = 1/theta_a - J 1_F`` is the share of a constant that penalties and pinned pixels undo, and
D comes from the second moment of J about each pixel, about ``eps`` per axis for a rigid move. It is solved on a mesh
about as wide as the blur and added to the plain step, which serves the rough modes; Anderson acceleration does the rest.

The forcing is the true gradient, ``optimal marginal - p``, rather than the log of their ratio: ``p log(a/p) <= a - p``, so
rough noise would bias the smooth forcing, which the diffusion amplifies.

Between separate islands mass may leap, which is no diffusion: a step that is constant on each island comes first (`islands`), and
for what that leaves, the share of a pixel's mass that leaps is counted as killing.
"""

from __future__ import annotations

import math

import numpy as np

from pairframe.engines.grid.islands import IslandConstants, Islands, leaving, listed_leaps, shared_targets
from pairframe.engines.grid.level import Level, Round
from pairframe.engines.grid.smooth import KilledDiffusion, Mesh
from pairframe.types import Bool, Float

_FEWEST_ROUNDS = 4  # before a change of the pinned pixels may renew the correction
_MOVED = 2e-3  # share of pixels that were pinned or freed since it was built
_LEAST_SPREAD, _MOST_SPREAD = 1e-3, 20.0  # in eps
_RAISE = 4.0  # killing grows by this factor with each rejection after the first


class Correction:
    """Adds the smooth part of a Newton step to the plain one; built when first needed, and again as pinned pixels change.

    Parameters
    ----------
    level : Level
    spread_eps : (n_a,), optional
        About the spread D of the plan in units of epsilon, if it is known from a coarser level. Otherwise it is found by
        kernel applications, and where slopes are constant after each rejected step too.

    Attributes
    ----------
    spread_eps : (n_a,) or None
        The spread last used.
    """

    def __init__(self, level: Level, spread_eps: Float | None = None) -> None:
        self._level = level
        self.spread_eps = spread_eps
        problem = level.problem
        self._pins = problem.penalty_a.pins or problem.penalty_b.pins
        self._mesh: Mesh | None = None
        self._islands: Islands | None = None
        self._constants: IslandConstants | None = None
        self._smooth: KilledDiffusion | None = None
        self._free_a, self._free_b = np.zeros(0, bool), np.zeros(0, bool)
        self._is_singular = False
        self._floor, self._refused, self._age = 0.0, 0, 0

    def correct(self, point: Round) -> Float:
        """The plain step (n,) with its smooth part solved for."""
        epsilon = self._level.epsilon
        slope_a = self._slope_a(point)
        free = slope_a > 0
        self._age += 1
        is_old = self._smooth is not None and self._age > _FEWEST_ROUNDS
        if self._pins and is_old and self._has_moved(point, free):
            self._smooth = None
        plain = point.next_f - point.potentials.f
        if self._smooth is None:
            if not free.any():
                return plain
            self._smooth = self._build(point, slope_a)
        free &= self._free_a
        forcing = epsilon * _excess(plain / (np.where(free, slope_a, 1.0) * epsilon))
        pull = np.where(free, point.marginal_a * forcing, 0.0)
        if self._is_singular:
            weight = np.where(free, point.marginal_a, 0.0)
            pull = pull - weight * (pull.sum() / max(weight.sum(), 1e-300))
        if self._constants is None:
            return plain + self._smooth(pull)
        constants, pull = self._constants(pull)
        return plain + constants + self._smooth(pull)

    def reject(self) -> None:
        """A mixed step was bad: build the correction anew, and trust it less if that was not the first time."""
        self._refused += 1
        if self._has_constant_slopes:
            self.spread_eps = None
        if self._refused > 1 and not self._pins:
            self._floor = max(1e-5, _RAISE * self._floor)
        self._smooth = None

    def mesh(self) -> Mesh:
        """The hat functions over the pixels of a."""
        if self._mesh is None:
            problem = self._level.problem
            self._mesh = Mesh(problem.support_a, problem.epsilon, problem.spacing, problem.long_axes)
        return self._mesh

    def _build(self, point: Round, slope_a: Float) -> KilledDiffusion:
        level, epsilon = self._level, self._level.epsilon
        self._age = 0
        self._free_a, self._free_b = slope_a > 0, self._slope_b(point) > 0
        free, weight = self._free_a, point.marginal_a
        here = point.potentials
        self._constants = None
        if self._has_constant_slopes:
            kill = np.full(slope_a.shape, 1.0 / slope_a[0] - self._slope_b(point)[0])
            if self.spread_eps is None:
                self.spread_eps = level.spread_at_a(here.f, here.g) / epsilon
        else:
            kill, leaps = self._moments(point, slope_a)
            kill = kill + min(1e-4, 1e-3 * point.residual) + leaps
        assert self.spread_eps is not None  # found just now if it was not known
        self._is_singular = bool((weight * kill)[free].sum() < 1e-6 * weight[free].sum())
        spread = epsilon * np.clip(self.spread_eps, _LEAST_SPREAD, _MOST_SPREAD)
        return KilledDiffusion(self.mesh(), free, weight, np.maximum(kill, self._floor), spread)

    def _moments(self, point: Round, slope_a: Float) -> tuple[Float, Float]:
        """Killing, and the share that leaps to other islands, both (n,), from J applied to powers of the position.

        Two kernel applications. The spread changes little while pinned pixels come and go: it is found once.
        """
        level, free, slope_b = self._level, self._free_a.astype(np.float64), self._slope_b(point)
        islands = self._find_islands()
        positions = level.problem.positions(level.problem.support_a).T
        x = positions - positions.mean(axis=1, keepdims=True)
        squared = (x**2).sum(axis=0)
        powers = [free] if self.spread_eps is not None else [free, *(free * x), free * squared]
        if islands.count > 1:
            codes = islands.codes()
            powers += [free * codes, free * codes**2]
        at_b = level.means_at_b(point, np.stack(powers))
        n_back = len(powers) - (2 if islands.count > 1 else 0)
        del powers
        one, *means = level.means_at_a(point, at_b[:n_back] * slope_b)
        kill = np.maximum(1.0 / np.where(self._free_a, slope_a, 1.0) - one, 0.0)
        if self.spread_eps is None:
            *means, mean_square = means
            second = squared * one + mean_square - 2.0 * sum(own * mean for own, mean in zip(x, means, strict=True))
            self.spread_eps = np.maximum(second, 0.0) / (2.0 * len(level.problem.long_axes) * level.epsilon)
        if islands.count == 1:
            return kill, np.zeros(kill.shape)
        shared = shared_targets(at_b[0], *at_b[-2:])
        leaps = listed_leaps(level, point, islands, self._free_a, slope_b, shared)
        if leaps is None:
            return kill, self._leaving_by_signs(point, one, slope_b, islands)
        some = kill + min(1e-4, 1e-3 * point.residual)
        self._constants = IslandConstants(islands.number, leaps, self._free_a, point.marginal_a, some)
        return kill, leaving(leaps)

    def _leaving_by_signs(self, point: Round, one: Float, slope_b: Float, islands: Islands) -> Float:
        """About the share of a pixel's mass that shares its target with another island, (n,): two kernel applications."""
        signs = islands.signs()
        at_b = self._level.means_at_b(point, self._free_a * signs)
        found = self._level.means_at_a(point, at_b * slope_b)
        return np.asarray(np.maximum(0.5 * (one - signs * found), 0.0).max(axis=0))

    def _find_islands(self) -> Islands:
        if self._islands is None:
            self._islands = Islands.of(self._level.problem.support_a, self._level.epsilon)
        return self._islands

    def _has_moved(self, point: Round, free_a: Bool) -> bool:
        moved_a, moved_b = free_a != self._free_a, (self._slope_b(point) > 0) != self._free_b
        return bool(moved_a.mean() + moved_b.mean() > _MOVED)

    @property
    def _has_constant_slopes(self) -> bool:
        problem = self._level.problem
        return problem.penalty_a.has_constant_slope and problem.penalty_b.has_constant_slope

    def _slope_a(self, point: Round) -> Float:
        return self._level.problem.penalty_a.slope(point.update_a + point.potentials.shift, self._level.epsilon)

    def _slope_b(self, point: Round) -> Float:
        return self._level.problem.penalty_b.slope(point.update_b - point.potentials.shift, self._level.epsilon)


def _excess(x: Float) -> Float:
    """``expm1(x)``, continued linearly above 1."""
    return np.where(x <= 1.0, np.expm1(np.minimum(x, 1.0)), math.e - 1.0 + math.e * (x - 1.0))

"""The rounds at one level: alternating updates, a coarse correction, Anderson mixing, and a safeguard.

The dual after the first half of a round is a free judge: plain rounds never lower it. A mixed step that does is undone,
the plain step that was kept is taken instead, and the coarse correction is trusted less.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pairframe.engines.anderson import Anderson
from pairframe.engines.grid.level import Level, Point
from pairframe.engines.grid.smooth import SmoothCorrection
from pairframe.engines.grid.watch import Watch
from pairframe.problem import Penalty

Float = NDArray[np.float64]
DEPTH = 10
_SAME_DUAL = 1e-11  # relative: below this the dual is rounding, and the residual judges
_REBUILD_ROUNDS = 10  # a correction lives at least this long before pinned potentials may renew it
_RAISE = 4.0  # how much stiffer the correction gets with a rejection


def run_rounds(level: Level, f: Float, watch: Watch, *, shift: float = 0.0, is_even: bool = False) -> Point:
    """Rounds from `f`, (n_a,), until `watch` says where to end.

    Parameters
    ----------
    shift : float
        Belongs to `f`; see `Point`.
    is_even : bool
        Whether `f` comes out of a plain round; otherwise one goes first, which evens out what carrying it between grids has roughened.
    """
    penalty = level.problem.penalty_a
    memory = Anderson(level.mass_a, DEPTH)
    trust = _Trust(level)
    plain: Float | None = None  # what to take instead when the mixed step was bad
    dual, residual = -np.inf, np.inf
    while True:
        point = level.answer(f, shift)
        noise = _SAME_DUAL * abs(dual)
        bad = not point.dual >= dual - noise
        if not (bad and plain is not None):
            next_plain = level.complete(point)
            bad = point.dual <= dual + noise and point.residual > 2.0 * residual
        if bad and plain is not None:
            f, plain = plain, None
            memory.clear()
            trust.lower()
            continue
        dual, residual, shift = point.dual, point.residual, point.shift
        last = watch.end(point, sums_of_a_round=2)
        if last is not None:
            return last
        if watch.is_stuck:
            f, plain = next_plain, None
            memory.clear()
            continue
        if not is_even:
            f, is_even = next_plain, True
            continue
        mixed = memory.step(point.f, trust.correct(next_plain - point.f, point))
        f, plain = _keep_pins(penalty, mixed, next_plain, shift), next_plain


def _keep_pins(penalty: Penalty, mixed: Float, plain: Float, shift: float) -> Float:
    """A potential that the plain step puts on its bound stays there: a hair beside it asks for another marginal."""
    if penalty.kind not in ("tv", "partial"):
        return mixed
    bound = penalty.strength * (1.0 - 1e-12)
    pinned = plain + shift >= bound
    if penalty.kind == "tv":
        pinned |= plain + shift <= -bound
    return np.where(pinned, plain, penalty.admissible(mixed + shift) - shift)


class _Trust:
    """The coarse correction: built when first needed, made stiffer (weaker) after each rejection.

    ``tv`` and ``partial`` pin potentials at their bounds; as these sets change, the correction is built anew.
    """

    def __init__(self, level: Level) -> None:
        self._level = level
        problem = level.problem
        self._pins = any(side.kind in ("tv", "partial") for side in (problem.penalty_a, problem.penalty_b))
        self._floor = 0.0
        self._age = 0
        self._refused = 0
        self._pinned: NDArray[np.bool_] | None = None
        self._correction: SmoothCorrection | None = None

    def correct(self, residual: Float, point: Point) -> Float:
        """The residual (n,) with its smooth part solved for."""
        self._age += 1
        if self._pins and self._age > _REBUILD_ROUNDS and self._has_moved(point):
            self._correction = None
        if self._correction is None:
            self._correction = self._build(point)
            self._age = 0
        return self._correction(residual)

    def lower(self) -> None:
        self._refused += 1
        if self._refused > 1:
            self._floor = max(1e-5, _RAISE * self._floor)
        self._correction = None

    def _build(self, point: Point) -> SmoothCorrection:
        level, problem = self._level, self._level.problem
        slope_a = self._slope_a(point)
        slope_b = problem.penalty_b.slope(point.update_b - point.shift, level.epsilon)
        if problem.penalty_b.kind in ("tv", "partial"):
            slope_b = level.mean_at_a(point.g, slope_b)
        else:
            slope_b = np.full(slope_a.shape, slope_b[0])
        stiffness = 1.0 / np.maximum(slope_a, 1e-3) - slope_b
        self._pinned = slope_a == 0
        return SmoothCorrection(
            problem.support_a,
            point.asked_a,
            level.epsilon,
            np.maximum(stiffness, self._floor),
            np.maximum(level.spread_at_a(point.f, point.g), 1e-3 * level.epsilon),
        )

    def _has_moved(self, point: Point) -> bool:
        now = self._slope_a(point) == 0
        return bool(np.count_nonzero(now != self._pinned) > 0.001 * now.size)

    def _slope_a(self, point: Point) -> Float:
        assert point.update_a is not None
        return self._level.problem.penalty_a.slope(point.update_a + point.shift, self._level.epsilon)

"""The rounds at one level: alternating updates, a coarse correction, Anderson mixing, a Newton step, and a safeguard.

The dual after the first half of a round is a free check: plain rounds never lower it. A mixed step that does is undone and
the plain step is taken instead. Where mixing stalls, Newton steps on the listed plan go on (`newton`). Both are accepted
only if the dual does not fall, and plain rounds, which converge from anywhere, come between them whenever they fail.
"""

from __future__ import annotations

import math

import numpy as np

from pairframe.engines.anderson import Anderson
from pairframe.engines.grid.correction import Correction
from pairframe.engines.grid.level import Level, Round
from pairframe.engines.grid.newton import NewtonSteps
from pairframe.engines.grid.watch import Watch
from pairframe.types import Float

DEPTH = 15
_LEAST_DEPTH, _MEMORY_BYTES = 6, 192 << 20  # of large problems, whose steps would take more memory than this
_SAME_DUAL = 1e-11  # relative: smaller changes of the dual are rounding, and the residual decides
_MOST_PLAIN = 1  # rounds before mixing, while a potential that was carried between grids is rough
_ROUGH = 1.5  # in eps: the largest plain step of a potential that is smooth enough for mixing
_FAR = 0.5  # in eps: a translation farther than this is made by a plain round
_SHORTER = 0.3  # of the smooth part of a step that was rejected
_MOST_COST = 10.0  # of Newton steps, in budgets: a coarse level is not worth more
_REJECTED = 3  # mixed steps, after which progress is judged from fewer rounds


def run_rounds(
    level: Level,
    f: Float,
    watch: Watch,
    *,
    shift: float = 0.0,
    is_even: bool = False,
    correction: Correction | None = None,
) -> Round:
    """Rounds from `f`, (n_a,), until `watch` ends them.

    Parameters
    ----------
    shift : float
        Belongs to `f`; see `Potentials`.
    is_even : bool
        Whether `f` comes from a plain round. Otherwise plain rounds go first, which smooth the traces of carrying `f`
        between grids.
    correction : Correction, optional
        Of this level, if something about it is known, or is wanted afterwards.
    """
    return _Rounds(level, watch, correction or Correction(level)).run(f, shift, is_even)


class _Rounds:
    def __init__(self, level: Level, watch: Watch, correction: Correction) -> None:
        self._level, self._watch = level, watch
        affordable = _MEMORY_BYTES // (16 * level.mass_a.size)
        self._memory = Anderson(level.mass_a, max(_LEAST_DEPTH, min(DEPTH, affordable)))
        self._correction = correction
        self._newton = NewtonSteps(level)
        self._may_use_newton = self._newton.cost <= _MOST_COST * watch.most_rounds
        self._residuals: list[float] = []
        self._rejected = 0
        self._is_newton = False

    def run(self, f: Float, shift: float, is_even: bool) -> Round:
        level, watch = self._level, self._watch
        penalty = level.problem.penalty_a
        point = level.complete(level.answer(penalty.admissible(f, shift), shift))
        n_plain = _MOST_PLAIN if is_even else 0
        while True:
            last = watch.end(point, sums_of_a_round=2)
            if last is not None:
                return last
            self._residuals.append(point.residual)
            if n_plain < _MOST_PLAIN:
                n_plain += 1
                point = self._plain(point)
                if np.abs(point.next_f - point.potentials.f).max() < _ROUGH * level.epsilon:
                    n_plain = _MOST_PLAIN
            elif self._has_stalled() and (found := self._newton.step(point)) is not None:
                point = found
            elif abs(point.next_shift - point.potentials.shift) > _FAR * level.epsilon:
                point = self._plain(point)
                self._memory.clear()
            else:
                point = self._mixed(point)

    def _plain(self, point: Round) -> Round:
        return self._level.complete(self._level.answer(point.next_f, point.next_shift))

    def _has_stalled(self) -> bool:
        """Whether it is time for Newton steps; once it is, it stays so while they succeed."""
        if not self._is_newton:
            self._is_newton = self._rounds_left() > min(self._newton.cost, self._watch.rounds_left)
        return self._is_newton and self._may_use_newton and self._newton.is_useful

    def _rounds_left(self) -> float:
        """Rounds to the goal at the rate of the last few; inf if they brought nothing, 0 while it is too early to tell."""
        window = self._newton.window
        if self._rejected >= _REJECTED:
            window = min(window, _REJECTED)
        if len(self._residuals) <= window:
            return 0.0
        before, now = self._residuals[-1 - window], self._residuals[-1]
        if now <= 0.0:  # nothing is left to gain
            return 0.0
        if not now < before:
            return math.inf
        return window * math.log(max(now / max(self._watch.goal, 1e-300), 1.0)) / math.log(before / now)

    def _mixed(self, point: Round) -> Round:
        here = point.potentials
        step = self._correction.correct(point)
        found = self._accepted(point, self._memory.step(here.f, step))
        if found is not None:
            return found
        self._memory.clear()
        plain = point.next_f - here.f
        if self._level.problem.penalty_a.pins:  # the smooth part knows nothing of bounds, and may go too far
            found = self._accepted(point, here.f + plain + _SHORTER * (step - plain))
            if found is not None:
                return found
        self._rejected += 1
        self._correction.reject()
        return self._plain(point) if math.isfinite(point.residual) else point

    def _accepted(self, point: Round, f: Float) -> Round | None:
        """The round at `f`, (n_a,), after `point`; None if the dual falls, or the residual rises while the dual does not."""
        level, here, penalty = self._level, point.potentials, self._level.problem.penalty_a
        if penalty.pins:
            # A potential that the plain step puts on its bound stays there: beside it another marginal is optimal.
            pinned = penalty.is_pinned(point.next_f, here.shift)
            f = np.where(pinned, point.next_f, penalty.admissible(f, here.shift))
        half = level.answer(f, here.shift)
        noise = max(_SAME_DUAL * abs(point.dual), point.dual_noise)
        if not half.dual >= point.dual - noise:
            return None
        found = level.complete(half)
        return found if found.dual > point.dual + noise or not found.residual > 2.0 * point.residual else None

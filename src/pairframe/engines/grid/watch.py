"""When to stop: the answer is good, the budget is used, or the error has stopped falling."""

from __future__ import annotations

import math
from collections.abc import Callable

from pairframe.engines.grid.level import Level, Round

PATIENCE = 400  # rounds without progress before the error is taken to have stopped falling: the digits are used up
_LAST_DIGITS, _SHORT = 1e-13, 40  # below such a residual so many rounds are enough to tell
_PROGRESS = 0.99  # a residual below this share of the one at the last progress is progress, however long it took


class Watch:
    """Sees every accepted point and says where to end.

    Parameters
    ----------
    done : callable
        Whether a point is good enough.
    max_sums : int
        Kernel applications allowed from here on.
    on_round : callable, optional
        Called with every point.
    patience : int
        Rounds without progress before the error is taken to have stopped falling.
    goal : float
        The residual at which a point is likely to be good enough.

    Attributes
    ----------
    has_stalled : bool
        Whether the rounds ended for that reason.
    most_rounds : float
        Plain rounds that the whole budget allows.
    """

    def __init__(
        self,
        level: Level,
        done: Callable[[Round], bool],
        max_sums: int,
        on_round: Callable[[Round], None] | None = None,
        patience: int = PATIENCE,
        goal: float = 0.0,
    ) -> None:
        self.goal = goal
        self.has_stalled = False
        self._patience = patience
        self._level = level
        self._done = done
        self._on_round = on_round
        self.most_rounds = max_sums / 2
        self._stop_at = level.n_sums + max_sums
        self._best: Round | None = None
        self._milestone = math.inf
        self._idle = 0

    @property
    def rounds_left(self) -> float:
        """Plain rounds that the budget allows."""
        return (self._stop_at - self._level.n_sums) / 2

    def has_budget(self, sums: int) -> bool:
        """Whether so many more kernel applications are allowed."""
        return self._level.n_sums + sums <= self._stop_at

    def end(self, point: Round, sums_of_a_round: int) -> Round | None:
        """The point to end with, or None to go on."""
        if self._on_round is not None:
            self._on_round(point)
        if point.residual < _PROGRESS * self._milestone:
            self._milestone, self._idle = point.residual, 0
        else:
            self._idle += 1
        if self._best is None or point.residual <= self._best.residual:
            self._best = point
        if self._done(point):
            return point
        if not self.has_budget(sums_of_a_round) or not math.isfinite(point.residual):
            return self._best
        patience = self._patience if self._milestone > _LAST_DIGITS else min(self._patience, _SHORT)
        self.has_stalled = self._idle >= patience
        return self._best if self.has_stalled else None

"""When to stop: the answer is good, the budget is used, or the numbers have reached their last digit."""

from __future__ import annotations

import math
from collections.abc import Callable

from pairframe.engines.grid.level import Level, Round

PATIENCE = 400  # rounds without progress before the numbers are taken to have reached their last digit
_PROGRESS = 0.9  # a residual below this share of the best one counts as progress


class Watch:
    """Sees every accepted point and says where to end.

    Parameters
    ----------
    done : callable
        Whether a point is good enough.
    max_sums : int
        Kernel applications allowed from here on.
    on_round : callable, optional
        Told of every point.
    """

    def __init__(
        self,
        level: Level,
        done: Callable[[Round], bool],
        max_sums: int,
        on_round: Callable[[Round], None] | None = None,
    ) -> None:
        self._level = level
        self._done = done
        self._on_round = on_round
        self._stop_at = level.n_sums + max_sums
        self._best: Round | None = None
        self._idle = 0

    @property
    def is_stuck(self) -> bool:
        """Whether acceleration has brought nothing for a while: plain rounds may."""
        return PATIENCE // 4 <= self._idle < PATIENCE // 2

    def has_budget(self, sums: int) -> bool:
        """Whether so many more kernel applications are allowed."""
        return self._level.n_sums + sums <= self._stop_at

    def end(self, point: Round, sums_of_a_round: int) -> Round | None:
        """The point to end with, or None to go on."""
        if self._on_round is not None:
            self._on_round(point)
        if self._best is None or not point.residual >= _PROGRESS * self._best.residual:
            self._idle = 0
        else:
            self._idle += 1
        if self._best is None or point.residual <= self._best.residual:
            self._best = point
        if self._done(point):
            return point
        hopeless = self._idle >= PATIENCE or not math.isfinite(point.residual)
        return None if self.has_budget(sums_of_a_round) and not hopeless else self._best

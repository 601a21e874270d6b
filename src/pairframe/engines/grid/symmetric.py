"""One measure against itself: one potential, averaged updates, a handful of steps."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pairframe.engines.anderson import Anderson
from pairframe.engines.grid.level import Level, Point, relative
from pairframe.engines.grid.watch import Watch

Float = NDArray[np.float64]
_DEPTH = 6


def run_symmetric(level: Level, f: Float, watch: Watch) -> Point:
    """Solve for f = g: ``f <- (f + update(f))/2`` damps every mode by half or more, smooth ones at once."""
    penalty, eps = level.problem.penalty_a, level.epsilon
    memory = Anderson(level.mass_a, _DEPTH)
    plain: Float | None = None
    residual = np.inf
    while True:
        s = level.update_b(f)
        with np.errstate(over="ignore"):
            p = level.mass_a * np.exp((f - s) / eps)
        error = relative(penalty.residual(p, f, level.mass_a), level.problem.total_a, float(p.sum()))
        if plain is not None and not error <= 2.0 * residual and watch.has_budget(1):
            f, plain = plain, None
            memory.clear()
            continue
        point = Point(f, f, 0.0, s, p, np.nan, level.mass_a, error, update_a=s, marginal_a=p, residual=error)
        last = watch.end(point, sums_of_a_round=1)
        if last is not None:
            return last
        plain, residual = 0.5 * (f + penalty.update(s, eps)), error
        f = penalty.admissible(memory.step(f, plain - f))

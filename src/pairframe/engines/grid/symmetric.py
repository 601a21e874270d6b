"""One measure against itself: one potential, averaged updates, a handful of steps."""

from __future__ import annotations

import numpy as np

from pairframe.engines.anderson import Anderson
from pairframe.engines.grid.level import Level, Round, relative
from pairframe.engines.grid.watch import Watch
from pairframe.problem import Potentials
from pairframe.types import Float

_DEPTH = 6


def run_symmetric(level: Level, f: Float, watch: Watch) -> Round:
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
        point = Round(
            potentials=Potentials(f, f),
            update_b=s,
            marginal_b=p,
            dual=np.nan,
            dual_noise=np.nan,
            optimal_a=level.mass_a,
            residual_b=error,
            update_a=s,
            marginal_a=p,
            residual=error,
            next_f=penalty.update(s, eps),
            next_shift=0.0,
        )
        last = watch.end(point, sums_of_a_round=1)
        if last is not None:
            return last
        plain, residual = 0.5 * (f + point.next_f), error
        f = penalty.admissible(memory.step(f, plain - f))

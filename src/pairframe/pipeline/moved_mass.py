"""Moved mass: a pair and the mass to move come in, the pair with the penalties that move just that much goes out.

The cheapest plan that moves a mass m is the plan of ``partial`` at one lambda, because lambda is half the price of the
last unit moved. What moves grows steadily with lambda, so a bracketing root finder gets there. Every solve starts
from the potentials of the one before.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pairframe.engines import Solution, SolveOptions, Start, solve
from pairframe.errors import ConfigError
from pairframe.pipeline.frame import WorkPair
from pairframe.problem import Partial, TransportProblem, state_problem

_LEAST_TOLERANCE = 1e-8  # of the mass to move; a looser `tol` loosens it
_SOLVE_TO = 0.1  # solves are this much more exact than the mass is wanted
_WIDEST = 1e8  # lambda over the squared diagonal of the grid: all that can move has moved
_LEAST = 1e-6  # lambda over epsilon: mass that need not move at all


def with_moved_mass(work: WorkPair, start: Start | None) -> tuple[WorkPair, Start | None]:
    """Settle lambda so that a given mass moves, and potentials to start from; all as it is if no mass is given."""
    config = work.config
    if config.moved_mass is None and config.moved_share is None:
        return work, start
    wanted, smaller = _wanted_and_smaller(work)
    if work.is_empty:
        return work, start
    problem, mass_scale = state_problem(work.mass_source, work.mass_target, config, work.transform, work.penalties)
    seen = _Moved(problem, SolveOptions(_SOLVE_TO * config.tol, config.max_iterations), config.backend, start)
    share = wanted / smaller
    goal = share * min(problem.total_a, problem.total_b)
    tolerance = max(_LEAST_TOLERANCE, config.tol) * goal
    relaxation = _root(seen, goal, tolerance, mass_scale)
    penalty = Partial(relaxation)
    return replace(work, penalties=(penalty, penalty)), seen.start


def _wanted_and_smaller(work: WorkPair) -> tuple[float, float]:
    """Mass to move and the smaller mass, in pixel-mass."""
    config = work.config
    smaller = min(float(work.mass_source.sum()), float(work.mass_target.sum()))
    if config.moved_share is not None:
        return config.moved_share * smaller, smaller
    assert config.moved_mass is not None
    if config.moved_mass > smaller * (1.0 + 1e-12):
        raise ConfigError(
            f"moved_mass of at most {smaller:.6g}, the mass of the smaller mask",
            f"{config.moved_mass:.6g}",
            "no more can move; lower it, or use moved_share=1",
            "moved_mass",
        )
    return min(config.moved_mass, smaller), smaller


class _Moved:
    """The mass that moves at a lambda, (lambda) -> mass of the problem; each solve starts from the one before."""

    def __init__(self, problem: TransportProblem, options: SolveOptions, backend: str, start: Start | None) -> None:
        self.problem, self.start = problem, start
        self._options, self._backend = options, backend

    def __call__(self, relaxation: float) -> float:
        penalty = Partial(relaxation)
        problem = replace(self.problem, penalty_a=penalty, penalty_b=penalty)
        found: Solution = solve(problem, self._backend, self._options, self.start)
        self.start = (found.potential_a, found.potential_b)
        return float(found.marginal_a.sum())


def _root(seen: _Moved, goal: float, tolerance: float, mass_scale: float) -> float:
    """The lambda at which `goal` moves."""
    problem = seen.problem
    diagonal = float(np.hypot.reduce(problem.shape)) ** (2 if problem.metric == "sqeuclidean" else 1)
    low, high = _LEAST * problem.epsilon, diagonal
    at_high = seen(high)
    while at_high < goal - tolerance and high < _WIDEST * diagonal:
        high *= 10.0
        at_high = seen(high)
    if abs(at_high - goal) <= tolerance:
        return high
    at_low = seen(low)
    if at_low > goal + tolerance:
        raise ConfigError(
            f"moved_mass of at least {at_low * mass_scale:.6g}, which the masks share or nearly share",
            f"{goal * mass_scale:.6g}",
            "that much need not move at all; raise moved_mass (or moved_share)",
            "moved_mass",
        )
    if abs(at_low - goal) <= tolerance:
        return low
    from scipy.optimize import brentq

    known = {low: at_low, high: at_high}

    def missing(log_relaxation: float) -> float:
        relaxation = float(np.exp(log_relaxation))
        found = known[relaxation] if relaxation in known else seen(relaxation)
        return 0.0 if abs(found - goal) <= tolerance else found - goal

    return float(np.exp(brentq(missing, np.log(low), np.log(high), xtol=1e-13, rtol=1e-13)))

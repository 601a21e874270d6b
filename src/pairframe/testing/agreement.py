"""How far two solutions of one problem are apart, in the numbers that people read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pairframe.engines import Solution
from pairframe.maps import FeasiblePart, PlanOperator, displacement, feasible_part
from pairframe.results.features import lengths_of
from pairframe.types import Float


@dataclass(frozen=True)
class Agreement:
    """Differences between two solutions of one problem; 0 is perfect.

    Attributes
    ----------
    objective : float
        Relative difference of the optimal values.
    marginals : float
        The larger relative L1 distance of the plan's marginals.
    maps : float
        The largest difference of a map: destroyed, created, left and arrived mass (L1, relative to that side's mass),
        and the displacement (mean over the mass that moved, relative to the mean displacement or a pixel).
    velocity_angle : float
        1 - cosine similarity of the displacement fields, weighted by the mass that moved.
    created_share, destroyed_share : float
        Absolute difference of the shares of mass that were created and destroyed.
    """

    objective: float
    marginals: float
    maps: float
    velocity_angle: float
    created_share: float
    destroyed_share: float


def agreement(one: Solution, other: Solution) -> Agreement:
    """Hold `one` against `other`, the truth."""
    problem = other.problem
    ours, theirs = (feasible_part(PlanOperator.of(solution)) for solution in (one, other))
    totals = {
        "destroyed": problem.total_a,
        "left": problem.total_a,
        "created": problem.total_b,
        "arrived": problem.total_b,
    }
    maps = [float(np.abs(getattr(ours, name) - getattr(theirs, name)).sum()) / total for name, total in totals.items()]
    difference, angle = _displacements(ours, theirs)
    return Agreement(
        objective=abs(one.certificate.primal_upper / other.certificate.primal_upper - 1.0),
        marginals=max(
            _distance(one.marginal_a, other.marginal_a),
            _distance(one.marginal_b, other.marginal_b),
        ),
        maps=max(*maps, difference),
        velocity_angle=angle,
        created_share=abs(float((ours.created - theirs.created).sum())) / problem.total_b,
        destroyed_share=abs(float((ours.destroyed - theirs.destroyed).sum())) / problem.total_a,
    )


def _distance(ours: Float, theirs: Float) -> float:
    return float(np.abs(ours - theirs).sum() / np.abs(theirs).sum())


def _displacements(ours: FeasiblePart, theirs: FeasiblePart) -> tuple[float, float]:
    """Mean difference (relative), and 1 - cosine similarity."""
    (field, valid), (true_field, true_valid) = (displacement(part) for part in (ours, theirs))
    on = valid & true_valid
    weight, field, true_field = theirs.left[on], field[on], true_field[on]
    mean_length = (weight * lengths_of(true_field)).sum()
    difference = (weight * lengths_of(field - true_field)).sum() / max(mean_length, weight.sum())
    squares = [(weight * (f * f).sum(axis=1)).sum() for f in (field, true_field)]
    if not all(squares):
        return float(difference), 0.0 if squares[0] == squares[1] else 1.0
    cosine = (weight * (field * true_field).sum(axis=1)).sum() / np.sqrt(squares[0] * squares[1])
    return float(difference), float(max(0.0, 1.0 - cosine))

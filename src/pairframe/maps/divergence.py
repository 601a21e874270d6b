"""The divergence: a transport cost without the entropy's bias, zero for equal measures."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pairframe.engines import Solution
from pairframe.problem import Certificate, TransportProblem


@dataclass(frozen=True)
class Divergence:
    """``S = U(a,b) - U(a,a)/2 - U(b,b)/2 + (eps/2) (sum u_a - sum u_b)^2`` and its error bound, mass times cost.

    U is the optimal value, and u_a the reference factor of a against itself: ``heat`` sqrt(a/z), ``product``
    a/sqrt(M_a), ``counting`` 1. The reference of the pair is u_a (x) u_b in all three cases, so the last term only
    takes the constants eps sum u sum v out of the three values. Then, with alpha = u_a exp(f_a/eps) from the
    self-problem and beta likewise, ``S >= (eps/2) |alpha - beta|^2`` in the norm of the kernel exp(-C/eps), which is
    positive: S >= 0 for every penalty, different ones on the two sides included.

    S is symmetric. It is 0 for equal measures when the penalties are equal too. It is homogeneous for ``heat`` and
    ``product``; under ``counting`` it depends on the normalisation, like the problem itself.

    Attributes
    ----------
    value : float
        From the middle of each pair of certified bounds, and not below 0. NaN when a solve left no finite bound.
    error : float
        Half the sum of the three gaps, each with its weight in S: the true divergence is within it.
    """

    value: float
    error: float


def divergence_of(solution: Solution, self_solutions: tuple[Solution, Solution]) -> Divergence:
    """The divergence of a solved pair, in the units of its problem.

    Parameters
    ----------
    self_solutions : (Solution, Solution)
        Of the source and of the target against themselves; with ``heat`` and ``product`` their totals may differ from the pair's.
    """
    problem = solution.problem
    if problem.is_symmetric:
        return Divergence(0.0, 0.0)
    value, error = _without_reference(solution.certificate, problem)
    for own, total in zip(self_solutions, (problem.total_a, problem.total_b), strict=True):
        scale = total / own.problem.total_a
        own_value, own_error = _without_reference(own.certificate, own.problem)
        value -= 0.5 * scale * own_value
        error += 0.5 * scale * own_error
    if not math.isfinite(value):
        return Divergence(math.nan, math.inf)
    return Divergence(max(value, 0.0), error)


def _without_reference(certificate: Certificate, problem: TransportProblem) -> tuple[float, float]:
    """Middle of the bounds without eps sum u sum v, and how far the optimum may be from it."""
    lower, gap = certificate.dual_lower, certificate.gap
    middle = lower + 0.5 * gap if math.isfinite(gap) else lower
    return middle - problem.epsilon * problem.total_reference, 0.5 * gap

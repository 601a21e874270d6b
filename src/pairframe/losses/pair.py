"""The divergence of one pair of images and its derivatives, by the envelope theorem.

At the optimum only the masses that appear openly in the dual count: with h(f) the derivative of the penalty's share of the
dual for the mass of a pixel, and p the marginal,

    dU(a, b)/da_i = h(f_i) - eps (p_i/a_i)/2,

the second term through the reference ``heat``, u = sqrt(a/z). For ``balanced`` h = f, for ``kl`` -lambda (e^(-f/lambda) - 1), for
``partial`` min(f, lambda). A divergence takes half of each self-problem away, which depends on its mass twice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from pairframe.engines import Solution, SolveOptions
from pairframe.engines import solve as solve_problem
from pairframe.engines.grid.kernel import SupportKernel
from pairframe.engines.grid.places import widened
from pairframe.frame import tight_box
from pairframe.losses.empty_pixels import NEARLY_EMPTY, LittleMass
from pairframe.maps.accounting import FeasiblePart, feasible_part
from pairframe.maps.displacement import displacement
from pairframe.maps.plan import PlanOperator
from pairframe.problem import KL, Partial, Penalty, TransportProblem, log_lattice_sum
from pairframe.types import Bool, Float


@dataclass(frozen=True)
class PairSettings:
    """Epsilon in px^2, the penalty of both sides, and when to stop."""

    epsilon: float
    penalty: Penalty
    options: SolveOptions


@dataclass(frozen=True, eq=False)
class SelfValue:
    """The value of an image against itself without its reference, and its derivative (H, W) if it was asked for.

    `error` and `iterations` are those of its solve; 0 if the value was known.
    """

    value: float
    gradient: Float | None
    error: float = 0.0
    iterations: int = 0


@dataclass(frozen=True, eq=False)
class PairValue:
    """The divergence of a pair and its derivatives (H, W), if they were asked for.

    `own_b` is the value of b against itself, without its derivative, if it was needed. `error` and `iterations` are the largest
    of all solves.
    """

    value: float
    gradient_a: Float | None
    gradient_b: Float | None
    own_b: SelfValue | None = None
    error: float = 0.0
    iterations: int = 0


def pair_value(
    a: Float, b: Float, settings: PairSettings, wants: tuple[bool, bool], known: float | None = None
) -> PairValue:
    """The divergence of images a and b (H, W).

    Parameters
    ----------
    wants : (bool, bool)
        Whether the derivative for a, and for b, is wanted.
    known : float, optional
        The value of b against itself, if it was solved before and b wants no derivative.
    """
    if np.array_equal(a, b):
        zero = np.zeros(a.shape)
        return PairValue(0.0, zero if wants[0] else None, zero if wants[1] else None)
    penalty = settings.penalty
    box = mass_box(a + b)
    problem = TransportProblem(a[box], b[box], settings.epsilon, penalty, penalty)
    solution = solve_problem(problem, "grid", settings.options)
    own_a = self_value(a, settings, wants[0])
    own_b = SelfValue(known, None) if known is not None else self_value(b, settings, wants[1])
    value = _value(solution) - 0.5 * (own_a.value + own_b.value)
    gradients: list[Float | None] = [None, None]
    for side, own in ((0, own_a), (1, own_b)):
        if wants[side]:
            assert own.gradient is not None
            gradients[side] = _derivative(solution, side, box, a.shape, is_own=False) - own.gradient
    error = max(solution.certificate.error, own_a.error, own_b.error)
    iterations = max(solution.iterations, own_a.iterations, own_b.iterations)
    return PairValue(max(value, 0.0), gradients[0], gradients[1], replace(own_b, gradient=None), error, iterations)


def self_value(mass: Float, settings: PairSettings, wants_gradient: bool) -> SelfValue:
    """The value of an image against itself; the derivative is half of the whole, that of one of its two sides."""
    box = mass_box(mass)
    own = mass[box]
    problem = TransportProblem(own, own, settings.epsilon, settings.penalty, settings.penalty)
    solution = solve_problem(problem, "grid", settings.options)
    gradient = _derivative(solution, 0, box, mass.shape, is_own=True) if wants_gradient else None
    return SelfValue(_value(solution), gradient, solution.certificate.error, solution.iterations)


def mass_box(mass: Float) -> tuple[slice, ...]:
    """The smallest rectangle with all of the mass."""
    box = tight_box(mass)
    assert box is not None  # images have mass
    return box.slices


def _value(solution: Solution) -> float:
    """The middle of the certified bounds, or the lower one if there is no other; without the constant of the reference."""
    found = solution.certificate
    gap = found.gap if np.isfinite(found.gap) else 0.0
    return found.dual_lower + 0.5 * gap - solution.problem.epsilon * solution.problem.total_reference


def _derivative(
    solution: Solution, side: int, box: tuple[slice, ...], shape: tuple[int, ...], *, is_own: bool
) -> Float:
    """dU/da on every pixel (H, W); on empty pixels that of nearly empty ones. The solution is of the pixels in the box.

    With `is_own`, mass in an empty pixel appears on both sides of the problem.
    """
    problem, (f, g), marginal = solution.problem, (solution.potential_a, solution.potential_b), solution.marginal_a
    if side == 1:
        problem, f, g, marginal = problem.swapped(), g, f, solution.marginal_b
    penalty, epsilon = problem.penalty_a, problem.epsilon
    on, off, there = problem.support_a, np.ones(shape, dtype=bool), np.zeros(shape, dtype=bool)
    off[box], there[box] = ~on, problem.support_b
    little = LittleMass(
        np.log(NEARLY_EMPTY * problem.total_a / int(on.sum())), log_lattice_sum(epsilon), penalty, epsilon
    )
    log_v = problem.log_v_on_support() + g[problem.support_b] / epsilon
    depth, elsewhere = np.inf, 0.0  # pixels may be anywhere
    if is_own:
        elsewhere = float(_open_derivative(*little.against_itself(np.array([-np.inf])), penalty, epsilon)[0])
        far, widest = little.far_px(log_v), sum(shape)
        margin = math.ceil(far) if far < widest else widest
        off, depth = _near(off, there, box, margin), float(np.ptp(log_v)) + 2.0 * margin**2 / epsilon
    values = np.full(shape, elsewhere)
    share = marginal[on] / problem.mass_a[on] if penalty.pins else None
    values[box][on] = _open_derivative(f[on], share, penalty, epsilon)
    if off.any():
        log_sum = SupportKernel(there, off, epsilon, expected_depth=depth).log_sum(log_v)
        found = little.against_itself(log_sum) if is_own else little.against_another(log_sum)
        values[off] = _open_derivative(*found, penalty, epsilon)
    return values


def _near(off: Bool, on: Bool, box: tuple[slice, ...], margin: int) -> Bool:
    """Those of `off` (H, W) that are at most so far, along both axes, from a pixel of `on`, all of which are in the box."""
    wide = tuple(slice(max(0, side.start - margin), side.stop + margin) for side in box)
    found = np.zeros_like(off)
    found[wide] = off[wide] & widened(widened(on[wide], margin).T, margin).T
    return found


def _open_derivative(f: Float, share: Float | None, penalty: Penalty, epsilon: float) -> Float:
    """h(f) - eps (p/a)/2. The potential implies p/a, except at a bound, where it is the `share` of the plan."""
    if isinstance(penalty, KL):
        relaxation = penalty.marginal_relaxation
        grown = np.expm1(-f / relaxation)
        return np.asarray(-relaxation * grown - 0.5 * epsilon * (grown + 1.0))
    if isinstance(penalty, Partial):
        assert share is not None
        is_pinned = penalty.is_pinned(f)
        moved = np.where(is_pinned, np.minimum(share, 1.0), 1.0)
        return np.minimum(f, penalty.marginal_relaxation) - 0.5 * epsilon * moved
    return f - 0.5 * epsilon


def pair_displacement(a: Float, b: Float, settings: PairSettings) -> Float:
    """Where the mass of each pixel of `a` (H, W) goes in `b`, debiased: (2, H, W), px, NaN where no mass moves."""
    field, own = _field(a, b, settings), _field(a, a, settings)
    return np.moveaxis(displacement(field, own.displacement)[0], -1, 0)


def _field(a: Float, b: Float, settings: PairSettings) -> FeasiblePart:
    problem = TransportProblem(a, b, settings.epsilon, settings.penalty, settings.penalty)
    return feasible_part(PlanOperator.of(solve_problem(problem, "grid", settings.options)))

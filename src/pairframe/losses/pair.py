"""The divergence of one pair of images and its derivatives, by the envelope theorem.

At the optimum only the masses that appear openly in the dual count: with h(f) the derivative of the penalty's share of the
dual for the mass of a pixel, and p the marginal,

    dU(a, b)/da_i = h(f_i) - eps (p_i/a_i)/2,

the second term through the reference ``heat``, u = sqrt(a/z). For ``balanced`` h = f, for ``kl`` -lambda (e^(-f/lambda) - 1), for
``partial`` min(f, lambda). A divergence takes half of each self-problem away, which depends on its mass twice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pairframe.engines import Solution, SolveOptions
from pairframe.engines import solve as solve_problem
from pairframe.engines.grid.kernel import SupportKernel
from pairframe.frame import tight_box
from pairframe.problem import KL, Partial, Penalty, TransportProblem
from pairframe.types import Float

# An empty pixel has the derivative of one with this share of the mean mass. Near the image that is the limit at no mass for
# `balanced` and `partial`. Far away, and for `kl`, no mass that a number can hold is close to the limit: see `docs/image_loss.md`.
NEARLY_EMPTY = 1e-6
_ALONE = 37.0  # terms farther apart than that factor of e add up to the larger one


@dataclass(frozen=True)
class PairSettings:
    """Epsilon in px^2, the penalty of both sides, and when to stop."""

    epsilon: float
    penalty: Penalty
    options: SolveOptions


@dataclass(frozen=True, eq=False)
class SelfValue:
    """The value of an image against itself without its reference, and its derivative (H, W) if it was asked for."""

    value: float
    gradient: Float | None


@dataclass(frozen=True, eq=False)
class PairValue:
    """The divergence of a pair, its derivatives (H, W) if they were asked for, and whether all solves converged."""

    value: float
    gradient_a: Float | None
    gradient_b: Float | None
    is_converged: bool


def pair_value(
    a: Float, b: Float, settings: PairSettings, wants: tuple[bool, bool], known: SelfValue | None
) -> PairValue:
    """The divergence of images a and b (H, W).

    Parameters
    ----------
    wants : (bool, bool)
        Whether the derivative for a, and for b, is wanted.
    known : SelfValue, optional
        Of b, if it was solved before.
    """
    if np.array_equal(a, b):
        zero = np.zeros(a.shape)
        return PairValue(0.0, zero if wants[0] else None, zero if wants[1] else None, True)
    penalty = settings.penalty
    box = _box(a + b)
    problem = TransportProblem(a[box], b[box], settings.epsilon, penalty, penalty)
    solution = solve_problem(problem, "grid", settings.options)
    own_a = self_value(a, settings, wants[0])
    own_b = known if known is not None else self_value(b, settings, wants[1])
    value = _value(solution) - 0.5 * (own_a.value + own_b.value)
    gradients: list[Float | None] = [None, None]
    for side, own in ((0, own_a), (1, own_b)):
        if wants[side]:
            assert own.gradient is not None
            gradients[side] = _derivative(solution, side, box, a.shape, is_own=False) - own.gradient
    return PairValue(max(value, 0.0), gradients[0], gradients[1], solution.certificate.meets(settings.options.tol))


def self_value(mass: Float, settings: PairSettings, wants_gradient: bool) -> SelfValue:
    """The value of an image against itself; the derivative is half of the whole, that of one of its two sides."""
    box = _box(mass)
    own = mass[box]
    problem = TransportProblem(own, own, settings.epsilon, settings.penalty, settings.penalty)
    solution = solve_problem(problem, "grid", settings.options)
    return SelfValue(
        _value(solution), _derivative(solution, 0, box, mass.shape, is_own=True) if wants_gradient else None
    )


def _box(mass: Float) -> tuple[slice, ...]:
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
    on = problem.support_a
    everywhere, off, there = np.zeros(shape), np.ones(shape, dtype=bool), np.zeros(shape, dtype=bool)
    off[box], there[box] = ~on, problem.support_b
    everywhere[box][on] = _open_derivative(f[on], penalty, epsilon, marginal[on] / problem.mass_a[on])
    if off.any():
        log_mass = np.log(NEARLY_EMPTY * problem.total_a / int(on.sum()))
        log_v = problem.log_v[problem.support_b] + g[problem.support_b] / epsilon
        log_sum = SupportKernel(there, off, epsilon).log_sum(log_v)
        log_z = float(np.log(problem.mass_a[on][0]) - 2.0 * problem.log_u[on][0])
        f_off, share = _nearly_empty(log_sum, log_mass, log_z, penalty, epsilon, is_own=is_own)
        everywhere[off] = _open_derivative(f_off, penalty, epsilon, share)
    return everywhere


def _nearly_empty(
    log_sum: Float, log_mass: float, log_z: float, penalty: Penalty, epsilon: float, *, is_own: bool
) -> tuple[Float, Float]:
    """Potentials, and shares of the mass that are moved, of pixels (n,) of a little mass m each, one at a time.

    `log_sum` is the log of K = sum_j v_j e^((g_j - C_ij)/eps) over the other side. In a self-problem m is on the other side too
    and can stay where it is: with x = f/eps, K becomes K + sqrt(m/z) e^x. Far away that is nearly all of it, however small m is.
    """
    log_ratio = 0.5 * (log_mass + log_z)  # log(a/u)
    if not is_own:
        f = penalty.update(epsilon * (log_ratio - log_sum), epsilon)
        return f, np.exp(np.minimum(f / epsilon + log_sum - log_ratio, 0.0))
    log_own = 0.5 * (log_mass - log_z)
    slope = 1.0 + epsilon / penalty.marginal_relaxation if isinstance(penalty, KL) else 1.0
    x = _own_exponent(log_sum, log_ratio, log_own, slope)
    f = penalty.admissible(epsilon * x)
    total = np.logaddexp(log_sum, log_own + f / epsilon) if penalty.pins else 0.0  # the others do not need the share
    return f, np.exp(np.minimum(f / epsilon + total - log_ratio, 0.0)) if penalty.pins else np.ones(f.shape)


def _own_exponent(log_sum: Float, log_ratio: float, log_own: float, slope: float) -> Float:
    """The roots x, (n,), of ``slope x + log(e^log_sum + e^(log_own + x)) = log_ratio``.

    Near and far pixels see one term of the sum only, and the others take a few steps of Newton's method: from the left of a
    convex function the first step goes to the right of the root, and all others come down to it.
    """
    near, far = (log_ratio - log_sum) / slope, (log_ratio - log_own) / (slope + 1.0)
    x = np.minimum(near, far)
    between = np.flatnonzero(np.abs(log_own + x - log_sum) < _ALONE)
    k, y = log_sum[between], x[between]
    for _ in range(50 if between.size else 0):
        own = np.exp(log_own + y - k)  # relative to e^log_sum
        step = (log_ratio - slope * y - k - np.log1p(own)) / (slope + own / (1.0 + own))
        y += step
        if np.abs(step).max() <= 1e-14 * (1.0 + np.abs(y).max()):
            break
    x[between] = y
    return x


def _open_derivative(f: Float, penalty: Penalty, epsilon: float, share: Float) -> Float:
    """h(f) - eps (p/a)/2. The potential implies p/a, except at the bound of ``partial``, where it is the `share` of the plan."""
    if isinstance(penalty, KL):
        relaxation = penalty.marginal_relaxation
        grown = np.expm1(-f / relaxation)
        return np.asarray(-relaxation * grown - 0.5 * epsilon * (grown + 1.0))
    if isinstance(penalty, Partial):
        is_pinned = penalty.is_pinned(f)
        moved = np.where(is_pinned, np.minimum(share, 1.0), 1.0)
        return np.minimum(f, penalty.marginal_relaxation) - 0.5 * epsilon * moved
    return f - 0.5 * epsilon

"""The squared 2-Wasserstein distance between two images, with bounds that can be checked independently of the solver."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairframe import checks
from pairframe.engines import Solution, SolveOptions, solve
from pairframe.errors import FrameError, ProblemError, UnsupportedProblemError
from pairframe.exact.whole_mass import WholeMasses, exact_dot, max_cost_px2
from pairframe.frame.crop import check_density
from pairframe.maps.accounting import feasible_part
from pairframe.maps.plan import PlanOperator
from pairframe.masks.arrays import finite_total
from pairframe.problem import Balanced, TransportProblem
from pairframe.problem.problem import check_epsilon
from pairframe.types import Bool, Float, Int

_SCALE = 2**20  # entropic potentials become integers in units of 2^-20 px^2; all later steps are exact
_SMALLEST_EPSILON = 1 / _SCALE
_FIRST_EPSILON = 1.0  # px^2; smaller ones are reached by halving
_START = SolveOptions(tol=1e-2, max_iterations=400)  # accurate enough for a start; raises do the rest
_TOTALS_AGREE = 1e-9
_TOTALS = (2.0**-900, 2.0**900)  # so that every unit, value and bound fits in float64
_COSTS_BELOW = 2**40  # px^2; times _SCALE they fit in int64


@dataclass(frozen=True, eq=False)
class W2Bounds:
    """Bounds on the optimal transport cost between two images of equal mass, in mass times px^2.

    Attributes
    ----------
    lower, upper : float
        The optimal value lies between them, converged or not. `lower` is the dual value of feasible potentials (or 0),
        `upper` the cost of a feasible plan. If raises ended before all mass flowed, `upper` may be that of the entropic
        plan, plus an estimate of its rounding.
    is_exact : bool
        Whether both bounds are the optimal value to the last digit of float64. This needs masses that are whole numbers,
        totals equal to the last unit, enough raises, and bounds that meet.
    entropic_lower, whole_lower : float
        Intermediate lower bounds: after hard c-transforms of the entropic potentials, and after rounding these to whole
        numbers.
    total : float
        Mass of either image.
    epsilon : float
        Of the entropic start, px^2; larger than requested if a smaller one gave no better bound.
    iterations, raises : int
        Softmins of the entropic start, and raises of the potentials after it.
    potential_a, potential_b : (H, W)
        The potentials of `lower`, whole numbers in px^2; NaN off the support.
    """

    lower: float
    upper: float
    is_exact: bool
    entropic_lower: float
    whole_lower: float
    total: float
    epsilon: float
    iterations: int
    raises: int
    potential_a: Float = field(repr=False)
    potential_b: Float = field(repr=False)

    @property
    def relative_gap(self) -> float:
        """Distance between the bounds as a share of the upper one."""
        return (self.upper - self.lower) / self.upper if self.upper > 0 else 0.0

    @property
    def distance_px(self) -> tuple[float, float]:
        """Lower and upper bound on W2, the root mean squared displacement, px."""
        return math.sqrt(self.lower / self.total), math.sqrt(self.upper / self.total)


def w2(mass_a: ArrayLike, mass_b: ArrayLike, *, epsilon: float = 1.0, max_raises: int = 100_000) -> W2Bounds:
    """Squared 2-Wasserstein distance between two images: exact for whole numbers, accurate to many digits for others.

    An entropic solve on the grid gives potentials. Hard c-transforms make them feasible, which gives a lower bound, and
    rounding them to whole numbers does not lower it. A flow along pairs without slack then raises them to the optimum.
    The n x m matrix is never built. If most plans are optimal, however, as between two crossed lines, most pairs have no
    slack, and memory grows accordingly.

    Masses that are not whole numbers are cut into about 2^62 units. The bounds then stay apart by about
    H W ((H - 1)^2 + (W - 1)^2) / 2^63 of the mass (px^2), plus rounding: 2e-12 at 32 x 32 pixels, 1e-9 at 256 x 256.

    Parameters
    ----------
    mass_a, mass_b : (H, W)
        Finite, >= 0, with equal totals. The exact value needs totals equal to the last unit. Totals that agree to 1e-9
        are accepted, and the bounds are then for `mass_b` times the ratio.
    epsilon : float
        Of the entropic start, px^2. A smaller one gives better bounds before any raise but takes more softmins.
    max_raises : int
        Use 0 for the bounds of the entropic solution alone. If raises end before all mass flows, the bounds do not meet.
    """
    a, b = _checked(mass_a, mass_b)
    epsilon, limit = (
        _checked_epsilon(epsilon),
        checks.integer(max_raises, "max_raises", 0, fix="leave max_raises out to reach the optimum"),
    )
    on_a, on_b = a > 0, b > 0
    masses = WholeMasses.of(a, b)
    start = _entropic_start(masses, epsilon)
    f, g = _whole_potentials(start.f, start.g, masses)
    whole_lower = masses.dual_value(f, g)
    f, g, upper, raises, all_flows = _raise_to_optimum(f, g, masses, limit)
    lower = max(masses.dual_value(f, g), 0.0)
    if not all_flows:
        upper = min(upper, _feasible_plan_cost(start.solution, masses))
    return W2Bounds(
        lower=lower,
        upper=upper,
        # This does not rely on the flow: `lower` has been checked by c-transforms over all pairs.
        is_exact=masses.is_lossless and upper <= math.nextafter(lower, math.inf),
        entropic_lower=start.lower,
        whole_lower=whole_lower,
        total=float(a.sum(dtype=np.float64)),
        epsilon=start.solution.problem.epsilon,
        iterations=start.iterations,
        raises=raises,
        potential_a=np.where(on_a, f, np.nan),
        potential_b=np.where(on_b, g, np.nan),
    )


# --- the start -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Start:
    """Best entropic solution: feasible potentials (H, W) in units of 1/_SCALE px^2, and their dual value."""

    solution: Solution
    f: Int
    g: Int
    lower: float
    iterations: int


def _entropic_start(masses: WholeMasses, epsilon: float) -> _Start:
    """Halve epsilon from a larger value as long as the bound improves; masses have a total of 1.

    If epsilon is too small for the limit of softmins, its potentials are worse than the previous ones.
    """
    a, b = (units / int(units.sum()) for units in (masses.units_a, masses.units_b))
    balanced = Balanced()
    halvings = max(0, math.ceil(math.log2(_FIRST_EPSILON / epsilon)))
    best: _Start | None = None
    iterations = 0
    for k in range(halvings, -1, -1):
        problem = TransportProblem(a, b, epsilon * 2.0**k, balanced, balanced, reference="product")
        init = None if best is None else (best.solution.potential_a, best.solution.potential_b)
        solution = solve(problem, "grid", _START, init)
        iterations += solution.iterations
        f, g = _feasible_potentials(solution.potential_a, masses.mass_a > 0, masses.mass_b > 0)
        lower = masses.dual_value(f, g) / _SCALE
        if best is not None and lower <= best.lower:
            break
        best = _Start(solution, f, g, lower, iterations)
    assert best is not None
    return replace(best, iterations=iterations)


def _feasible_potentials(potential_a: Float, on_a: Bool, on_b: Bool) -> tuple[Int, Int]:
    """Make potentials (H, W) in units of 1/_SCALE px^2 feasible everywhere by hard c-transforms."""
    from pairframe.exact.c_transform import hard_transform  # loads the compiler

    # Any start is allowed, however bad. Optimal potentials differ by at most the largest cost, so the start is clipped to
    # that range, and NaN becomes 0.
    known = np.isfinite(potential_a)
    middle = float(np.median(potential_a[known])) if known.any() else 0.0
    max_cost = float(max_cost_px2(on_a.shape))
    start = np.clip(np.where(known, potential_a - middle, 0.0), -max_cost, max_cost)
    g = hard_transform(np.rint(start * _SCALE).astype(np.int64), on_a, _SCALE)
    f = hard_transform(g, on_b, _SCALE)
    return f, hard_transform(f, on_a, _SCALE)


def _whole_potentials(f: Int, g: Int, masses: WholeMasses) -> tuple[Int, Int]:
    """Round potentials to whole px^2 and make them feasible everywhere."""
    from pairframe.exact.c_transform import hard_transform, whole_potentials

    on_a, on_b = masses.mass_a > 0, masses.mass_b > 0
    whole = np.zeros(f.shape, dtype=np.int64)
    whole[on_a], _ = whole_potentials(f[on_a], g[on_b], masses.units_a[on_a], masses.units_b[on_b], _SCALE)
    g = hard_transform(whole, on_a)
    f = hard_transform(g, on_b)
    return f, hard_transform(f, on_a)


# --- the optimum -----------------------------------------------------------------------------


def _raise_to_optimum(f: Int, g: Int, masses: WholeMasses, max_raises: int) -> tuple[Int, Int, float, int, bool]:
    """Return the raised potentials, the cost of the plan, the number of raises, and whether all mass flows."""
    from pairframe.exact.c_transform import hard_transform
    from pairframe.exact.flow import transport

    on_a, on_b = masses.units_a > 0, masses.units_b > 0
    part_a, part_b = masses.units_a[on_a], masses.units_b[on_b]
    part_f, part_g = f[on_a], g[on_b]
    yx_a, yx_b = (np.ascontiguousarray(np.argwhere(on)) for on in (on_a, on_b))
    flow, cost, raises = transport(yx_a, yx_b, part_a, part_b, part_f, part_g, on_a.shape, max_raises)
    left_a, left_b = np.zeros_like(masses.units_a), np.zeros_like(masses.units_b)
    left_a[on_a], left_b[on_b] = part_a, part_b
    f = f.copy()
    f[on_a] = part_f
    # Make them feasible on the whole supports, because pixels lighter than one unit were left out of the flow.
    g = hard_transform(f, on_a)
    f = hard_transform(g, masses.mass_b > 0)
    g = hard_transform(f, masses.mass_a > 0)
    return f, g, masses.cost(exact_dot(flow, cost), left_a, left_b), int(raises), not left_a.any()


def _feasible_plan_cost(solution: Solution, masses: WholeMasses) -> float:
    """Cost of the feasible part of the entropic plan, with the rest matched in proportion, rounded up."""
    part = feasible_part(PlanOperator.of(solution))
    cost = part.transport_cost + _cost_of_rest(part.destroyed, part.created)
    # Exponents round at the last digit of C/eps. That share of the mass is charged the largest cost.
    exponent = 100.0 + masses.max_cost / solution.problem.epsilon
    cost += 4.0 * float(np.finfo(np.float64).eps) * exponent * masses.max_cost
    return cost * masses.unit * int(masses.units_a.sum()) + masses.max_cost * masses.missing


def _cost_of_rest(rest_a: Float, rest_b: Float) -> float:
    """``sum_ij rest_a_i rest_b_j |x_i - x_j|^2`` over the total of either, (H, W) each, from moments."""
    total_a, total_b = float(rest_a.sum()), float(rest_b.sum())
    if not (total_a > 0 and total_b > 0):
        return 0.0
    mean_cost = 0.0
    for position in np.indices(rest_a.shape):
        centre = position - position.mean()
        mean_a, mean_b = float((rest_a * centre).sum()) / total_a, float((rest_b * centre).sum()) / total_b
        spread = float((rest_a * (centre - mean_a) ** 2).sum()) / total_a
        spread += float((rest_b * (centre - mean_b) ** 2).sum()) / total_b
        mean_cost += spread + (mean_a - mean_b) ** 2
    return max(total_a, total_b) * mean_cost


# --- checks ----------------------------------------------------------------------------------


def _checked(mass_a: ArrayLike, mass_b: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    """Check that both masses share a grid, have mass and equal totals, and fit the arithmetic."""
    masses = []
    for name, mass in (("mass_a", mass_a), ("mass_b", mass_b)):
        array, box = check_density(mass, name)
        if box is None:
            raise ProblemError(f"some mass in {name}", "none", "the distance to an empty image is not defined")
        masses.append(array)
    a, b = masses
    if a.ndim != 2:
        raise UnsupportedProblemError("images", f"arrays of shape {a.shape}", "exact distances are for images so far")
    if a.shape != b.shape:
        raise FrameError(
            "both images on one canvas",
            f"shapes {a.shape} and {b.shape}",
            "pad both images to the same shape",
        )
    if max_cost_px2(a.shape) >= _COSTS_BELOW:
        raise UnsupportedProblemError(
            "an image whose corners are less than 2^20 px apart",
            f"shape {a.shape}",
            "crop both images to the objects, or sum blocks of pixels",
        )
    total_a, total_b = finite_total(a, "mass_a"), finite_total(b, "mass_b")
    if not all(_TOTALS[0] <= total <= _TOTALS[1] for total in (total_a, total_b)):
        raise UnsupportedProblemError(
            "total masses between 2^-900 and 2^900 (about 1e-271 and 1e271)",
            f"{total_a:.3g} and {total_b:.3g}",
            "divide both images by the same number, such as the larger maximum",
        )
    if abs(total_b / total_a - 1.0) > _TOTALS_AGREE:
        raise ProblemError(
            "two images of equal total mass",
            f"{total_a:.9g} against {total_b:.9g}",
            "divide each image by its total, or use compare() for masses that differ",
        )
    return a, b


def _checked_epsilon(epsilon: object) -> float:
    value = check_epsilon(epsilon)
    if value < _SMALLEST_EPSILON:
        raise ProblemError(
            f"epsilon to be at least 2^-20 = {_SMALLEST_EPSILON:.3g} px^2",
            repr(epsilon),
            "use the default of 1; the raises find the optimum from there",
        )
    return value

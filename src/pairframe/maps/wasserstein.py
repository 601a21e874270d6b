"""The squared 2-Wasserstein distance of two images, between bounds that need no trust in any solver."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from operator import index
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairframe.engines import Solution, SolveOptions, solve
from pairframe.errors import (
    CanvasMismatchError,
    EmptyMeasureError,
    EpsilonError,
    SolveOptionsError,
    UnequalMassesError,
    UnsupportedProblemError,
)
from pairframe.frame.crop import check_density
from pairframe.maps.accounting import feasible_part
from pairframe.maps.plan import PlanOperator
from pairframe.maps.whole_mass import WholeMasses, exact_dot, largest_cost
from pairframe.masks.arrays import finite_total
from pairframe.problem import Penalty, TransportProblem
from pairframe.problem.problem import check_epsilon

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

_SCALE = 2**20  # entropic potentials become integers in units of 2^-20 px^2, so that nothing after them rounds
_SMALLEST_EPSILON = 1 / _SCALE
_FIRST_EPSILON = 1.0  # px^2; smaller ones are reached by halving
_START = SolveOptions(tol=1e-2, max_iterations=400)  # a start needs no more: raises make up for what is missing
_TOTALS_AGREE = 1e-9
_TOTALS = (2.0**-900, 2.0**900)  # so that no unit, value or bound leaves float64
_COSTS_BELOW = 2**40  # px^2: times _SCALE they stay inside int64


@dataclass(frozen=True, eq=False)
class W2Bounds:
    """What the optimal transport between two images of equal mass costs, in mass times px^2.

    Attributes
    ----------
    lower, upper : float
        The optimal value lies between them, converged or not: `lower` is the dual value of feasible potentials (or 0),
        `upper` the cost of a feasible plan. Where raises ended before all mass flowed, `upper` may be that of the
        entropic plan, which holds up to an estimate of its rounding (added to it).
    is_exact : bool
        Whether both are the optimal value itself, to float64's last digit: masses are whole numbers, their totals equal to
        the last unit, raises did not run out, and the bounds meet.
    entropic_lower, whole_lower : float
        Lower bounds on the way: after hard c-transforms of the entropic potentials, and after making these whole numbers.
    total : float
        Mass of either image.
    epsilon : float
        Of the entropic start, px^2: that asked for, or a larger one where less gave no better bound.
    iterations, raises : int
        Softmins of the start, and raises of the potentials after it.
    potential_a, potential_b : (H, W)
        Those of `lower`, px^2, whole numbers; NaN off the support.
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
        """How far the value may be from either bound, as a share of the upper one."""
        return (self.upper - self.lower) / self.upper if self.upper > 0 else 0.0

    @property
    def distance_px(self) -> tuple[float, float]:
        """Bounds on W2 itself, the root of the mean squared way: px."""
        return math.sqrt(self.lower / self.total), math.sqrt(self.upper / self.total)


def w2(mass_a: ArrayLike, mass_b: ArrayLike, *, epsilon: float = 1.0, max_raises: int = 100_000) -> W2Bounds:
    """Squared 2-Wasserstein distance between two images: exact for whole numbers, to many digits for others.

    An entropic solve on the grid gives potentials; hard c-transforms make them feasible, hence a lower bound; rounding
    them to whole numbers loses nothing; and a flow along pairs without slack raises them to the optimum. No n x m
    array is made, unless most plans are optimal, as between two crossed lines: then most pairs are without slack.
    Masses that are no whole numbers are cut into about 2^62 units; bounds then stay apart by about H W ((H - 1)^2 +
    (W - 1)^2) / 2^63 of the mass (px^2), and rounding: 2e-12 at 32 x 32 pixels, 1e-9 at 256 x 256.

    Parameters
    ----------
    mass_a, mass_b : (H, W)
        Finite, >= 0, of equal totals: to the last unit for the exact value. Totals that agree to 1e-9 only are taken as
        equal: the bounds are those for `mass_b` times the ratio.
    epsilon : float
        Of the entropic start, px^2. A smaller one gives better bounds before any raise, and takes more softmins.
    max_raises : int
        0 for the bounds of the entropic solution alone. Where raises end before all mass flows, bounds stay apart.
    """
    a, b = _checked(mass_a, mass_b)
    epsilon, limit = _checked_epsilon(epsilon), _checked_count(max_raises)
    on_a, on_b = a > 0, b > 0
    masses = WholeMasses.of(a, b)
    start = _entropic(masses, epsilon)
    f, g = _rounded(start.f, start.g, masses)
    whole_lower = masses.dual_value(f, g)
    f, g, upper, raises, all_flows = _raised(f, g, masses, limit)
    lower = max(masses.dual_value(f, g), 0.0)
    if not all_flows:
        upper = min(upper, _feasible_plan_cost(start.solution, masses))
    return W2Bounds(
        lower=lower,
        upper=upper,
        # No trust in the flow here either: `lower` went through c-transforms over all pairs once more.
        is_exact=masses.is_same and upper <= math.nextafter(lower, math.inf),
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
    """The best entropic solution: feasible potentials (H, W) in units of 1/_SCALE px^2, and their dual value."""

    solution: Solution
    f: Int
    g: Int
    lower: float
    iterations: int


def _entropic(masses: WholeMasses, epsilon: float) -> _Start:
    """From a larger epsilon down by halves, for masses of total 1, as long as the bound gets better.

    A small epsilon may be more than the solve can do in its softmins; its potentials are then worse than those before.
    """
    a, b = (units / int(units.sum()) for units in (masses.units_a, masses.units_b))
    balanced = Penalty("balanced")
    halvings = max(0, math.ceil(math.log2(_FIRST_EPSILON / epsilon)))
    best: _Start | None = None
    iterations = 0
    for k in range(halvings, -1, -1):
        problem = TransportProblem(a, b, epsilon * 2.0**k, balanced, balanced, reference="product")
        init = None if best is None else (best.solution.potential_a, best.solution.potential_b)
        solution = solve(problem, "grid", _START, init)
        iterations += solution.iterations
        f, g = _feasible(solution.potential_a, masses.mass_a > 0, masses.mass_b > 0)
        lower = masses.dual_value(f, g) / _SCALE
        if best is not None and lower <= best.lower:
            break
        best = _Start(solution, f, g, lower, iterations)
    assert best is not None
    return replace(best, iterations=iterations)


def _feasible(potential_a: Float, on_a: Bool, on_b: Bool) -> tuple[Int, Int]:
    """Potentials (H, W) in units of 1/_SCALE px^2, feasible everywhere: two hard c-transforms."""
    from pairframe.engines.grid.hard import hard_transform  # loads the compiler

    # Any start is allowed, however bad. Optimal potentials differ by no more than the largest cost: what differs by
    # more, or is no number, is held to that.
    known = np.isfinite(potential_a)
    middle = float(np.median(potential_a[known])) if known.any() else 0.0
    farthest = float(largest_cost(on_a.shape))
    start = np.clip(np.where(known, potential_a - middle, 0.0), -farthest, farthest)
    g = hard_transform(np.rint(start * _SCALE).astype(np.int64), on_a, _SCALE)
    f = hard_transform(g, on_b, _SCALE)
    return f, hard_transform(f, on_a, _SCALE)


def _rounded(f: Int, g: Int, masses: WholeMasses) -> tuple[Int, Int]:
    """The same in whole px^2, and feasible everywhere."""
    from pairframe.engines.grid.hard import hard_transform, whole_potentials

    on_a, on_b = masses.mass_a > 0, masses.mass_b > 0
    whole = np.zeros(f.shape, dtype=np.int64)
    whole[on_a], _ = whole_potentials(f[on_a], g[on_b], masses.units_a[on_a], masses.units_b[on_b], _SCALE)
    g = hard_transform(whole, on_a)
    f = hard_transform(g, on_b)
    return f, hard_transform(f, on_a)


# --- the way to the optimum ------------------------------------------------------------------


def _raised(f: Int, g: Int, masses: WholeMasses, max_raises: int) -> tuple[Int, Int, float, int, bool]:
    """Potentials after the flow, the cost of its plan, the raises, and whether all mass flows."""
    from pairframe.engines.grid.flow import transport
    from pairframe.engines.grid.hard import hard_transform

    on_a, on_b = masses.units_a > 0, masses.units_b > 0
    part_a, part_b = masses.units_a[on_a], masses.units_b[on_b]
    part_f, part_g = f[on_a], g[on_b]
    yx_a, yx_b = (np.ascontiguousarray(np.argwhere(on)) for on in (on_a, on_b))
    flow, cost, raises = transport(yx_a, yx_b, part_a, part_b, part_f, part_g, on_a.shape, max_raises)
    left_a, left_b = np.zeros_like(masses.units_a), np.zeros_like(masses.units_b)
    left_a[on_a], left_b[on_b] = part_a, part_b
    f = f.copy()
    f[on_a] = part_f
    # Once more over the whole supports: pixels too light for a unit had no part in it.
    g = hard_transform(f, on_a)
    f = hard_transform(g, masses.mass_b > 0)
    g = hard_transform(f, masses.mass_a > 0)
    return f, g, masses.cost(exact_dot(flow, cost), left_a, left_b), int(raises), not left_a.any()


def _feasible_plan_cost(solution: Solution, masses: WholeMasses) -> float:
    """Cost of the entropic plan's feasible part, with the rest shared out in proportion; rounded up."""
    part = feasible_part(PlanOperator.of(solution))
    cost = part.transport_cost + _cost_of_rest(part.destroyed, part.created)
    # Exponents round at the last digit of C/eps: so much of the mass may in truth have to go anywhere.
    exponent = 100.0 + masses.farthest / solution.problem.epsilon
    cost += 4.0 * float(np.finfo(np.float64).eps) * exponent * masses.farthest
    return cost * masses.unit * int(masses.units_a.sum()) + masses.farthest * masses.missing


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


# --- what comes in ---------------------------------------------------------------------------


def _checked(mass_a: ArrayLike, mass_b: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    """Both masses on one grid, neither empty, of equal totals, inside what the arithmetic can hold."""
    masses = []
    for name, mass in (("mass_a", mass_a), ("mass_b", mass_b)):
        array, box = check_density(mass, name)
        if box is None:
            raise EmptyMeasureError(f"some mass in {name}", "none", "an empty image has no distance to another")
        masses.append(array)
    a, b = masses
    if a.shape != b.shape:
        raise CanvasMismatchError(
            "both images on one canvas",
            f"shapes {a.shape} and {b.shape}",
            "pad the smaller one to the larger one's shape",
        )
    if largest_cost(a.shape) >= _COSTS_BELOW:
        raise UnsupportedProblemError(
            "an image whose corners are less than 2^20 px apart",
            f"shape {a.shape}",
            "crop both images to what has mass, or sum blocks of pixels",
        )
    total_a, total_b = finite_total(a, "mass_a"), finite_total(b, "mass_b")
    if not all(_TOTALS[0] <= total <= _TOTALS[1] for total in (total_a, total_b)):
        raise UnsupportedProblemError(
            "total masses between 2^-900 and 2^900 (about 1e-271 and 1e271)",
            f"{total_a:.3g} and {total_b:.3g}",
            "divide both images by one number, such as the larger maximum",
        )
    if abs(total_b / total_a - 1.0) > _TOTALS_AGREE:
        raise UnequalMassesError(
            "two images of equal total mass",
            f"{total_a:.9g} against {total_b:.9g}",
            "divide each by its total; compare() is for masses that differ",
        )
    return a, b


def _checked_epsilon(epsilon: object) -> float:
    value = check_epsilon(epsilon)
    if value < _SMALLEST_EPSILON:
        raise EpsilonError(
            f"epsilon to be at least 2^-20 = {_SMALLEST_EPSILON:.3g} px^2",
            repr(epsilon),
            "costs are whole numbers of px^2: leave it at 1, and the raises find the optimum",
        )
    return value


def _checked_count(count: object) -> int:
    try:
        value = -1 if isinstance(count, bool) else index(count)  # type: ignore[arg-type]
    except TypeError:
        value = -1
    if value < 0:
        raise SolveOptionsError("max_raises to be an integer >= 0", repr(count), "leave it out to reach the optimum")
    return value

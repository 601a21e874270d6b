"""From maps and a solution to a `TransportResult`, and the result of a pair with one empty mask."""

from __future__ import annotations

import math
import platform
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import metadata
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairframe._version import __version__
from pairframe.engines import Solution, Status, get_engine
from pairframe.engines.backends import versions_of
from pairframe.frame import BoxYX, GridTransform
from pairframe.maps import Divergence, FeasiblePart, PlanOperator, displacement, lift
from pairframe.problem import Penalty, Scales, TransportConfig, plan_cost_plus_entropy
from pairframe.results.result import TransportResult, WorkMaps

Float = NDArray[np.float64]
Velocity = tuple[Float, NDArray[np.bool_]]  # (Hw, Ww, 2) in work px per frame, and (Hw, Ww)


@dataclass(frozen=True, eq=False)
class Context:
    """What every result says about where it came from.

    Attributes
    ----------
    config : TransportConfig
        As used.
    mass_work_a, mass_work_b : (Hw, Ww)
        Pixel-mass on the work grid.
    areas_um2 : (float, float)
        Of the pixels with mass, source and target.
    on_source : (Hc, Wc) bool
        The source's pixels on the canonical image.
    """

    config: TransportConfig
    transform: GridTransform
    mass_work_a: Float
    mass_work_b: Float
    areas_um2: tuple[float, float]
    on_source: NDArray[np.bool_]
    notices: tuple[str, ...] = ()

    @property
    def scales(self) -> Scales:
        """The units of the comparison."""
        transform, config = self.transform, self.config
        return Scales(transform.px_size_um, transform.downsample_factor, config.coord_scale, config.metric)

    @property
    def is_empty(self) -> bool:
        """Whether a side has no mass in the frame."""
        return not (self.mass_work_a.any() and self.mass_work_b.any())

    def with_notices(self, *notices: str) -> Context:
        """The same, with more to say."""
        return replace(self, notices=(*self.notices, *notices))


FEWEST_WORK_PX = 8  # along the shorter side of a mask: a disc of fewer is no disc any more
LEAST_BLUR_WORK_PX = 0.5  # of two neighbours the kernel then sees one, to 2 %


def resolution_notices(context: Context, boxes: Sequence[BoxYX | None]) -> tuple[str, ...]:
    """What a person should know when the work grid is too coarse for the masks, or for the blur.

    `boxes` are the tight boxes of source and target, canonical px.
    """
    transform, factor = context.transform, context.transform.downsample_factor
    if context.is_empty:
        return ()
    notices = []
    masses = (context.mass_work_a, context.mass_work_b)
    for name, mass, box in zip(("source", "target"), masses, boxes, strict=True):
        height, width = (int(np.ptp(np.flatnonzero(mass.any(axis=axis)))) + 1 for axis in (1, 0))
        if factor > 1 and min(height, width) < FEWEST_WORK_PX:
            finer = 1 if box is None else max(1, min(min(box.shape_hw) // FEWEST_WORK_PX, factor - 1))
            notices.append(
                f"with downsample_factor {factor} the {name} is only {height} x {width} work pixels large: its shape, and "
                f"what happens inside a work pixel, cannot be seen well; use a downsample_factor of {finer} or less"
            )
    scales, config = context.scales, context.config
    blur_um = scales.length_um_from_cost_work(scales.epsilon_work(config.epsilon, config.blur_um))
    if not notices and blur_um < LEAST_BLUR_WORK_PX * transform.work_px_size_um:
        unit, work_px = config.length_unit, transform.work_px_size_um
        notices.append(
            f"the blur of {blur_um:.3g} {unit} is less than half a work pixel of {work_px:.3g} {unit}: the work pixel, not "
            f"the blur, sets what can be seen; raise blur_um to {work_px:.3g}"
            + (", or lower downsample_factor" if factor > 1 else "")
        )
    return tuple(notices)


@dataclass(frozen=True)
class PlanTerms:
    """The value of a plan term by term; mass times work px^2 (or work px)."""

    transport_cost: float
    entropy_term: float
    marginal_penalty: float


def plan_terms(plan: PlanOperator) -> PlanTerms:
    """The three terms of a plan, in the units of its problem; a hard marginal adds nothing, met or not."""
    problem = plan.problem
    on_a, on_b = problem.support_a, problem.support_b
    p, q = plan.marginals()
    transport_cost = plan.transport_cost
    # Where a potential is no number nothing is carried, and nothing is to be paid.
    f, g = np.where(p > 0, plan.potential_a, 0.0), np.where(q > 0, plan.potential_b, 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        both = plan_cost_plus_entropy(problem, f, g, p, q)
        penalty = _soft_part(problem.penalty_a, p[on_a], problem.mass_a[on_a])
        penalty += _soft_part(problem.penalty_b, q[on_b], problem.mass_b[on_b])
    return PlanTerms(transport_cost, both - transport_cost, penalty)


def build_result(
    context: Context,
    solution: Solution,
    mass_scale: float,
    terms: PlanTerms,
    part: FeasiblePart,
    velocity: Velocity,
    divergence: Divergence,
    noise_floors: tuple[float, float],
) -> TransportResult:
    """Lift the maps and put everything together.

    `part` is in pixel-mass; `solution`, `terms` and `divergence` are in the problem's units.
    """
    found = solution.certificate
    if found.smaller_side_error > context.config.tol >= max(found.relative_gap, found.marginal_error):
        context = context.with_notices(
            f"of the smaller mass {found.smaller_side_error:.2g} is not settled, which is little beside the larger one; "
            f"wanted were {context.config.tol:g}"
        )
    work = _work_maps(context, part, velocity, solution, mass_scale)
    return TransportResult(
        **_shared(context, part, velocity),
        transport_cost=terms.transport_cost * mass_scale,
        entropy_term=terms.entropy_term * mass_scale,
        marginal_penalty=terms.marginal_penalty * mass_scale,
        objective=found.primal_upper * mass_scale,
        dual_objective=found.dual_lower * mass_scale,
        gap=found.gap * mass_scale,
        divergence=divergence.value * mass_scale,
        divergence_error=divergence.error * mass_scale,
        noise_floor=noise_floors[0],
        noise_floor_target=noise_floors[1],
        status=solution.status,
        iterations=solution.iterations,
        relative_gap=found.relative_gap,
        marginal_error=found.marginal_error,
        backend=solution.engine,
        dtype=solution.dtype,
        device=solution.device,
        work=work,
    )


def build_empty_result(context: Context) -> TransportResult:
    """A pair with one empty mask: no solve. The empty plan is the only one, and its value is exact."""
    status = Status.empty_target if context.mass_work_a.any() else Status.empty_source
    part = _nothing_moves(context.mass_work_a, context.mass_work_b)
    velocity = displacement(part)
    masses = (context.mass_work_a, context.mass_work_b)
    strength = _strength_work(context)
    penalty = 0.0
    for mass, kind in zip(masses, context.config.penalties_ab, strict=True):
        total = float(mass.sum())
        if total > 0:
            penalty += math.inf if kind == "balanced" else strength * total
    return TransportResult(
        **_shared(context, part, velocity),
        transport_cost=0.0,
        entropy_term=0.0,
        marginal_penalty=penalty,
        objective=penalty,
        dual_objective=penalty,
        gap=0.0,
        divergence=math.nan,
        divergence_error=math.nan,
        noise_floor=math.nan,
        noise_floor_target=math.nan,
        status=status,
        iterations=0,
        relative_gap=0.0,
        marginal_error=0.0,
        backend=context.config.backend,
        dtype=context.config.dtype,
        device=context.config.device or "cpu",
        work=_work_maps(context, part, velocity, None, 1.0),
    )


# --- parts -----------------------------------------------------------------------------------


def _nothing_moves(mass_a: Float, mass_b: Float) -> FeasiblePart:
    """All of `mass_a` is destroyed, all of `mass_b` created; (H, W) each, one of them empty."""
    nothing = np.zeros(mass_a.shape)
    return FeasiblePart(
        transported=0.0,
        left=nothing,
        arrived=nothing,
        destroyed=mass_a.copy(),
        created=mass_b.copy(),
        left_share=nothing,
        shift_yx=np.full((*mass_a.shape, 2), np.nan),
        cost_source=nothing,
        cost_target=nothing,
    )


def _shared(context: Context, part: FeasiblePart, velocity: Velocity) -> dict[str, Any]:
    """The fields that a solved and an empty pair have in common."""
    scales, config = context.scales, context.config
    canonical = lift(
        context.transform,
        part,
        velocity[0],
        context.on_source,
        scales.cost_um_from_cost_work(1.0),
        debug=config.debug,
    )
    balanced = config.penalties_ab == ("balanced", "balanced")
    strength = math.inf if balanced else scales.cost_units_from_cost_work(_strength_work(context))
    return {
        "mass_created": canonical.mass_created,
        "mass_destroyed": canonical.mass_destroyed,
        "velocity_field": canonical.velocity_field,
        "velocity_valid": canonical.velocity_valid,
        "cost_source": canonical.cost_source,
        "cost_target": canonical.cost_target,
        "transform": context.transform,
        "M_source": float(context.mass_work_a.sum()),
        "M_target": float(context.mass_work_b.sum()),
        "total_transport_cost_work_px2": part.transport_cost,
        "total_transport_cost_um2": scales.cost_um_from_cost_work(part.transport_cost),
        "total_mass_moved": part.transported,
        "total_mass_created": float(part.created.sum()),
        "total_mass_destroyed": float(part.destroyed.sum()),
        "area_source_um2": context.areas_um2[0],
        "area_target_um2": context.areas_um2[1],
        "epsilon": scales.cost_units_from_cost_work(scales.epsilon_work(config.epsilon, config.blur_um)),
        "lambda_unbalanced": strength,
        "config": config,
        "versions": dict(_versions(config.backend)),
        "notices": context.notices,
    }


def _work_maps(
    context: Context,
    part: FeasiblePart,
    velocity: Velocity,
    solution: Solution | None,
    mass_scale: float,
) -> WorkMaps:
    unknown = np.full(context.transform.work_shape_hw, np.nan)
    records = () if solution is None else solution.trace
    return WorkMaps(
        mass_source=context.mass_work_a,
        mass_target=context.mass_work_b,
        mass_created=part.created,
        mass_destroyed=part.destroyed,
        velocity_px=velocity[0],
        velocity_valid=velocity[1],
        cost_source=part.cost_source,
        cost_target=part.cost_target,
        potential_source=unknown if solution is None else solution.potential_a,
        potential_target=unknown if solution is None else solution.potential_b,
        trace=tuple(record._replace(gap=record.gap * mass_scale) for record in records),
    )


def _strength_work(context: Context) -> float:
    return context.scales.strength_work(context.config.marginal_relaxation, context.config.reach_um)


def _soft_part(penalty: Penalty, marginal: Float, mass: Float) -> float:
    if penalty.kind == "balanced":
        return 0.0
    if penalty.kind == "partial":
        penalty = Penalty("tv", penalty.strength)
    return penalty.divergence(marginal, mass)


@lru_cache(maxsize=16)
def _versions(backend: str) -> tuple[tuple[str, str], ...]:
    """Of what computes."""
    return (
        ("pairframe", __version__),
        ("python", platform.python_version()),
        ("numpy", metadata.version("numpy")),
        ("scipy", metadata.version("scipy")),
        *versions_of(get_engine(backend)),
    )

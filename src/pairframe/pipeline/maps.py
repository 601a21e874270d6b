"""Maps: the solution of a pair comes in, its maps on the work grid and the numbers read from its plan go out."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pairframe.engines import Status
from pairframe.errors import ConfigError
from pairframe.maps import (
    Divergence,
    FeasiblePart,
    PlanOperator,
    displacement,
    feasible_part,
    local_growth_rate,
    map_gradient,
    spread_part,
    strain,
)
from pairframe.notices import Notice
from pairframe.pipeline.frame import WorkPair
from pairframe.pipeline.solve import PairSolution
from pairframe.problem import plan_cost_plus_entropy
from pairframe.types import Bool, Float

LEAST_BLUR_OF_STRAIN_WORK_PX = 1.0  # below it the mean target follows the pixels in steps, and so does its gradient


@dataclass(frozen=True)
class PlanTerms:
    """The value of a plan term by term; mass times work px^2 (or work px)."""

    transport_cost: float
    entropy_term: float
    marginal_penalty: float


@dataclass(frozen=True, eq=False)
class PairMaps:
    """The maps of a pair on the work grid, and the numbers read from its plan, in pixel-mass.

    Attributes
    ----------
    part : FeasiblePart
        Created, destroyed and moved mass.
    velocity : (Hw, Ww, 2)
        Displacement of the source, (dy, dx) in work px.
    velocity_valid : (Hw, Ww) bool
        Where the displacement is known.
    terms : PlanTerms
    divergence : Divergence
    noise_floors : (float, float)
        Of source and target; shares of their masses.
    debiased_cost : float
        See `_debiased_cost`; NaN without transport.
    notices : tuple of Notice
    strain : (Hw, Ww, 2, 2), optional
        Gradient of the displacement, rows dy, dx and columns d/dy, d/dx; NaN where the displacement is not known.
    local_growth_rate : (Hw, Ww), optional
        See `pairframe.maps.local_growth_rate`; NaN likewise.
    """

    part: FeasiblePart
    velocity: Float
    velocity_valid: Bool
    terms: PlanTerms
    divergence: Divergence
    noise_floors: tuple[float, float]
    debiased_cost: float = math.nan
    notices: tuple[Notice, ...] = ()
    strain: Float | None = None
    local_growth_rate: Float | None = None


def read_maps(work: WorkPair, solved: PairSolution) -> PairMaps:
    """Read the maps of a solved pair from its plan."""
    problem, config = solved.solution.problem, work.config
    plan = PlanOperator.of(solved.solution)
    plan.sum_both_sides()
    terms = _plan_terms(plan, solved.mass_scale)
    part = feasible_part(plan, solved.masses, solved.mass_scale)
    noise_floors = (solved.self_source.noise_floor, solved.self_target.noise_floor)
    self_displacement: Float | None = None
    if problem.is_symmetric:
        # The pair is its own self-problem. Subtracting the very same numbers gives exactly zero displacement.
        self_displacement = part.displacement
        noise_floors = (part.destroyed_share, part.destroyed_share)
    elif config.debias and work.transform.is_volume:
        # In place: a displacement of a large volume is gigabytes.
        part.displacement[problem.support_a] -= solved.self_source.displacement
    elif config.debias:
        self_displacement = np.full(part.displacement.shape, np.nan)
        self_displacement[problem.support_a] = solved.self_source.displacement
    velocity, valid = displacement(part, self_displacement if config.debias else None)
    debiased_cost = _debiased_cost(part, solved)
    if solved.samples is not None:
        source, target = solved.samples
        part = spread_part(part, source, target, work.mass_source, work.mass_target)
        velocity, valid = source.spread(velocity), source.spread(valid)
    gradient, growth = _strain_and_growth(plan, solved, valid) if config.strain else (None, None)
    return PairMaps(
        part=part,
        velocity=velocity,
        velocity_valid=valid,
        terms=terms,
        divergence=solved.divergence,
        noise_floors=noise_floors,
        debiased_cost=debiased_cost,
        notices=tuple(_notices(work, solved)),
        strain=gradient,
        local_growth_rate=growth,
    )


def check_blur_of_strain(work: WorkPair) -> None:
    """Refuse a strain that the work grid cannot resolve, before anything is solved."""
    config, scales = work.config, work.scales
    blur_px = math.sqrt(scales.epsilon_work(config.epsilon, config.blur_um))
    if config.strain and blur_px < LEAST_BLUR_OF_STRAIN_WORK_PX * (1 - 1e-9):
        unit, size = work.transform.units.length, work.transform.work_px_size_um
        raise ConfigError(
            f"a blur of at least one work pixel ({size:.4g} {unit}) with strain",
            f"{blur_px * size:.4g} {unit}",
            f"use blur_um={size:.4g} or more, or a smaller downsample_factor",
            "strain",
        )


def _strain_and_growth(plan: PlanOperator, solved: PairSolution, valid: Bool) -> tuple[Float, Float]:
    """Both maps where the displacement is known. The self-problem is on its own grid, but its pixels have the same order."""
    own = plan if plan.problem.is_symmetric else PlanOperator.of(solved.self_source.solution)
    gradient = strain(plan, map_gradient(own))
    growth = local_growth_rate(plan, *solved.masses)
    return np.where(valid[..., None, None], gradient, np.nan), np.where(valid, growth, np.nan)


def empty_maps(work: WorkPair) -> PairMaps:
    """The maps of a pair with one empty mask: all mass of the other is destroyed or created."""
    part = _part_without_transport(work.mass_source, work.mass_target)
    velocity, valid = displacement(part)
    unknown = np.full(velocity.shape[:-1], np.nan) if work.config.strain else None
    penalty = 0.0
    for mass, side in zip((work.mass_source, work.mass_target), work.penalties, strict=True):
        total = float(mass.sum())
        if total > 0:
            penalty += side.empty_cost(total)
    return PairMaps(
        part=part,
        velocity=velocity,
        velocity_valid=valid,
        terms=PlanTerms(0.0, 0.0, penalty),
        divergence=Divergence(math.nan, math.nan),
        noise_floors=(math.nan, math.nan),
        strain=None if unknown is None else np.full((*velocity.shape, velocity.shape[-1]), np.nan),
        local_growth_rate=unknown,
    )


def _debiased_cost(part: FeasiblePart, solved: PairSolution) -> float:
    """Transport cost of a plan less that of mass at rest, mass times work px^2 (``euclidean``: work px).

    The blur spreads mass that does not move, at a cost of about blur^2 per unit. The self-problems say how much for each pixel;
    the mean over source and target is subtracted. So a mask against itself costs nothing, a mask shifted by k costs k^2
    per unit of mass, and swapping source and target changes nothing.
    """
    problem = solved.solution.problem
    if problem.is_symmetric:
        return 0.0
    # Sums, not dot products: the threads of BLAS go on spinning, and take a core from ours.
    at_rest = float(np.sum(part.left[problem.support_a] * solved.self_source.mean_cost))
    at_rest += float(np.sum(part.arrived[problem.support_b] * solved.self_target.mean_cost))
    return part.transport_cost - 0.5 * at_rest


def _plan_terms(plan: PlanOperator, mass_scale: float) -> PlanTerms:
    """The three terms of a plan times `mass_scale`; a balanced marginal adds nothing, met or not."""
    problem = plan.problem
    on_a, on_b = problem.support_a, problem.support_b
    p, q = plan.marginals()
    transport_cost = plan.transport_cost
    # Pixels whose potential is NaN carry no mass and add nothing.
    f, g = np.where(p > 0, plan.potential_a, 0.0), np.where(q > 0, plan.potential_b, 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        both = plan_cost_plus_entropy(problem, f, g, p, q)
        penalty = problem.penalty_a.soft_divergence(p[on_a], problem.mass_a[on_a])
        penalty += problem.penalty_b.soft_divergence(q[on_b], problem.mass_b[on_b])
    return PlanTerms(transport_cost * mass_scale, (both - transport_cost) * mass_scale, penalty * mass_scale)


def _part_without_transport(mass_source: Float, mass_target: Float) -> FeasiblePart:
    """The part in which all source mass is destroyed and all target mass created; (H, W) each, one of them empty."""
    zeros = np.zeros(mass_source.shape)
    return FeasiblePart(
        transported=0.0,
        left=zeros,
        arrived=zeros,
        destroyed=mass_source.copy(),
        created=mass_target.copy(),
        left_share=zeros,
        displacement=np.full((*mass_source.shape, mass_source.ndim), np.nan),
        cost_source=zeros,
        cost_target=zeros,
    )


def _notices(work: WorkPair, solved: PairSolution) -> list[Notice]:
    config, found = work.config, solved.solution.certificate
    notices: list[Notice] = []
    if solved.samples is not None:
        source, target = solved.samples
        message = (
            f"sampled with seed {config.seed}: {source.n_after} points stand for {source.n_before} source pixels, "
            f"{target.n_after} for {target.n_before} target pixels"
        )
        notices.append(Notice("sampled", message))
    for name, own in (("source", solved.self_source), ("target", solved.self_target)):
        status = own.solution.status
        if status != Status.converged:
            message = f"the {name} against itself ended with {status}"
            notices.append(Notice("self_problem", message, str(status.advice)))
    if found.smaller_side_error > config.tol >= max(found.relative_gap, found.marginal_error):
        message = (
            f"the marginal error is {found.smaller_side_error:.2g} of the smaller mass, above the requested tolerance of "
            f"{config.tol:g}, although it is below the tolerance for the larger mass"
        )
        notices.append(Notice("smaller_mass_error", message))
    return notices

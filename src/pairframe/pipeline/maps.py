"""Maps: the solution of a pair comes in, its maps on the work grid and the numbers read from its plan go out."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pairframe.engines import Status
from pairframe.maps import Divergence, FeasiblePart, PlanOperator, displacement, feasible_part, spread_part
from pairframe.notices import Notice
from pairframe.pipeline.frame import WorkPair
from pairframe.pipeline.solve import PairSolution
from pairframe.problem import plan_cost_plus_entropy
from pairframe.types import Bool, Float


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
    """

    part: FeasiblePart
    velocity: Float
    velocity_valid: Bool
    terms: PlanTerms
    divergence: Divergence
    noise_floors: tuple[float, float]
    debiased_cost: float = math.nan
    notices: tuple[Notice, ...] = ()


def read_maps(work: WorkPair, solved: PairSolution) -> PairMaps:
    """Read the maps of a solved pair from its plan."""
    problem, config = solved.solution.problem, work.config
    plan = PlanOperator.of(solved.solution)
    part = feasible_part(plan).in_units_of(*solved.masses, solved.mass_scale)
    noise_floors = (solved.self_source.noise_floor, solved.self_target.noise_floor)
    self_displacement: Float | None = None
    if problem.is_symmetric:
        # The pair is its own self-problem. Subtracting the very same numbers gives exactly zero displacement.
        self_displacement = part.displacement
        noise_floors = (part.destroyed_share, part.destroyed_share)
    elif config.debias:
        self_displacement = np.full(part.displacement.shape, np.nan)
        self_displacement[problem.support_a] = solved.self_source.displacement
    velocity, valid = displacement(part, self_displacement if config.debias else None)
    debiased_cost = _debiased_cost(part, solved)
    if solved.samples is not None:
        source, target = solved.samples
        part = spread_part(part, source, target, work.mass_source, work.mass_target)
        velocity, valid = source.spread(velocity), source.spread(valid)
    return PairMaps(
        part=part,
        velocity=velocity,
        velocity_valid=valid,
        terms=_plan_terms(plan, solved.mass_scale),
        divergence=solved.divergence,
        noise_floors=noise_floors,
        debiased_cost=debiased_cost,
        notices=tuple(_notices(work, solved)),
    )


def empty_maps(work: WorkPair) -> PairMaps:
    """The maps of a pair with one empty mask: all mass of the other is destroyed or created."""
    part = _part_without_transport(work.mass_source, work.mass_target)
    velocity, valid = displacement(part)
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
    at_rest = float(part.left[problem.support_a] @ solved.self_source.mean_cost)
    at_rest += float(part.arrived[problem.support_b] @ solved.self_target.mean_cost)
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

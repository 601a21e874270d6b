"""Result: a pair and its maps come in, a `TransportResult` on the canonical image goes out."""

from __future__ import annotations

import math
import platform
from functools import lru_cache
from importlib import metadata
from typing import Any

import numpy as np

from pairframe._version import __version__
from pairframe.engines import Status, get_engine
from pairframe.engines.backends import versions_of
from pairframe.maps import lift
from pairframe.pipeline.frame import WorkPair
from pairframe.pipeline.maps import PairMaps
from pairframe.pipeline.solve import PairSolution
from pairframe.results.pose_maps import whole_displacement
from pairframe.results.result import TransportResult
from pairframe.results.work_maps import WorkMaps


def build_result(work: WorkPair, solved: PairSolution, maps: PairMaps) -> TransportResult:
    """Lift the maps of a solved pair to the canonical image and add its certificate."""
    solution, mass_scale = solved.solution, solved.mass_scale
    found = solution.certificate
    return TransportResult(
        **_shared_fields(work, maps),
        objective=found.primal_upper * mass_scale,
        dual_objective=found.dual_lower * mass_scale,
        gap=found.gap * mass_scale,
        status=solution.status,
        iterations=solution.iterations,
        relative_gap=found.relative_gap,
        marginal_error=found.marginal_error,
        backend=solution.engine,
        dtype=solution.dtype,
        device=solution.device,
        work=WorkMaps(
            **_shared_work_maps(work, maps),
            potential_source=solution.potential_a,
            potential_target=solution.potential_b,
            trace=tuple(record._replace(gap=record.gap * mass_scale) for record in solution.trace),
        ),
    )


def build_empty_result(work: WorkPair, maps: PairMaps) -> TransportResult:
    """The result of a pair with one empty mask, which needs no solve: its only plan is empty, and its value is exact."""
    config, unknown = work.config, np.full(work.transform.work_shape_hw, np.nan)
    return TransportResult(
        **_shared_fields(work, maps),
        objective=maps.terms.marginal_penalty,
        dual_objective=maps.terms.marginal_penalty,
        gap=0.0,
        status=Status.empty_target if work.mass_source.any() else Status.empty_source,
        iterations=0,
        relative_gap=0.0,
        marginal_error=0.0,
        backend=config.backend,
        dtype=config.dtype,
        device=config.device or "cpu",
        work=WorkMaps(
            **_shared_work_maps(work, maps),
            potential_source=unknown,
            potential_target=unknown,
            trace=(),
        ),
    )


def _shared_fields(work: WorkPair, maps: PairMaps) -> dict[str, Any]:
    """The fields that do not depend on whether the pair was solved."""
    scales, config, part = work.scales, work.config, maps.part
    canonical = lift(
        work.transform,
        part,
        maps.velocity,
        work.on_source,
        scales.cost_um_from_cost_work(1.0),
        debug=config.debug,
    )
    velocity = canonical.velocity_field
    if work.pose is not None:
        velocity = whole_displacement(velocity, work.pose)
    relaxation = min(penalty.marginal_relaxation for penalty in work.penalties)
    return {
        "mass_created": canonical.mass_created,
        "mass_destroyed": canonical.mass_destroyed,
        "velocity_field": velocity,
        "velocity_valid": canonical.velocity_valid,
        "cost_source": canonical.cost_source,
        "cost_target": canonical.cost_target,
        "transform": work.transform,
        "M_source": float(work.mass_source.sum()),
        "M_target": float(work.mass_target.sum()),
        "total_transport_cost_work_px2": part.transport_cost,
        "total_transport_cost_um2": scales.cost_um_from_cost_work(part.transport_cost),
        "total_mass_moved": part.transported,
        "total_mass_created": float(part.created.sum()),
        "total_mass_destroyed": float(part.destroyed.sum()),
        **_extents(work),
        "epsilon": scales.cost_units_from_cost_work(scales.epsilon_work(config.epsilon, config.blur_um)),
        "lambda_unbalanced": scales.cost_units_from_cost_work(relaxation),
        "transport_cost": maps.terms.transport_cost,
        "entropy_term": maps.terms.entropy_term,
        "marginal_penalty": maps.terms.marginal_penalty,
        "divergence": maps.divergence.value,
        "divergence_error": maps.divergence.error,
        "noise_floor": maps.noise_floors[0],
        "noise_floor_target": maps.noise_floors[1],
        "config": config,
        "versions": dict(_versions(config.backend)),
        "notices": (*work.notices, *maps.notices),
        "pose": work.pose,
        "debiased_transport_cost_um2": scales.cost_um_from_cost_work(maps.debiased_cost),
    }


def _extents(work: WorkPair) -> dict[str, float]:
    """Areas of an image, volumes of a volume."""
    names = ("volume_source_um3", "volume_target_um3"), ("area_source_um2", "area_target_um2")
    known, unknown = names if work.transform.is_volume else names[::-1]
    return dict(zip(known, work.areas_um2, strict=True)) | dict.fromkeys(unknown, math.nan)


def _shared_work_maps(work: WorkPair, maps: PairMaps) -> dict[str, Any]:
    """The maps on the work grid that do not depend on whether the pair was solved."""
    return {
        "mass_source": work.mass_source,
        "mass_target": work.mass_target,
        "mass_created": maps.part.created,
        "mass_destroyed": maps.part.destroyed,
        "velocity_px": maps.velocity,
        "velocity_valid": maps.velocity_valid,
        "cost_source": maps.part.cost_source,
        "cost_target": maps.part.cost_target,
        "strain": maps.strain,
        "local_growth_rate": maps.local_growth_rate,
    }


@lru_cache(maxsize=16)
def _versions(backend: str) -> tuple[tuple[str, str], ...]:
    """Versions of the packages that compute the result."""
    return (
        ("pairframe", __version__),
        ("python", platform.python_version()),
        ("numpy", metadata.version("numpy")),
        ("scipy", metadata.version("scipy")),
        *versions_of(get_engine(backend)),
    )

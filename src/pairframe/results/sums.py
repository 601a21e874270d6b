"""Whether a loaded result agrees with itself: its books balance, and its maps add up to its totals."""

from __future__ import annotations

import math

from pairframe.results.result import TransportResult

_TOLERANCE = 1e-9  # of the larger mask, or of the cost; results balance to about 1e-15
# A blur well below a work pixel moves next to nothing. The little cost that is left is a difference of large numbers, so it is
# held to the cost of moving all mass by a blur.
_SMALLEST = 1e-300


def check_sums(result: TransportResult) -> None:
    """Raise ValueError unless moved + destroyed = source, moved + created = target, and every map sums to its total."""
    mass = max(result.M_source, result.M_target)
    cost_um, cost_work = result.total_transport_cost_um2, result.total_transport_cost_work_px2
    work, power = result.work, 1 if result.config.metric == "euclidean" else 2
    size_um = _larger(cost_um, mass * result.blur_um**power)
    size_work = _larger(cost_work, mass * (result.blur_um / result.transform.work_px_size_um) ** power)
    sums = (
        ("source mass", result.M_source, result.total_mass_moved + result.total_mass_destroyed, mass),
        ("target mass", result.M_target, result.total_mass_moved + result.total_mass_created, mass),
        ("total_mass_created", result.total_mass_created, result.mass_created.sum(), mass),
        ("total_mass_destroyed", result.total_mass_destroyed, result.mass_destroyed.sum(), mass),
        ("total_mass_created", result.total_mass_created, work.mass_created.sum(), mass),
        ("total_mass_destroyed", result.total_mass_destroyed, work.mass_destroyed.sum(), mass),
        ("source mass", result.M_source, work.mass_source.sum(), mass),
        ("target mass", result.M_target, work.mass_target.sum(), mass),
        ("total_transport_cost_um2", cost_um, result.cost_source.sum(), size_um),
        ("total_transport_cost_um2", cost_um, result.cost_target.sum(), size_um),
        ("total_transport_cost_work_px2", cost_work, work.cost_source.sum(), size_work),
        ("total_transport_cost_work_px2", cost_work, work.cost_target.sum(), size_work),
    )
    for name, total, found, size in sums:
        both_nan = math.isnan(total) and math.isnan(found)  # costs, when there is no answer
        if not (both_nan or abs(found - total) <= max(_TOLERANCE * size, _SMALLEST)):
            raise ValueError(f"{name} is {total!r}, but its parts add up to {float(found)!r}")


def _larger(cost: float, scale: float) -> float:
    return cost if math.isnan(scale) else max(cost, scale)

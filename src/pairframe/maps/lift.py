"""Lift maps from the work grid to the canonical image, in physical units."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pairframe.frame import GridTransform
from pairframe.maps.accounting import FeasiblePart
from pairframe.types import Bool, Float, Int


@dataclass(frozen=True, eq=False)
class CanonicalMaps:
    """Maps on the canonical image, (Hc, Wc).

    Attributes
    ----------
    mass_created, mass_destroyed : (Hc, Wc)
        Mass per canonical pixel.
    velocity_field : (Hc, Wc, 2)
        um, dy and dx; NaN off the source and where no mass left.
    velocity_valid : (Hc, Wc) bool
    cost_source, cost_target : (Hc, Wc)
        Mass times um^2 (``euclidean``: um) per canonical pixel.
    """

    mass_created: Float
    mass_destroyed: Float
    velocity_field: Float
    velocity_valid: Bool
    cost_source: Float
    cost_target: Float


def lift(
    transform: GridTransform,
    part: FeasiblePart,
    velocity_px: Float,
    on_source: Bool,
    um_per_cost: float,
    *,
    debug: bool = False,
) -> CanonicalMaps:
    """Lift work-grid maps to the canonical image; sums of mass and cost do not change.

    Parameters
    ----------
    velocity_px : (Hw, Ww, 2)
        Work px.
    on_source : (Hc, Wc) bool
        The source's pixels; others that share a work block with them get no displacement.
    um_per_cost : float
        One unit of work cost in um^2 (or um).
    """
    velocity = transform.rasterize_velocity_to_canon(velocity_px)
    velocity[~on_source] = np.nan
    return CanonicalMaps(
        mass_created=transform.rasterize_to_canon(part.created, debug=debug),
        mass_destroyed=transform.rasterize_to_canon(part.destroyed, debug=debug),
        velocity_field=velocity,
        velocity_valid=np.isfinite(velocity[..., 0]),
        cost_source=transform.rasterize_to_canon(part.cost_source * um_per_cost, debug=debug),
        cost_target=transform.rasterize_to_canon(part.cost_target * um_per_cost, debug=debug),
    )


def carry_to_grid(old: GridTransform, new: GridTransform, *values_work: Float) -> list[Float]:
    """Carry maps from one work grid to another through the canonical image they share.

    Parameters
    ----------
    values_work : (H, W) each
        On `old`'s work grid, NaN where unknown.

    Returns
    -------
    (H', W') each, on `new`'s work grid: the value of the old work pixel that holds the new one's centre; NaN where there
    is none.
    """
    from_old, to_new = [], []
    for axis, side in enumerate(new.work_shape_hw):  # frames are not rotated: each axis maps to itself
        points = np.zeros((side, len(new.work_shape_hw)))
        points[:, axis] = np.arange(len(points)) + 0.5  # exact centres, not pixel indices
        index = np.floor(old.canon_to_work_yx(new.work_to_canon_yx(points))[:, axis]).astype(np.int64)
        inside = np.flatnonzero((index >= 0) & (index < old.work_shape_hw[axis]))
        to_new.append(slice(inside[0], inside[-1] + 1) if inside.size else slice(0))  # in order, so without a gap
        from_old.append(index[inside])
    carried = [np.full(new.work_shape_hw, np.nan) for _ in values_work]
    there = _as_slices(from_old) or np.ix_(*from_old)
    for values, found in zip(values_work, carried, strict=True):
        found[tuple(to_new)] = values[there]
    return carried


def _as_slices(indices: list[Int]) -> tuple[slice, ...] | None:
    """The same places as slices, which are many times faster, if all indices are consecutive: grids of equal pixels."""
    if not all(index.size and (np.diff(index) == 1).all() for index in indices):
        return None
    return tuple(slice(index[0], index[-1] + 1) for index in indices)

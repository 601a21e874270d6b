"""`WorkMaps`: the maps of a comparison on the work grid."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from pairframe.engines import TraceRecord
from pairframe.types import Bool, Float


class FrozenArrays:
    """Make the arrays of a frozen dataclass read-only, also after pickling."""

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                value.setflags(write=False)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        FrozenArrays.__post_init__(self)


@dataclass(frozen=True, eq=False, repr=False)
class WorkMaps(FrozenArrays):
    """The maps on the work grid, in work pixels; (Hw, Ww) arrays, or (Zw, Yw, Xw) for volumes.

    Attributes
    ----------
    mass_source, mass_target, mass_created, mass_destroyed : (Hw, Ww)
        Mass per work pixel.
    velocity_px : (Hw, Ww, 2)
        ``[..., 0]`` is dy, ``[..., 1]`` is dx, work px; NaN where unknown. In a volume (..., 3) for dz, dy, dx, in units of
        `GridTransform.work_px_size_um` along all axes.
    velocity_valid : (Hw, Ww) bool
        Where some mass left.
    cost_source, cost_target : (Hw, Ww)
        Mass times work px^2 (``euclidean``: work px).
    potential_source, potential_target : (Hw, Ww)
        In work cost units; NaN off the supports.
    trace : tuple of TraceRecord
        The solve's history; gaps in the units of `TransportResult.gap`.
    strain : (Hw, Ww, 2, 2), optional
        See `TransportResult.strain`; None unless the config asks for it.
    local_growth_rate : (Hw, Ww), optional
        Likewise.
    """

    mass_source: Float
    mass_target: Float
    mass_created: Float
    mass_destroyed: Float
    velocity_px: Float
    velocity_valid: Bool
    cost_source: Float
    cost_target: Float
    potential_source: Float
    potential_target: Float
    trace: tuple[TraceRecord, ...] = ()
    strain: Float | None = None
    local_growth_rate: Float | None = None

    def __repr__(self) -> str:
        names = [field.name for field in fields(self) if getattr(self, field.name) is not None]
        return f"WorkMaps({' x '.join(map(str, self.mass_source.shape))} work px: {', '.join(names)})"

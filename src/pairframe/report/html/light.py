"""The maps that the light pictures of a pair need: those on the work grid, however large the canvas is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pairframe.frame import GridTransform
from pairframe.results.group import read_arrays
from pairframe.results.variables import WORK_MAPS, labels_of
from pairframe.types import Float

_MASSES = ("mass_source", "mass_target", "mass_created", "mass_destroyed")
_VELOCITY = ("velocity_dz", "velocity_dy", "velocity_dx")


@dataclass(frozen=True, eq=False)
class LightMaps:
    """Part of `WorkMaps`: (Hw, Ww) mass per work pixel, and (Hw, Ww, 2) work px, NaN where unknown."""

    mass_source: Float
    mass_target: Float
    mass_created: Float
    mass_destroyed: Float
    velocity_px: Float


@dataclass(frozen=True, eq=False)
class LightResult:
    """The part of a `TransportResult` that pictures show (`view.Seen`), without its numbers."""

    transform: GridTransform
    work: LightMaps


def read_light(path: Path, pair_id: str) -> LightResult:
    """Read the maps that the pictures show from a group; an error if they are missing, changed or of another pair."""
    attributes, arrays = read_arrays(path, pair_id, [WORK_MAPS])
    transform = GridTransform.from_json(attributes["transform"])
    work = dict(zip(labels_of(WORK_MAPS, transform.is_volume), arrays[WORK_MAPS], strict=True))
    velocity_px = np.stack([work[name] for name in _VELOCITY if name in work], axis=-1)
    masses = {name: work[name] for name in _MASSES}
    return LightResult(transform, LightMaps(**masses, velocity_px=velocity_px))

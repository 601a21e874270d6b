"""What the light pictures of a pair need of its maps: six arrays on the work grid, however large the canvas is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pairframe.frame import GridTransform
from pairframe.results.group import read_arrays

Float = NDArray[np.float64]
_MASSES = ("mass_source", "mass_target", "mass_created", "mass_destroyed")
_VELOCITY = ("velocity_dy", "velocity_dx")


@dataclass(frozen=True, eq=False)
class LightMaps:
    """Part of `WorkMaps`: (Hw, Ww) mass per work pixel, and (Hw, Ww, 2) work px/frame, NaN where unknown."""

    mass_source: Float
    mass_target: Float
    mass_created: Float
    mass_destroyed: Float
    velocity_px: Float


@dataclass(frozen=True, eq=False)
class LightResult:
    """Part of a `TransportResult`, which can be seen (`view.Seen`) but has no numbers."""

    transform: GridTransform
    work: LightMaps


def read_light(folder: Path, pair_id: str) -> LightResult:
    """Read what the pictures show from a group; an error when that is missing, changed or of another pair."""
    names = {f"work_{name}": name for name in (*_MASSES, *_VELOCITY)}
    attributes, arrays = read_arrays(folder, pair_id, names)
    found = {name: arrays[stored] for stored, name in names.items()}
    velocity_px = np.stack([found.pop(name) for name in _VELOCITY], axis=-1)
    return LightResult(GridTransform.from_json(attributes["transform"]), LightMaps(**found, velocity_px=velocity_px))

"""The maps of a pair, pooled to the analysis grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pairframe.analysis.grid import AnalysisGrid
from pairframe.analysis.members import Member
from pairframe.results import disk
from pairframe.results.group import damage_is_our_error, read_arrays
from pairframe.results.store import ResultStore
from pairframe.types import Bool, Float


@dataclass(frozen=True, eq=False)
class PairMaps:
    """(H, W) on the analysis grid.

    Attributes
    ----------
    created, destroyed : (H, W)
        Mass per canonical pixel.
    velocity_um : (H, W, 2)
        dy and dx, um; NaN where unknown.
    """

    created: Float
    destroyed: Float
    velocity_um: Float

    @property
    def known(self) -> Bool:
        """Where the displacement is known."""
        return np.isfinite(self.velocity_um[..., 0]) & np.isfinite(self.velocity_um[..., 1])

    @property
    def speed_um(self) -> Float:
        """Length of the displacement, um; NaN where unknown."""
        speed: Float = np.hypot(self.velocity_um[..., 0], self.velocity_um[..., 1])
        return speed


def read_pair_maps(store: ResultStore, member: Member, grid: AnalysisGrid) -> PairMaps:
    """The maps of a pair; a damaged one is an error."""
    created, destroyed, dy, dx = read_canonical(
        store, member, grid, ("mass_created", "mass_destroyed", "velocity_dy", "velocity_dx")
    )
    velocity = np.stack([grid.mean_known(dy), grid.mean_known(dx)], axis=-1)
    return PairMaps(grid.density(created), grid.density(destroyed), velocity)


def read_canonical(store: ResultStore, member: Member, grid: AnalysisGrid, names: Sequence[str]) -> list[Float]:
    """Some canonical arrays (Hc, Wc) of a pair, by name; its other arrays are not read."""
    path = disk.group_path(store.maps_path, member.maps_group)
    _, arrays = read_arrays(path, member.pair_id, names)
    with damage_is_our_error(path):
        for name, values in arrays.items():
            if values.shape != grid.canon_shape_hw:
                raise ValueError(f"array {name} has the shape {values.shape}, not {grid.canon_shape_hw}")
    return [arrays[name] for name in names]

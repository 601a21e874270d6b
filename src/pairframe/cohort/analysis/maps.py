"""The maps of a pair on the analysis grid: read, pooled, and let go of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pairframe.cohort.analysis.grid import AnalysisGrid
from pairframe.cohort.analysis.members import Member
from pairframe.results import disk
from pairframe.results.group import check_version, damage_is_our_error
from pairframe.results.store import ResultStore

Float = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PairMaps:
    """(H, W) on the analysis grid.

    Attributes
    ----------
    created, destroyed : (H, W)
        Mass per canonical pixel.
    velocity_um : (H, W, 2)
        dy and dx, um/frame; NaN where unknown.
    """

    created: Float
    destroyed: Float
    velocity_um: Float

    @property
    def known(self) -> NDArray[np.bool_]:
        """Where the displacement is known."""
        return np.isfinite(self.velocity_um[..., 0]) & np.isfinite(self.velocity_um[..., 1])

    @property
    def speed_um(self) -> Float:
        """Length of the displacement, um/frame; NaN where unknown."""
        speed: Float = np.hypot(self.velocity_um[..., 0], self.velocity_um[..., 1])
        return speed


def read_pair_maps(store: ResultStore, member: Member, grid: AnalysisGrid) -> PairMaps:
    """The maps of a pair; a damaged one is an error."""
    created, destroyed, dy, dx = read_arrays(
        store, member, grid, ("mass_created", "mass_destroyed", "velocity_dy", "velocity_dx")
    )
    velocity = np.stack([grid.mean_known(dy), grid.mean_known(dx)], axis=-1)
    return PairMaps(grid.density(created), grid.density(destroyed), velocity)


def read_arrays(store: ResultStore, member: Member, grid: AnalysisGrid, names: tuple[str, ...]) -> list[Float]:
    """Canonical arrays (Hc, Wc) of a pair, by name, and nothing else of it."""
    import zarr

    folder = disk.group_folder(store.maps_path, member.maps_group)
    with damage_is_our_error(folder):
        group = zarr.open_group(folder, mode="r", zarr_format=3)
        check_version(group.attrs.get("schema_version"), folder)
        if group.attrs["pair_id"] != member.pair_id:
            raise ValueError(f"it holds the pair {ascii(group.attrs['pair_id'])[:80]}")
        found = []
        for name in names:
            array = group[name]
            if not isinstance(array, zarr.Array) or array.shape != grid.canon_shape_hw:
                raise ValueError(f"{name} is no map of {grid.canon_shape_hw[0]} x {grid.canon_shape_hw[1]} px")
            if array.nchunks_initialized != array.nchunks:
                raise ValueError(f"array {name} has lost chunks")
            found.append(np.asarray(array[...], dtype=np.float64))
    return found

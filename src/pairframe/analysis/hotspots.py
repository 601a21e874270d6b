"""Where two groups differ: a permutation test in every block, adjusted for the number of blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pairframe.analysis.fields import Read
from pairframe.analysis.members import Members
from pairframe.analysis.permutation import Relabelings, benjamini_hochberg, p_values
from pairframe.types import Bool, Float

MAP_NAMES = ("created", "destroyed", "speed_um")
_NOTHING = 1e-6  # mass per pixel: rounding error of the solve


@dataclass(frozen=True, eq=False)
class UnitMaps:
    """Mean maps of each unit.

    Attributes
    ----------
    units : tuple of str
    maps : mapping of name to (n_units, H, W)
        ``created`` and ``destroyed`` in mass per canonical pixel, ``speed_um`` in um, NaN where unknown.
    """

    units: tuple[str, ...]
    maps: dict[str, Float]


@dataclass(frozen=True, eq=False)
class HotspotMap:
    """One map, one group against the reference; (H, W) on the analysis grid.

    Attributes
    ----------
    name : str
        One of `MAP_NAMES`.
    difference : (H, W)
        Mean of the group's units minus mean of the reference's; NaN where not tested.
    p, q : (H, W)
        Of the permutation test, and adjusted by Benjamini and Hochberg over all tested blocks of the map.
    """

    name: str
    difference: Float
    p: Float
    q: Float

    @property
    def n_tested(self) -> int:
        """Blocks with a test."""
        return int(np.isfinite(self.p).sum())

    def hot(self, level: float) -> Bool:
        """Blocks that differ at that false discovery rate; (H, W)."""
        return self.q <= level


def unit_maps(members: Members, read: Read, shape_hw: tuple[int, int]) -> UnitMaps:
    """Weighted means over the pairs of each unit; see `Member.weight`."""
    units = tuple(members.units)
    index = {unit: number for number, unit in enumerate(units)}
    maps = {name: np.zeros((len(units), *shape_hw)) for name in MAP_NAMES}
    known_weight = np.zeros((len(units), *shape_hw))
    for member in members.members:
        at, found = index[member.unit], read(member)
        speed = found.speed_um
        known = np.isfinite(speed)
        maps["created"][at] += member.weight * found.created
        maps["destroyed"][at] += member.weight * found.destroyed
        maps["speed_um"][at] += member.weight * np.where(known, speed, 0.0)
        known_weight[at] += member.weight * known
    unknown = np.full(known_weight.shape, np.nan)
    maps["speed_um"] = np.divide(maps["speed_um"], known_weight, out=unknown, where=known_weight > 0)
    return UnitMaps(units, maps)


def hotspot_map(name: str, values: Float, ways: Relabelings) -> HotspotMap:
    """Test every block of the maps (n_units, H, W); `ways` choose the units of the group against the reference.

    The choice of blocks does not depend on the groups: a block is tested if the speed is known in half of the units, or
    if mass was created (destroyed) in at least two.
    """
    n_units, shape_hw = values.shape[0], values.shape[1:]
    flat = values.reshape(n_units, -1)
    known = np.isfinite(flat)
    is_speed = name == "speed_um"
    tested = known.sum(axis=0) >= max(2, (n_units + 1) // 2) if is_speed else (flat > _NOTHING).sum(axis=0) >= 2
    p = np.full(flat.shape[1], np.nan)
    difference = p.copy()
    if tested.any():
        columns = flat[:, tested]
        p[tested] = p_values(columns, ways)
        first = ways.in_first[0]
        difference[tested] = _mean(columns[first]) - _mean(columns[~first])
    q = benjamini_hochberg(p)
    return HotspotMap(name, difference.reshape(shape_hw), p.reshape(shape_hw), q.reshape(shape_hw))


def hotspot_maps(found: UnitMaps, chosen: Sequence[int], ways: Relabelings) -> tuple[HotspotMap, ...]:
    """All maps for the units with the numbers `chosen`, in the order of the columns of `ways`."""
    return tuple(hotspot_map(name, maps[list(chosen)], ways) for name, maps in found.maps.items())


def _mean(columns: Float) -> Float:
    n = np.isfinite(columns).sum(axis=0)
    mean: Float = np.divide(np.nansum(columns, axis=0), n, out=np.full(columns.shape[1], np.nan), where=n > 0)
    return mean

"""Mean fields of each group in each time bin, and the deviation of each pair from that of the reference."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pairframe.analysis.maps import PairMaps
from pairframe.analysis.members import Member, Members
from pairframe.types import Float

Cell = tuple[str, int]  # group, time bin
Read = Callable[[Member], PairMaps]

MAX_RESIDUAL_BYTES = 2**28


@dataclass(eq=False)
class FieldSum:
    """Sums over pairs; the pairs of a unit can be subtracted again."""

    n_pairs: int
    created: Float
    destroyed: Float
    velocity_um: Float
    n_known: Float

    @classmethod
    def zero(cls, shape_hw: tuple[int, int]) -> FieldSum:
        """The sum over no pairs."""
        nothing = (np.zeros(shape_hw) for _ in range(3))
        return cls(0, next(nothing), next(nothing), np.zeros((*shape_hw, 2)), next(nothing))

    def add(self, maps: PairMaps) -> None:
        """Add a pair."""
        known = maps.known
        self.n_pairs += 1
        self.created += maps.created
        self.destroyed += maps.destroyed
        self.velocity_um += np.where(known[..., None], maps.velocity_um, 0.0)
        self.n_known += known

    def without(self, other: FieldSum) -> FieldSum:
        """Without the pairs of `other`, which are in it."""
        return FieldSum(
            self.n_pairs - other.n_pairs,
            self.created - other.created,
            self.destroyed - other.destroyed,
            self.velocity_um - other.velocity_um,
            self.n_known - other.n_known,
        )

    def mean(self) -> MeanField:
        """The mean of the pairs."""
        n = self.n_pairs or math.nan
        known = self.n_known[..., None] > 0.5
        velocity = np.divide(
            self.velocity_um, self.n_known[..., None], out=np.full(self.velocity_um.shape, np.nan), where=known
        )
        return MeanField(self.n_pairs, self.created / n, self.destroyed / n, velocity, self.n_known)


@dataclass(frozen=True, eq=False)
class MeanField:
    """Mean of the maps of some pairs, on the analysis grid.

    Attributes
    ----------
    n_pairs : int
    created, destroyed : (H, W)
        Mass per canonical pixel; NaN without pairs.
    velocity_um : (H, W, 2)
        Mean over the pairs in which it is known, um; NaN where it is in none.
    n_known : (H, W)
        In how many it is.
    """

    n_pairs: int
    created: Float
    destroyed: Float
    velocity_um: Float
    n_known: Float


def field_sums(members: Members, read: Read, shape_hw: tuple[int, int]) -> dict[Cell, FieldSum]:
    """Sums for every group and time bin, empty ones too."""
    sums = {(g, b): FieldSum.zero(shape_hw) for g in members.groups for b in range(members.n_bins)}
    for member in members.members:
        sums[member.group, member.bin].add(read(member))
    return sums


# --- deviations ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Deviation:
    """Deviation of a pair from the mean field of the reference in its time bin.

    Attributes
    ----------
    velocity_rmse_um : float
        Root mean square length of the difference, um, where both are known.
    velocity_cosine : float
        1 for the same directions, 0 for unrelated ones, -1 for opposite ones; long displacements count more.
    created_rmse, destroyed_rmse : float
        Mass per canonical pixel, where either has mass.
    overlap : float
        Share of the pair's known blocks in which the reference is known too.
    n_reference : int
        Pairs in that mean. Pairs of the same unit are excluded, so no unit is compared with itself.
    """

    velocity_rmse_um: float
    velocity_cosine: float
    created_rmse: float
    destroyed_rmse: float
    overlap: float
    n_reference: int


def deviation(maps: PairMaps, mean: MeanField) -> Deviation:
    """See `Deviation`; NaN where there is nothing to compare."""
    if mean.n_pairs == 0:
        return Deviation(math.nan, math.nan, math.nan, math.nan, math.nan, 0)
    own_known = maps.known
    both = own_known & np.isfinite(mean.velocity_um).all(axis=-1)
    own, other = maps.velocity_um[both], mean.velocity_um[both]
    lengths = math.sqrt(float((own**2).sum()) * float((other**2).sum()))
    return Deviation(
        velocity_rmse_um=math.sqrt(float(((own - other) ** 2).sum()) / len(own)) if len(own) else math.nan,
        velocity_cosine=float((own * other).sum()) / lengths if lengths > 0 else math.nan,
        created_rmse=_rmse(maps.created, mean.created),
        destroyed_rmse=_rmse(maps.destroyed, mean.destroyed),
        overlap=float(both.sum() / own_known.sum()) if own_known.any() else math.nan,
        n_reference=mean.n_pairs,
    )


def residual(maps: PairMaps, mean: MeanField) -> NDArray[np.float32]:
    """Pair minus reference, (4, H, W): dy, dx (um), created, destroyed (mass per pixel); NaN where unknown."""
    velocity = maps.velocity_um - mean.velocity_um
    parts = (velocity[..., 0], velocity[..., 1], maps.created - mean.created, maps.destroyed - mean.destroyed)
    return np.stack(parts).astype(np.float32)


def deviations(
    members: Members, sums: Mapping[Cell, FieldSum], read: Read, shape_hw: tuple[int, int]
) -> tuple[dict[str, Deviation], dict[str, NDArray[np.float32]]]:
    """Deviation and residual map by pair_id; maps only for the first pairs, up to a memory limit."""
    found: dict[str, Deviation] = {}
    kept: dict[str, NDArray[np.float32]] = {}
    most = MAX_RESIDUAL_BYTES // (16 * shape_hw[0] * shape_hw[1])
    wanted = {member.pair_id for member in members.members[:most]}
    by_unit: dict[str, list[Member]] = {}
    for member in members.members:
        by_unit.setdefault(member.unit, []).append(member)
    for own in by_unit.values():
        references = _references_without(own, members.reference, sums, read, shape_hw)
        for member in own:
            maps, mean = read(member), references[member.bin]
            found[member.pair_id] = deviation(maps, mean)
            if member.pair_id in wanted:
                kept[member.pair_id] = residual(maps, mean)
    order = [member.pair_id for member in members.members]
    return {name: found[name] for name in order}, {name: kept[name] for name in order if name in kept}


def _references_without(
    own: Iterable[Member], reference: str, sums: Mapping[Cell, FieldSum], read: Read, shape_hw: tuple[int, int]
) -> dict[int, MeanField]:
    """The reference's mean in each bin of a unit, without the unit's own pairs."""
    of_unit: dict[int, FieldSum] = {}
    for member in own:
        total = of_unit.setdefault(member.bin, FieldSum.zero(shape_hw))
        if member.group == reference:
            total.add(read(member))
    return {number: sums[reference, number].without(total).mean() for number, total in of_unit.items()}


def _rmse(own: Float, other: Float) -> float:
    on = (own > 0) | (other > 1e-12)  # subtracting sums leaves rounding errors
    return math.sqrt(float(((own - other)[on] ** 2).mean())) if on.any() else 0.0

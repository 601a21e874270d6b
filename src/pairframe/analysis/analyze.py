"""`analyze`: members, mean fields, deviations, tests, hot spots and distances, in this order."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pairframe import checks
from pairframe.analysis.distances import Distances, mask_distances, sample_members
from pairframe.analysis.fields import Cell, Deviation, MeanField, Read, deviations, field_sums
from pairframe.analysis.grid import MAX_BLOCKS, AnalysisGrid
from pairframe.analysis.hotspots import HotspotMap, hotspot_maps, unit_maps
from pairframe.analysis.maps import PairMaps, read_pair_maps
from pairframe.analysis.members import Member, Members, select_members
from pairframe.analysis.permutation import relabelings
from pairframe.analysis.scalars import ScalarTest, check_scalars, compare_scalars, unit_values
from pairframe.errors import CohortError
from pairframe.problem import TransportConfig
from pairframe.progress import Progress
from pairframe.results.cohort_table import read_cohort
from pairframe.results.store import ResultStore

LEVEL = 0.05  # false discovery rate
MAX_DISTANCE_MASKS = 24
PERMUTATIONS = 5000
_CACHE_BYTES = 2**28
_UNIT_MAP_BYTES = 2**29


@dataclass(frozen=True, eq=False)
class Comparison:
    """One group against the reference.

    Attributes
    ----------
    group : str
    n_group, n_reference : int
        Units.
    is_exact : bool
        Whether all permutations were used; otherwise `n_permutations` random ones.
    n_permutations : int
        Number of permutations, including the observed one.
    smallest_p : float
        Smallest possible p with this number of units and permutations.
    scalars : tuple of ScalarTest
    hotspots : tuple of HotspotMap
        ``created``, ``destroyed``, ``speed_um``.
    """

    group: str
    n_group: int
    n_reference: int
    is_exact: bool
    n_permutations: int
    smallest_p: float
    scalars: tuple[ScalarTest, ...]
    hotspots: tuple[HotspotMap, ...]


@dataclass(frozen=True, eq=False)
class CohortAnalysis:
    """Groups of a cohort compared with each other.

    Attributes
    ----------
    members : Members
        The pairs that took part, their groups, time bins and units.
    grid : AnalysisGrid
        The grid of every map here.
    mean_fields : mapping of (group, bin) to MeanField
    deviations : mapping of pair_id to Deviation
        From the mean field of the reference group in the pair's time bin.
    residuals : mapping of pair_id to (4, H, W) float32
        dy, dx, created, destroyed: pair minus that mean field. Only for the first pairs of a large cohort.
    comparisons : tuple of Comparison
        Every other group against the reference; none in a cohort of one group.
    distances : Distances or None
    permutations, seed : int
        As given.
    notices : tuple of str
        Remarks, in sentences.
    """

    members: Members
    grid: AnalysisGrid
    mean_fields: Mapping[Cell, MeanField]
    deviations: Mapping[str, Deviation]
    residuals: Mapping[str, NDArray[np.float32]]
    comparisons: tuple[Comparison, ...]
    distances: Distances | None
    permutations: int
    seed: int
    notices: tuple[str, ...]


def analyze(
    store: ResultStore | str | os.PathLike[str],
    *,
    group: str | None = None,
    time: str | None = None,
    unit: str | None = None,
    bins: int | None = None,
    reference: str | None = None,
    scalars: Sequence[str] | None = None,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
    max_distance_masks: int = MAX_DISTANCE_MASKS,
    max_blocks: int = MAX_BLOCKS,
    jobs: int | None = 1,
    progress: Progress | None = None,
) -> CohortAnalysis:
    """Compare the groups of a cohort.

    Parameters
    ----------
    store : ResultStore or path
        Results of a run; only read. All pairs must lie on one canvas.
    group, time, unit : str, optional
        Carried columns: the group, the time, and the unit that was sampled independently (an embryo, a colony). Found by
        their names if not given; without a unit every pair counts as one, which "pair_id" as unit says explicitly.
    bins : int, optional
        Number of time bins of equal width; by default at most 4.
    reference : str, optional
        The group that the others are compared with; by default one called control, wild type or similar, else the first.
    scalars : list of str, optional
        Columns to test; by default the features.
    permutations : int
        Permutations of units between groups. If there are no more than this, all are used and p is exact.
    seed : int
        Seed of all random numbers.
    max_distance_masks : int
        Source masks in the matrix of distances (n (n - 1) / 2 solves), a random sample if there are more; 0 for no matrix.
    max_blocks : int
        The canvas is pooled to at most this many blocks.
    jobs : int or None
        Processes for the distances, as in `compare_many`.
    progress : callable (task, done, total), optional
    """
    store = store if isinstance(store, ResultStore) else ResultStore(store)
    for name, value, least in (("permutations", permutations, 1), ("seed", seed, 0), ("max_blocks", max_blocks, 1)):
        checks.integer(value, name, least, error=CohortError)
    checks.integer(max_distance_masks, "max_distance_masks", 0, error=CohortError)
    wanted = check_scalars(scalars)
    members = select_members(read_cohort(store), group=group, time=time, unit=unit, bins=bins, reference=reference)
    grid = _grid(members, max_blocks)
    read = _reader(store, grid, len(members.members), progress)
    sums = field_sums(members, read, grid.shape_hw)
    found, residuals = deviations(members, sums, read, grid.shape_hw)
    notices = [*members.notices, *_deviation_notices(members, found, residuals)]
    comparisons = _comparisons(members, read, grid, wanted, permutations, seed, notices, progress)
    distances = None
    if max_distance_masks >= 2:
        distances = _distances(store, members, grid, max_distance_masks, seed, jobs, notices, progress)
    return CohortAnalysis(
        members=members,
        grid=grid,
        mean_fields={cell: total.mean() for cell, total in sums.items()},
        deviations=found,
        residuals=residuals,
        comparisons=comparisons,
        distances=distances,
        permutations=permutations,
        seed=seed,
        notices=tuple(notices),
    )


# --- parts -----------------------------------------------------------------------------------


def _grid(members: Members, max_blocks: int) -> AnalysisGrid:
    fitting = _UNIT_MAP_BYTES // (3 * 8 * len(members.units))
    return AnalysisGrid.of(members.canon_shape_hw, members.px_size_um, max(1, min(max_blocks, fitting)))


def _reader(store: ResultStore, grid: AnalysisGrid, n_pairs: int, progress: Progress | None) -> Read:
    """A reader of maps with a cache of bounded size; the first pass is the slow one."""
    seen = 0

    @lru_cache(maxsize=max(1, _CACHE_BYTES // (32 * math.prod(grid.shape_hw))))
    def read(member: Member) -> PairMaps:
        nonlocal seen
        seen += 1
        if progress is not None and seen <= n_pairs:
            progress("maps", seen, n_pairs)
        return read_pair_maps(store, member, grid)

    return read


def _deviation_notices(
    members: Members, found: Mapping[str, Deviation], residuals: Mapping[str, NDArray[np.float32]]
) -> list[str]:
    notices = []
    alone = sum(deviation.n_reference == 0 for deviation in found.values())
    if alone:
        notices.append(
            f"{alone} pairs have no deviation, because no other unit of {members.reference} has pairs in their time bin"
        )
    if len(residuals) < len(found):
        notices.append(f"residual maps are kept for the first {len(residuals)} of {len(found)} pairs only")
    return notices


def _comparisons(
    members: Members,
    read: Read,
    grid: AnalysisGrid,
    wanted: Sequence[str],
    permutations: int,
    seed: int,
    notices: list[str],
    progress: Progress | None,
) -> tuple[Comparison, ...]:
    if len(members.groups) == 1:
        return ()
    maps = unit_maps(members, read, grid.shape_hw)
    values = unit_values(members, wanted)
    groups = np.array(list(members.units.values()))
    comparisons = []
    for number, name in enumerate(members.groups[1:], start=1):
        chosen = np.flatnonzero((groups == name) | (groups == members.reference))
        in_group = groups[chosen] == name
        # One random stream per group: adding a group to the cohort does not change the p of the others.
        ways = relabelings(in_group, permutations, np.random.default_rng([seed, *name.encode()]))
        comparison = Comparison(
            group=name,
            n_group=int(in_group.sum()),
            n_reference=int((~in_group).sum()),
            is_exact=ways.is_exact,
            n_permutations=len(ways.in_first),
            smallest_p=ways.smallest_p,
            scalars=compare_scalars(name, values[chosen], ways, wanted),
            hotspots=hotspot_maps(maps, [int(index) for index in chosen], ways),
        )
        comparisons.append(comparison)
        notices += _power_notices(comparison, members)
        if progress is not None:
            progress("permutation tests", number, len(members.groups) - 1)
    return tuple(comparisons)


def _power_notices(comparison: Comparison, members: Members) -> list[str]:
    units = f"{comparison.n_group} and {comparison.n_reference} units"
    notices = []
    if members.unit_column is None:
        notices.append(
            f"{comparison.group}: every pair counts as an independent sample. "
            "If several pairs come from one animal or colony, give the column that names it as unit"
        )
    if comparison.smallest_p > LEVEL:
        notices.append(
            f"{comparison.group} against {members.reference}: with {units} the smallest possible p is "
            f"{comparison.smallest_p:.2g}, however large the difference"
        )
    return notices


def _penalty(members: Members) -> str | tuple[str, str]:
    """The penalty of the first pair; ``partial`` if it is balanced, because masks of any mass are compared here."""
    penalty = TransportConfig.from_json(members.members[0].row["config_json"]).penalty
    return penalty if "balanced" not in penalty else "partial"


def _distances(
    store: ResultStore,
    members: Members,
    grid: AnalysisGrid,
    most: int,
    seed: int,
    jobs: int | None,
    notices: list[str],
    progress: Progress | None,
) -> Distances | None:
    chosen = sample_members(members.members, most, np.random.default_rng(seed))
    if len(chosen) < len(members.members):
        notices.append(
            f"distances are between {len(chosen)} of {len(members.members)} source masks, sampled with seed {seed}"
        )
    blur_um, reach_um = (float(np.median([m.row[name] for m in members.members])) for name in ("blur_um", "reach_um"))
    penalty = _penalty(members)
    distances = mask_distances(store, chosen, grid, blur_um, reach_um, penalty, jobs=jobs, progress=progress)
    if distances is not None and distances.n_unfinished:
        notices.append(f"{distances.n_unfinished} distances between masks did not converge and are not certified")
    return distances

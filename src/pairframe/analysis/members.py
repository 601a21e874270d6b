"""The pairs of an analysis: those with certified numbers, with their group, time bin, unit and weight."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pairframe import checks
from pairframe.errors import CohortError
from pairframe.results.cohort_table import Cohort, PlainRow
from pairframe.results.row_units import shared_units, units_of
from pairframe.results.schema import FAILED
from pairframe.results.words import status_kind
from pairframe.units import Units

EVERYTHING = "all pairs"  # name of the only group if there is no group column
MAX_DEFAULT_BINS = 4
# Names that mark the reference group if none is given.
_REFERENCE_NAMES = (
    "reference",
    "control",
    "ctrl",
    "wild type",
    "wildtype",
    "wild-type",
    "wt",
    "untreated",
    "dmso",
    "mock",
)


@dataclass(frozen=True, eq=False)
class Member:
    """A pair of the analysis.

    Attributes
    ----------
    pair_id, maps_group : str
        Its name, and that of its maps.
    group, unit : str
        Its group, and the sampled unit: pairs of one unit are not independent.
    time : float
        NaN without a time column.
    bin : int
        Number of its time bin.
    weight : float
        Its share in the mean of its unit: every time bin of a unit counts the same. Sums to 1 over a unit.
    row : mapping
        Its row in the table; None for missing values.
    """

    pair_id: str
    maps_group: str
    group: str
    unit: str
    time: float
    bin: int
    weight: float
    row: PlainRow


@dataclass(frozen=True, eq=False)
class Members:
    """All pairs of the analysis, in the order of the table.

    Attributes
    ----------
    groups : tuple of str
        The reference first.
    bin_edges : tuple of float
        Of the time bins, one more than there are; (nan, nan) without a time column.
    group_column, time_column, unit_column : str or None
        The columns that these come from.
    notices : tuple of str
        Remarks about the selection, in sentences.
    """

    members: tuple[Member, ...]
    groups: tuple[str, ...]
    bin_edges: tuple[float, ...]
    group_column: str | None
    time_column: str | None
    unit_column: str | None
    canon_shape_hw: tuple[int, int]
    px_size_um: float
    notices: tuple[str, ...]

    @property
    def reference(self) -> str:
        """The group that the others are compared with."""
        return self.groups[0]

    @property
    def length_units(self) -> Units:
        """The unit of lengths; all members share it."""
        return shared_units(member.row for member in self.members)

    @property
    def n_bins(self) -> int:
        """Number of time bins."""
        return len(self.bin_edges) - 1

    @property
    def units(self) -> dict[str, str]:
        """Group of each unit, reference first."""
        found = {member.unit: member.group for member in self.members}
        return dict(sorted(found.items(), key=lambda item: self.groups.index(item[1])))


def select_members(
    cohort: Cohort,
    *,
    group: str | None = None,
    time: str | None = None,
    unit: str | None = None,
    bins: int | None = None,
    reference: str | None = None,
) -> Members:
    """Select and label the pairs; columns that are not given are found by their names, as in the report."""
    group_column = _column(cohort, group, cohort.group, "group")
    time_column = _column(cohort, time, cohort.time, "time")
    unit_column = _column(cohort, unit, cohort.series, "unit")
    notices: list[str] = []
    rows = _usable(cohort.rows, group_column, time_column, notices)
    canon_shape_hw, px_size_um = _one_canvas(rows)
    _notice_configs(rows, notices)
    groups = _ordered_groups([_label(row, group_column, EVERYTHING) for row in rows], reference)
    times = [math.nan if time_column is None else float(row[time_column]) for row in rows]
    edges = _bin_edges(times, bins)
    members = []
    for row, at in zip(rows, times, strict=True):
        number = 0 if math.isnan(at) else min(int(np.searchsorted(edges, at, side="right")) - 1, len(edges) - 2)
        own_unit = _label(row, unit_column or "pair_id", row["pair_id"])
        label = _label(row, group_column, EVERYTHING)
        members.append(Member(row["pair_id"], row["maps_group"], label, own_unit, at, number, 1.0, row))
    _check_units(members, unit_column)
    _notice_bins(members, groups, len(edges) - 1, notices)
    return Members(
        members=_weighted(members),
        groups=groups,
        bin_edges=tuple(edges),
        group_column=group_column,
        time_column=time_column,
        unit_column=unit_column,
        canon_shape_hw=canon_shape_hw,
        px_size_um=px_size_um,
        notices=tuple(notices),
    )


# --- columns and rows ------------------------------------------------------------------------


def _column(cohort: Cohort, given: str | None, found: str | None, role: str) -> str | None:
    if given is None:
        return found
    if given not in (*cohort.carried, "pair_id"):
        known = ", ".join(cohort.carried[:8]) or "none"
        raise CohortError(
            f"{role} to be a carried column: {known}",
            ascii(given)[:80],
            "choose one of these, or add the column to the manifest and run again",
        )
    return given


def _usable(
    rows: Sequence[PlainRow], group_column: str | None, time_column: str | None, notices: list[str]
) -> list[PlainRow]:
    """Rows with certified numbers and all labels; notices count the others."""
    left_out: Counter[str] = Counter()
    kept = []
    for row in rows:
        time = None if time_column is None else row[time_column]
        if row["status"] == FAILED or row["maps_group"] is None:
            left_out["failed"] += 1
        elif status_kind(row["status"]) == "bad":
            left_out[f"ended with {row['status']}: not certified"] += 1
        elif group_column is not None and row[group_column] is None:
            left_out[f"no value in column {group_column!r}"] += 1
        elif time_column is not None and not _is_number(time):
            left_out[f"no number in column {time_column!r}"] += 1
        else:
            kept.append(row)
    notices += [f"{count} of {len(rows)} pairs left out: {why}" for why, count in left_out.items()]
    if not kept:
        raise CohortError(
            "at least one pair with a certified result",
            "; ".join(notices) or "an empty table",
            "run the comparisons again, or choose other columns for group and time",
        )
    return kept


def _one_canvas(rows: Sequence[PlainRow]) -> tuple[tuple[int, int], float]:
    if any(row["canon_depth_px"] is not None for row in rows):
        raise CohortError(
            "pairs of images", "volumes", "the analysis of groups is for images; use the table of the volumes"
        )
    canvases = Counter(
        (row["canon_height_px"], row["canon_width_px"], row["px_size_um"], units_of(row).in_px) for row in rows
    )
    if len(canvases) > 1:
        names = [
            f"{h} x {w} px of {'unknown size' if in_px else f'{size:g} um'}" for h, w, size, in_px in list(canvases)[:2]
        ]
        raise CohortError(
            "pairs on one canvas with one pixel size",
            " and ".join(names),
            "resample or pad the masks to one canvas, or analyse each canvas in a separate folder",
        )
    ((h, w, size, _),) = canvases
    return (int(h), int(w)), float(size)


def _notice_configs(rows: Sequence[PlainRow], notices: list[str]) -> None:
    n_configs = len({row["config_json"] for row in rows})
    if n_configs > 1:
        notices.append(
            f"the pairs were compared with {n_configs} different configurations, which may cause differences"
        )


def _label(row: PlainRow, column: str | None, otherwise: str) -> str:
    value: Any = None if column is None else row[column]
    return otherwise if value is None else str(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


# --- groups, bins, units ---------------------------------------------------------------------


def _ordered_groups(labels: Sequence[str], reference: str | None) -> tuple[str, ...]:
    names = sorted(set(labels))
    if reference is None:
        usual = [name for known in _REFERENCE_NAMES for name in names if name.strip().lower() == known]
        reference = (usual or names)[0]
    elif reference not in names:
        raise CohortError(
            f"reference to be one of the groups: {', '.join(names[:8])}", ascii(reference)[:80], "name one of these"
        )
    return (reference, *(name for name in names if name != reference))


def _bin_edges(times: Sequence[float], bins: int | None) -> list[float]:
    """Edges of bins of equal width from the first time to the last."""
    if bins is not None:
        checks.integer(bins, "bins", 1, 1000, fix="e.g. bins=4", error=CohortError)
    known = [time for time in times if not math.isnan(time)]
    if not known:
        if bins is not None and bins > 1:
            raise CohortError("a time column to make bins of", "none", "give it as time, or leave bins out")
        return [math.nan, math.nan]
    n = min(MAX_DEFAULT_BINS, len(set(known))) if bins is None else bins
    low, high = min(known), max(known)
    return [float(edge) for edge in np.linspace(low, high if high > low else low + 1.0, n + 1)]


def _check_units(members: Sequence[Member], unit_column: str | None) -> None:
    groups: dict[str, str] = {}
    for member in members:
        if groups.setdefault(member.unit, member.group) != member.group:
            raise CohortError(
                f"all pairs of a {unit_column} in one group",
                f"{ascii(member.unit)[:60]} in {ascii(groups[member.unit])[:40]} and {ascii(member.group)[:40]}",
                'give the column of the independent samples as unit, or "pair_id" if every pair is one',
            )


def _notice_bins(members: Sequence[Member], groups: Sequence[str], n_bins: int, notices: list[str]) -> None:
    for name in groups[1:]:
        bins = [{member.bin for member in members if member.group == group} for group in (groups[0], name)]
        if bins[0] != bins[1]:
            notices.append(
                f"{name} and {groups[0]} have pairs in different time bins (of {n_bins}): "
                "a difference between them may be due to time"
            )


def _weighted(members: Sequence[Member]) -> tuple[Member, ...]:
    in_bin = Counter((member.unit, member.bin) for member in members)
    bins = Counter(unit for unit, _ in in_bin)
    return tuple(
        replace(member, weight=1 / (in_bin[member.unit, member.bin] * bins[member.unit])) for member in members
    )

"""Scalars of one group against the reference: means of units, effect sizes, p by permutation, q over all scalars."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pairframe.analysis.members import Members
from pairframe.analysis.permutation import (
    Relabelings,
    benjamini_hochberg,
    cliffs_delta,
    cohens_d,
    p_values,
)
from pairframe.errors import CohortError
from pairframe.results.formatting import ROUNDING
from pairframe.results.schema import BY_NAME, FEATURES
from pairframe.types import Float

DEFAULT_SCALARS = (
    "area_source_um2",
    *(column.name for column in FEATURES if not column.name.startswith("area_")),
)


@dataclass(frozen=True)
class ScalarTest:
    """One scalar of one group against the reference.

    Attributes
    ----------
    group, scalar, unit : str
        Group and column, and the unit of its values.
    n_group, n_reference : int
        Units with a value.
    mean_group, mean_reference, difference : float
        Means over units, group minus reference.
    cohens_d, cliffs_delta : float
        Effect sizes; positive if the group's values are larger.
    p, q : float
        Two-sided, by permutation of units; q adjusted (Benjamini and Hochberg) over the scalars of this group.
    """

    group: str
    scalar: str
    unit: str
    n_group: int
    n_reference: int
    mean_group: float
    mean_reference: float
    difference: float
    cohens_d: float
    cliffs_delta: float
    p: float
    q: float


def check_scalars(scalars: Sequence[str] | None) -> tuple[str, ...]:
    """Names of numeric columns; by default the features."""
    if scalars is None:
        return DEFAULT_SCALARS
    for name in scalars:
        if name not in BY_NAME or BY_NAME[name].kind == "string":
            raise CohortError(
                "scalars to be columns with numbers",
                ascii(name)[:80],
                "choose a numeric column from docs/results.md",
            )
    return tuple(dict.fromkeys(scalars))


def unit_values(members: Members, scalars: Sequence[str]) -> Float:
    """Weighted means of the known values of each unit, (n_units, n_scalars); NaN without any.

    Shares within the rounding error count as 0, so that groups do not differ by rounding.
    """
    index = {unit: number for number, unit in enumerate(members.units)}
    total, weight = np.zeros((len(index), len(scalars))), np.zeros((len(index), len(scalars)))
    for member in members.members:
        at = index[member.unit]
        for number, name in enumerate(scalars):
            value = member.row[name]
            if value is not None and math.isfinite(value):
                total[at, number] += member.weight * _without_rounding(name, value)
                weight[at, number] += member.weight
    mean: Float = np.divide(total, weight, out=np.full(total.shape, np.nan), where=weight > 0)
    return mean


def _without_rounding(name: str, value: float) -> float:
    whole = {"%": 100.0, "share": 1.0}.get(BY_NAME[name].unit, 0.0)
    return 0.0 if abs(value) <= ROUNDING * whole else value


def compare_scalars(group: str, values: Float, ways: Relabelings, scalars: Sequence[str]) -> tuple[ScalarTest, ...]:
    """Test each column of `values` (n_units, n_scalars); `ways` choose the units of the group."""
    first = ways.in_first[0]
    p = p_values(values, ways)
    known = np.isfinite(values)
    p[(known[first].sum(axis=0) == 0) | (known[~first].sum(axis=0) == 0)] = math.nan
    q = benjamini_hochberg(p)
    found = []
    for number, name in enumerate(scalars):
        column, on = values[:, number], known[:, number]
        ours, theirs = column[first & on], column[~first & on]
        means = [float(sample.mean()) if sample.size else math.nan for sample in (ours, theirs)]
        found.append(
            ScalarTest(
                group=group,
                scalar=name,
                unit=BY_NAME[name].unit,
                n_group=ours.size,
                n_reference=theirs.size,
                mean_group=means[0],
                mean_reference=means[1],
                difference=means[0] - means[1],
                cohens_d=cohens_d(ours, theirs),
                cliffs_delta=cliffs_delta(ours, theirs),
                p=float(p[number]),
                q=float(q[number]),
            )
        )
    return tuple(found)

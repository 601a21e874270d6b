"""Permutation tests between two groups, effect sizes, and the false discovery rate."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from pairframe.types import Bool, Float

_BYTES_AT_ONCE = 2**26
# Relative rounding error of sums of the same numbers in another order.
_ROUNDING = 1e-10


@dataclass(frozen=True, eq=False)
class Relabelings:
    """Assignments of units to the first group.

    Attributes
    ----------
    in_first : (n_ways, n_units) bool
        One assignment per row; the first is the observed one.
    is_exact : bool
        Whether all assignments are listed; otherwise they are random.
    """

    in_first: Bool
    is_exact: bool

    @property
    def smallest_p(self) -> float:
        """The smallest possible p. Swapping groups of equal size changes no distance between them."""
        n_ways, n_units = self.in_first.shape
        twins = 2 if self.is_exact and 2 * int(self.in_first[0].sum()) == n_units else 1
        return twins / int(n_ways)


def relabelings(in_first: Bool, n_permutations: int, rng: np.random.Generator) -> Relabelings:
    """All ways to choose as many units as `in_first` (n_units,) does, or `n_permutations` random ones beside it."""
    n_units, n_first = in_first.size, int(in_first.sum())
    if math.comb(n_units, n_first) <= n_permutations + 1:
        ways = np.zeros((math.comb(n_units, n_first), n_units), bool)
        for row, chosen in zip(ways, combinations(range(n_units), n_first), strict=True):
            row[list(chosen)] = True
        observed = int(np.flatnonzero((ways == in_first).all(axis=1))[0])
        ways[[0, observed]] = ways[[observed, 0]]
        return Relabelings(ways, is_exact=True)
    drawn = rng.permuted(np.tile(in_first, (n_permutations, 1)), axis=1)
    return Relabelings(np.concatenate([in_first[None], drawn]), is_exact=False)


def p_values(values: Float, ways: Relabelings) -> Float:
    """Two-sided p of the difference of means, column by column.

    A NaN is a missing value, and moves with its unit. An assignment that leaves a group without a value has the
    difference 0. The observed assignment counts, so under the null hypothesis P(p <= x) <= x exactly.

    Parameters
    ----------
    values : (n_units, n_columns)

    Returns
    -------
    (n_columns,) The share of assignments whose difference is at least as large as the observed one.
    """
    known = np.isfinite(values)
    filled = np.where(known, values, 0.0)
    has_gaps = not bool(known.all())
    filled = filled - np.divide(
        filled.sum(axis=0), known.sum(axis=0), out=np.zeros(filled.shape[1]), where=known.any(axis=0)
    )
    filled[~known] = 0.0
    slack = _ROUNDING * np.abs(filled).max(axis=0, initial=0.0)
    observed: Float | None = None
    reached = np.zeros(values.shape[1])
    step = max(1, _BYTES_AT_ONCE // (8 * max(1, values.shape[1])))
    for chunk in _chunks(ways.in_first, step):
        size = np.abs(_differences(filled, known if has_gaps else None, chunk))
        if observed is None:
            observed = size[0] - slack
        reached += (size >= observed).sum(axis=0)
    share: Float = reached / len(ways.in_first)
    return share


def _differences(filled: Float, known: Bool | None, in_first: Bool) -> Float:
    """Mean of the first group minus mean of the second; (n_ways, n_columns)."""
    first = in_first.astype(np.float64)
    total = filled.sum(axis=0)
    sum_first = first @ filled
    if known is None:
        n_first = first.sum(axis=1, keepdims=True)
        gap: Float = sum_first / n_first - (total - sum_first) / (first.shape[1] - n_first)
        return gap
    n_known = known.sum(axis=0)
    n_first = first @ known
    n_second = n_known - n_first
    with np.errstate(divide="ignore", invalid="ignore"):
        found = sum_first / n_first - (total - sum_first) / n_second
    return np.where((n_first > 0.5) & (n_second > 0.5), found, 0.0)


def _chunks(in_first: Bool, step: int) -> Iterator[Bool]:
    for first in range(0, len(in_first), step):
        yield in_first[first : first + step]


# --- effect sizes and false discovery rate ---------------------------------------------------


def cohens_d(first: Float, second: Float) -> float:
    """Difference of means over the pooled standard deviation of two samples; NaN if that is 0 or unknown."""
    n = first.size + second.size - 2
    if min(first.size, second.size) == 0 or n < 1:
        return math.nan
    spread = math.sqrt((first.size * first.var() + second.size * second.var()) / n)
    gap = float(first.mean() - second.mean())
    scale = max(float(np.abs(first).max()), float(np.abs(second).max()))
    return gap / spread if spread > _ROUNDING * scale else math.nan


def cliffs_delta(first: Float, second: Float) -> float:
    """How often a value of the first sample is larger than one of the second, minus how often it is smaller; -1..1."""
    if min(first.size, second.size) == 0:
        return math.nan
    return float(np.sign(first[:, None] - second[None]).mean())


def benjamini_hochberg(p: Float) -> Float:
    """Adjusted p (n,): among the findings at q <= x, the expected share of false ones is at most x. NaN stays NaN."""
    q = np.full(p.shape, np.nan)
    on = np.flatnonzero(np.isfinite(p))
    order = on[np.argsort(p[on], kind="stable")]
    raw = p[order] * on.size / np.arange(1, on.size + 1)
    q[order] = np.minimum(1.0, np.minimum.accumulate(raw[::-1])[::-1])
    return q

"""Permutation tests: exact where they can be, valid always; effect sizes and the false discovery rate by their definitions."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import false_discovery_control

from pairframe.analysis.permutation import (
    benjamini_hochberg,
    cliffs_delta,
    cohens_d,
    p_values,
    relabelings,
)
from pairframe.types import Bool, Float


def labels(n_first: int, n_second: int) -> Bool:
    return np.arange(n_first + n_second) < n_first


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_all_labellings_are_gone_through_when_there_are_few() -> None:
    ways = relabelings(labels(3, 4), 100, rng())
    assert ways.is_exact
    assert len(np.unique(ways.in_first, axis=0)) == len(ways.in_first) == math.comb(7, 3)
    assert (ways.in_first.sum(axis=1) == 3).all()
    assert (ways.in_first[0] == labels(3, 4)).all()


def test_random_labellings_keep_the_sizes_the_observed_one_and_the_seed() -> None:
    ways, again, other = (relabelings(labels(9, 12), 50, rng(seed)) for seed in (1, 1, 2))
    assert not ways.is_exact
    assert len(ways.in_first) == 51
    assert (ways.in_first.sum(axis=1) == 9).all()
    assert (ways.in_first[0] == labels(9, 12)).all()
    assert (ways.in_first == again.in_first).all()
    assert (ways.in_first != other.in_first).any()


def test_over_all_labellings_an_exact_p_is_exactly_uniform() -> None:
    # Unequal groups and no ties: every labelling has a difference of its own.
    values = rng(3).standard_normal((8, 1))
    found = []
    for chosen in combinations(range(8), 3):
        observed = np.isin(np.arange(8), chosen)
        found.append(p_values(values, relabelings(observed, 100, rng()))[0])
    n = math.comb(8, 3)
    assert np.sort(found) == pytest.approx(np.arange(1, n + 1) / n)


@settings(max_examples=25, deadline=None)
@given(
    values=hnp.arrays(float, (7, 1), elements=st.one_of(st.integers(-3, 3).map(float), st.just(math.nan))),
    n_first=st.integers(1, 6),
)
def test_no_p_is_too_small_too_often_whatever_the_values_the_ties_and_the_gaps(values: Float, n_first: int) -> None:
    found = np.array(
        [
            p_values(values, relabelings(np.isin(np.arange(7), chosen), 100, rng()))[0]
            for chosen in combinations(range(7), n_first)
        ]
    )
    for level in np.unique(found):
        assert np.mean(found <= level + 1e-12) <= level + 1e-12


def test_random_labellings_of_nothing_give_a_p_that_is_uniform() -> None:
    values = rng(5).standard_normal((20, 2000))
    p = p_values(values, relabelings(labels(8, 12), 199, rng(6)))
    for level in (0.05, 0.25, 0.5, 0.75):
        share = float(np.mean(p <= level))
        assert abs(share - level) < 4 * math.sqrt(level * (1 - level) / 2000)


def test_p_is_what_going_through_the_labellings_by_hand_gives() -> None:
    values = np.array([[1.0, math.nan], [4.0, 2.0], [2.0, 3.0], [9.0, 5.0], [7.0, 8.0]])
    ways = relabelings(labels(2, 3), 100, rng())

    def gap(column: Float, first: Bool) -> float:
        ours, theirs = column[first & np.isfinite(column)], column[~first & np.isfinite(column)]
        return abs(ours.mean() - theirs.mean()) if ours.size and theirs.size else 0.0

    for number, p in enumerate(p_values(values, ways)):
        gaps = np.array([gap(values[:, number], first) for first in ways.in_first])
        assert p == np.mean(gaps >= gaps[0] - 1e-12)


def test_a_planted_effect_has_the_smallest_p_that_there_is() -> None:
    values = rng(7).standard_normal((12, 3)) + np.where(labels(6, 6), 50.0, 0.0)[:, None]
    ways = relabelings(labels(6, 6), 5000, rng())
    assert p_values(values, ways).tolist() == [ways.smallest_p] * 3
    assert ways.smallest_p == 2 / math.comb(12, 6)  # groups of one size can be swapped
    assert relabelings(labels(2, 5), 100, rng()).smallest_p == 1 / math.comb(7, 2)


def test_neither_shift_nor_scale_changes_p() -> None:
    values = rng(8).standard_normal((9, 5))
    ways = relabelings(labels(4, 5), 200, rng())
    assert p_values(1e6 + 1e-3 * values, ways) == pytest.approx(p_values(values, ways))


def test_a_constant_is_no_difference() -> None:
    ways = relabelings(labels(3, 4), 100, rng())
    assert p_values(np.full((7, 1), 0.1), ways).tolist() == [1.0]
    assert math.isnan(cohens_d(np.full(3, 0.1), np.full(4, 0.1)))


# --- effect sizes ----------------------------------------------------------------------------


def test_cohens_d_is_the_difference_over_the_pooled_standard_deviation() -> None:
    assert cohens_d(np.array([1.0, 3.0]), np.array([5.0, 7.0])) == pytest.approx(-4 / math.sqrt(2))
    assert math.isnan(cohens_d(np.array([1.0]), np.array([2.0])))


def test_cliffs_delta_counts_who_is_larger() -> None:
    assert cliffs_delta(np.array([3.0, 4.0]), np.array([1.0, 2.0])) == 1.0
    assert cliffs_delta(np.array([1.0, 5.0]), np.array([1.0, 3.0])) == pytest.approx(1 / 4)
    assert math.isnan(cliffs_delta(np.array([]), np.array([1.0])))


# --- false discovery rate --------------------------------------------------------------------


def test_adjusted_p_is_that_of_the_paper() -> None:
    # Benjamini and Hochberg 1995, section 3: four of fifteen are rejected at 0.05.
    p = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0]  # fmt: skip
    assert int((benjamini_hochberg(np.array(p)) <= 0.05).sum()) == 4


@settings(deadline=None)
@given(hnp.arrays(float, st.integers(1, 30), elements=st.one_of(st.floats(0, 1), st.just(math.nan))))
def test_adjusted_p_agrees_with_scipy_and_keeps_gaps(p: Float) -> None:
    q, on = benjamini_hochberg(p), np.isfinite(p)
    assert np.isnan(q[~on]).all()
    if on.any():
        assert q[on] == pytest.approx(false_discovery_control(p[on], method="bh"))

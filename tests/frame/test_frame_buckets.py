"""Bucket proposals hold every shape and waste little."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pairframe import GridTransform, errors, propose_bucket_shapes
from pairframe.frame import pick_bucket

SHAPES = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), min_size=1, max_size=6)


def padded_pixels(shapes: list[tuple[int, int]], buckets: list[tuple[int, int]]) -> int:
    return sum(np.prod(pick_bucket(shape, buckets)) - np.prod(shape) for shape in shapes)


@given(SHAPES, st.integers(1, 4))
@settings(max_examples=150, deadline=None)
def test_every_shape_fits_and_there_are_at_most_k_buckets(shapes: list[tuple[int, int]], k: int) -> None:
    buckets = propose_bucket_shapes(shapes, k)
    assert 1 <= len(buckets) <= k
    for shape in shapes:
        pick_bucket(shape, buckets)


@given(SHAPES, st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_for_few_shapes_the_proposal_is_the_best_of_all(shapes: list[tuple[int, int]], k: int) -> None:
    candidates = [(h, w) for h in {h for h, _ in shapes} for w in {w for _, w in shapes}]
    best = min(
        padded_pixels(shapes, list(choice))
        for n in range(1, k + 1)
        for choice in combinations(candidates, n)
        if all(any(h <= hb and w <= wb for hb, wb in choice) for h, w in shapes)
    )
    assert padded_pixels(shapes, propose_bucket_shapes(shapes, k)) == best


def test_more_buckets_than_distinct_shapes_waste_nothing() -> None:
    shapes = [(3, 5), (5, 3), (3, 5), (9, 9)]
    assert propose_bucket_shapes(shapes, 10) == [(3, 5), (5, 3), (9, 9)]
    assert padded_pixels(shapes, propose_bucket_shapes(shapes, 10)) == 0


def test_repetitions_count() -> None:
    many_small = [(10, 10)] * 50 + [(11, 11), (40, 40)]
    assert propose_bucket_shapes(many_small, 2) == [(11, 11), (40, 40)]


def test_a_huge_cohort_is_grouped_in_bounded_memory() -> None:
    rng = np.random.default_rng(0)
    shapes = [tuple(shape) for shape in rng.integers(20, 500, (5000, 2))]
    buckets = propose_bucket_shapes(shapes, 8)
    assert len(buckets) == 8
    heights, widths = np.array(shapes).T
    for rows, cols in ((2, 4), (4, 2), (1, 8)):  # better than any regular grid of as many buckets
        grid = [
            (h, w)
            for h in np.quantile(heights, np.linspace(0, 1, rows + 1)[1:]).round().astype(int)
            for w in np.quantile(widths, np.linspace(0, 1, cols + 1)[1:]).round().astype(int)
        ]
        assert padded_pixels(shapes, buckets) < padded_pixels(shapes, grid)


def test_nothing_to_group_is_refused() -> None:
    with pytest.raises(errors.FrameError, match="at least one work shape"):
        propose_bucket_shapes([], 3)
    with pytest.raises(errors.FrameError, match="max_buckets=0"):
        propose_bucket_shapes([(3, 3)], 0)


@pytest.mark.parametrize("shapes", [[(3.0, 4.0)], [7], [(0, 4)], [(-3, 4)], [(3, 4, 5)], 7, [(2**40, 2)]])
def test_work_shapes_that_are_none_are_refused(shapes: object) -> None:
    with pytest.raises(errors.FrameError, match=r"work_shapes as pairs \(Hw, Ww\) of positive integers"):
        propose_bucket_shapes(shapes, 2)


@pytest.mark.parametrize("k", [0, 1.5, "2", None])
def test_a_number_of_buckets_is_a_whole_one(k: object) -> None:
    with pytest.raises(errors.FrameError, match=f"max_buckets={k!r}"):
        propose_bucket_shapes([(3, 3)], k)


def test_numpy_shapes_are_taken_and_plain_ones_given_back() -> None:
    buckets = propose_bucket_shapes(np.array([(3, 5), (9, 9)]), np.int64(2))
    assert buckets == [(3, 5), (9, 9)]
    assert all(type(side) is int for shape in buckets for side in shape)
    t = GridTransform.from_pair(
        np.ones((3, 5)), np.ones((3, 5)), 1, crop_policy="bucketed", bucket_shapes=np.array(buckets)
    )
    assert t.work_shape_hw == (3, 5)

"""Laws of the pair frame, over random masks, sizes, factors, pads and policies."""

from __future__ import annotations

import math

import numpy as np
from helpers.frame_pairs import Pair, pairs
from hypothesis import given, settings
from hypothesis import strategies as st

from pairframe import BoxYX, GridTransform
from pairframe.frame import tight_box

LAWS = settings(max_examples=150, deadline=None)


@given(pairs())
@LAWS
def test_the_crop_contains_both_objects_for_every_policy(pair: Pair) -> None:
    crop = pair.transform.pair_crop_box_yx
    for density in (pair.a, pair.b):
        box = tight_box(density)
        assert box is None or crop.contains(box)


@given(pairs())
@LAWS
def test_the_crop_is_divisible_starts_on_the_canvas_and_leaves_it_only_when_the_canvas_is_too_small(pair: Pair) -> None:
    t = pair.transform
    crop = t.pair_crop_box_yx
    assert crop.h % pair.s == 0
    assert crop.w % pair.s == 0
    for start, stop, side in ((crop.y0, crop.y1, pair.a.shape[0]), (crop.x0, crop.x1, pair.a.shape[1])):
        assert 0 <= start < side
        if stop > side:  # only then: the whole canvas, and less than one block more
            assert start == 0
            assert stop - side < pair.s


@given(pairs(policies=("union", "bucketed")))
@LAWS
def test_the_pad_is_there_wherever_the_canvas_has_room(pair: Pair) -> None:
    crop = pair.transform.pair_crop_box_yx
    box = tight_box(pair.a + pair.b)
    assert crop.contains(box.expand(pair.pad).clamp(pair.a.shape))


@given(pairs(integers=True))
@LAWS
def test_pooling_is_exact_for_integer_masses_and_equals_a_loop_over_blocks(pair: Pair) -> None:
    t, s = pair.transform, pair.s
    for density in (pair.a, pair.b):
        work = t.to_work(density)
        assert work.dtype == np.float64
        assert work.shape == t.work_shape_hw
        assert work.sum() == density.sum()
        crop = t.pair_crop_box_yx
        padded = np.zeros((crop.h, crop.w))
        real = density[crop.slices]
        padded[: real.shape[0], : real.shape[1]] = real
        blocks = padded.reshape(crop.h // s, s, crop.w // s, s).sum(axis=(1, 3))
        np.testing.assert_array_equal(work[t.work_valid_box_yx.slices], blocks)
        assert work.sum() == blocks.sum()  # nothing in the bucket's padding


@given(pairs(integers=False))
@LAWS
def test_pooling_keeps_float_mass(pair: Pair) -> None:
    for density in (pair.a, pair.b):
        np.testing.assert_allclose(
            math.fsum(pair.transform.to_work(density).ravel()), math.fsum(density.ravel()), rtol=1e-12
        )


@given(pairs(integers=True))
@LAWS
def test_lifting_keeps_mass_block_by_block(pair: Pair) -> None:
    t = pair.transform
    work = t.to_work(pair.a)
    canon = t.rasterize_to_canon(work)
    assert canon.shape == pair.a.shape
    assert canon.min() >= 0
    total = math.fsum(canon.ravel())
    assert abs(total - work.sum()) <= 1e-12 * work.sum()
    again = t.to_work(canon)
    np.testing.assert_array_equal(np.rint(again), work)
    np.testing.assert_allclose(again, work, rtol=1e-14, atol=0)
    blocks_are_whole = (
        pair.transform.pair_crop_box_yx.y1 <= pair.a.shape[0] and t.pair_crop_box_yx.x1 <= pair.a.shape[1]
    )
    if pair.s in (1, 2, 4, 8) and blocks_are_whole:
        assert total == work.sum()  # dividing by a power of two is exact


@given(pairs())
@LAWS
def test_lifting_after_pooling_keeps_the_centre_of_mass_within_one_work_pixel(pair: Pair) -> None:
    t = pair.transform
    for density in (pair.a, pair.b):
        if density.any():
            lifted = t.rasterize_to_canon(t.to_work(density))
            shift_um = np.linalg.norm(centre_px(lifted) - centre_px(density)) * t.px_size_um
            assert shift_um <= t.work_px_size_um


@given(pairs(policies=("bucketed",)))
@LAWS
def test_bucketed_equals_union_after_lifting(pair: Pair) -> None:
    bucketed = pair.transform
    union = GridTransform.from_pair(pair.a, pair.b, pair.s, pair.pad)
    assert bucketed.pair_crop_box_yx == union.pair_crop_box_yx
    for density in (pair.a, pair.b):
        np.testing.assert_array_equal(
            bucketed.rasterize_to_canon(bucketed.to_work(density)), union.rasterize_to_canon(union.to_work(density))
        )
    field = np.random.default_rng(0).normal(size=(*union.work_shape_hw, 2))
    in_bucket = np.full((*bucketed.work_shape_hw, 2), 7.0)
    in_bucket[bucketed.work_valid_box_yx.slices] = field
    np.testing.assert_array_equal(
        bucketed.rasterize_velocity_to_canon(in_bucket), union.rasterize_velocity_to_canon(field)
    )


@given(pairs(), st.data())
@LAWS
def test_coordinate_maps_invert_each_other(pair: Pair, data: st.DataObject) -> None:
    t = pair.transform
    valid = t.work_valid_box_yx
    index = data.draw(st.tuples(st.integers(valid.y0, valid.y1 - 1), st.integers(valid.x0, valid.x1 - 1)))
    first = t.work_to_canon_yx(index)
    assert tuple(t.canon_to_work_yx(first)) == index
    last = first + pair.s - 1
    assert tuple(t.canon_to_work_yx(last)) == index  # every pixel of the block belongs to it
    assert tuple(t.canon_to_work_yx(last + 1)) == (index[0] + 1, index[1] + 1)
    point = np.array(data.draw(st.tuples(st.floats(-50, 800), st.floats(-50, 800))))
    np.testing.assert_allclose(t.work_to_canon_yx(t.canon_to_work_yx(point)), point, atol=1e-9)


@given(pairs(integers=True), st.data())
@LAWS
def test_the_coordinate_map_says_where_pooling_puts_a_pixel(pair: Pair, data: st.DataObject) -> None:
    t = pair.transform
    rows, cols = np.nonzero(pair.a + pair.b)
    k = data.draw(st.integers(0, len(rows) - 1))
    one = np.zeros(pair.a.shape)
    one[rows[k], cols[k]] = 1
    work = t.to_work(one)
    assert work[tuple(t.canon_to_work_yx((rows[k], cols[k])))] == 1


@given(pairs())
@LAWS
def test_a_transform_survives_json_and_hashing(pair: Pair) -> None:
    t = pair.transform
    again = GridTransform.from_json(t.to_json())
    assert again == t
    assert hash(again) == hash(t)
    assert str(t.pair_crop_box_yx.y0) in repr(t)


@given(st.tuples(*[st.integers(-99, 99)] * 8))
def test_a_union_is_the_smallest_box_that_contains_both(c: tuple[int, ...]) -> None:
    one, two = (
        BoxYX(min(q[0], q[1]), max(q[0], q[1]) + 1, min(q[2], q[3]), max(q[2], q[3]) + 1) for q in (c[:4], c[4:])
    )
    both = one.union(two)
    assert both.contains(one)
    assert both.contains(two)
    assert both == two.union(one)
    assert (both.y0, both.y1) == (min(one.y0, two.y0), max(one.y1, two.y1))
    assert (both.h, both.w) == (both.y1 - both.y0, both.x1 - both.x0)


def centre_px(density: np.ndarray) -> np.ndarray:
    """Centre of mass (y, x) in canonical pixels."""
    ys, xs = np.indices(density.shape)
    return np.array([(ys * density).sum(), (xs * density).sum()]) / density.sum()

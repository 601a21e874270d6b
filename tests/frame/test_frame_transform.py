"""Worked examples of the pair frame: units, policies, borders, buckets, golden tests at run time."""

from __future__ import annotations

from time import process_time

import numpy as np
import pytest

from pairframe import BoxYX, GridTransform, errors
from pairframe.frame import golden, pick_bucket


def blob(shape: tuple[int, int], y0: int, y1: int, x0: int, x1: int) -> np.ndarray:
    mask = np.zeros(shape, bool)
    mask[y0:y1, x0:x1] = True
    return mask


TINY, HUGE = blob((64, 96), 30, 34, 40, 45), blob((64, 96), 2, 62, 3, 90)


def test_a_tiny_and_a_huge_object_share_one_stage() -> None:
    t = GridTransform.from_pair(TINY, HUGE, s=4, pad=0)
    assert t.pair_crop_box_yx == BoxYX(2, 62, 3, 91)
    assert t.work_shape_hw == (15, 22)
    assert t.to_work(TINY).sum() == 20
    assert t.to_work(HUGE).sum() == 60 * 87


def test_one_empty_mask_is_fine() -> None:
    t = GridTransform.from_pair(np.zeros((64, 96)), TINY, s=1, pad=2)
    assert t.pair_crop_box_yx == BoxYX(28, 36, 38, 47)


def test_units_follow_the_canonical_pixel() -> None:
    t = GridTransform.from_pair(TINY, HUGE, s=3)
    assert (t.px_size_um, t.px_area_um2, t.work_px_size_um, t.work_px_area_um2) == (8.0, 64.0, 24.0, 576.0)


def test_velocity_is_lifted_to_um_constant_over_a_block_and_unknown_outside() -> None:
    t = GridTransform.from_pair(TINY, TINY, s=2, pad=1, px_size_um=0.5)
    field = np.zeros((*t.work_shape_hw, 2))
    field[0, 1] = (3.0, -1.0)
    field[1, 1] = np.nan
    um = t.rasterize_velocity_to_canon(field)
    y, x = t.work_to_canon_yx((0, 1))
    np.testing.assert_array_equal(um[y : y + 2, x : x + 2], np.broadcast_to([3.0, -1.0], (2, 2, 2)))
    assert np.isnan(um[y + 2 : y + 4, x : x + 2]).all()
    outside = np.ones(TINY.shape, bool)
    outside[t.pair_crop_box_yx.slices] = False
    assert np.isnan(um[outside]).all()


def test_divisibility_extends_the_far_side_then_the_near_side_then_pads() -> None:
    far = GridTransform.from_pair(blob((20, 20), 3, 8, 3, 8), TINY[:20, :20], s=4, pad=0)
    assert far.pair_crop_box_yx == BoxYX(3, 11, 3, 11)
    near = GridTransform.from_pair(blob((20, 20), 15, 20, 15, 20), TINY[:20, :20], s=4, pad=0)
    assert near.pair_crop_box_yx == BoxYX(12, 20, 12, 20)
    over = GridTransform.from_pair(np.ones((5, 20)), np.ones((5, 20)), s=4, pad=0)
    assert over.pair_crop_box_yx == BoxYX(0, 8, 0, 20)


def test_a_border_block_spreads_its_mass_over_its_real_pixels_only() -> None:
    t = GridTransform.from_pair(np.ones((5, 7)), np.ones((5, 7)), s=4)
    np.testing.assert_array_equal(t.to_work(np.ones((5, 7))), [[16, 12], [4, 3]])
    np.testing.assert_array_equal(t.rasterize_to_canon(t.to_work(np.ones((5, 7)))), np.ones((5, 7)))


def test_fixed_uses_the_box_clamped_to_the_canvas() -> None:
    t = GridTransform.from_pair(TINY, TINY, s=2, crop_policy="fixed", override_pair_bbox=BoxYX(-9, 40, 30, 400), pad=99)
    assert t.pair_crop_box_yx == BoxYX(0, 40, 30, 96)


def test_allowed_clipping_is_recorded_and_seen() -> None:
    t = GridTransform.from_pair(
        TINY, HUGE, s=1, crop_policy="fixed", override_pair_bbox=BoxYX(30, 32, 40, 45), allow_clipping=True
    )
    assert t.clipped_share_ab == (0.5, pytest.approx(1 - 10 / (60 * 87)))
    assert "clipped" in repr(t)
    assert t.to_work(TINY).sum() == 10


def test_nearest_is_the_closest_bucket_that_fits_and_next_larger_the_smallest() -> None:
    shapes = [(9, 9), (10, 40), (19, 20), (64, 64)]
    assert pick_bucket((10, 10), shapes, "next_larger") == (19, 20)
    assert pick_bucket((10, 10), [(9, 11), (10, 40), (25, 20)], "next_larger") == (10, 40)
    assert pick_bucket((10, 10), [(9, 11), (10, 40), (25, 20)], "nearest") == (25, 20)


def test_the_repr_reads_like_a_sentence() -> None:
    t = GridTransform.from_pair(TINY, HUGE, s=4, pad=0, crop_policy="bucketed", bucket_shapes=[(16, 32)])
    assert repr(t) == (
        "GridTransform(canvas 64 x 96 px of 8 um, crop y 2:62 x 3:91, "
        "s=4 -> work 15 x 22 px of 32 um in a 16 x 32 bucket at (0, 0))"
    )


def test_inputs_of_any_dtype_and_memory_order_are_read_and_not_changed() -> None:
    for dtype in (bool, np.uint8, np.int32, np.uint64, np.float32, np.float64):
        for order in ("C", "F"):
            mask = np.asarray(HUGE, dtype=dtype, order=order)
            mask.setflags(write=False)
            t = GridTransform.from_pair(mask, mask, s=3)
            assert t.to_work(mask).sum() == HUGE.sum()


# --- the golden tests at run time --------------------------------------------------------------


def test_golden_tests_pass_on_good_calls_in_debug_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAIRFRAME_DEBUG", "1")
    t = GridTransform.from_pair(TINY, HUGE, s=4)
    t.rasterize_to_canon(t.to_work(TINY))
    assert golden.is_debug()
    monkeypatch.setenv("PAIRFRAME_DEBUG", "0")
    assert not golden.is_debug()
    assert golden.is_debug(debug=True)


def test_golden_tests_notice_lost_mass_wrong_shapes_open_books_and_a_crop_that_cuts() -> None:
    t = GridTransform.from_pair(TINY, HUGE, s=4)
    work = t.to_work(TINY)
    lost = work.copy()
    lost[work > 0] -= 1e-9
    for failing, test in (
        (lambda: golden.check_pooling(t, TINY, lost), r"6\.2"),
        (lambda: golden.check_pooling(t, TINY, work[:-1]), r"6\.3"),
        (lambda: golden.check_books(5.0, 6.0, transported=4.0, created=2.0, destroyed=1.1), r"6\.4.*source"),
        (lambda: golden.check_books(5.0, 6.0, transported=4.0, created=2.1, destroyed=1.0), r"6\.4.*target"),
        (lambda: golden.check_lifting(t, work, t.rasterize_to_canon(lost)), r"6\.5"),
        (lambda: golden.check_lifting(t, work, t.rasterize_to_canon(np.roll(work, 1, axis=0))), r"6\.5.*every block"),
        (lambda: golden.check_containment(t, (BoxYX(0, 64, 0, 97),)), r"6\.1"),
    ):
        with pytest.raises(errors.GoldenTestError, match=test):
            failing()
    golden.check_books(5.0, 6.0, transported=4.0, created=2.0, destroyed=1.0)


def test_debug_true_runs_the_golden_tests_of_that_call(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr(golden, "check_pooling", lambda *_: seen.append("pooling"))
    monkeypatch.setattr(golden, "check_lifting", lambda *_: seen.append("lifting"))
    t = GridTransform.from_pair(TINY, HUGE, s=4)
    t.rasterize_to_canon(t.to_work(TINY))
    assert seen == []
    t.rasterize_to_canon(t.to_work(TINY, debug=True), debug=True)
    assert seen == ["pooling", "lifting"]


@pytest.mark.parametrize("word", ["0", "", "false", "No", " OFF "])
def test_words_that_mean_no_leave_debugging_off(monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    monkeypatch.setenv("PAIRFRAME_DEBUG", word)
    assert not golden.is_debug()
    monkeypatch.setenv("PAIRFRAME_DEBUG", "true")
    assert golden.is_debug()


def test_golden_tests_do_not_accept_infinity() -> None:
    t = GridTransform.from_pair(TINY, HUGE, s=4)
    infinite = np.full(t.work_shape_hw, np.inf)
    with pytest.raises(errors.GoldenTestError, match=r"6\.2"):
        golden.check_pooling(t, np.full(TINY.shape, np.inf), infinite)
    with pytest.raises(errors.GoldenTestError, match=r"6\.5"):
        golden.check_lifting(t, infinite, np.full(TINY.shape, np.inf))
    with pytest.raises(errors.GoldenTestError, match=r"6\.4"):
        golden.check_books(np.inf, np.inf, transported=np.inf, created=0.0, destroyed=0.0)


def test_a_signed_map_is_lifted_and_passes_the_golden_tests() -> None:
    t = GridTransform.from_pair(TINY, HUGE, s=3)
    signed = np.random.default_rng(0).normal(size=t.work_shape_hw)
    signed -= signed.mean()
    lifted = t.rasterize_to_canon(signed, debug=True)
    assert abs(lifted.sum()) < 1e-12 * np.abs(signed).sum()


def test_debugging_notices_mass_that_lifting_would_drop() -> None:
    t = GridTransform.from_pair(TINY, HUGE, s=4, crop_policy="bucketed", bucket_shapes=[(64, 64)])
    work = t.to_work(TINY)
    work[-1, -1] = 1.0
    assert t.rasterize_to_canon(work).sum() == TINY.sum()
    with pytest.raises(errors.FrameError, match=r"without mass in the padding.*got 1 pixels with mass"):
        t.rasterize_to_canon(work, debug=True)


def test_the_time_does_not_grow_with_the_factor() -> None:
    canvas = np.ones((20, 30))
    for s in (10**6, 2**31):
        start = process_time()
        t = GridTransform.from_pair(canvas, canvas, s=s)
        np.testing.assert_array_equal(t.rasterize_to_canon(t.to_work(canvas)), canvas)
        assert t.rasterize_velocity_to_canon(np.ones((1, 1, 2))).shape == (20, 30, 2)
        assert process_time() - start < 0.5

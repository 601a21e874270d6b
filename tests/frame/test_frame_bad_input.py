"""Every kind of bad input has its own error, and the message says what to do."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from pairframe import BoxYX, GridTransform, Mask, errors

BLOB = np.zeros((20, 30))
BLOB[5:9, 6:20] = 1
EMPTY = np.zeros_like(BLOB)
FRAME = GridTransform.from_pair(BLOB, BLOB, s=2)


def with_value(value: float) -> np.ndarray:
    broken = BLOB.copy()
    broken[7, 3] = value
    return broken


BAD_PAIRS = {
    "both empty": (EMPTY, EMPTY, errors.FrameError, "two empty masks.*check the segmentation"),
    "NaN": (with_value(np.nan), BLOB, errors.MaskError, r"finite values in mask_a.*nan at \(y=7, x=3\)"),
    "infinity": (BLOB, with_value(np.inf), errors.MaskError, r"finite values in mask_b.*inf at \(y=7, x=3\)"),
    "minus infinity": (BLOB, with_value(-np.inf), errors.MaskError, r"-inf at \(y=7, x=3\)"),
    "negative": (BLOB, with_value(-0.5), errors.MaskError, "values >= 0 in mask_b.*minimum of -0.5"),
    "a volume and an image": (np.ones((4, 5, 6)), BLOB, errors.FrameError, r"one canvas.*\(4, 5, 6\)"),
    "4-D": (np.ones((2, 4, 5, 6)), BLOB, errors.MaskError, r"2-D.*\(2, 4, 5, 6\).*choose one plane"),
    "1-D": (np.ones(4), BLOB, errors.MaskError, r"2-D.*\(4,\)"),
    "no pixels": (np.ones((0, 5)), BLOB, errors.MaskError, "at least one pixel, got a canvas of 0 x 5 px"),
    "strings": (np.full((3, 3), "a"), BLOB, errors.MaskError, "boolean or real.*dtype <U1"),
    "ragged": ([[1.0], [1.0, 2.0]], BLOB, errors.MaskError, "mask_a to be a rectangular array"),
    "complex": (BLOB.astype(complex), BLOB, errors.MaskError, "boolean or real"),
    "canvases": (BLOB, np.ones((20, 31)), errors.FrameError, r"one canvas.*\(20, 30\) and \(20, 31\)"),
}


@pytest.mark.parametrize("case", BAD_PAIRS)
def test_a_bad_pair_is_refused(case: str) -> None:
    a, b, error, message = BAD_PAIRS[case]
    with pytest.raises(error, match=message):
        GridTransform.from_pair(a, b, s=2)


BAD_ARGUMENTS = {
    "s zero": ({"s": 0}, errors.FrameError, "integer >= 1, got 0"),
    "s negative": ({"s": -2}, errors.FrameError, "got -2"),
    "s fractional": ({"s": 2.0}, errors.FrameError, "got 2.0"),
    "s boolean": ({"s": True}, errors.FrameError, "got True"),
    "pad negative": ({"pad": -1}, errors.FrameError, "integer >= 0.*got -1"),
    "pad fractional": ({"pad": 1.5}, errors.FrameError, "got 1.5"),
    "pixel size": ({"px_size_um": 0.0}, errors.PixelSizeError, "positive pixel size in um, got 0.0"),
    "pixel size text": ({"px_size_um": "x"}, errors.PixelSizeError, "got 'x'"),
    "pixel size of digits": ({"px_size_um": "0.65"}, errors.PixelSizeError, "got '0.65'"),
    "pixel size boolean": ({"px_size_um": True}, errors.PixelSizeError, "got True"),
    "pixel size beyond areas": ({"px_size_um": 1e200}, errors.PixelSizeError, r"got 1e\+200.*to 1e\+100"),
    "s beyond any canvas": ({"s": 10**400}, errors.FrameError, "to be an integer <= 2147483648"),
    "box as a tuple": (
        {"crop_policy": "fixed", "override_pair_bbox": (0, 9, 0, 9)},
        errors.FrameError,
        r"override_pair_bbox to be a BoxYX, got \(0, 9, 0, 9\)",
    ),
    "bucket mode unused": ({"bucket_mode": "bogus"}, errors.FrameError, "next_larger, nearest, got 'bogus'"),
    "bucket shapes as one number": (
        {"crop_policy": "bucketed", "bucket_shapes": 64},
        errors.FrameError,
        r"pairs \(Hb, Wb\).*got 64",
    ),
    "pixel size nan": ({"px_size_um": float("nan")}, errors.PixelSizeError, "got nan"),
    "policy": ({"crop_policy": "tight"}, errors.FrameError, "union, fixed, bucketed, got 'tight'"),
    "fixed without box": ({"crop_policy": "fixed"}, errors.FrameError, "override_pair_bbox=BoxYX"),
    "box off canvas": (
        {"crop_policy": "fixed", "override_pair_bbox": BoxYX(40, 50, 0, 9)},
        errors.FrameError,
        "touches the 20 x 30 canvas, got y 40:50",
    ),
    "box cuts mass": (
        {"s": 1, "crop_policy": "fixed", "override_pair_bbox": BoxYX(5, 9, 6, 13)},
        errors.FrameError,
        "loses the share 0.5 of mask_a and 0.5 of mask_b.*allow_clipping=True",
    ),
    "box misses all mass": (
        {"s": 1, "crop_policy": "fixed", "override_pair_bbox": BoxYX(0, 2, 0, 2), "allow_clipping": True},
        errors.FrameError,
        "mass inside the fixed box",
    ),
    "bucketed without shapes": ({"crop_policy": "bucketed"}, errors.FrameError, "at least one bucket shape"),
    "bucket shape of one side": (
        {"crop_policy": "bucketed", "bucket_shapes": [(4,)]},
        errors.FrameError,
        r"pairs \(Hb, Wb\).*\(4,\)",
    ),
    "bucket shape of zero": (
        {"crop_policy": "bucketed", "bucket_shapes": [(4, 0)]},
        errors.FrameError,
        "positive",
    ),
    "no bucket fits": (
        {"s": 2, "pad": 0, "crop_policy": "bucketed", "bucket_shapes": [(2, 6), (1, 99)]},
        errors.FrameError,
        r"at least 2 x 7 work pixels, got only 2 x 6, 1 x 99.*add \(2, 7\)",
    ),
    "bucket mode": (
        {"crop_policy": "bucketed", "bucket_shapes": [(99, 99)], "bucket_mode": "best"},
        errors.FrameError,
        "next_larger, nearest, got 'best'",
    ),
    "box unused": ({"override_pair_bbox": BoxYX(0, 9, 0, 9)}, errors.FrameError, "got override_pair_bbox"),
    "buckets unused": ({"bucket_shapes": [(9, 9)]}, errors.FrameError, "got bucket_shapes"),
    "clipping unused": ({"allow_clipping": True}, errors.FrameError, "got allow_clipping"),
}


@pytest.mark.parametrize("case", BAD_ARGUMENTS)
def test_a_bad_argument_is_refused(case: str) -> None:
    arguments, error, message = BAD_ARGUMENTS[case]
    with pytest.raises(error, match=message):
        GridTransform.from_pair(BLOB, BLOB, **({"s": 2} | arguments))


@pytest.mark.parametrize("corners", [(3, 3, 0, 5), (5, 3, 0, 5), (0, 5, 7, 2)])
def test_a_box_without_pixels_is_refused(corners: tuple[int, ...]) -> None:
    with pytest.raises(errors.FrameError, match="at least one pixel"):
        BoxYX(*corners)


def test_a_fractional_box_is_refused() -> None:
    with pytest.raises(errors.FrameError, match=r"integer BoxYX\.x1, got 2\.5"):
        BoxYX(0, 1, 0, 2.5)


def test_arrays_of_the_wrong_shape_are_refused() -> None:
    t = GridTransform.from_pair(BLOB, BLOB, s=2)
    with pytest.raises(errors.FrameError, match=r"density of shape \(20, 30\), got \(3, 3\)"):
        t.to_work(np.ones((3, 3)))
    with pytest.raises(errors.FrameError, match="mass_work of shape"):
        t.rasterize_to_canon(np.ones((3, 3)))
    with pytest.raises(errors.FrameError, match="velocity_work_px of shape"):
        t.rasterize_velocity_to_canon(np.ones(t.work_shape_hw))
    with pytest.raises(errors.FrameError, match=r"positions of shape \(\.\.\., 2\)"):
        t.canon_to_work_yx([1, 2, 3])


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"downsample_factor": 0}, errors.FrameError, "integer >= 1, got 0"),
        ({"px_size_um": -1.0}, errors.PixelSizeError, "positive pixel size"),
        ({"downsample_factor": 7}, errors.FrameError, "divisible by s=7"),
        ({"pair_crop_box_yx": BoxYX(-2, 18, 0, 30)}, errors.FrameError, "on the 20 x 30 canvas"),
        ({"work_pad_offsets_yx": (1, 0)}, errors.FrameError, r"at \(1, 0\)"),
        ({"work_shape_hw": (3, 3)}, errors.FrameError, "inside 3 x 3"),
        (
            {"canon_shape_hw": (20, 30, 1, 1)},
            errors.FrameError,
            r"canon_shape_hw of two integers >= 1, or three for a volume, got \(20, 30, 1, 1\)",
        ),
        ({"work_shape_hw": (5.0, 15)}, errors.FrameError, "work_shape_hw of two integers"),
        ({"work_pad_offsets_yx": (0, -1)}, errors.FrameError, "two integers >= 0"),
        ({"clipped_share_ab": (7, -3)}, errors.FrameError, r"two shares from 0 to 1, got \(7, -3\)"),
        ({"clipped_share_ab": 0.5}, errors.FrameError, "two shares from 0 to 1"),
        ({"pair_crop_box_yx": (0, 18, 0, 30)}, errors.FrameError, "pair_crop_box_yx to be a BoxYX"),
    ],
)
def test_a_transform_checks_itself(change: dict, error: type[Exception], message: str) -> None:
    t = GridTransform.from_pair(BLOB, BLOB, s=2)
    with pytest.raises(error, match=message):
        replace(t, **change)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"s": 1}', "null"])
def test_json_of_something_else_is_refused(text: str) -> None:
    with pytest.raises(errors.FrameError, match="the JSON of a GridTransform"):
        GridTransform.from_json(text)


def test_errors_are_value_errors_and_survive_pickling_between_processes() -> None:
    error = errors.FrameError("a", "b", "c")
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(again, ValueError)
    assert (str(again), again.fix) == (str(error), "c")


# --- one check for all arrays and pixel sizes ---------------------------------------------------


def test_masked_pixels_are_not_counted_as_mass() -> None:
    masked = np.ma.masked_array(np.ones((8, 8)), mask=np.eye(8, dtype=bool))
    for call in (lambda: GridTransform.from_pair(masked, masked, s=2), lambda: FRAME.to_work(masked)):
        with pytest.raises(errors.MaskError, match=r"a numpy masked array.*filled\(0\)"):
            call()
    filled = masked.filled(0)
    assert GridTransform.from_pair(filled, filled, s=2).to_work(filled).sum() == masked.sum()


def test_a_mask_is_taken_for_its_values() -> None:
    mask = Mask(BLOB, px_size_um=0.5)
    t = GridTransform.from_pair(mask, BLOB, s=2)
    assert t == FRAME
    np.testing.assert_array_equal(t.to_work(mask), t.to_work(BLOB))


@pytest.mark.parametrize("dtype", [np.float64, np.longdouble])
@pytest.mark.parametrize("s", [1, 4])
def test_a_total_beyond_float64_is_refused_by_pooling_and_lifting(dtype: type, s: int) -> None:
    heavy = np.full((20, 30), 1e308, dtype)
    t = GridTransform.from_pair(heavy, heavy, s=s)
    with pytest.raises(errors.MaskError, match=r"a finite total mass in density.*divide both images"):
        t.to_work(heavy)
    for bad in (1e308, np.nan, np.inf):
        with pytest.raises(errors.MaskError, match="a finite total mass in mass_work"):
            t.rasterize_to_canon(np.full(t.work_shape_hw, bad))
    with pytest.raises(errors.MaskError, match="a finite total mass in mask_a"):
        GridTransform.from_pair(
            heavy, heavy, s=1, crop_policy="fixed", override_pair_bbox=BoxYX(0, 2, 0, 2), allow_clipping=True
        )


def test_a_small_mass_inside_the_box_is_seen_beside_a_huge_one_outside() -> None:
    a = np.zeros((4, 4))
    a[0, 0], a[3, 3] = 1.0, 1e20
    box = {"crop_policy": "fixed", "override_pair_bbox": BoxYX(0, 2, 0, 2), "allow_clipping": True}
    t = GridTransform.from_pair(a, a, s=1, **box)
    assert t.to_work(a).sum() == 1
    assert t.clipped_share_ab == (1.0, 1.0)


def test_work_arrays_that_are_no_numbers_are_refused() -> None:
    for call in (FRAME.rasterize_to_canon, FRAME.rasterize_velocity_to_canon, FRAME.canon_to_work_yx):
        with pytest.raises(errors.MaskError, match="rectangular"):
            call([[1.0], [1.0, 2.0]])
        with pytest.raises(errors.MaskError, match="boolean or real"):
            call([["a", "b"]])


def test_a_work_grid_or_canvas_beyond_memory_is_our_error() -> None:
    huge = GridTransform.from_pair(BLOB, BLOB, s=2, crop_policy="bucketed", bucket_shapes=[(2**31, 2**31)])
    with pytest.raises(errors.FrameError, match="a work grid that fits into memory, got 2147483648 x 2147483648"):
        huge.to_work(BLOB)
    wide = replace(FRAME, canon_shape_hw=(2**31, 2**31))
    for lift, work in (
        (wide.rasterize_to_canon, np.zeros(wide.work_shape_hw)),
        (wide.rasterize_velocity_to_canon, np.zeros((*wide.work_shape_hw, 2))),
    ):
        with pytest.raises(errors.FrameError, match="a canvas that fits into memory"):
            lift(work)


@pytest.mark.parametrize("yx", [np.array([2**63, 0], np.uint64), np.array([-(2**63), 0]), [2**40, 1]])
def test_pixel_indices_that_would_wrap_around_are_refused(yx: np.ndarray) -> None:
    for call in (FRAME.canon_to_work_yx, FRAME.work_to_canon_yx):
        with pytest.raises(errors.FrameError, match="pixel indices within 2147483648 of the origin"):
            call(yx)
    assert FRAME.canon_to_work_yx(np.zeros((0, 2), int)).shape == (0, 2)


def test_fields_are_frozen_as_plain_values() -> None:
    t = replace(
        FRAME,
        canon_shape_hw=[np.int64(20), 30],
        work_shape_hw=np.array(FRAME.work_shape_hw),
        work_pad_offsets_yx=[0, np.uint8(0)],
        clipped_share_ab=[np.float32(0), 0],
    )
    assert t == FRAME
    assert hash(t) == hash(FRAME)
    assert GridTransform.from_json(t.to_json()) == FRAME


@pytest.mark.parametrize("canvas", ["[20.0, 30.0]", "[20, 30, 1, 1]", "[true, 30]", "7"])
def test_json_with_a_canvas_that_is_none_is_refused(canvas: str) -> None:
    text = FRAME.to_json().replace('"canon_shape_hw": [20, 30]', f'"canon_shape_hw": {canvas}')
    with pytest.raises(errors.FrameError, match=r"canon_shape_hw of two integers >= 1"):
        GridTransform.from_json(text)

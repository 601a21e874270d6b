"""Every kind of bad input has its own error, and the message says what to do."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from pairframe import BoxYX, GridTransform, errors

BLOB = np.zeros((20, 30))
BLOB[5:9, 6:20] = 1
EMPTY = np.zeros_like(BLOB)


def with_value(value: float) -> np.ndarray:
    broken = BLOB.copy()
    broken[7, 3] = value
    return broken


BAD_PAIRS = {
    "both empty": (EMPTY, EMPTY, errors.BothMasksEmptyError, "two empty masks.*check the segmentation"),
    "NaN": (with_value(np.nan), BLOB, errors.NotFiniteError, r"finite values in mask_a.*nan at \(y=7, x=3\)"),
    "infinity": (BLOB, with_value(np.inf), errors.NotFiniteError, r"finite values in mask_b.*inf at \(y=7, x=3\)"),
    "minus infinity": (BLOB, with_value(-np.inf), errors.NegativeMassError, "minimum of -inf"),
    "negative": (BLOB, with_value(-0.5), errors.NegativeMassError, "values >= 0 in mask_b.*minimum of -0.5"),
    "3-D": (np.ones((4, 5, 6)), BLOB, errors.NotTwoDimensionalError, r"2-D.*\(4, 5, 6\).*choose one plane"),
    "1-D": (np.ones(4), BLOB, errors.NotTwoDimensionalError, r"2-D.*\(4,\)"),
    "no pixels": (np.ones((0, 5)), BLOB, errors.EmptyCanvasError, r"to have pixels.*\(0, 5\)"),
    "strings": (np.full((3, 3), "a"), BLOB, errors.NotNumericError, "boolean or real.*dtype <U1"),
    "complex": (BLOB.astype(complex), BLOB, errors.NotNumericError, "boolean or real"),
    "canvases": (BLOB, np.ones((20, 31)), errors.CanvasMismatchError, r"one canvas.*\(20, 30\) and \(20, 31\)"),
}


@pytest.mark.parametrize("case", BAD_PAIRS)
def test_a_bad_pair_is_refused(case: str) -> None:
    a, b, error, message = BAD_PAIRS[case]
    with pytest.raises(error, match=message):
        GridTransform.from_pair(a, b, s=2)


BAD_ARGUMENTS = {
    "s zero": ({"s": 0}, errors.DownsampleFactorError, "integer >= 1, got 0"),
    "s negative": ({"s": -2}, errors.DownsampleFactorError, "got -2"),
    "s fractional": ({"s": 2.0}, errors.DownsampleFactorError, "got 2.0"),
    "s boolean": ({"s": True}, errors.DownsampleFactorError, "got True"),
    "pad negative": ({"pad": -1}, errors.PadError, "integer >= 0.*got -1"),
    "pad fractional": ({"pad": 1.5}, errors.PadError, "got 1.5"),
    "pixel size": ({"px_size_um": 0.0}, errors.PixelSizeError, "positive pixel size in um, got 0.0"),
    "pixel size text": ({"px_size_um": "x"}, errors.PixelSizeError, "got 'x'"),
    "pixel size nan": ({"px_size_um": float("nan")}, errors.PixelSizeError, "got nan"),
    "policy": ({"crop_policy": "tight"}, errors.CropPolicyError, "union, fixed, bucketed, got 'tight'"),
    "fixed without box": ({"crop_policy": "fixed"}, errors.MissingBoxError, "override_pair_bbox=BoxYX"),
    "box off canvas": (
        {"crop_policy": "fixed", "override_pair_bbox": BoxYX(40, 50, 0, 9)},
        errors.BoxOutsideCanvasError,
        "touches the 20 x 30 canvas, got y 40:50",
    ),
    "box cuts mass": (
        {"s": 1, "crop_policy": "fixed", "override_pair_bbox": BoxYX(5, 9, 6, 13)},
        errors.ClippedMassError,
        "loses the share 0.5 of mask_a and 0.5 of mask_b.*allow_clipping=True",
    ),
    "box misses all mass": (
        {"s": 1, "crop_policy": "fixed", "override_pair_bbox": BoxYX(0, 2, 0, 2), "allow_clipping": True},
        errors.BothMasksEmptyError,
        "mass inside the fixed box",
    ),
    "bucketed without shapes": ({"crop_policy": "bucketed"}, errors.MissingBucketsError, "at least one bucket shape"),
    "bucket shape of one side": (
        {"crop_policy": "bucketed", "bucket_shapes": [(4,)]},
        errors.MissingBucketsError,
        r"pairs \(Hb, Wb\).*\(4,\)",
    ),
    "bucket shape of zero": (
        {"crop_policy": "bucketed", "bucket_shapes": [(4, 0)]},
        errors.MissingBucketsError,
        "positive",
    ),
    "no bucket fits": (
        {"s": 2, "pad": 0, "crop_policy": "bucketed", "bucket_shapes": [(2, 6), (1, 99)]},
        errors.NoBucketFitsError,
        r"at least 2 x 7 work pixels, got only 2 x 6, 1 x 99.*add \(2, 7\)",
    ),
    "bucket mode": (
        {"crop_policy": "bucketed", "bucket_shapes": [(99, 99)], "bucket_mode": "best"},
        errors.CropPolicyError,
        "next_larger, nearest, got 'best'",
    ),
    "box unused": ({"override_pair_bbox": BoxYX(0, 9, 0, 9)}, errors.CropPolicyError, "got override_pair_bbox"),
    "buckets unused": ({"bucket_shapes": [(9, 9)]}, errors.CropPolicyError, "got bucket_shapes"),
    "clipping unused": ({"allow_clipping": True}, errors.CropPolicyError, "got allow_clipping"),
}


@pytest.mark.parametrize("case", BAD_ARGUMENTS)
def test_a_bad_argument_is_refused(case: str) -> None:
    arguments, error, message = BAD_ARGUMENTS[case]
    with pytest.raises(error, match=message):
        GridTransform.from_pair(BLOB, BLOB, **({"s": 2} | arguments))


@pytest.mark.parametrize("corners", [(3, 3, 0, 5), (5, 3, 0, 5), (0, 5, 7, 2)])
def test_a_box_without_pixels_is_refused(corners: tuple[int, ...]) -> None:
    with pytest.raises(errors.BoxError, match="at least one pixel"):
        BoxYX(*corners)


def test_a_fractional_box_is_refused() -> None:
    with pytest.raises(errors.BoxError, match=r"integer BoxYX\.x1, got 2\.5"):
        BoxYX(0, 1, 0, 2.5)


def test_arrays_of_the_wrong_shape_are_refused() -> None:
    t = GridTransform.from_pair(BLOB, BLOB, s=2)
    with pytest.raises(errors.TransformError, match=r"density of shape \(20, 30\), got \(3, 3\)"):
        t.to_work(np.ones((3, 3)))
    with pytest.raises(errors.TransformError, match="mass_work of shape"):
        t.rasterize_to_canon(np.ones((3, 3)))
    with pytest.raises(errors.TransformError, match="velocity_work_px of shape"):
        t.rasterize_velocity_to_canon(np.ones(t.work_shape_hw))
    with pytest.raises(errors.TransformError, match=r"positions of shape \(\.\.\., 2\)"):
        t.canon_to_work_yx([1, 2, 3])


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"downsample_factor": 0}, errors.DownsampleFactorError, "integer >= 1, got 0"),
        ({"px_size_um": -1.0}, errors.PixelSizeError, "positive pixel size"),
        ({"downsample_factor": 7}, errors.TransformError, "divisible by s=7"),
        ({"pair_crop_box_yx": BoxYX(-2, 18, 0, 30)}, errors.TransformError, "on the 20 x 30 canvas"),
        ({"work_pad_offsets_yx": (1, 0)}, errors.TransformError, r"at \(1, 0\)"),
        ({"work_shape_hw": (3, 3)}, errors.TransformError, "inside 3 x 3"),
    ],
)
def test_a_transform_checks_itself(change: dict, error: type[Exception], message: str) -> None:
    t = GridTransform.from_pair(BLOB, BLOB, s=2)
    with pytest.raises(error, match=message):
        replace(t, **change)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"s": 1}', "null"])
def test_json_of_something_else_is_refused(text: str) -> None:
    with pytest.raises(errors.TransformError, match="the JSON of a GridTransform"):
        GridTransform.from_json(text)


def test_errors_are_value_errors_and_survive_pickling_between_processes() -> None:
    error = errors.PadError("a", "b", "c")
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(again, ValueError)
    assert (str(again), again.fix) == (str(error), "c")

"""Everything that `compare` refuses, and how it says so."""

from __future__ import annotations

import numpy as np
import pytest

from pairframe import errors
from pairframe.engines import Status, solve
from pairframe.frame import BoxYX, GridTransform
from pairframe.masks import Mask
from pairframe.pipeline import compare, compare_many, divergence
from pairframe.problem import TransportConfig
from pairframe.testing import disc

CANVAS = (30, 30)
A = disc(CANVAS, (12, 12), 6)
B = disc(CANVAS, (15, 17), 7)
NAN = np.where(A, np.nan, 0.0)


@pytest.mark.parametrize(
    ("masks", "config", "error", "words"),
    [
        ((A * 0, B * 0), {}, errors.FrameError, "mass in at least one mask"),
        ((A, B[:, :-1]), {}, errors.FrameError, "both masks on one canvas"),
        ((NAN, B), {"mass_mode": "intensity"}, errors.MaskError, "finite values"),
        ((np.where(A, np.inf, 0), B), {"mass_mode": "intensity"}, errors.MaskError, "finite values"),
        ((A, B * -1.0), {"mass_mode": "intensity"}, errors.MaskError, "values >= 0"),
        ((A[0], B), {}, errors.MaskError, "one 2-D image"),
        ((A * np.arange(30), B), {}, errors.GreyImageError, "a binary mask"),
        ((Mask(A * 0.5, density=True), B), {}, errors.GreyImageError, "a binary mask for mass_mode='uniform'"),
        (("nowhere.png", B), {}, errors.FileError, "an existing file"),
        ((A, B), {"penalty": "balanced"}, errors.ProblemError, "normalization"),
        ((A, B), {"metric": "euclidean"}, errors.UnsupportedProblemError, "does not separate"),
        ((A, B), {"backend": "abacus"}, errors.EngineError, "abacus"),
        ((A, B), {"crop_policy": "fixed"}, errors.FrameError, "override_pair_bbox"),
        ((A, B), {"crop_policy": "bucketed", "bucket_shapes": ((4, 4),)}, errors.FrameError, "bucket"),
        (
            (A, B),
            {"crop_policy": "fixed", "override_pair_bbox": BoxYX(0, 10, 0, 10)},
            errors.FrameError,
            "allow_clipping",
        ),
        (
            (Mask(A, px_size_um=0.5), Mask(B, px_size_um=0.6)),
            {},
            errors.PixelSizeError,
            "0.5 um in the source and 0.6 um",
        ),
    ],
)
def test_bad_pairs_are_refused(masks: tuple, config: dict, error: type[Exception], words: str) -> None:
    for call in (compare, divergence):
        with pytest.raises(error, match=words):
            call(*masks, TransportConfig(**config))


def test_a_config_is_a_transport_config() -> None:
    with pytest.raises(errors.ConfigError, match="a TransportConfig, got dict"):
        compare(A, B, {"blur_um": 2.0})  # type: ignore[arg-type]


def test_raise_on_makes_a_status_an_error() -> None:
    short = TransportConfig(max_iterations=1, tol=1e-12)
    assert compare(A, B, short).status is Status.max_iterations
    for raise_on in (("max_iterations",), [Status.max_iterations, "impossible"], "max_iterations"):
        with pytest.raises(errors.SolveFailedError, match="raise max_iterations"):
            compare(A, B, short, raise_on=raise_on)
    with pytest.raises(errors.SolveFailedError, match="empty_target"):
        compare(A, A * 0, raise_on=("empty_target",))
    for bad in (("lost",), 3):
        with pytest.raises(errors.ArgumentError, match="raise_on to hold statuses"):
            compare(A, B, raise_on=bad)  # type: ignore[arg-type]


def test_an_unconverged_self_problem_is_noticed() -> None:
    notices = compare(A, B, TransportConfig(max_iterations=1, tol=1e-12)).notices
    assert any("the source against itself ended with max_iterations" in str(notice) for notice in notices)


def test_a_start_must_fit() -> None:
    with pytest.raises(errors.StartError, match="init to be a TransportResult"):
        compare(A, B, init=3)  # type: ignore[arg-type]
    other = compare(np.pad(A, 1), np.pad(A, 1))
    with pytest.raises(errors.StartError, match="a previous result with the metric"):
        compare(A, B, init=other)


def test_a_frame_must_fit() -> None:
    small = GridTransform.from_pair(A, A, 1, pad=0)
    with pytest.raises(errors.FrameError, match="loses the share"):
        compare(A, B, transform=small)
    with pytest.raises(errors.FrameError, match="density of shape"):
        compare(np.pad(A, 1), np.pad(B, 1), transform=small)


def test_wrong_types_are_told_apart_from_wrong_values() -> None:
    mask = np.ones((4, 4))
    with pytest.raises(errors.FrameError, match="a GridTransform, got int"):
        compare(mask, mask, transform=3)  # type: ignore[arg-type]
    with pytest.raises(errors.ArgumentError, match=r"an iterable of pairs .*, got NoneType"):
        compare_many(None)  # type: ignore[arg-type]
    with pytest.raises(errors.ConfigError, match="the JSON of a TransportConfig"):
        TransportConfig.from_json(None)  # type: ignore[arg-type]
    with pytest.raises(errors.UnsupportedProblemError, match="a TransportProblem, got int"):
        solve(3)  # type: ignore[arg-type]

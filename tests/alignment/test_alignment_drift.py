"""The drift of a stage: planted shifts come back, also while objects grow, vanish or are missing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import ndimage

import pairframe as pf
from pairframe.errors import AlignError
from pairframe.report.figures.drift import drift_figure
from pairframe.testing import disc
from pairframe.types import Float

N = 9


def planted_drift() -> Float:
    drift = np.cumsum(np.random.default_rng(5).integers(-3, 5, size=(N, 2)), axis=0)
    return np.asarray(drift - drift[0], dtype=float)


def scene(shift: Float, growth: float = 1.0, without: int | None = None) -> pf.Mask:
    """Ten cells that lie apart, each growing about its own centre."""
    rng = np.random.default_rng(1)
    pixels = np.zeros((150, 190), bool)
    for k, (y, x) in enumerate(np.stack(np.meshgrid([35, 100], [30, 60, 95, 130, 160]), axis=-1).reshape(-1, 2)):
        radius, beside = rng.uniform(4, 8) * growth, rng.uniform(-4, 4)
        if k != without:
            pixels |= disc(pixels.shape, (y + beside + shift[0], x + shift[1]), radius)
    return pf.Mask.from_array(pixels, px_size_um=0.5)


def test_a_planted_drift_comes_back_exactly() -> None:
    drift = planted_drift()
    found = pf.stage_drift([scene(shift) for shift in drift])
    np.testing.assert_allclose(found.shift_yx_um, 0.5 * drift, atol=1e-9)
    assert np.nanmin(found.iou) == 1.0
    assert found.kernel == "none"
    assert found.total_um == pytest.approx(0.5 * np.hypot(*drift.T).max())


def test_growth_and_a_vanished_cell_are_no_drift() -> None:
    drift = planted_drift()
    found = pf.stage_drift([scene(s, 1 + 0.05 * t, without=t if t > 4 else None) for t, s in enumerate(drift)])
    assert np.abs(found.shift_yx_um - 0.5 * drift).max() < 0.05


def test_the_reference_frame_has_no_drift() -> None:
    drift = planted_drift()
    found = pf.stage_drift([scene(shift) for shift in drift], reference=-1)
    np.testing.assert_allclose(found.shift_yx_um, 0.5 * (drift - drift[-1]), atol=1e-9)
    assert found.reference == N - 1


def test_smoothing_keeps_a_steady_drift_and_fills_gaps() -> None:
    steady = np.stack([np.arange(N) * 2.0, np.arange(N) * -1.0], axis=1)
    masks = [scene(shift) for shift in steady]
    masks[4] = pf.Mask.from_array(np.zeros((150, 190)), px_size_um=0.5)
    found = pf.stage_drift(masks, smooth_frames=1.5)
    np.testing.assert_allclose(found.shift_yx_um, 0.5 * steady, atol=1e-6)
    assert np.isnan(found.measured_yx_um[4]).all()
    assert found.notices == ("frame 4 is empty, so its drift is unknown",)
    assert "Gaussian weights, standard deviation 1.5 frames" in found.kernel
    assert np.isnan(pf.stage_drift(masks).shift_yx_um[4]).all()


def test_smoothing_reduces_noise() -> None:
    rng = np.random.default_rng(2)
    steady = np.stack([np.arange(N) * 3.0, np.zeros(N)], axis=1)
    noisy = steady + rng.integers(-1, 2, size=steady.shape) * (np.arange(N) > 0)[:, None]
    found = pf.stage_drift([scene(shift) for shift in noisy], smooth_frames=2)
    rough, smooth = (np.abs(np.diff(curve, 2, axis=0)).mean() for curve in (found.measured_yx_um, found.shift_yx_um))
    assert smooth < 0.3 * rough


def test_corrected_masks_lie_on_each_other() -> None:
    masks = [scene(shift) for shift in planted_drift()]
    corrected = pf.stage_drift(masks).apply(masks)
    for mask in corrected:
        np.testing.assert_allclose(mask.values, corrected[0].values, atol=1e-9)
        assert mask.values.sum() == pytest.approx(masks[0].values.sum())


def test_the_figure_has_a_row_per_series() -> None:
    drift = pf.stage_drift([scene(shift) for shift in planted_drift()[:3]], frames=["a", "b", "c"])
    assert len(drift_figure({"one": drift, "two": drift}).axes) == 4
    assert drift.rows()[0]["frame"] == "a"
    assert drift.rows()[0]["iou_with_previous"] is None


@pytest.mark.parametrize(
    ("masks", "words", "message"),
    [
        ([scene(np.zeros(2))], {}, "at least two masks"),
        ([scene(np.zeros(2)), pf.Mask.from_array(np.ones((5, 5)))], {}, "one pixel size in a series"),
        ([np.zeros((5, 5)), np.ones((5, 5))], {}, "a reference frame with pixels"),
        ([np.ones((5, 5))] * 2, {"smooth_frames": 0}, "smooth_frames"),
        ([np.ones((5, 5))] * 2, {"frames": ["a"]}, "2 names of frames"),
        ([np.ones((5, 5))] * 2, {"reference": 2}, "reference"),
    ],
)
def test_bad_input_is_refused(masks: list[Any], words: dict[str, Any], message: str) -> None:
    with pytest.raises(AlignError, match=message):
        pf.stage_drift(masks, **words)


@pytest.mark.slow
@pytest.mark.skipif("PAIRFRAME_DATA" not in os.environ, reason="real data are not shipped")
def test_the_drift_of_tracked_cells_is_the_median_of_their_displacements() -> None:
    path = Path(os.environ["PAIRFRAME_DATA"]) / "usiigaci_t98g_tracked_37f.npz"
    with np.load(path) as archive:
        labels = archive[archive.files[0]][:12:3]
    found = pf.stage_drift([image > 0 for image in labels])
    centres = []
    for image in labels:
        ids = np.unique(image)[1:]
        centres.append(dict(zip(ids, ndimage.center_of_mass(image > 0, image, ids), strict=True)))
    for k in range(1, len(labels)):
        both = [i for i in centres[k] if i in centres[0]]
        truth = np.median([np.subtract(centres[k][i], centres[0][i]) for i in both], axis=0)
        assert np.abs(found.shift_yx_um[k] - truth).max() < 6

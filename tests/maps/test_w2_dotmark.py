"""DOTmark and pictures like it: `w2` gives the exact value, and a small epsilon alone comes close from below."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from scipy import ndimage

import pairframe as pf

ot = pytest.importorskip("ot", reason="POT is not installed")

ARCHIVE = Path(os.environ.get("PAIRFRAME_DATA", "")) / "dotmark_official_32.npz"
TOTAL = 102_400_000
CLASSES = (
    "CauchyDensity ClassicImages GRFmoderate GRFrough GRFsmooth LogGRF LogitGRF MicroscopyImages Shapes WhiteNoise"
)


def emd2(a: np.ndarray, b: np.ndarray) -> float:
    yx_a, yx_b = np.argwhere(a > 0), np.argwhere(b > 0)
    cost = ((yx_a[:, None] - yx_b) ** 2).sum(axis=2).astype(float)
    return TOTAL * float(ot.emd2(a[a > 0] / TOTAL, b[b > 0] / TOTAL, cost, numItermax=10**7))


def picture(kind: str, seed: int, side: int) -> np.ndarray:
    """Whole numbers that add up to `TOTAL`: noise, a smooth random field, its exponential, or a few blobs on nothing."""
    noise = np.random.default_rng(seed).standard_normal((side, side))
    smooth = ndimage.gaussian_filter(noise, side / 10, mode="wrap")
    smooth /= smooth.std()
    image = {
        "noise": noise - noise.min() + 0.1,
        "smooth": smooth - smooth.min() + 0.1,
        "exponential": np.exp(1.5 * smooth),
        "shapes": (smooth > 0.8).astype(float),
    }[kind]
    whole = np.floor(image * (TOTAL / image.sum())).astype(np.int64)
    whole.flat[np.argmax(whole)] += TOTAL - int(whole.sum())
    return whole


@pytest.mark.parametrize("kind", ["noise", "smooth", "exponential", "shapes"])
def test_pictures_like_those_of_dotmark_are_solved_exactly(kind: str) -> None:
    a, b = picture(kind, 1, 24), picture(kind, 2, 24)
    found, value = pf.w2(a, b), emd2(a, b)
    assert found.is_exact
    assert found.lower == pytest.approx(value, rel=1e-11)
    assert found.raises < 60


@pytest.mark.parametrize("kind", ["noise", "shapes"])
def test_a_small_epsilon_alone_comes_within_half_of_it_from_below(kind: str) -> None:
    """An error in px^2 and not a share: neighbouring pixels of noise are all that moves, so its value is itself small."""
    a, b = picture(kind, 1, 16), picture(kind, 2, 16)
    epsilon = 1 / 32
    found, value = pf.w2(a, b, epsilon=epsilon, max_raises=0), emd2(a, b)
    assert value - 0.5 * epsilon * TOTAL <= found.entropic_lower <= found.whole_lower <= value * (1 + 1e-11)
    assert found.whole_lower >= 0.998 * value
    assert found.upper >= value * (1 - 1e-11)


@pytest.mark.skipif(not ARCHIVE.exists(), reason="PAIRFRAME_DATA does not name a folder with dotmark_official_32.npz")
@pytest.mark.parametrize("name", CLASSES.split())
def test_a_pair_of_each_dotmark_class_is_solved_exactly(name: str) -> None:
    with np.load(ARCHIVE) as archive:
        a, b = archive[name][2], archive[name][7]
    found, value = pf.w2(a, b), emd2(a, b)
    assert found.is_exact
    assert found.lower == pytest.approx(value, rel=1e-11)


@pytest.mark.skipif(not ARCHIVE.exists(), reason="PAIRFRAME_DATA does not name a folder with dotmark_official_32.npz")
@pytest.mark.parametrize("name", ["MicroscopyImages", "WhiteNoise"])
def test_a_small_epsilon_alone_comes_within_two_percent_on_dotmark(name: str) -> None:
    with np.load(ARCHIVE) as archive:
        a, b = archive[name][0], archive[name][5]
    found, value = pf.w2(a, b, epsilon=1 / 32, max_raises=0), emd2(a, b)
    assert 0.98 * value <= found.entropic_lower <= found.whole_lower <= value * (1 + 1e-11)


@pytest.mark.slow
@pytest.mark.skipif(not ARCHIVE.exists(), reason="PAIRFRAME_DATA does not name a folder with dotmark_official_32.npz")
def test_every_dotmark_pair_is_certified() -> None:
    with np.load(ARCHIVE) as archive:
        for name in CLASSES.split():
            images = archive[name]
            for i in range(10):
                for j in range(i):
                    assert pf.w2(images[i], images[j]).is_exact, f"{name} {i} {j}"

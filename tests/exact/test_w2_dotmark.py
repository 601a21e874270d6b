"""DOTmark and pictures like it: `w2` gives the exact value, and a small epsilon alone comes close from below."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy import ndimage

import pairframe as pf

ot = pytest.importorskip("ot", reason="POT is not installed")

ROOT = Path(__file__).parents[2]
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


# --- the benchmark and its page --------------------------------------------------------------


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    """benchmarks/dotmark.py, which finds its neighbours by being run there."""
    folder = ROOT / "benchmarks"
    sys.path.insert(0, str(folder))
    try:
        spec = importlib.util.spec_from_file_location("dotmark", folder / "dotmark.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(folder))
    return module


def test_the_tables_of_the_page_are_its_json(benchmark: ModuleType) -> None:
    report = json.loads((ROOT / "docs" / "dotmark.json").read_text())
    text = (ROOT / "docs" / "dotmark.md").read_text()
    for name, table in benchmark.TABLES.items():
        assert table(report[name]) in text
        assert report[name]["commit"] in table(report[name])


@pytest.mark.parametrize("axis", [0, 1])
def test_a_sinkhorn_plan_with_one_wrong_marginal_is_no_answer(
    benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch, axis: int
) -> None:
    a, b = np.array([[1, 2], [3, 4]]), np.array([[4, 3], [2, 1]])

    def half_right(a: np.ndarray, b: np.ndarray, *_: object, **__: object) -> tuple[np.ndarray, dict[str, int]]:
        return np.outer(a, a) if axis == 1 else np.outer(b, b), {"niter": 1}

    monkeypatch.setattr(benchmark, "pair_of", lambda _: (a, b))
    monkeypatch.setattr(ot, "sinkhorn", half_right)
    assert benchmark.sinkhorn({})["value"] is None


def test_no_answer_is_no_time(benchmark: ModuleType) -> None:
    ours, none, late = {"seconds": 1.0, "value": 2.0}, {"seconds": 0.1, "value": None}, {"cut_off_s": 20.0}
    good = {"seconds": 3.0, "value": 2.2}

    def cells(*answers: dict[str, object]) -> tuple[str, str]:
        found = benchmark.summary_of([{"ours": ours, "sinkhorn": answer} for answer in answers])["sinkhorn"]
        return benchmark._time_cell(found), benchmark._ratio_cell(found, 1.0)

    assert cells(good, good, none) == ("3 s (2 of 3 answer)", "3")
    assert cells(good, none, none) == ("not reached (1 of 3 answer)", "–")
    assert cells(good, late, late) == ("> 20 s (1 of 3 answer)", "> 20")
    assert cells(none, late, late) == ("not reached", "–")

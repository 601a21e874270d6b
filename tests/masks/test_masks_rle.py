"""COCO run-length encoding: exact there and back, equal to pycocotools, and safe with text from strangers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pairframe.errors import FileError, MaskError
from pairframe.masks import CocoRle
from pairframe.testing import embryo

# Made with pycocotools 2.0.11: a block on 20 x 30 px, an empty mask, a full one, and one pixel in each of two corners.
KNOWN = {
    "block": ((20, 30), "e25?00000000000000000000000000000S6"),
    "empty": ((3, 4), "<"),
    "full": ((3, 4), "0<"),
    "corners": ((2, 2), "0120"),
}


def _block() -> np.ndarray:
    mask = np.zeros((20, 30), bool)
    mask[5:10, 4:20] = True
    return mask


DRAWN = {
    "block": _block(),
    "empty": np.zeros((3, 4), bool),
    "full": np.ones((3, 4), bool),
    "corners": np.eye(2, dtype=bool),
}


@pytest.mark.parametrize("name", KNOWN)
def test_text_of_pycocotools_is_read_and_written_alike(name: str) -> None:
    shape, counts = KNOWN[name]
    assert CocoRle.from_mask(DRAWN[name]) == CocoRle(shape, counts)
    np.testing.assert_array_equal(CocoRle(shape, counts).decode(), DRAWN[name])


@settings(deadline=None, max_examples=150)
@given(arrays(bool, st.tuples(st.integers(1, 40), st.integers(1, 40))))
def test_a_round_trip_is_exact(mask: np.ndarray) -> None:
    encoded = CocoRle.from_mask(mask)
    np.testing.assert_array_equal(encoded.decode(), mask)
    listed = CocoRle.from_coco(encoded.lengths().tolist(), list(mask.shape))
    assert listed == encoded


def test_long_runs_survive() -> None:
    mask = np.zeros((3000, 2500), bool)
    mask[1400:1500, 1200:1210] = True
    np.testing.assert_array_equal(CocoRle.from_mask(mask).decode(), mask)


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # of pycocotools with numpy 2
def test_pycocotools_agrees() -> None:
    peer = pytest.importorskip("pycocotools.mask")
    rng = np.random.default_rng(0)
    for mask in [*DRAWN.values(), embryo(), *(rng.random((37, 23)) < share for share in (0.02, 0.5, 0.97))]:
        theirs = peer.encode(np.asfortranarray(mask.astype(np.uint8)))
        ours = CocoRle.from_mask(mask)
        assert ours.counts.encode() == theirs["counts"]
        assert CocoRle.from_coco(theirs["counts"], theirs["size"]) == ours
        np.testing.assert_array_equal(peer.decode({"size": list(mask.shape), "counts": ours.counts}), mask)


@pytest.mark.parametrize("cut", range(1, 35))
def test_every_truncated_text_is_refused(cut: int) -> None:
    shape, counts = KNOWN["block"]
    with pytest.raises(MaskError, match="truncated"):
        CocoRle(shape, counts[:-cut]).decode()


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ("", "letters of COCO"),
        ("e2 5?", "letters of COCO"),
        ("é25?", "letters of COCO"),
        ("oooooo", "ends within a number"),
        ("ooooooooooooooooooo0", "at most 8 digits"),
        ("5KKKKK", "0 or more"),
        ("ooooooo?", "0 or more"),
        ("e25?0", r"truncated"),
    ],
)
def test_damaged_text_is_refused(counts: str, words: str) -> None:
    with pytest.raises(MaskError, match=words):
        CocoRle((20, 30), counts).decode()


@settings(deadline=None, max_examples=300)
@given(st.text(st.characters(min_codepoint=47, max_codepoint=112), max_size=60))
def test_any_text_is_a_mask_of_its_size_or_an_error(counts: str) -> None:
    try:
        mask = CocoRle((20, 30), counts).decode()
    except MaskError:
        return
    assert mask.shape == (20, 30)


def test_a_size_that_does_not_fit_is_refused() -> None:
    with pytest.raises(MaskError, match=r"30 x 19 = 570 px, got 600 px"):
        CocoRle((30, 19), KNOWN["block"][1]).decode()


@pytest.mark.parametrize("size", [[50_000, 20_000], [10**9, 1], [1, 10**18]])
def test_a_billion_pixels_are_refused_before_they_are_allocated(size: list[int]) -> None:
    with pytest.raises(FileError, match="at most 268435456 pixels"):
        CocoRle.from_coco([size[0] * size[1]] if size[1] < 10**9 else "0", size)


@pytest.mark.parametrize("size", [None, [3], [3, 4, 5], [0, 4], [3.5, 4], "34", [True, 4], [-3, -4]])
def test_a_size_is_two_positive_integers(size: object) -> None:
    with pytest.raises(MaskError, match="two positive integers"):
        CocoRle.from_coco("<", size)  # type: ignore[arg-type]


@pytest.mark.parametrize("counts", [[], [5, -1], [1.5, 2], ["a"], [[1]], [10**30]])
def test_a_list_of_lengths_is_checked(counts: list[object]) -> None:
    with pytest.raises(MaskError, match="whole numbers of pixels"):
        CocoRle.from_coco(counts, [3, 4])  # type: ignore[arg-type]

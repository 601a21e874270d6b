"""The text that names a mask."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairframe import errors
from pairframe.masks import MaskSpec, parse_spec, read_mask

NAMES = st.text("abz09_- .", min_size=1, max_size=8).map(lambda name: f"no/{name}.tif")
PAGES = st.none() | st.integers(0, 99)
LABELS = st.none() | st.just("all") | st.integers(1, 10**9)


@given(NAMES, PAGES, LABELS)
def test_a_spec_and_its_text_are_the_same(name, page, label):
    spec = MaskSpec(Path(name), None, page, label)
    assert parse_spec(str(spec)) == spec


@given(
    st.sampled_from(["no/a.npz", "no/b.zarr", "no/C.ZARR"]),
    st.lists(st.text("abc0", min_size=1), min_size=1),
    PAGES,
    LABELS,
)
def test_an_inner_path_follows_an_archive(container, inner, page, label):
    spec = MaskSpec(Path(container), "/".join(inner), page, label)
    assert parse_spec(str(spec)) == spec


@pytest.mark.parametrize(
    ("text", "path", "page", "label"),
    [
        ("labels.tif:3", "labels.tif", None, 3),
        ("labels.tif:all", "labels.tif", None, "all"),
        ("stack.tif@4", "stack.tif", 4, None),
        ("stack.tif@4:3", "stack.tif", 4, 3),
        ("img.zarr@4:3", "img.zarr", 4, 3),
        ("C:\\masks\\a.tif", "C:\\masks\\a.tif", None, None),
        ("C:\\masks\\a.tif:3", "C:\\masks\\a.tif", None, 3),
        ("me@home/a.tif", "me@home/a.tif", None, None),
        ("labels.tif:three", "labels.tif:three", None, None),
    ],
)
def test_the_grammar_by_example(text, path, page, label):
    assert parse_spec(text) == MaskSpec(Path(path), None, page, label)


def test_a_file_with_an_odd_name_opens(tmp_path):
    for name in ("odd:3", "odd@4", "a@4:3.npy"):
        np.save(tmp_path / "plain.npy", np.eye(3, dtype=bool))
        (tmp_path / "plain.npy").rename(tmp_path / name)
        assert parse_spec(tmp_path / name) == MaskSpec(tmp_path / name)
    assert read_mask(f"{tmp_path / 'a@4:3.npy'}").area_px == 3
    assert read_mask(f"{tmp_path / 'a@4:3.npy'}:1").area_px == 3
    assert parse_spec(f"{tmp_path / 'odd@4'}:7") == MaskSpec(tmp_path / "odd@4", None, None, 7)


def test_a_folder_that_looks_like_an_archive_is_a_folder(tmp_path):
    (tmp_path / "run.npz").mkdir()
    np.save(tmp_path / "run.npz" / "a.npy", np.eye(4))
    assert read_mask(tmp_path / "run.npz" / "a.npy").area_px == 4


def test_keywords_add_to_the_spec_and_must_not_contradict_it():
    spec = parse_spec("a.tif@4")
    assert str(spec.narrowed(4, 3)) == "a.tif@4:3"
    with pytest.raises(errors.FileError, match=r"one page, got page=5 and 'a.tif@4'"):
        spec.narrowed(5, None)
    with pytest.raises(errors.FileError, match=r"one label, got label='all' and 'a.tif:3'"):
        parse_spec("a.tif:3").narrowed(None, "all")


@pytest.mark.parametrize("page", [-1, 1.0, True, "1"])
def test_a_page_is_a_whole_number(page):
    with pytest.raises(errors.FileError, match="whole number >= 0"):
        parse_spec("a.tif").narrowed(page, None)


@pytest.mark.parametrize("label", [0, -3, 1.5, True, "some"])
def test_a_label_is_a_positive_whole_number_or_all(label):
    with pytest.raises(errors.FileError, match='whole number >= 1 or "all"'):
        parse_spec("a.tif").narrowed(None, label)


def test_a_negative_page_or_label_is_named_as_such(tmp_path):
    np.save(tmp_path / "labels.npy", np.eye(3, dtype=np.uint8))
    with pytest.raises(errors.FileError, match='whole number >= 1 or "all", got -1'):
        read_mask(f"{tmp_path / 'labels.npy'}:-1")
    with pytest.raises(errors.FileError, match="whole number >= 0, got -2"):
        read_mask(f"{tmp_path / 'labels.npy'}@-2")
    np.save(tmp_path / "plain.npy", np.eye(3, dtype=bool))
    (tmp_path / "plain.npy").rename(tmp_path / "odd@-2.npy")
    assert read_mask(tmp_path / "odd@-2.npy").area_px == 3


@pytest.mark.parametrize(("separator", "what"), [(":", "label"), (":-", "label"), ("@", "page")])
@pytest.mark.parametrize("file", ["mask.png", "masks.zarr/labels"])
def test_a_number_with_thousands_of_digits_is_refused(file, separator, what):
    with pytest.raises(
        errors.FileError, match=f"expected a {what} of at most 255 digits, got 500[01] characters"
    ) as found:
        parse_spec(f"{file}{separator}{'9' * 5_000}")
    assert len(str(found.value)) < 200

"""From what a person points at to a list of pairs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tifffile
from helpers.cohort_cases import SHAPE, write_frame, write_series, write_table
from hypothesis import given
from hypothesis import strategies as st

from pairframe.cohort import MaskRef, PairTask, read_tasks
from pairframe.cohort.inputs.pairing import Frame, natural_key, pair_frames
from pairframe.errors import CohortError, FileError, InputError, ManifestError
from pairframe.testing import disc


def frames(**names: list[str]) -> list[Frame]:
    return [Frame(series, name, MaskRef(f"/{series}/{name}", name)) for series in names for name in names[series]]


def ids(tasks: list[PairTask]) -> list[str]:
    return [task.pair_id for task in tasks]


# --- pairs -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("suffix", "delimiter"), [(".csv", ","), (".csv", ";"), (".tsv", "\t")])
def test_a_table_of_pairs_keeps_its_labels_with_their_types(tmp_path: Path, suffix: str, delimiter: str) -> None:
    rows: list[dict[str, object]] = [
        {"pair_id": "007", "source": "a.png", "target": "sub/b.tif@4:3", "group": "wt", "dose": "0.5", "n": "3",
         "px_size_um": "2.5", "fixed": "TRUE", "well": "01"},
        {"pair_id": "é, \"x\"", "source": "/abs/a.png", "target": "../b.npy", "group": "", "dose": "2", "n": "",
         "px_size_um": "", "fixed": "false", "well": "12"},
    ]  # fmt: skip
    first, second = read_tasks(write_table(tmp_path / f"m{suffix}", rows, delimiter))
    assert first.pair_id == "007"
    assert first.source == MaskRef(f"{tmp_path}/a.png", "a.png", 2.5)
    assert first.target == MaskRef(f"{tmp_path}/sub/b.tif@4:3", "sub/b.tif@4:3", 2.5)
    assert first.carried == {"group": "wt", "dose": 0.5, "n": 3, "fixed": True, "well": "01"}
    assert second.pair_id == 'é, "x"'
    assert (second.source.spec, second.target.spec) == ("/abs/a.png", f"{tmp_path.parent}/b.npy")
    assert second.carried == {"group": None, "dose": 2.0, "n": None, "fixed": False, "well": "12"}
    assert second.source.px_size_um is None


def test_parquet_says_the_same_as_text(tmp_path: Path) -> None:
    columns = {"pair_id": ["x"], "source": ["a.png"], "target": ["b.png"], "dose": [0.5], "n": [3], "none": [None]}
    pq.write_table(pa.table(columns), tmp_path / "m.parquet")
    text = write_table(tmp_path / "m.csv", [{name: values[0] for name, values in columns.items()}])
    assert read_tasks(tmp_path / "m.parquet") == read_tasks(text)


def test_pairs_without_names_are_called_by_their_files(tmp_path: Path) -> None:
    rows = [{"source": "x/early.png", "target": "late.tif@4:3"}]
    assert ids(read_tasks(write_table(tmp_path / "m.csv", rows))) == ["early-late@4:3"]


# --- frames and rules ------------------------------------------------------------------------


def test_frames_are_paired_in_order_within_their_series_and_carry_their_labels(tmp_path: Path) -> None:
    rows = [
        {"series": s, "frame": f, "path": f"{s}{f}.png", "time": t, "group": g, "px_size_um": 2}
        for s, g, f, t in [("e1", "wt", 10, 5.0), ("e1", "wt", 9, 4.5), ("e2", "mut", 1, 0.0), ("e2", "mut", 2, 0.5)]
    ]
    one, two = read_tasks(write_table(tmp_path / "m.csv", rows))
    assert (one.pair_id, two.pair_id) == ("e1_9-10", "e2_1-2")
    assert one.source == MaskRef(f"{tmp_path}/e19.png", "e19.png", 2.0)
    assert one.carried == {
        "series": "e1", "frame": 9, "frame_target": 10, "time": 4.5, "time_target": 5.0, "group": "wt"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("consecutive", ["a_0-1", "a_1-2", "a_2-3", "b_0-2"]),
        ("every:2", ["a_0-2"]),
        ("every:1", ["a_0-1", "a_1-2", "a_2-3", "b_0-2"]),
        ("reference", ["a_0-1", "a_0-2", "a_0-3", "b_0-2"]),
        ("reference:2", ["a_2-0", "a_2-1", "a_2-3", "b_2-0"]),
        ("all", ["a_0-1", "a_0-2", "a_0-3", "a_1-2", "a_1-3", "a_2-3", "b_0-2"]),
    ],
)
def test_a_rule_makes_these_pairs(rule: str, expected: list[str]) -> None:
    assert ids(pair_frames(frames(a=["2", "0", "1", "3"], b=["2", "0"]), rule)) == expected


def test_all_pairs_of_a_group_go_across_its_series() -> None:
    group = [Frame(s, "0", MaskRef(f"/{s}", s), {"group": g}) for s, g in [("a", "x"), ("b", "y"), ("c", "x")]]
    (task,) = pair_frames(group, "all")
    assert task.pair_id == "a_0-c_0"
    assert task.carried["series_target"] == "c"


@given(st.integers(2, 9), st.integers(1, 4), st.randoms())
def test_the_order_of_the_lines_does_not_matter(n: int, n_series: int, random: object) -> None:
    listed = frames(**{f"s{k}": [str(i) for i in range(n)] for k in range(n_series)})
    shuffled = list(listed)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    for rule, count in (("consecutive", n - 1), ("reference", n - 1), ("all", n * (n - 1) // 2)):
        tasks = pair_frames(shuffled, rule)
        assert sorted(ids(tasks)) == sorted(ids(pair_frames(listed, rule)))
        assert len(set(ids(tasks))) == len(tasks) == n_series * count


def test_names_sort_as_a_person_sorts_them() -> None:
    assert sorted(["f10", "f9", "f1b", "f1"], key=natural_key) == ["f1", "f1b", "f9", "f10"]
    assert [f.name for f in frames(a=["1.5", "1.25", "-1"])] != ["-1", "1.25", "1.5"]
    assert ids(pair_frames(frames(a=["1.5", "1.25", "-1"]), "consecutive")) == ["a_-1-1.25", "a_1.25-1.5"]


@pytest.mark.parametrize("rule", ["", "next", "every:0", "every:x", "every:", "reference:", "all:2"])
def test_an_unknown_rule_is_refused(rule: str) -> None:
    with pytest.raises(CohortError, match="expected a pairing rule: consecutive"):
        pair_frames(frames(a=["0", "1"]), rule)


def test_a_rule_that_finds_nothing_or_too_much_says_so() -> None:
    with pytest.raises(CohortError, match="1 frames in 1 series, of which 'consecutive' makes no pair"):
        pair_frames(frames(a=["0"]), "consecutive")
    with pytest.raises(CohortError, match="frame '1' twice in series 'a'"):
        pair_frames(frames(a=["1", "0", "1"]), "consecutive")
    with pytest.raises(CohortError, match="series 'b' without one"):
        pair_frames(frames(a=["0", "1"], b=["0", "2"]), "reference:1")


# --- without a manifest ----------------------------------------------------------------------


def test_a_folder_a_folder_of_folders_and_a_pattern_say_the_same(tmp_path: Path) -> None:
    write_series(tmp_path / "masks", n_series=2, n_frames=11)
    (tmp_path / "masks/s0/notes.txt").write_text("not a mask")
    tasks = read_tasks(tmp_path / "masks")
    assert ids(tasks)[8:12] == ["s0_8-9", "s0_9-10", "s1_0-1", "s1_1-2"]
    assert tasks[9].carried == {"series": "s0", "frame": 9, "frame_target": 10}
    assert read_tasks(f"{tmp_path}/masks/*/t*.png") == tasks
    assert read_tasks(tmp_path / "masks/s1") == tasks[10:]


@pytest.mark.parametrize(
    ("stems", "pairs"),
    [
        (["t9", "t10"], ["F_9-10"]),
        (["t10", "t11"], ["F_10-11"]),
        (["e2_t008_mask", "e2_t009_mask"], ["F_008-009"]),
        (["early", "late"], ["F_early-late"]),
        (["a1_x", "b2_x"], ["F_a1_x-b2_x"]),
        (["t1", "t01"], ["F_t01-t1"]),  # the same number twice
        (["t", "t1"], ["F_t-t1"]),
        (["t0", "t1", "mean"], ["F_0-1"]),  # an odd one
        (["embA_t0", "embA_t1", "embB_t0", "embB_t1"], ["embA_t_0-1", "embB_t_0-1"]),  # no strangers
    ],
)
def test_the_last_number_of_a_name_is_the_frame_and_the_rest_the_series(
    tmp_path: Path, stems: list[str], pairs: list[str]
) -> None:
    for stem in stems:
        write_frame(tmp_path / f"{stem}.png", 4)
    assert sorted(ids(read_tasks(tmp_path))) == [name.replace("F_", f"{tmp_path.name}_") for name in pairs]


def test_a_stack_of_labels_has_a_series_per_id(tmp_path: Path) -> None:
    pages = np.zeros((3, *SHAPE), np.uint8)
    for page in range(3):
        pages[page][disc(SHAPE, (8, 8 + page), 4)] = 3
        if page != 1:
            pages[page][disc(SHAPE, (24, 30), 4 + page)] = 7
    tifffile.imwrite(tmp_path / "cells.tif", pages, photometric="minisblack")
    tasks = read_tasks(tmp_path / "cells.tif")
    assert ids(tasks) == ["3_0-1", "3_1-2", "7_0-2"]
    assert tasks[2].source.spec == f"{tmp_path}/cells.tif@0:7"
    assert tasks[2].carried == {"series": "7", "frame": 0, "frame_target": 2}


def test_what_is_no_cohort_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for given_, message in [
        (tmp_path / "nowhere", "does not exist"),
        (tmp_path / "nowhere.csv", "expected an existing manifest"),
        (tmp_path / "empty", "got none"),
        (f"{tmp_path}/*.npy", "got none"),
        (write_frame(tmp_path / "one.png", 4), "makes no pair"),
    ]:
        with pytest.raises(InputError, match=message):
            read_tasks(given_)
    (tmp_path / "broken.tif").write_bytes(b"II*\0")
    with pytest.raises(FileError):
        read_tasks(tmp_path / "broken.tif")


# --- broken manifests ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "at least one line below the names|columns source and target"),
        (b"source,target\n", "at least one line below the names"),
        (b"a,b\n1,2\n", r"columns source and target \(pairs\), or path or mask \(frames\), got 'a', 'b'"),
        (b"source,target,source\na,b,c\n", "a different name for every column"),
        (b"source,target,\na,b,c\n", "a different name for every column"),
        (b"source,target\na.png\n", "1 in line 2"),
        (b"source,target\na.png,\n", "a target in every line, got none in line 2"),
        (b"pair_id,source,target\n,a.png,b.png\n", "a pair_id in every line"),
        (b"source,target,px_size_um\na,b,\"0,5\"\n", "'0,5' in line 2"),
        (b"source,target,px_size_um\na,b,-1\n", "-1 in line 2"),
        (b"source,target,px_size_um\na,b,inf\n", "inf in line 2"),
        (b"source,target,status\na,b,good\n", "a label 'status'. To fix: rename it"),
        (b"source,target\n\xff\xfe,b\n", "csv or tsv in UTF-8"),
        (b"source,target\n\"a,b\n", "unexpected end of data"),
        (b"pair_id,source,target\nx,a\0,b\n", "NUL"),
        (b"series,path\n,a.png\n", "a series in every line"),
    ],
)  # fmt: skip
def test_a_broken_manifest_is_refused_with_the_line(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "m.csv").write_bytes(content)
    with pytest.raises(ManifestError, match=message):
        read_tasks(tmp_path / "m.csv")


def test_a_broken_parquet_manifest_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.parquet").write_bytes(b"PAR1 nothing")
    with pytest.raises(ManifestError, match="a Parquet file"):
        read_tasks(tmp_path / "m.parquet")
    pq.write_table(pa.table({"source": ["a"], "target": ["b"], "x": [[1, 2]]}), tmp_path / "m.parquet")
    with pytest.raises(ManifestError, match="list in row 0"):
        read_tasks(tmp_path / "m.parquet")


# --- names -----------------------------------------------------------------------------------


def named(*pair_ids: str) -> list[PairTask]:
    return [PairTask(pair_id, MaskRef("/a.png", "a.png"), MaskRef("/b.png", "b.png")) for pair_id in pair_ids]


@pytest.mark.parametrize(
    "pair_id", ["../../etc/x", "/etc/passwd", "C:\\x", "日本 ü", "n" * 200, "-rf *", "a\u00a0b", "💥"]
)
def test_an_odd_name_is_data(pair_id: str) -> None:
    assert ids(read_tasks(named(pair_id))) == [pair_id]


@pytest.mark.parametrize(
    "pair_id", ["", " ", "a ", "a\nb", "\x1b[31m", "a\0", "n" * 201, "\u202etxt", "\ud800", "a\u2028b"]
)
def test_an_unsafe_name_is_refused(pair_id: str) -> None:
    with pytest.raises(ManifestError, match="pair_id"):
        read_tasks(named(pair_id))


def test_a_name_that_comes_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="2 pairs called 'x'"):
        read_tasks(named("x", "y", "x"))
    rows = [{"source": f"{folder}/t0.png", "target": f"{folder}/t1.png"} for folder in "ab"]
    with pytest.raises(ManifestError, match="give each line another pair_id"):
        read_tasks(write_table(tmp_path / "m.csv", rows))

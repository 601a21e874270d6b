"""Everything that can be wrong with a store is said in words, and what was there stays."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.results_equal import differences, unsolved_result

import pairframe as pf
from pairframe.errors import (
    BrokenStoreError,
    ForeignFolderError,
    StoreMissingError,
    StoreRowError,
    StoreVersionError,
    StoreWriteError,
    UnknownPairError,
)
from pairframe.results import ResultStore, failed_row
from pairframe.results.schema import SCHEMA_VERSION, VERSION_KEY

RESULT = unsolved_result()


@pytest.fixture
def out(tmp_path: Path) -> Path:
    RESULT.save(tmp_path / "out")
    return tmp_path / "out"


def group_of(out: Path) -> Path:
    return next(path for path in (out / "maps.zarr").iterdir() if path.is_dir())


def content(out: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


def rewrite_table(out: Path, metadata: dict[str, str] | None = None, **columns: Any) -> None:
    table = pq.read_table(out / "results.parquet")
    for name, values in columns.items():
        table = table.set_column(table.column_names.index(name), name, pa.array(values))
    if metadata is not None:
        table = table.replace_schema_metadata(metadata)
    pq.write_table(table, out / "results.parquet")


# --- places ----------------------------------------------------------------------------------


def test_no_store_is_said_to_be_absent(tmp_path: Path) -> None:
    with pytest.raises(StoreMissingError, match="does not exist"):
        pf.load(tmp_path / "nowhere")
    with pytest.raises(StoreMissingError, match="which has none"):
        pf.load(tmp_path)


def test_a_foreign_folder_is_left_alone_unless_told_and_keeps_its_files_even_then(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(ForeignFolderError, match=r"thesis\.txt"):
        RESULT.save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
    RESULT.save(tmp_path, overwrite=True)
    assert (tmp_path / "thesis.txt").read_text() == "precious"
    assert differences(pf.load(tmp_path), RESULT) == []


def test_a_place_below_a_file_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "file" / "out"):
        with pytest.raises(StoreWriteError, match="choose another folder"):
            RESULT.save(place)


def test_the_pair_must_be_named_when_there_are_several(out: Path) -> None:
    RESULT.save(out, pair_id="second")
    with pytest.raises(UnknownPairError, match=r"one of the 2 pairs.*got none.*'pair', 'second'"):
        pf.load(out)
    with pytest.raises(UnknownPairError, match="'third'"):
        pf.load(out, "third")


# --- versions --------------------------------------------------------------------------------


@pytest.mark.parametrize(("metadata", "got"), [({VERSION_KEY: "99"}, "version 99"), ({}, "no version")])
def test_an_unknown_schema_version_of_the_table_is_refused_and_not_overwritten(
    out: Path, metadata: dict[str, str], got: str
) -> None:
    rewrite_table(out, metadata)
    before = content(out)
    for attempt in (lambda: pf.load(out), lambda: RESULT.save(out, overwrite=True)):
        with pytest.raises(StoreVersionError, match=f"schema version {SCHEMA_VERSION}, got {got}"):
            attempt()
    with pytest.raises(StoreVersionError):
        ResultStore(out).commit([failed_row("x", "y")])
    assert content(out) == before


def test_an_unknown_schema_version_of_a_group_is_refused(out: Path) -> None:
    file = group_of(out) / "zarr.json"
    node = json.loads(file.read_text())
    node["attributes"]["schema_version"] = 99
    file.write_text(json.dumps(node))
    for read in (ResultStore(out).load, ResultStore(out).open_maps):
        with pytest.raises(StoreVersionError, match="version 99"):
            read()


# --- damage ----------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", [b"", b"PAR1", b"<html>" * 100])
def test_a_table_that_is_none_is_refused_and_not_overwritten(out: Path, damage: bytes) -> None:
    (out / "results.parquet").write_bytes(damage)
    before = content(out)
    for attempt in (lambda: pf.load(out), lambda: RESULT.save(out, overwrite=True), lambda: ResultStore(out).table()):
        with pytest.raises(BrokenStoreError, match=r"results\.parquet"):
            attempt()
    assert content(out) == before


def test_no_flipped_bit_goes_unnoticed_or_ends_in_a_foreign_error(out: Path) -> None:
    rng = np.random.default_rng(0)
    files = [path for path in out.rglob("*") if path.is_file() and path.stat().st_size]
    chunks = [path for path in files if path.name.startswith("c.")]
    for path in [*rng.choice(np.array(chunks, dtype=object), 20), *[out / "results.parquet"] * 40]:
        sound = path.read_bytes()
        broken = bytearray(sound)
        broken[rng.integers(len(broken))] ^= 1 << int(rng.integers(8))
        path.write_bytes(broken)
        try:
            again = ResultStore(out).load()
            ResultStore(out).table()
        except (BrokenStoreError, StoreVersionError, UnknownPairError):
            pass
        else:  # a bit of the file that means nothing
            assert path.name == "results.parquet"
            assert differences(again, RESULT) == []
        path.write_bytes(sound)
    assert differences(pf.load(out), RESULT) == []


@pytest.mark.parametrize("lost", ["zarr.json", "mass_created/c.0.0", "velocity_dy", "work_maps/c.0.0.0", "y_um/c.0"])
def test_a_lost_piece_is_noticed(out: Path, lost: str) -> None:
    path = group_of(out) / lost
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    with pytest.raises(BrokenStoreError, match=r"complete maps.*run this comparison again"):
        pf.load(out)


def test_a_lost_group_is_noticed(out: Path) -> None:
    shutil.rmtree(group_of(out))
    for read in (ResultStore(out).load, ResultStore(out).open_maps):
        with pytest.raises(BrokenStoreError, match="run this comparison again"):
            read()


def test_the_maps_of_another_pair_are_not_taken(out: Path) -> None:
    RESULT.save(out, pair_id="second")
    groups = ResultStore(out).table()["maps_group"].tolist()
    rewrite_table(out, maps_group=groups[::-1])
    with pytest.raises(BrokenStoreError, match="it holds the pair 'second'"):
        pf.load(out, "pair")


def test_an_array_of_another_shape_is_noticed(out: Path) -> None:
    group = group_of(out)
    file = group / "zarr.json"
    sound = file.read_text()
    for name, key, change, match in (
        ("mass_created", "shape", lambda sides: [sides[0] + 1, sides[1]], "mass_created has the shape"),
        ("mass_created", "dimension_names", lambda names: names[::-1], "mass_created has the dimensions"),
        ("work_maps", "shape", lambda sides: [sides[0] - 1, *sides[1:]], "work_maps has the shape"),
        ("work_maps", "dimension_names", lambda names: names[:1], "work_maps has the dimensions"),
    ):
        node = json.loads(sound)
        array = node["consolidated_metadata"]["metadata"][name]
        array[key] = change(array[key])
        file.write_text(json.dumps(node))
        with pytest.raises(BrokenStoreError, match=match):
            pf.load(out)


@pytest.mark.parametrize("trace", ["[[1, 2]]", "[1]", '[["a", "b", "c"]]', "no json", 7])
def test_a_damaged_history_is_noticed(out: Path, trace: object) -> None:
    file = group_of(out) / "zarr.json"
    node = json.loads(file.read_text())
    node["attributes"]["trace"] = trace
    file.write_text(json.dumps(node))
    with pytest.raises(BrokenStoreError, match="run this comparison again"):
        pf.load(out)


@pytest.mark.parametrize(
    "name", ["../../secret-0a1b2c3d", "..", ".", "", "a/b-0a1b2c3d", "/etc-0a1b2c3d", "x-0a1b2c3d\n"]
)
def test_a_group_name_from_a_table_leads_nowhere_else(out: Path, name: str) -> None:
    rewrite_table(out, maps_group=[name])
    for read in (ResultStore(out).load, ResultStore(out).open_maps):
        with pytest.raises(BrokenStoreError, match=r"directly below maps\.zarr"):
            read()


def test_a_group_that_is_a_link_is_not_followed(out: Path, tmp_path: Path) -> None:
    group = group_of(out)
    group.rename(tmp_path / "elsewhere")
    group.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BrokenStoreError, match="directly below"):
        pf.load(out)


# --- rows ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "at least one character"),
        ("\ud800", "can be written as UTF-8"),
        (None, "that is text, got None, which is NoneType"),
        (3, "that is text, got 3, which is int"),
    ],
)
def test_a_pair_needs_a_name_that_can_be_written(name: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(StoreRowError, match=message):
        RESULT.save(tmp_path / "out", pair_id=name)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"M_source": 1.0}, "names of their own"),
        ({"": 1}, "names of their own"),
        ({"label": object()}, "in column 'label'"),
        ({"label": [1, 2]}, "in column 'label'"),
        ({"label": 2**70}, "in column 'label'"),
    ],
)
def test_a_carried_column_holds_plain_values_under_its_own_name(extra: Any, message: str) -> None:
    with pytest.raises(StoreRowError, match=message):
        failed_row("x", "y", extra=extra)


def test_a_column_keeps_its_type(tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    with pytest.raises(StoreRowError, match="one type in column 'label'"):
        store.commit([failed_row("a", "y", extra={"label": 1}), failed_row("b", "y", extra={"label": "one"})])
    store.commit([failed_row("a", "y", extra={"label": 1})])
    before = store.table_path.read_bytes()
    with pytest.raises(StoreRowError, match="one type in column 'label', got string for a column of int64"):
        store.commit([failed_row("b", "y", extra={"label": "one"})])
    assert store.table_path.read_bytes() == before
    store.commit([failed_row("b", "y", extra={"label": 2.5})])
    assert store.table()["label"].tolist() == [1.0, 2.5]


def test_a_row_without_its_maps_is_refused(out: Path, tmp_path: Path) -> None:
    row = ResultStore(tmp_path / "elsewhere").write_maps(RESULT, "pair")
    before = content(out)
    with pytest.raises(StoreRowError, match="whose maps were written"):
        ResultStore(out).commit([row])
    with pytest.raises(StoreRowError, match="float64 in column 'M_source'"):
        ResultStore(out).commit([{**row, "M_source": "much"}])
    assert content(out) == before

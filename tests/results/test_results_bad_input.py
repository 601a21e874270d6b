"""Everything that can be wrong with a store is said in words, and what was there stays."""

from __future__ import annotations

import os
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.archives import edit_metadata, entries, group_of, rewrite, spoil
from helpers.results_equal import differences, small_result, unsolved_result

import pairframe as pf
from pairframe.errors import (
    BrokenStoreError,
    PairframeError,
    StoreError,
    StoreRowError,
    StoreVersionError,
    StoreWriteError,
)
from pairframe.results import ResultStore, failed_row
from pairframe.results.cohort_table import notices_of, read_cohort
from pairframe.results.schema import SCHEMA_VERSION, VERSION_KEY

RESULT = unsolved_result()


@pytest.fixture
def out(tmp_path: Path) -> Path:
    RESULT.save(tmp_path / "out")
    return tmp_path / "out"


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
    with pytest.raises(StoreError, match="does not exist"):
        pf.load(tmp_path / "nowhere")
    with pytest.raises(StoreError, match="which has none"):
        pf.load(tmp_path)


def test_a_foreign_folder_is_left_alone_unless_told_and_keeps_its_files_even_then(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(StoreError, match=r"thesis\.txt"):
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
    with pytest.raises(StoreError, match=r"one of the 2 pairs.*got none.*'pair', 'second'"):
        pf.load(out)
    with pytest.raises(StoreError, match="'third'"):
        pf.load(out, "third")


# --- versions --------------------------------------------------------------------------------


@pytest.mark.parametrize(("metadata", "got"), [({VERSION_KEY: "99"}, "version 99"), ({}, "no version")])
def test_an_unknown_schema_version_of_the_table_is_refused_and_not_overwritten(
    out: Path, metadata: dict[str, str], got: str
) -> None:
    rewrite_table(out, metadata)
    before = content(out)
    for attempt in (lambda: pf.load(out), lambda: RESULT.save(out, overwrite=True)):
        with pytest.raises(
            StoreVersionError, match=f"schema version {SCHEMA_VERSION} or 7 or 6 or 5 or 4 or 3, got {got}"
        ):
            attempt()
    with pytest.raises(StoreVersionError):
        ResultStore(out).commit([failed_row("x", "y")])
    assert content(out) == before


def test_an_unknown_schema_version_of_a_group_is_refused(out: Path) -> None:
    edit_metadata(group_of(out), lambda node: node["attributes"].update(schema_version=99))
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


def load_or_refuse(out: Path) -> pf.TransportResult | None:
    """The result, or None if it was refused; any other error fails the test."""
    try:
        found = ResultStore(out).load()
        ResultStore(out).table()
    except (BrokenStoreError, StoreVersionError):
        return None
    return found


def places_of_needed_bytes(path: Path) -> set[int]:
    """Places of all chunks and of the metadata of the group, but not of the metadata that zarr repeats for each array."""
    sound, needed = path.read_bytes(), set[int]()
    for entry in zipfile.ZipFile(path).infolist():
        if entry.filename == "zarr.json" or not entry.filename.endswith("/zarr.json"):
            sizes = struct.unpack_from("<HH", sound, entry.header_offset + 26)  # of the name and the extra field
            start = entry.header_offset + 30 + sum(sizes)
            needed |= set(range(start, start + entry.compress_size))
    return needed


@pytest.mark.parametrize("tries", [300, pytest.param(5000, marks=pytest.mark.slow)])
def test_a_flipped_bit_in_a_pairs_file_is_refused_or_changes_nothing(tmp_path: Path, tries: int) -> None:
    rng = np.random.default_rng(0)
    result = small_result()
    result.save(tmp_path)
    path = group_of(tmp_path)
    sound = path.read_bytes()
    needed = places_of_needed_bytes(path)
    assert len(needed) > len(sound) / 2
    for place, bit in zip(rng.integers(len(sound), size=tries), rng.integers(8, size=tries), strict=True):
        broken = bytearray(sound)
        broken[place] ^= 1 << int(bit)
        path.write_bytes(broken)
        found = load_or_refuse(tmp_path)
        assert found is None or (place not in needed and differences(found, result) == []), (place, bit)
    path.write_bytes(sound)
    assert differences(pf.load(tmp_path), result) == []


def test_a_flipped_bit_in_the_list_of_a_zip_file_is_refused_or_changes_nothing(out: Path) -> None:
    path = group_of(out)
    sound = path.read_bytes()
    names = [place for place in range(len(sound)) if sound.startswith(b"PK\x01\x02", place)]
    rng = np.random.default_rng(1)
    for place in rng.integers(names[0], len(sound), size=300):
        broken = bytearray(sound)
        broken[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(broken)
        found = load_or_refuse(out)
        assert found is None or differences(found, RESULT) == [], place


def test_a_file_that_is_cut_off_is_refused(out: Path) -> None:
    path = group_of(out)
    sound = path.read_bytes()
    for size in (0, 1, 21, 22, len(sound) // 2, len(sound) - 30, len(sound) - 1):
        path.write_bytes(sound[:size])
        assert load_or_refuse(out) is None, size


def test_a_flipped_bit_in_the_table_is_refused_or_changes_nothing(out: Path) -> None:
    rng = np.random.default_rng(0)
    path = out / "results.parquet"
    sound = path.read_bytes()
    for _ in range(40):
        broken = bytearray(sound)
        broken[rng.integers(len(broken))] ^= 1 << int(rng.integers(8))
        path.write_bytes(broken)
        try:
            found = load_or_refuse(out)
        except StoreError:  # the bit was in the name of the pair
            continue
        assert found is None or differences(found, RESULT) == []


@pytest.mark.parametrize(("name", "by"), [("velocity_dx", "velocity_dy"), ("mass_created", "mass_target")])
def test_the_chunk_of_another_array_is_refused(tmp_path: Path, name: str, by: str) -> None:
    small_result().save(tmp_path)
    path = group_of(tmp_path)
    files = entries(path)
    assert files[f"{name}/c.0.0"] != files[f"{by}/c.0.0"]
    rewrite(path, {**files, f"{name}/c.0.0": files[f"{by}/c.0.0"]})
    for read in (ResultStore(tmp_path).load, ResultStore(tmp_path).open_maps):
        with pytest.raises(BrokenStoreError, match="not those that were written"):
            read()


def test_an_earlier_result_of_the_same_pair_is_not_taken_for_the_present_one(out: Path) -> None:
    old = group_of(out).read_bytes()
    unsolved_result(8).save(out, overwrite=True)
    group_of(out).write_bytes(old)
    with pytest.raises(BrokenStoreError, match="it holds the maps"):
        pf.load(out)


@pytest.mark.parametrize("name", ["total_mass_moved", "total_mass_created", "M_source", "total_transport_cost_um2"])
def test_books_that_do_not_balance_are_refused(tmp_path: Path, name: str) -> None:
    small_result().save(tmp_path)
    edit_metadata(group_of(tmp_path), lambda node: node["attributes"].update({name: node["attributes"][name] + 0.001}))
    with pytest.raises(BrokenStoreError, match="but its parts add up to"):
        pf.load(tmp_path)


@pytest.mark.parametrize("lost", ["zarr.json", "mass_created/c.0.0", "work_maps/c.0.0.0", "y_um/c.0"])
def test_a_lost_piece_is_noticed(out: Path, lost: str) -> None:
    files = entries(group_of(out))
    del files[lost]
    rewrite(group_of(out), files)
    with pytest.raises(BrokenStoreError, match=r"complete maps.*run this comparison again"):
        pf.load(out)


def test_a_damaged_chunk_is_noticed_when_it_is_read(out: Path) -> None:
    spoil(group_of(out), "mass_created/c.0.0")
    with pytest.raises(BrokenStoreError, match="mass_created"):
        pf.load(out)
    maps = ResultStore(out).open_maps()
    with pytest.raises(Exception, match="CRC"):
        maps.mass_created.load()


def test_a_pipe_in_the_place_of_maps_is_refused(out: Path) -> None:
    group = group_of(out)
    group.unlink()
    os.mkfifo(group)
    for read in (ResultStore(out).load, ResultStore(out).open_maps):
        with pytest.raises(BrokenStoreError, match="directly below"):
            read()


def test_a_lost_group_is_noticed(out: Path) -> None:
    group_of(out).unlink()
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
    sound = group.read_bytes()
    for name, key, change, match in (
        ("mass_created", "shape", lambda sides: [sides[0] + 1, sides[1]], "mass_created has the shape"),
        ("mass_created", "dimension_names", lambda names: names[::-1], "mass_created has the dimensions"),
        ("work_maps", "shape", lambda sides: [sides[0] - 1, *sides[1:]], "work_maps has the shape"),
        ("work_maps", "dimension_names", lambda names: names[:1], "work_maps has the dimensions"),
    ):
        group.write_bytes(sound)

        def change_array(node: dict[str, Any], name: str = name, key: str = key, change: Any = change) -> None:
            array = node["consolidated_metadata"]["metadata"][name]
            array[key] = change(array[key])

        edit_metadata(group, change_array)
        with pytest.raises(BrokenStoreError, match=match):
            pf.load(out)


@pytest.mark.parametrize("trace", ["[[1, 2]]", "[1]", '[["a", "b", "c"]]', "no json", 7])
def test_a_damaged_history_is_noticed(out: Path, trace: object) -> None:
    edit_metadata(group_of(out), lambda node: node["attributes"].update(trace=trace))
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
        ({"M_source": 1.0}, "names are not fixed columns"),
        ({"": 1}, "names are not fixed columns"),
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


# --- names and texts that no program would write ---------------------------------------------


@pytest.mark.parametrize("name", ["\0", "out\0", "\ud800"])
def test_a_result_is_not_saved_under_an_impossible_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for call in (
        RESULT.save,
        pf.load,
        lambda name: RESULT.save_tif(f"{name}.tif"),
        lambda name: RESULT.save_csv(f"{name}.csv"),
    ):
        with pytest.raises(PairframeError, match="a path that the system allows"):
            call(name)
    assert list(tmp_path.iterdir()) == []


def test_metadata_that_are_nested_too_deeply_are_damage(out: Path) -> None:
    path = group_of(out)
    sound = path.read_bytes()
    for name in ("versions", "notices", "trace", "config", "transform"):
        path.write_bytes(sound)
        edit_metadata(path, lambda node, name=name: node["attributes"].update({name: "[" * 200_000}))  # type: ignore[misc]
        with pytest.raises(BrokenStoreError, match="the complete maps of a result"):
            pf.load(out)
    path.write_bytes(sound)
    rewrite(path, {**entries(path), "zarr.json": b"[" * 200_000})
    with pytest.raises(BrokenStoreError, match="nested too deeply"):
        pf.load(out)
    RESULT.save(out, overwrite=True)  # also when the damaged group is removed as a leftover
    assert differences(pf.load(out), RESULT) == []


def test_a_table_with_deep_json_still_has_its_cohort(out: Path) -> None:
    deep = "[" * 200_000
    rewrite_table(out, config_json=[deep], notices_json=[deep])
    cohort = read_cohort(ResultStore(out))
    assert (cohort.units.in_px, cohort.is_euclidean, notices_of(cohort.rows[0])) == (True, False, [])

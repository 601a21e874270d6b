"""The store: workers write maps, one writer commits rows, nothing is lost and nothing is left."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from helpers.results_equal import differences, unsolved_result
from hypothesis import given, settings
from hypothesis import strategies as st

import pairframe as pf
from pairframe import files, system
from pairframe.errors import ConfigError, StoreError, StoreLockedError
from pairframe.results import ResultStore, TransportResult, disk, failed_row
from pairframe.results.rows import result_row
from pairframe.results.table import table_bytes, upsert

RESULT = unsolved_result(5)
OTHER = unsolved_result(8)


def groups(store: ResultStore) -> set[str]:
    return {path.name.removesuffix(disk.ZIP) for path in store.maps_path.iterdir() if path.name != "zarr.json"}


def leftovers(store: ResultStore) -> list[Path]:
    return list(store.out.rglob(".tmp-*"))


def put(store: ResultStore, result: TransportResult = RESULT, pair_id: str = "pair", **more: object) -> str:
    row = store.write_maps(result, pair_id, **more)  # type: ignore[arg-type]
    store.commit([row])
    return str(row["maps_group"])


def age(path: Path, seconds: float = 60) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then))


# --- the table -------------------------------------------------------------------------------


def test_rows_hold_results_and_failures_with_their_labels(tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    good = store.write_maps(
        RESULT, "good", source="a.png", target="b.png", seconds=1.5, extra={"group": "wt", "frame": 3}
    )
    error = ConfigError("a blur", "none", "set blur_um")
    store.commit([good, failed_row("bad", error, source="c.png", extra={"group": "mut", "frame": 4})])
    table = store.table().set_index("pair_id")
    assert list(table["status"]) == ["empty_source", "failed"]
    assert table.loc["good", "M_target"] == RESULT.M_target
    assert table.loc["good", "percent_created"] == 100.0
    assert (table.loc["good", "seconds"], table.loc["good", "source"]) == (1.5, "a.png")
    assert table.loc["bad", "error"] == "ConfigError: expected a blur, got none"
    assert table.loc["bad", "advice"] == "set blur_um"
    assert list(table["group"]) == ["wt", "mut"]
    assert list(table["frame"]) == [3, 4]
    assert str(table["iterations"].dtype) == "Int64"  # although the failed pair has none
    with pytest.raises(pf.PairframeError, match=r"which failed: ConfigError.*To fix: set blur_um"):
        store.load("bad")


def test_committing_twice_changes_nothing(tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    rows = [store.write_maps(RESULT, "a"), failed_row("b", "no such file")]
    store.commit(rows)
    before, kept = store.table_path.read_bytes(), groups(store)
    store.commit(rows)
    assert store.table_path.read_bytes() == before
    assert groups(store) == kept
    store.commit([])
    assert store.table_path.read_bytes() == before


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.lists(st.tuples(st.text("abc", min_size=1, max_size=1), st.integers(-5, 5) | st.none()), max_size=4),
        max_size=4,
    )
)
def test_the_table_is_a_dictionary_by_pair_id(commits: list[list[tuple[str, int | None]]]) -> None:
    model: dict[str, int | None] = {}
    table = None
    for commit in commits:
        if commit:
            table = upsert(table, [failed_row(name, "x", extra={"frame": frame}) for name, frame in commit])
            model.update(commit)
    if table is not None:
        assert dict(zip(table["pair_id"].to_pylist(), table["frame"].to_pylist(), strict=True)) == model
        assert table["pair_id"].to_pylist() == list(model)


def test_a_commit_to_a_hundred_thousand_rows_takes_seconds_at_most(tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    n = 100_000
    one = upsert(None, [result_row(RESULT, "x", "x-00000000", extra={"frame": 0})])
    many = one.take([0] * n).set_column(0, one.field("pair_id"), pa.array([f"pair {i}" for i in range(n)]))
    store.table_path.write_bytes(table_bytes(many))
    start = time.process_time()
    store.commit([failed_row("pair 7", "no such file"), failed_row("new", "no such file")])
    assert time.process_time() - start < 10
    assert len(store.pair_ids()) == n + 1
    assert store.table_path.stat().st_size < 5_000_000


# --- names -----------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(st.text(min_size=1) | st.sampled_from(["..", "../../etc/passwd", "/", "-rf", "a\0b", "CON", "x" * 10_000]))
def test_a_group_name_is_one_harmless_path_component_whatever_the_pair_is_called(pair_id: str) -> None:
    name = disk.new_group_name(pair_id)
    assert disk.is_group_name(name)
    assert Path(name).name == name
    assert name.isascii()
    assert len(name) <= 49
    assert not name.startswith(("-", "."))


@pytest.mark.parametrize("name", ["../../up", "<img src=x onerror=alert(1)>", "日本語/..", "a\0b\n", " ", "x" * 10_000])
def test_any_text_is_a_pair_id(name: str, tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "out")
    put(store, RESULT, name)
    assert store.pair_ids() == [name]
    assert differences(store.load(name), RESULT) == []
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert store.open_maps(name).attrs["pair_id"] == name


# --- replacing and tidying -------------------------------------------------------------------


def test_replacing_a_result_removes_its_maps_and_no_others(tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    kept = put(store, RESULT, "kept")
    put(store, RESULT, "pair")
    new = put(store, OTHER, "pair")
    assert groups(store) == {kept, new}
    assert differences(store.load("pair"), OTHER) == []
    store.commit([failed_row("pair", "it went away")])
    assert groups(store) == {kept}


def test_saving_over_a_result_needs_overwrite(tmp_path: Path) -> None:
    RESULT.save(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(StoreError, match="overwrite=True"):
        OTHER.save(tmp_path)
    assert sorted(tmp_path.rglob("*")) == before
    OTHER.save(tmp_path, overwrite=True)
    assert differences(pf.load(tmp_path), OTHER) == []


def test_maps_without_a_row_are_invisible_and_the_next_writer_of_that_pair_removes_them(tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    put(store, RESULT, "a/b")
    orphan = disk.group_file(store.maps_path, store.write_maps(OTHER, "a/b")["maps_group"])
    alike = disk.group_file(
        store.maps_path, store.write_maps(OTHER, "a b")["maps_group"]
    )  # the same file name before the dash
    for path in (orphan, alike):
        age(path)
    assert differences(ResultStore(tmp_path).load(), RESULT) == []
    put(ResultStore(tmp_path), RESULT, "c")
    assert orphan.exists()
    put(ResultStore(tmp_path), RESULT, "a/b")
    assert not orphan.exists()
    assert alike.exists()


def test_what_a_crashed_writer_left_is_removed_but_not_what_a_living_one_holds(tmp_path: Path) -> None:
    dead = tmp_path / ".tmp-dead"
    (dead / "x").mkdir(parents=True)
    (tmp_path / ".tmp-file").write_bytes(b"half")
    with files.new_folder(tmp_path) as living:
        for path in (dead, tmp_path / ".tmp-file", living, living.with_name(f"{living.name}.lock")):
            age(path)
        put(ResultStore(tmp_path))
        assert sorted(leftovers(ResultStore(tmp_path))) == [living, living.with_name(f"{living.name}.lock")]
    assert leftovers(ResultStore(tmp_path)) == []


# --- many writers ----------------------------------------------------------------------------


def test_writers_side_by_side_lose_no_row(tmp_path: Path) -> None:
    def work(i: int) -> None:
        put(ResultStore(tmp_path, lock_wait_s=60), RESULT, f"pair {i}")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(16)))
    store = ResultStore(tmp_path)
    assert sorted(store.pair_ids()) == sorted(f"pair {i}" for i in range(16))
    assert groups(store) == set(store.table()["maps_group"])
    assert leftovers(store) == []


def test_a_held_lock_is_a_clear_error_and_changes_nothing(tmp_path: Path) -> None:
    RESULT.save(tmp_path)
    store = ResultStore(tmp_path, lock_wait_s=0.05)
    row = store.write_maps(OTHER, "other")
    before = store.table_path.read_bytes()
    with (
        disk.writer_lock(tmp_path, 0),
        pytest.raises(StoreLockedError, match=r"no other writer of .*, got one that still held its lock"),
    ):
        store.commit([row])
    assert store.table_path.read_bytes() == before
    store.commit([row])
    assert store.pair_ids() == ["pair", "other"]


def test_a_reader_survives_that_the_result_is_replaced_under_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ResultStore(tmp_path)
    put(store, RESULT)
    find = ResultStore._find

    def find_then_replace(self: ResultStore, pair_id: str | None) -> tuple[str, Path]:
        monkeypatch.setattr(ResultStore, "_find", find)
        found = find(self, pair_id)
        put(ResultStore(tmp_path), OTHER)
        return found

    monkeypatch.setattr(ResultStore, "_find", find_then_replace)
    assert differences(ResultStore(tmp_path).load(), OTHER) == []


def test_the_table_can_be_kept_in_an_order(tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    store.commit([failed_row(name, "") for name in ("x", "c")], order=["a", "b", "c"])
    assert store.pair_ids() == ["c", "x"]
    store.commit([failed_row(name, "") for name in ("b", "a", "y")], order=["a", "b", "c"])
    assert store.pair_ids() == ["a", "b", "c", "x", "y"]


def test_a_group_that_a_power_cut_emptied_goes_when_its_pair_is_written_again(tmp_path: Path) -> None:
    cut_off = tmp_path / "maps.zarr" / f"{disk.safe_prefix('pair')}-0123abcd"
    foreign = tmp_path / "maps.zarr" / "pair-89abcdef"
    for folder in (cut_off, foreign):
        folder.mkdir(parents=True)
    (cut_off / "zarr.json").touch()
    emptied = disk.group_file(tmp_path / "maps.zarr", "pair-4567abcd")
    emptied.touch()
    for path in (cut_off, foreign, emptied):
        age(path)
    put(ResultStore(tmp_path))
    assert not cut_off.exists()
    assert not emptied.exists()
    assert foreign.exists(), "it has no metadata at all: it may be somebody's"


@pytest.mark.skipif(not system.IS_UNIX, reason="only Unix removes a file that is open")
def test_who_waits_for_a_lock_that_is_removed_takes_the_new_one(tmp_path: Path) -> None:
    def wait_for_it() -> bool:
        with disk.writer_lock(tmp_path, 10.0):
            return (tmp_path / disk.LOCK).exists()

    with ThreadPoolExecutor(1) as threads:
        with disk.writer_lock(tmp_path, 0.0):
            waiting = threads.submit(wait_for_it)
            time.sleep(0.2)
            (tmp_path / disk.LOCK).unlink()
        assert waiting.result(10.0), "it held a lock that nobody else could see"


def test_a_commit_that_cannot_tidy_up_is_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ResultStore(tmp_path)

    def fail(*_: object) -> None:
        raise FileNotFoundError("gone")

    monkeypatch.setattr(store._leftovers, "remove", fail)
    put(store)
    assert not differences(store.load("pair"), RESULT)

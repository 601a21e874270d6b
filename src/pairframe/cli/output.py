"""Folders and files that commands write: checked before the work, complete or absent after it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from pairframe.cli.terminal import uninterrupted
from pairframe.errors import ForeignFolderError, OutputError, StoreError
from pairframe.results import ResultStore, disk
from pairframe.results.schema import Row
from pairframe.results.table import read_table
from pairframe.results.tidy import remove_group


def check_new_folder(out: Path, *, overwrite: bool) -> None:
    """Refuse, before any work, a folder that cannot be written to or holds something (unless `overwrite`)."""
    check_writable(out)
    if overwrite:
        if ResultStore(out).exists():
            read_table(out / "results.parquet", [])  # a damaged or unknown table is not written to
        return
    found = sorted(names_in(out))
    if found:
        raise ForeignFolderError(
            "a new or empty folder",
            f"{str(out)!r}, which holds {ascii(found[0])[:80]}",
            "choose another folder with --out, or add --overwrite: a pair of the same name is replaced, all else stays",
        )


def check_writable(out: Path) -> None:
    """Refuse a place where no folder can be made or nothing can be written; makes nothing."""
    place = out.absolute()
    while not os.path.lexists(place) and place != place.parent:
        place = place.parent
    if not place.is_dir():
        raise OutputError("a folder to write to", f"{str(place)!r}: not a folder", "choose another one with --out")
    if not os.access(place, os.W_OK | os.X_OK):
        raise OutputError("a folder to write to", f"{str(place)!r}: no permission", "choose another one with --out")


def names_in(out: Path) -> set[str]:
    """What a folder holds beside locks and temporary names; nothing when it is not there."""
    try:
        names = {path.name for path in out.iterdir()}
    except FileNotFoundError:
        return set()
    return {name for name in names if name != disk.LOCK and not name.startswith(disk.TEMPORARY)}


def keep(store: ResultStore, writers: Iterable[Callable[[], Row]]) -> list[Row]:
    """Write maps and commit their rows, all or nothing; Ctrl-C waits that long.

    Parameters
    ----------
    writers : iterable of callables
        Each calls `store.write_maps` and returns its row.
    """
    rows: list[Row] = []
    with uninterrupted():
        try:
            with disk.write_errors(store.out):
                store.out.mkdir(parents=True, exist_ok=True)
            rows.extend(write() for write in writers)
            store.commit(rows)
        except StoreError:
            _undo(store, rows)
            raise
    return rows


def replace_file(path: Path, content: bytes) -> Path:
    """Put a file there in one step."""
    with disk.write_errors(path.parent):
        disk.replace_file(path, content)
    return path


def replace_by(path: Path, write: Callable[[Path], object]) -> Path:
    """The same for what only knows how to write to a path."""
    beside = path.with_name(f"{disk.TEMPORARY}{os.getpid()}-{path.name}")
    try:
        with disk.write_errors(path.parent):
            write(beside)
            beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    return path


def _undo(store: ResultStore, rows: list[Row]) -> None:
    """Remove the maps that no row names, and folders that were made for nothing."""
    for row in rows:
        remove_group(store.out, store.maps_path, row["maps_group"])
    if store.exists():
        return
    with suppress(OSError):  # what holds something else stays
        if [path.name for path in store.maps_path.iterdir()] == ["zarr.json"]:
            (store.maps_path / "zarr.json").unlink()
            store.maps_path.rmdir()
    with suppress(OSError):
        (store.out / disk.LOCK).unlink(missing_ok=True)
        store.out.rmdir()

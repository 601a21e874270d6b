"""Folders and files that commands write: checked at the start, complete or absent at the end."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from pairframe import files, system
from pairframe.cli.terminal import uninterrupted
from pairframe.errors import OutputError, StoreError
from pairframe.results import ResultStore, disk
from pairframe.results.leftovers import remove_group
from pairframe.results.schema import Row
from pairframe.results.table import read_table


def check_new_folder(out: Path, *, overwrite: bool) -> None:
    """Refuse a folder that is not writable, or not empty (unless `overwrite`), before computing anything."""
    check_writable(out)
    if overwrite:
        if ResultStore(out).exists():
            read_table(out / "results.parquet", [])  # a damaged or unknown table is not written to
        return
    found = sorted(names_in(out))
    if found:
        raise StoreError(
            "a new or empty folder",
            f"{str(out)!r}, which holds {ascii(found[0])[:80]}",
            "choose another folder with --out, or add --overwrite, which replaces the pair of the same name, the report, "
            "summary.* and movie.gif, also if they show another pair; other pairs and files stay",
        )


def check_results_folder(out: Path) -> None:
    """Refuse a path without results."""
    if ResultStore(out).exists():
        return
    if out.is_dir():
        got, fix = "which has none", "check the path, or run pairframe compare or run into it first"
    elif os.path.lexists(out):
        got, fix = "which is a file", f"give its folder: {str(out.parent)!r}"
        if not ResultStore(out.parent).exists():
            fix = "give the folder that was --out of a comparison"
    else:
        got, fix = "which does not exist", "check the path"
    raise StoreError("a folder with results (results.parquet)", f"{str(out)!r}, {got}", fix)


def check_writable(out: Path) -> None:
    """Refuse a path where no folder can be created or written to; creates nothing."""
    place = out.absolute()
    while not os.path.lexists(place) and place != place.parent:
        place = place.parent
    if not place.is_dir():
        raise OutputError("a folder to write to", f"{str(place)!r}: not a folder", "choose another one with --out")
    if not os.access(place, os.W_OK | os.X_OK):
        raise OutputError("a folder to write to", f"{str(place)!r}: no permission", "choose another one with --out")


def names_in(out: Path) -> set[str]:
    """Names in a folder without locks and temporary files; empty if the folder does not exist."""
    try:
        names = {path.name for path in out.iterdir()}
    except FileNotFoundError:
        return set()
    return {name for name in names if name != disk.LOCK and not name.startswith(files.TEMPORARY)}


@dataclass
class Draft:
    """Results and files that become visible with `keep`.

    Attributes
    ----------
    folder : Path
        Folder for files that will be moved next to the results.
    rows : list of rows
        Rows of the results, in the order in which they were written.
    is_kept : bool
        Whether the results are committed; Ctrl-C may come later.
    is_complete : bool
        Whether the files are in place too.
    """

    store: ResultStore
    folder: Path
    rows: list[Row] = field(default_factory=list)
    is_kept: bool = False
    is_complete: bool = False

    def write(self, *writers: Callable[[], Row]) -> None:
        """Write maps: each writer calls `store.write_maps` and returns its row. Ctrl-C is delayed meanwhile."""
        with uninterrupted():
            self.rows.extend(write() for write in writers)

    def keep(self) -> None:
        """Commit the rows and move the files into place. Ctrl-C is delayed meanwhile."""
        with uninterrupted():
            with disk.write_errors(self.store.out):
                files.flush_all([self.folder])
            self.store.commit(self.rows)
            self.is_kept = True
            with disk.write_errors(self.store.out):
                for path in self.folder.iterdir():
                    path.replace(self.store.out / path.name)
                system.flush_to_disk(self.store.out)
            self.is_complete = True


@contextmanager
def drafted(store: ResultStore) -> Iterator[Draft]:
    """A draft in the folder of a store; unless it is kept, the folder is left as it was."""
    rows: list[Row] = []
    draft: Draft | None = None
    was_there = store.out.exists()
    try:
        with disk.write_errors(store.out):
            store.out.mkdir(parents=True, exist_ok=True)
        with files.new_folder(store.out) as folder:
            draft = Draft(store, folder, rows)
            yield draft
    finally:
        if draft is None or not draft.is_kept:
            with suppress(OSError, StoreError):  # maps that cannot be removed are harmless, because no row names them
                _undo(store, rows, was_there)


def _undo(store: ResultStore, rows: list[Row], was_there: bool) -> None:
    """Remove the maps that no row names, and folders that were created for them."""
    with disk.writer_lock(store.out, wait_s=1.0):
        named = read_table(store.table_path, ["maps_group"]).column(0).to_pylist() if store.exists() else []
        for row in rows:
            if row["maps_group"] not in named:  # a commit may have failed after it was written
                remove_group(store.out, store.maps_path, row["maps_group"])
        if store.exists():
            return
        with suppress(OSError):  # keep folders with other files
            if [path.name for path in store.maps_path.iterdir()] == ["zarr.json"]:
                (store.maps_path / "zarr.json").unlink()
                store.maps_path.rmdir()
        (store.out / disk.LOCK).unlink()
        if not was_there:
            store.out.rmdir()

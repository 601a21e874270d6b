"""Folders and files that commands write: checked before the work, complete or absent after it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from pairframe.cli.terminal import uninterrupted
from pairframe.errors import ForeignFolderError, OutputError, StoreError, StoreMissingError
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
            "choose another folder with --out, or add --overwrite: it replaces the pair of the same name, and the report "
            "and the summary.* and movie.gif there whatever pair they show; other pairs and files stay",
        )


def check_results_folder(out: Path) -> None:
    """Refuse a place that holds no results, and say what it is instead."""
    if ResultStore(out).exists():
        return
    if out.is_dir():
        got, fix = "which has none", "check the path, or run pairframe compare or run into it first"
    elif os.path.lexists(out):
        got, fix = "which is a file", f"give the folder that it lies in: {str(out.parent)!r}"
        if not ResultStore(out.parent).exists():
            fix = "give the folder that was --out of a comparison"
    else:
        got, fix = "which does not exist", "check the path"
    raise StoreMissingError("a folder with results (results.parquet)", f"{str(out)!r}, {got}", fix)


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


@dataclass
class Draft:
    """Results and files that are not there yet; `keep` makes all of them appear.

    Attributes
    ----------
    folder : Path
        For files that will lie beside the results, under the names they have here.
    rows : list of rows
        Of the results, in the order in which they were written.
    is_kept : bool
        Whether the results are there; Ctrl-C may come later.
    is_complete : bool
        Whether the files are there too.
    """

    store: ResultStore
    folder: Path
    rows: list[Row] = field(default_factory=list)
    is_kept: bool = False
    is_complete: bool = False

    def write(self, *writers: Callable[[], Row]) -> None:
        """Write maps: each calls `store.write_maps` and returns its row. Ctrl-C waits that long."""
        with uninterrupted():
            self.rows.extend(write() for write in writers)

    def keep(self) -> None:
        """Commit the rows and move the files to where they belong. Ctrl-C waits that long."""
        with uninterrupted():
            with disk.write_errors(self.store.out):
                disk.flush_folders([self.folder])
            self.store.commit(self.rows)
            self.is_kept = True
            with disk.write_errors(self.store.out):
                for path in self.folder.iterdir():
                    path.replace(self.store.out / path.name)
                disk.flush_to_disk(self.store.out)
            self.is_complete = True


@contextmanager
def drafted(store: ResultStore) -> Iterator[Draft]:
    """A draft in the folder of a store; unless it is kept, everything is as before in the end, whatever happens."""
    rows: list[Row] = []
    draft: Draft | None = None
    was_there = store.out.exists()
    try:
        with disk.write_errors(store.out):
            store.out.mkdir(parents=True, exist_ok=True)
        with disk.new_folder(store.out) as folder:
            draft = Draft(store, folder, rows)
            yield draft
    finally:
        if draft is None or not draft.is_kept:
            with suppress(OSError, StoreError):  # what cannot be undone does no harm: no row names it
                _undo(store, rows, was_there)


def _undo(store: ResultStore, rows: list[Row], was_there: bool) -> None:
    """Remove the maps that no row names, and folders that were made for nothing."""
    with disk.writer_lock(store.out, wait_s=1.0):
        named = read_table(store.table_path, ["maps_group"]).column(0).to_pylist() if store.exists() else []
        for row in rows:
            if row["maps_group"] not in named:  # a commit may have failed after it was done
                remove_group(store.out, store.maps_path, row["maps_group"])
        if store.exists():
            return
        with suppress(OSError):  # what holds something else stays
            if [path.name for path in store.maps_path.iterdir()] == ["zarr.json"]:
                (store.maps_path / "zarr.json").unlink()
                store.maps_path.rmdir()
        (store.out / disk.LOCK).unlink()
        if not was_there:
            store.out.rmdir()

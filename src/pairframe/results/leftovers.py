"""Remove groups and temporary files that no row names, and nothing else."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from zipfile import BadZipFile

from pairframe import files, plain_json
from pairframe.results import disk
from pairframe.results.archive import open_files
from pairframe.results.arrays import METADATA
from pairframe.results.schema import Row

CUT_OFF = ""  # not a valid pair_id


class Leftovers:
    """Groups and temporary names that a writer may remove: replaced ones, and those of crashed writers before it.

    Parameters
    ----------
    out, maps : Path
        The store and its ``maps.zarr``.
    before_s : float
        Unix time: newer files may belong to another writer and stay.
    """

    def __init__(self, out: Path, maps: Path, before_s: float) -> None:
        self._out, self._maps, self._before_s = out, maps, before_s
        self._by_prefix: dict[str, list[str]] | None = None  # groups that no row named at first
        self._by_pair: dict[str | None, list[str]] = {}  # those whose attributes were read

    def remove(self, rows: list[Row], old_groups: Mapping[str, str | None]) -> None:
        """Remove the groups that the committed `rows` replaced; `old_groups` maps pairs to their groups before."""
        if self._by_prefix is None:
            for folder in (self._out, self._maps):
                files.remove_dead_temporaries(folder, self._before_s)
            self._by_prefix = self._groups_without_row(set(old_groups.values()))
        for row in rows:
            pair_id, group = row["pair_id"], row["maps_group"]
            for stale in self._by_prefix.pop(disk.safe_prefix(pair_id), []):
                self._by_pair.setdefault(pair_of_group(disk.group_path(self._maps, stale)), []).append(stale)
            # Groups without readable attributes were cut off by a power failure; their names suffice.
            obsolete = {old_groups.get(pair_id), *self._by_pair.pop(pair_id, []), *self._by_pair.pop(CUT_OFF, [])}
            for name in obsolete - {group, None}:
                remove_group(self._out, self._maps, str(name))

    def _groups_without_row(self, named: set[str | None]) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        if self._maps.is_dir():
            for entry in os.scandir(self._maps):
                group = disk.group_of_entry(entry.name)
                if group is None or group in named or not is_file_or_folder(entry):
                    continue
                if entry.stat().st_mtime < self._before_s:
                    found.setdefault(group[:-9], []).append(group)
        return found


def is_file_or_folder(entry: os.DirEntry[str]) -> bool:
    """Whether an entry may be a group: a regular file or a folder, no link, no pipe."""
    return entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)


def pair_of_group(path: Path) -> str | None:
    """The pair that a group belongs to; `CUT_OFF` if its metadata are incomplete, None if it is not ours."""
    try:
        with open_files(path) as content:
            return str(plain_json.parse(content.read(METADATA))["attributes"]["pair_id"])
    except (ValueError, BadZipFile):
        return CUT_OFF
    except (OSError, KeyError, TypeError, RuntimeError):
        return None


def remove_group(out: Path, maps: Path, group: str) -> None:
    """Remove a group in one step. One that cannot be removed does no harm: no row names it."""
    if not disk.is_group_name(group):
        return
    with suppress(OSError):
        disk.group_file(maps, group).unlink()
    hidden = out / f"{files.TEMPORARY}{group}"
    with suppress(OSError):  # a folder of an earlier version: hidden in one step, then deleted
        (maps / group).rename(hidden)
        shutil.rmtree(hidden, ignore_errors=True)

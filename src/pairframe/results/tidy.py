"""Removing what no row names any more, and nothing else."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from pairframe.results import disk
from pairframe.results.schema import Row

CUT_OFF = ""  # no pair is called so


class Leftovers:
    """Groups and temporary names that a writer may remove: replaced ones, and those of crashed writers before it.

    Parameters
    ----------
    out, maps : Path
        The store and its ``maps.zarr``.
    before_s : float
        Unix time: whatever is newer may be somebody's work in progress and stays.
    """

    def __init__(self, out: Path, maps: Path, before_s: float) -> None:
        self._out, self._maps, self._before_s = out, maps, before_s
        self._by_prefix: dict[str, list[str]] | None = None  # groups that no row named when we first looked
        self._by_pair: dict[str | None, list[str]] = {}  # those of them whose attributes were read

    def remove(self, rows: list[Row], old_groups: Mapping[str, str | None]) -> None:
        """Remove what the committed `rows` made obsolete; `old_groups` were named by pair before them."""
        if self._by_prefix is None:
            for folder in (self._out, self._maps):
                disk.remove_dead_temporaries(folder, self._before_s)
            self._by_prefix = self._groups_without_row(set(old_groups.values()))
        for row in rows:
            pair_id, group = row["pair_id"], row["maps_group"]
            for stale in self._by_prefix.pop(disk.safe_prefix(pair_id), []):
                self._by_pair.setdefault(pair_of_group(self._maps / stale), []).append(stale)
            # Those without readable attributes were cut off by a power cut: their name says enough.
            obsolete = {old_groups.get(pair_id), *self._by_pair.pop(pair_id, []), *self._by_pair.pop(CUT_OFF, [])}
            for name in obsolete - {group, None}:
                remove_group(self._out, self._maps, str(name))

    def _groups_without_row(self, named: set[str | None]) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        if self._maps.is_dir():
            for entry in os.scandir(self._maps):
                is_old = disk.is_group_name(entry.name) and entry.stat().st_mtime < self._before_s
                if is_old and entry.name not in named:
                    found.setdefault(entry.name[:-9], []).append(entry.name)
        return found


def pair_of_group(folder: Path) -> str | None:
    """The pair whose maps these are; `CUT_OFF` when that was never written down, None for what is not one of ours."""
    try:
        content = (folder / "zarr.json").read_bytes()
        return str(json.loads(content)["attributes"]["pair_id"])
    except ValueError:
        return CUT_OFF
    except (OSError, KeyError, TypeError):
        return None


def remove_group(out: Path, maps: Path, group: str) -> None:
    """Out of sight in one step, then away. What cannot be removed stays: no row names it."""
    if not disk.is_group_name(group):
        return
    hidden = out / f"{disk.TEMPORARY}{group}"
    try:
        (maps / group).rename(hidden)
    except OSError:
        return
    shutil.rmtree(hidden, ignore_errors=True)

"""Remove maps that no row names: killed workers may leave some behind."""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from pathlib import Path

from pairframe import files
from pairframe.results import ResultStore, disk
from pairframe.results.leftovers import CUT_OFF, is_file_or_folder, pair_of_group, remove_group
from pairframe.results.table import read_table


def remove_orphans(store: ResultStore, pair_ids: Collection[str]) -> int:
    """Remove orphaned groups of these pairs, and temporary files of dead processes. Returns the number of groups removed."""
    if not store.maps_path.is_dir():
        return 0
    for folder in (store.out, store.maps_path):
        files.remove_dead_temporaries(folder, time.time())
    named = set(read_table(store.table_path, ["maps_group"]).column(0).to_pylist()) if store.exists() else set()
    prefixes = {disk.safe_prefix(pair_id) for pair_id in pair_ids}
    removed = 0
    for entry in list(os.scandir(store.maps_path)):
        name = disk.group_of_entry(entry.name)
        if name is None or name in named or name[:-9] not in prefixes or not is_file_or_folder(entry):
            continue
        pair_id = pair_of_group(Path(entry.path))
        if pair_id == CUT_OFF or pair_id in pair_ids:
            remove_group(store.out, store.maps_path, name)
            removed += 1
    return removed

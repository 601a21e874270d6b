"""At the end of a run: maps of its pairs that no row names, left by killed workers, go away."""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from pathlib import Path

from pairframe.results import ResultStore, disk
from pairframe.results.table import read_table
from pairframe.results.tidy import CUT_OFF, pair_of_group, remove_group


def remove_orphans(store: ResultStore, pair_ids: Collection[str]) -> int:
    """Remove orphaned groups of these pairs, and temporary names that nobody holds; how many groups it were."""
    if not store.maps_path.is_dir():
        return 0
    for folder in (store.out, store.maps_path):
        disk.remove_dead_temporaries(folder, time.time())
    named = set(read_table(store.table_path, ["maps_group"]).column(0).to_pylist()) if store.exists() else set()
    prefixes = {disk.safe_prefix(pair_id) for pair_id in pair_ids}
    removed = 0
    for entry in list(os.scandir(store.maps_path)):
        name = entry.name
        if not disk.is_group_name(name) or name in named or name[:-9] not in prefixes or entry.is_symlink():
            continue
        pair_id = pair_of_group(Path(entry.path))
        if pair_id == CUT_OFF or pair_id in pair_ids:
            remove_group(store.out, store.maps_path, name)
            removed += 1
    return removed

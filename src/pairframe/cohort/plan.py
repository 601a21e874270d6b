"""What is left to do."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from pairframe.cohort.content import Digests, is_reachable, work_key
from pairframe.cohort.progress import QUIETLY, Looking
from pairframe.cohort.tasks import PairTask
from pairframe.problem import TransportConfig
from pairframe.results import ResultStore, failed_row
from pairframe.results.schema import BY_NAME, FAILED, Row
from pairframe.results.table import read_table, upsert

Chunk = tuple[PairTask, ...]
_HASHING_THREADS = 8


@dataclass(frozen=True)
class Plan:
    """What a run has to do.

    Attributes
    ----------
    todo : tasks
        Missing, changed, or failed for a reason that may be gone.
    kept : dict of pair_id to status
        Done before from the same content.
    unreachable : tasks
        Of those that are kept: done before, but a mask is missing now or cannot be read, so nobody knows whether it changed.
    relabelled : rows
        Those of them whose labels or file names changed: nothing is solved again.
    """

    todo: tuple[PairTask, ...]
    kept: dict[str, str]
    unreachable: tuple[PairTask, ...] = ()
    relabelled: tuple[Row, ...] = ()


def check_labels(tasks: Sequence[PairTask], store: ResultStore) -> None:
    """Refuse labels that do not fit into the table. Half a second the first time, which loads the libraries for it."""
    if tasks:
        table = read_table(store.table_path, with_rows=False) if store.exists() else None
        upsert(table, [failed_row(task.pair_id, "", extra=task.carried) for task in tasks])


def make_plan(
    tasks: Sequence[PairTask],
    store: ResultStore,
    config: TransportConfig,
    *,
    retry_failed: bool = False,
    looking: Looking = QUIETLY,
) -> Plan:
    """Hold the tasks against the table; nothing is to do when the run is stopping before all masks were looked at."""
    if not store.exists():
        return Plan(tuple(tasks), {})
    table = read_table(store.table_path)
    carried = [name for name in table.column_names if name not in BY_NAME]
    known = ["pair_id", "status", "maps_group", "work_key", "source", "target", *carried]
    rows: dict[str, dict[str, Any]] = {row["pair_id"]: row for row in table.select(known).to_pylist()}
    places = {pair_id: place for place, pair_id in enumerate(rows)}
    groups = {entry.name for entry in os.scandir(store.maps_path)} if store.maps_path.is_dir() else set()

    digests = Digests()

    def is_done(task: PairTask) -> bool:
        row = rows.get(task.pair_id)
        if row is None or row["work_key"] is None:  # a failure without a key has a cause outside the pair
            return False
        if row["status"] == FAILED and (retry_failed or _is_renamed(row, task)):  # its error may name the old file
            return False
        if row["status"] != FAILED and row["maps_group"] not in groups:
            return False
        if row["work_key"] == work_key(task, config, digests):
            return True
        # A disk that is not there today is no reason to throw away what was computed from it.
        return row["status"] != FAILED and not is_reachable(task)

    threads = ThreadPoolExecutor(_HASHING_THREADS, thread_name_prefix="pairframe-hash")
    try:
        done = list(looking.over(threads.map(is_done, tasks), len(tasks)))
    finally:
        threads.shutdown(cancel_futures=True)
    if len(done) < len(tasks):
        return Plan((), {})
    kept = [task for task, is_kept in zip(tasks, done, strict=True) if is_kept]
    unreachable = [task for task in kept if rows[task.pair_id]["status"] != FAILED and not is_reachable(task)]
    is_away = {task.pair_id for task in unreachable}
    now = {task.pair_id: _labels(task, with_names=task.pair_id not in is_away) for task in kept}
    moved = [
        task
        for task in kept
        if _without_nothing({name: rows[task.pair_id].get(name) for name in {*carried, *now[task.pair_id]}})
        != _without_nothing(now[task.pair_id])
    ]
    old = table.take([places[task.pair_id] for task in moved]).to_pylist() if moved else []
    return Plan(
        todo=tuple(task for task, is_kept in zip(tasks, done, strict=True) if not is_kept),
        unreachable=tuple(unreachable),
        kept={task.pair_id: str(rows[task.pair_id]["status"]) for task in kept},
        relabelled=tuple(
            {name: row[name] for name in BY_NAME} | now[task.pair_id] for row, task in zip(old, moved, strict=True)
        ),
    )


def _is_renamed(row: dict[str, Any], task: PairTask) -> bool:
    return (row["source"], row["target"]) != (task.source.named, task.target.named)


def _labels(task: PairTask, *, with_names: bool) -> dict[str, Any]:
    """What the manifest says about a pair. Where no mask is, nobody knows whether its name is that of what was compared."""
    names = {"source": task.source.named, "target": task.target.named} if with_names else {}
    return {**names, **task.carried}


def _without_nothing(labels: Any) -> dict[str, Any]:
    return {name: value for name, value in labels.items() if value is not None and value == value}

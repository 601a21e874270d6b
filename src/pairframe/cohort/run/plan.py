"""`make_plan`: which pairs are still to be compared."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from pairframe.cohort.inputs.content import Digests, is_reachable, with_digests, work_key
from pairframe.cohort.inputs.tasks import PairTask
from pairframe.cohort.run.events import Stopped
from pairframe.cohort.run.progress import SILENT_SCAN, MaskScan
from pairframe.problem import TransportConfig
from pairframe.results import ResultStore, disk, failed_row
from pairframe.results.rows import rates
from pairframe.results.schema import BY_NAME, FAILED, INTERVAL, Row
from pairframe.results.table import read_table, upsert

_HASHING_THREADS = 8


@dataclass(frozen=True)
class Plan:
    """The pairs of a run.

    Attributes
    ----------
    todo : tasks
        Without a row, changed since, or failed for a reason that may be gone.
    kept : dict of pair_id to status
        Done before, from the same content.
    unreachable : tasks
        Kept pairs with a mask that is missing now or cannot be read, so whether it has changed is unknown.
    relabelled : rows
        Of kept pairs whose labels or file names changed: nothing is solved again.
    """

    todo: tuple[PairTask, ...]
    kept: dict[str, str]
    unreachable: tuple[PairTask, ...] = ()
    relabelled: tuple[Row, ...] = ()


def check_labels(tasks: Sequence[PairTask], store: ResultStore) -> None:
    """Refuse labels that do not fit into the table. The first call takes half a second to load libraries."""
    if tasks:
        table = read_table(store.table_path, with_rows=False) if store.exists() else None
        upsert(table, [failed_row(task.pair_id, "", extra=task.carried) for task in tasks])


def make_plan(
    tasks: Sequence[PairTask],
    store: ResultStore,
    config: TransportConfig,
    *,
    retry_failed: bool = False,
    scan: MaskScan = SILENT_SCAN,
) -> Plan | Stopped:
    """Compare the tasks with the table and the present content of the masks."""
    if not store.exists():
        return Plan(tuple(tasks), {})
    table = read_table(store.table_path)
    carried = [name for name in table.column_names if name not in BY_NAME]
    known = ["pair_id", "status", "maps_group", "work_key", "source", "target", *carried]
    rows: dict[str, dict[str, Any]] = {row["pair_id"]: row for row in table.select(known).to_pylist()}
    places = {pair_id: place for place, pair_id in enumerate(rows)}
    groups = (
        {disk.group_of_entry(entry.name) for entry in os.scandir(store.maps_path)}
        if store.maps_path.is_dir()
        else set()
    )

    digests = Digests()

    def is_done(task: PairTask) -> bool:
        row = rows.get(task.pair_id)
        if row is None or row["work_key"] is None:  # without a key, the content it describes is unknown
            return False
        if row["status"] == FAILED and (retry_failed or _is_renamed(row, task)):  # its error may name the old file
            return False
        if row["status"] != FAILED and row["maps_group"] not in groups:
            return False
        if row["work_key"] == work_key(task, config, digests):
            return True
        # A result stays if the disk with its masks is not mounted today.
        return row["status"] != FAILED and not is_reachable(task)

    threads = ThreadPoolExecutor(_HASHING_THREADS, thread_name_prefix="pairframe-hash")
    try:
        done = list(scan.over(threads.map(is_done, tasks), len(tasks)))
    finally:
        threads.shutdown(cancel_futures=True)
    if len(done) < len(tasks):
        return Stopped()
    kept = [task for task, is_kept in zip(tasks, done, strict=True) if is_kept]
    unreachable = [task for task in kept if rows[task.pair_id]["status"] != FAILED and not is_reachable(task)]
    is_away = {task.pair_id for task in unreachable}
    now = {task.pair_id: _labels(task, with_names=task.pair_id not in is_away) for task in kept}
    moved = [
        task
        for task in kept
        if _without_missing({name: rows[task.pair_id].get(name) for name in {*carried, *now[task.pair_id]}})
        != _without_missing(now[task.pair_id])
    ]
    old = table.take([places[task.pair_id] for task in moved]).to_pylist() if moved else []
    return Plan(
        todo=tuple(with_digests(task, digests) for task, is_kept in zip(tasks, done, strict=True) if not is_kept),
        unreachable=tuple(unreachable),
        kept={task.pair_id: str(rows[task.pair_id]["status"]) for task in kept},
        relabelled=tuple(
            {name: row[name] for name in BY_NAME} | now[task.pair_id] | rates(row, task.carried.get(INTERVAL))
            for row, task in zip(old, moved, strict=True)
        ),
    )


def _is_renamed(row: dict[str, Any], task: PairTask) -> bool:
    return (row["source"], row["target"]) != (task.source.named, task.target.named)


def _labels(task: PairTask, *, with_names: bool) -> dict[str, Any]:
    """Labels of a pair in the manifest. The names of missing masks are left out: other files may have been compared."""
    names = {"source": task.source.named, "target": task.target.named} if with_names else {}
    return {**names, **task.carried}


def _without_missing(labels: Any) -> dict[str, Any]:
    return {name: value for name, value in labels.items() if value is not None and value == value}

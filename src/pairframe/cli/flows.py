"""Flow tables of the commands: labels by name, tables of one pair or of a cohort."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pairframe.cli.terminal import say
from pairframe.cohort import MaskRef, PairTask
from pairframe.errors import ManifestError, PairframeError, StoreError
from pairframe.masks import Mask, read_mask
from pairframe.masks.headers import canvas_shape
from pairframe.masks.io import read_labels
from pairframe.masks.pieces import label_pieces
from pairframe.parallel.in_order import in_order
from pairframe.problem import TransportConfig
from pairframe.regions import flow_table
from pairframe.regions.keep import keep_flows, read_flows, with_names
from pairframe.regions.labels import checked_labels, require_canvas
from pairframe.regions.own_labels import OWN, labels_of_mask
from pairframe.results import ResultStore, TransportResult

if TYPE_CHECKING:
    import pandas as pd

_FEWEST_FOR_PROCESSES = 8  # pairs; for fewer, starting a process takes longer than the tables
Labels = tuple[NDArray[np.integer], NDArray[np.integer]]


def region_labels(source: str, target: str, regions: tuple[str, str], config: TransportConfig) -> Labels:
    """Label images of source and target: those named, or the labels of the masks themselves ("own")."""
    found = []
    for name, mask, side in zip(regions, (source, target), ("source", "target"), strict=True):
        is_own = name == OWN
        labels = labels_of_mask(mask, density=config.mass.takes_density) if is_own else read_labels(name)[0]
        found.append(checked_labels(labels, f"the labels of the {side}"))
        require_canvas(found[-1], canvas_shape(mask), f"the labels of the {side}")  # before anything is solved
    return found[0], found[1]


def flows_between_masks(result: TransportResult, source: str, target: str, labels: Labels) -> pd.DataFrame:
    """The flow table of masks that were read from these files."""
    is_density = result.config.mass.takes_density
    masks = None
    if not result.config.mass.is_area:
        masks = (read_mask(source, density=is_density), read_mask(target, density=is_density))
    return flow_table(result, *labels, masks=masks)


def write_cohort_flows(
    tasks: Sequence[PairTask], out: Path, config: TransportConfig, regions: Sequence[str] = (), *, jobs: int = 1
) -> None:
    """Write the flow tables of all pairs with a result, from the potentials in the store; pairs without one are left out.

    Parameters
    ----------
    regions : sequence of str
        Structures whose pixels are labels, from 1 on; none: the labels of the masks, or those that the table names.
    jobs : int
        Number of processes including this one.
    """
    if not ResultStore(out).exists():
        return
    work = partial(_flows_of_tasks, out, tuple(regions), config)
    many = jobs > 1 and len(tasks) >= _FEWEST_FOR_PROCESSES
    found = in_order(work, iter(tasks), len(tasks), jobs) if many else iter(work(list(tasks)))
    tables: dict[str, pd.DataFrame] = {}
    for task, table in zip(tasks, found, strict=True):
        if isinstance(table, str):
            say(f"pairframe: no flows of {task.pair_id}: {table}")
        elif table is not None:
            tables[task.pair_id] = table
    if tables:
        keep_flows(out, tables, before=read_flows(out))


def _flows_of_tasks(
    out: Path, regions: Sequence[str], config: TransportConfig, tasks: list[PairTask]
) -> list[pd.DataFrame | str | None]:
    """The flow table of each pair, or why there is none; None for a pair without a result. In any process."""
    store = ResultStore(out)
    found: list[pd.DataFrame | str | None] = []
    for task in tasks:
        try:
            result = store.load(task.pair_id)
        except StoreError:
            found.append(None)
            continue
        try:
            found.append(_flows_of_task(task, result, regions, config))
        except PairframeError as error:
            found.append(str(error))
    return found


def _flows_of_task(
    task: PairTask, result: TransportResult, regions: Sequence[str], config: TransportConfig
) -> pd.DataFrame:
    refs = (task.source, task.target)
    if not regions and all(ref.rle is None and ref.shape_hw is None for ref in refs):
        labels = region_labels(task.source.spec, task.target.spec, _regions_of(task), config)
        return flows_between_masks(result, task.source.spec, task.target.spec, labels)
    is_density = config.mass.takes_density
    masks = (task.source.read(density=is_density), task.target.read(density=is_density))
    if regions:
        found = [_of_structures(mask, own, regions) for mask, own in zip(masks, task.structures, strict=True)]
    else:
        found = [label_pieces(mask.values > 0)[0] for mask in masks]
    return with_names(flow_table(result, *found, masks=None if config.mass.is_area else masks), regions)


def _of_structures(mask: Mask, structures: Mapping[str, MaskRef], regions: Sequence[str]) -> NDArray[np.integer]:
    """Label k + 1 on the pixels of structure k; a later one lies on an earlier one."""
    labels = np.zeros(mask.shape_hw, np.uint16)
    for number, name in enumerate(regions, 1):
        if name not in structures:
            raise ManifestError(f"a {name} of both masks", "an empty cell", "complete the table, or drop the region")
        inside = structures[name].read().values > 0
        if inside.shape != mask.shape_hw:
            raise ManifestError(
                f"a {name} on the canvas of its mask, {mask.shape_hw[0]} x {mask.shape_hw[1]} px",
                f"{inside.shape[0]} x {inside.shape[1]} px",
                "correct the table",
            )
        labels[inside] = number
    return labels


def _regions_of(task: PairTask) -> tuple[str, str]:
    named = [task.carried.get(column) for column in ("source_labels", "target_labels")]
    if named[0] is None and named[1] is None:
        return OWN, OWN
    if not all(isinstance(name, str) and name for name in named):
        raise ManifestError(
            "both columns source_labels and target_labels, or neither",
            f"{named[0]!r} and {named[1]!r}",
            "name both files",
        )
    return str(named[0]), str(named[1])

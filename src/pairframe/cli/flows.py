"""Flow tables of the commands: labels by name, tables of one pair or of a cohort."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pairframe.cli.terminal import say
from pairframe.cohort import PairTask
from pairframe.errors import ManifestError, PairframeError, StoreError
from pairframe.masks import read_mask
from pairframe.masks.io import read_labels
from pairframe.problem import TransportConfig
from pairframe.regions import flow_table
from pairframe.regions.keep import keep_flows, read_flows
from pairframe.regions.labels import checked_labels
from pairframe.regions.own_labels import OWN, labels_of_mask
from pairframe.results import ResultStore, TransportResult

if TYPE_CHECKING:
    import pandas as pd

Labels = tuple[NDArray[np.integer], NDArray[np.integer]]


def region_labels(source: str, target: str, regions: tuple[str, str], config: TransportConfig) -> Labels:
    """Label images of source and target: those named, or the labels of the masks themselves ("own")."""
    found = []
    for name, mask, side in zip(regions, (source, target), ("source", "target"), strict=True):
        is_own = name == OWN
        labels = labels_of_mask(mask, density=config.mass.takes_density) if is_own else read_labels(name)[0]
        found.append(checked_labels(labels, f"the labels of the {side}"))
    return found[0], found[1]


def flows_between_masks(result: TransportResult, source: str, target: str, labels: Labels) -> pd.DataFrame:
    """The flow table of masks that were read from these files."""
    is_density = result.config.mass.takes_density
    masks = None
    if not result.config.mass.is_area:
        masks = (read_mask(source, density=is_density), read_mask(target, density=is_density))
    return flow_table(result, *labels, masks=masks)


def write_cohort_flows(tasks: Sequence[PairTask], out: Path, config: TransportConfig) -> None:
    """Write the flow tables of all pairs with a result, from the potentials in the store; pairs without one are left out."""
    store = ResultStore(out)
    if not store.exists():
        return
    tables: dict[str, pd.DataFrame] = {}
    for task in tasks:
        try:
            result = store.load(task.pair_id)
        except StoreError:
            continue
        try:
            labels = region_labels(task.source.spec, task.target.spec, _regions_of(task), config)
            tables[task.pair_id] = flows_between_masks(result, task.source.spec, task.target.spec, labels)
        except PairframeError as error:
            say(f"pairframe: no flows of {task.pair_id}: {error}")
    if tables:
        keep_flows(out, tables, before=read_flows(out))


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

"""The reach of a cohort: one value for all pairs, settled at the first run and kept when it is resumed.

Numbers of pairs can only be compared if all pairs have one reach. Without a given one it is the median over the masks of
their typical lengths. It is kept in the folder of results, so that a manifest that grows does not change it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from statistics import median

from pairframe import files, plain_json
from pairframe.cohort.inputs.tasks import MaskRef, PairTask
from pairframe.cohort.run.events import Stopped
from pairframe.cohort.run.progress import SILENT_SCAN, MaskScan
from pairframe.errors import PairframeError
from pairframe.masks import mass_density
from pairframe.masks.pieces import typical_length
from pairframe.parallel.threads import n_cores
from pairframe.pipeline.clean import cleaned
from pairframe.problem import Scales, TransportConfig
from pairframe.problem.reach import default_reach_um, needs_reach
from pairframe.results import ResultStore, disk
from pairframe.units import Units

MOST_MASKS = 200  # evenly from first to last; a median over more of them is the same


@dataclass(frozen=True)
class CohortReach:
    """The reach of a cohort.

    Attributes
    ----------
    reach_um : float
        In `unit`.
    n_masks : int
        Masks that it was taken from.
    settings : list
        The fields of the config that it depends on.
    unit : {"um", "px"}
        Pixels if a mask has no pixel size.
    """

    reach_um: float
    n_masks: int
    settings: list[object]
    unit: str = "px"


def settle_reach(
    config: TransportConfig, tasks: Sequence[PairTask], store: ResultStore, scan: MaskScan = SILENT_SCAN
) -> CohortReach | Stopped | None:
    """The default reach of a cohort, as recorded or from its masks; None if the config needs none or no mask can be read."""
    if not needs_reach(config):
        return None
    recorded = _read(store)
    if recorded is not None and recorded.settings == _settings(config):
        return recorded
    masks = _spread(list(dict.fromkeys(mask for task in tasks for mask in (task.source, task.target))))
    threads = ThreadPoolExecutor(n_cores(), thread_name_prefix="pairframe-scan")  # each holds one mask
    try:
        found = list(scan.over(threads.map(partial(_reach_of_mask, config=config), masks), len(masks)))
    finally:
        threads.shutdown(cancel_futures=True)
    if len(found) < len(masks):
        return Stopped()
    known = [one for one in found if one is not None]
    if not known:
        return None
    unit = "px" if any(units.in_px for _, units in known) else "um"
    return CohortReach(median(reach for reach, _ in known), len(known), _settings(config), unit)


def with_reach(config: TransportConfig, reach: CohortReach | None) -> TransportConfig:
    """The config of all pairs."""
    return config if reach is None else replace(config, reach_um=reach.reach_um)


def record_reach(store: ResultStore, reach: CohortReach) -> None:
    """Keep the reach for later runs."""
    if _read(store) != reach:
        with disk.write_errors(store.cohort_path):
            files.replace_file(store.cohort_path, json.dumps(vars(reach)).encode())


def _read(store: ResultStore) -> CohortReach | None:
    """The recorded reach; None if there is none that can be read."""
    try:
        with files.open_regular(store.cohort_path) as stream:
            values = plain_json.parse(stream.read())
        found = CohortReach(
            float(values["reach_um"]), int(values["n_masks"]), list(values["settings"]), str(values["unit"])
        )
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return found if found.reach_um > 0 else None


def _settings(config: TransportConfig) -> list[object]:
    cleaning = [config.invert, config.min_area_um2, config.largest, config.fill_holes] if config.cleans else []
    return [config.px_size_um, config.mass_mode, config.blur_um, config.epsilon, *cleaning]


def _reach_of_mask(ref: MaskRef, config: TransportConfig) -> tuple[float, Units] | None:
    """The reach of a mask alone, and its units; None for an empty mask, or one that cannot be read: its pair says why."""
    try:
        mask = cleaned(ref.read(density=config.mass.takes_density, config=config), config)
        px_size_um = config.px_size_um or mask.px_size_um
        density = mass_density(mask, config.mass_mode, px_size_um)
        if not density.any():
            return None
        units = Units(px_size_um, density.ndim)
        spacing = units.spacing if density.ndim == 3 else ()
        scales = Scales(units.px_size, config.downsample_factor, config.coord_scale, config.metric, spacing)
        length_um = typical_length(density, spacing=spacing) * scales.px_size_um
        return default_reach_um(config, scales, length_um), units
    except (PairframeError, OSError, MemoryError):
        return None


def _spread(masks: list[MaskRef]) -> list[MaskRef]:
    """At most `MOST_MASKS`, evenly from first to last."""
    if len(masks) <= MOST_MASKS:
        return masks
    return [masks[i * (len(masks) - 1) // (MOST_MASKS - 1)] for i in range(MOST_MASKS)]

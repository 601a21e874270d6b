"""`estimate`: time, memory and disk that a run would need, from a sample of its masks and a few solves."""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import mean, median

import numpy as np

from pairframe import system
from pairframe.cohort.inputs.sources import Manifest, read_tasks
from pairframe.cohort.inputs.tasks import PairTask, check_volume_settings
from pairframe.cohort.run.chunks import work_shape
from pairframe.cohort.run.cohort_reach import settle_reach, with_reach
from pairframe.cohort.run.events import Stopped
from pairframe.cohort.run.mask_cache import MaskCache
from pairframe.cohort.run.plan import check_labels, make_plan
from pairframe.cohort.run.runner import checked_config, checked_jobs
from pairframe.errors import PairframeError
from pairframe.frame import propose_bucket_shapes
from pairframe.frame.bucket import ShapeHW, pick_bucket
from pairframe.parallel.threads import at_most
from pairframe.pipeline import compare
from pairframe.problem import TransportConfig
from pairframe.results import ResultStore
from pairframe.results.features import features_of
from pairframe.results.group import group_bytes
from pairframe.results.store import FILES_PER_PAIR
from pairframe.results.variables import attributes_of, variables_of

MAX_LOOKED_AT = 200  # pairs whose masks are read
MAX_BUCKETS = 4
_QUANTILES = (0.1, 0.5, 0.9, 1.0)  # of the sizes: these pairs are solved


@dataclass(frozen=True)
class Estimate:
    """What a run would do and need.

    Attributes
    ----------
    pairs, todo : int
        All pairs, and those that would be solved.
    looked_at, unreadable : int
        Pairs whose masks were read for this, and how many of them would fail.
    buckets : tuple of ((H, W), count)
        A few shapes, in work pixels, that hold the work grids of the pairs looked at, and how many each holds.
    calibrated : int
        Pairs that were solved for the numbers below, which are None without any.
    seconds_per_pair, seconds : float or None
        Of one worker for one pair, and of the whole run with all workers.
    memory_bytes : float or None
        Of one worker with the largest pair that was solved; None on Windows.
    disk_bytes : float or None
        Of the maps of the whole run.
    files : int
        New files of the whole run.
    jobs : int
        Workers.
    """

    pairs: int
    todo: int
    looked_at: int
    unreadable: int
    buckets: tuple[tuple[ShapeHW, int], ...]
    calibrated: int
    seconds_per_pair: float | None
    seconds: float | None
    memory_bytes: float | None
    disk_bytes: float | None
    files: int
    jobs: int


def estimate(
    manifest: Manifest,
    out: str | os.PathLike[str],
    config: TransportConfig | None = None,
    *,
    pairing: str = "consecutive",
    jobs: int | None = None,
    retry_failed: bool = False,
) -> Estimate:
    """Read up to 200 pairs and solve up to four of them; nothing is written. Arguments as for `run_cohort`."""
    config, n_jobs = checked_config(config), checked_jobs(jobs)
    tasks = read_tasks(manifest, pairing, volume=config.volume)
    check_volume_settings(tasks, config)
    store = ResultStore(out)
    check_labels(tasks, store)
    reach = settle_reach(config, tasks, store)
    assert not isinstance(reach, Stopped)  # only a run can be stopped
    config = with_reach(config, reach)
    plan = make_plan(tasks, store, config, retry_failed=retry_failed)
    assert not isinstance(plan, Stopped)
    sample = _spread(plan.todo, MAX_LOOKED_AT)
    seen = [(task, shape) for task in sample if (shape := _work_shape(task, config)) is not None]
    areas = [math.prod(shape) for _, shape in seen]
    measured = _calibrate([task for task, _ in sorted(seen, key=lambda item: math.prod(item[1]))], config)
    per_pair = disk = None
    if measured:
        per_pair = mean(_seconds_at(areas, measured))
        disk = mean(one.disk_bytes for one in measured) * len(plan.todo)
    return Estimate(
        pairs=len(tasks),
        todo=len(plan.todo),
        looked_at=len(sample),
        unreadable=len(sample) - len(seen),
        buckets=_buckets([shape for _, shape in seen]),
        calibrated=len(measured),
        seconds_per_pair=per_pair,
        seconds=None if per_pair is None else per_pair * len(plan.todo) / min(n_jobs, max(1, len(plan.todo))),
        memory_bytes=system.peak_memory_bytes() if measured else None,
        disk_bytes=disk,
        files=FILES_PER_PAIR * len(plan.todo),
        jobs=n_jobs,
    )


@dataclass(frozen=True)
class _Measured:
    work_px: int
    seconds: float
    disk_bytes: int


def _calibrate(by_size: list[PairTask], config: TransportConfig) -> list[_Measured]:
    """Solve a few pairs, from small to large; the first one twice, because it also loads and compiles."""
    chosen = {round(q * (len(by_size) - 1)): None for q in _QUANTILES} if by_size else {}
    tasks = [by_size[place] for place in chosen]
    measured = []
    cache = MaskCache()
    for number, task in enumerate([*tasks[:1], *tasks]):
        began = time.perf_counter()
        try:
            with at_most(1):
                result = compare(*cache.read(task, config), config)
            features_of(result)
            content = group_bytes(variables_of(result), attributes_of(result))
        except PairframeError:
            continue
        if number > 0:
            shape = result.transform.work_shape_hw
            measured.append(_Measured(math.prod(shape), time.perf_counter() - began, len(content)))
    return measured


def _seconds_at(areas: list[int], measured: list[_Measured]) -> list[float]:
    """Seconds of pairs with work grids of these areas (pixels): a constant, and so much per pixel."""
    sizes, seconds = [one.work_px for one in measured], [one.seconds for one in measured]
    slope, constant = np.polyfit(sizes, seconds, 1) if len(set(sizes)) > 1 else (0.0, -1.0)
    if slope < 0 or constant < 0:  # too few or too noisy: per pixel alone, by the median
        slope, constant = median(one.seconds / one.work_px for one in measured), 0.0
    return [float(constant + slope * area) for area in areas]


def _work_shape(task: PairTask, config: TransportConfig) -> tuple[int, ...] | None:
    """The work grid that a pair needs on its own; None if it cannot be compared."""
    alone = replace(config, crop_policy="union", override_pair_bbox=None, bucket_shapes=None, allow_clipping=False)
    return work_shape(task, alone)


def _buckets(all_shapes: list[tuple[int, ...]]) -> tuple[tuple[ShapeHW, int], ...]:
    """Shapes for frames of a few sizes, which only images have."""
    shapes = [(shape[0], shape[1]) for shape in all_shapes if len(shape) == 2]
    if not shapes:
        return ()
    proposed = propose_bucket_shapes(shapes, MAX_BUCKETS)
    counts = Counter(pick_bucket(shape, proposed) for shape in shapes)
    return tuple((shape, counts[shape]) for shape in proposed)


def _spread(tasks: Sequence[PairTask], most: int) -> list[PairTask]:
    """At most `most` tasks, evenly from first to last."""
    if len(tasks) <= most:
        return list(tasks)
    return [tasks[i * (len(tasks) - 1) // (most - 1)] for i in range(most)]

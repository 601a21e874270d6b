"""`cut_into_chunks`: pairs grouped for one worker at a time, so that similar pairs are compared in a row."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import groupby

from pairframe.cohort.inputs.tasks import MaskRef, PairTask
from pairframe.cohort.run.events import Chunk, Stopped
from pairframe.cohort.run.progress import SILENT_SCAN, Item, MaskScan
from pairframe.errors import PairframeError
from pairframe.masks import MaskSpec, mass_density, parse_spec
from pairframe.parallel.threads import n_cores
from pairframe.pipeline import frame_of
from pairframe.pipeline.clean import cleaned
from pairframe.problem import TransportConfig

MAX_CHUNK = 16
_CHUNKS_PER_WORKER = 8
_UNREADABLE = (PairframeError, OSError, MemoryError)  # the worker records the error
SizeClass = tuple[int, ...]  # ordered by size


def cut_into_chunks(
    tasks: Sequence[PairTask],
    n_workers: int,
    config: TransportConfig,
    scan: MaskScan = SILENT_SCAN,
) -> list[Chunk] | Stopped:
    """Chunks of pairs with one size class each, large ones first.

    With ``crop_policy="bucketed"`` the size class is the shape that a pair is solved on: an engine that compiles for a shape
    does so once for many pairs. Otherwise there are about as many work grids as pairs, and a size class holds canvases of
    similar size. Pairs that share masks stay together and in order: they share self-problems and start from each other.
    Large pairs come first, so that no worker still has one when all others are idle.
    """
    size = max(1, min(MAX_CHUNK, len(tasks) // (_CHUNKS_PER_WORKER * n_workers)))
    runs = _runs(tasks, size)
    if config.crop_policy == "bucketed":
        sizes = _sizes(partial(_work_size, config=config), {task.pair_id: task for task in tasks}, scan)
    else:  # pairs that share a mask have one canvas, and so have all pages of a stack
        files = {task.pair_id: _file(run[0]) for run in runs for task in run}
        first = {_file(run[0]): run[0].source for run in reversed(runs)}
        canvases = _sizes(_canvas_size, first, scan)
        sizes = {pair_id: canvases[file] for pair_id, file in files.items() if file in canvases}
    if scan.is_stopping():
        return Stopped()
    runs = [list(part) for run in runs for _, part in groupby(run, key=lambda task: sizes[task.pair_id])]
    runs.sort(key=lambda run: sizes[run[0].pair_id], reverse=True)  # stable: a series keeps its order
    chunks: list[list[PairTask]] = []
    for run in runs:
        is_alike = bool(chunks) and sizes[chunks[-1][0].pair_id] == sizes[run[0].pair_id]
        if is_alike and len(chunks[-1]) + len(run) <= size:
            chunks[-1].extend(run)
        else:
            chunks.append(run)
    return [tuple(chunk) for chunk in chunks]


def work_shape(task: PairTask, config: TransportConfig) -> tuple[int, ...] | None:
    """Shape of the work grid of a pair, in work pixels (three sides for volumes), from its masks; None if it cannot be compared."""
    is_density = config.mass.takes_density
    try:
        a, b = (
            mass_density(cleaned(mask.read(density=is_density, config=config), config), config.mass_mode)
            for mask in (task.source, task.target)
        )
        return frame_of(a, b, config).work_shape_hw
    except _UNREADABLE:
        return None


def _runs(tasks: Sequence[PairTask], size: int) -> list[list[PairTask]]:
    """Up to `size` tasks in a row that share masks."""
    runs: list[list[PairTask]] = []
    for task in tasks:
        if runs and len(runs[-1]) < size and task.shares_mask_with(runs[-1][-1]):
            runs[-1].append(task)
        else:
            runs.append([task])
    return runs


def _sizes(measure: Callable[[Item], SizeClass], items: Mapping[str, Item], scan: MaskScan) -> dict[str, SizeClass]:
    """The size class of every item, by name; some are missing if the run is stopping."""
    threads = ThreadPoolExecutor(n_cores(), thread_name_prefix="pairframe-scan")  # each may hold a pair of masks
    try:
        return dict(scan.over(zip(items, threads.map(measure, items.values()), strict=True), len(items)))
    finally:
        threads.shutdown(cancel_futures=True)


def _work_size(task: PairTask, config: TransportConfig) -> SizeClass:
    shape = work_shape(task, config) or (0, 0)
    return math.prod(shape), *shape


def _file(task: PairTask) -> str:
    """The file of the source, without page and label, or its cell in the manifest; empty if the name is not valid."""
    if task.source.rle is not None:
        return task.source.spec
    try:
        spec = parse_spec(task.source.spec)
    except PairframeError:
        return ""
    return str(MaskSpec(spec.path, spec.inner))


def _canvas_size(ref: MaskRef) -> SizeClass:
    """The pixels of the canvas, from the header of the file, rounded to half powers of two."""
    try:
        height, width = ref.canvas_hw()
    except _UNREADABLE:
        return (0,)
    return (round(2 * math.log2(1 + height * width)),)

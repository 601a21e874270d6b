"""Work in portions for one worker at a time, cut by bucket: what is alike is done together and in a row."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import groupby

from pairframe.cohort.plan import Chunk
from pairframe.cohort.progress import QUIETLY, Looking, Thing
from pairframe.cohort.tasks import PairTask
from pairframe.engines.threads import n_cores
from pairframe.errors import PairframeError
from pairframe.frame.bucket import ShapeHW
from pairframe.masks import MaskSpec, canvas_shape, mass_density, parse_spec, read_mask
from pairframe.pipeline import frame_of
from pairframe.problem import TransportConfig

MAX_CHUNK = 16
_CHUNKS_PER_WORKER = 8
_NOT_TO_BE_HAD = (PairframeError, OSError, MemoryError)  # a worker will say what it is
Bucket = tuple[int, ...]  # larger ones compare as larger


def cut_into_chunks(
    tasks: Sequence[PairTask],
    n_workers: int,
    config: TransportConfig,
    looking: Looking = QUIETLY,
) -> list[Chunk]:
    """Portions of one bucket each; none when the run is stopping before they are known.

    With ``crop_policy="bucketed"`` that is the shape that a pair is solved on: an engine that compiles for a shape does so
    once for many pairs. Otherwise there are about as many work grids as pairs, and a bucket is a class of canvases of similar
    size. Pairs that share masks stay together and in order: they share self-problems and start from each other.
    Large ones come first, so that no worker has one of these to do when all others are done.
    """
    size = max(1, min(MAX_CHUNK, len(tasks) // (_CHUNKS_PER_WORKER * n_workers)))
    pieces = _pieces(tasks, size)
    if config.crop_policy == "bucketed":
        buckets = _each(partial(_work_bucket, config=config), {task.pair_id: task for task in tasks}, looking)
    else:  # whoever shares a mask shares its canvas; a stack has all of its own in one file
        files = {task.pair_id: _file(piece[0]) for piece in pieces for task in piece}
        canvases = _each(_canvas_bucket, {file: file for file in files.values()}, looking)
        buckets = {pair_id: canvases[file] for pair_id, file in files.items() if file in canvases}
    if looking.is_stopping():
        return []
    pieces = [list(run) for piece in pieces for _, run in groupby(piece, key=lambda task: buckets[task.pair_id])]
    pieces.sort(key=lambda piece: buckets[piece[0].pair_id], reverse=True)  # stable: a series keeps its order
    chunks: list[list[PairTask]] = []
    for piece in pieces:
        is_alike = bool(chunks) and buckets[chunks[-1][0].pair_id] == buckets[piece[0].pair_id]
        if is_alike and len(chunks[-1]) + len(piece) <= size:
            chunks[-1].extend(piece)
        else:
            chunks.append(piece)
    return [tuple(chunk) for chunk in chunks]


def work_shape(task: PairTask, config: TransportConfig) -> ShapeHW | None:
    """The work grid of a pair, which takes a look at its masks; None when it cannot be compared."""
    is_density = config.mass_mode == "intensity"
    try:
        a, b = (
            mass_density(read_mask(mask.spec, px_size_um=mask.px_size_um, density=is_density), config.mass_mode)
            for mask in (task.source, task.target)
        )
        return frame_of(a, b, config).work_shape_hw
    except _NOT_TO_BE_HAD:
        return None


def _pieces(tasks: Sequence[PairTask], size: int) -> list[list[PairTask]]:
    """Up to `size` tasks in a row that share masks."""
    pieces: list[list[PairTask]] = []
    for task in tasks:
        if pieces and len(pieces[-1]) < size and task.shares_mask_with(pieces[-1][-1]):
            pieces[-1].append(task)
        else:
            pieces.append([task])
    return pieces


def _each(look: Callable[[Thing], Bucket], things: Mapping[str, Thing], looking: Looking) -> dict[str, Bucket]:
    """The bucket of everything, by name; some are missing when the run is stopping."""
    threads = ThreadPoolExecutor(n_cores(), thread_name_prefix="pairframe-look")  # each may hold a pair of masks
    try:
        return dict(looking.over(zip(things, threads.map(look, things.values()), strict=True), len(things)))
    finally:
        threads.shutdown(cancel_futures=True)


def _work_bucket(task: PairTask, config: TransportConfig) -> Bucket:
    height, width = work_shape(task, config) or (0, 0)
    return height * width, height, width


def _file(task: PairTask) -> str:
    """The file of the source, whatever page or label of it; nothing for a name that is none."""
    try:
        spec = parse_spec(task.source.spec)
    except PairframeError:
        return ""
    return str(MaskSpec(spec.path, spec.inner))


def _canvas_bucket(file: str) -> Bucket:
    """Half powers of two of the canvas's pixels, as the header says."""
    try:
        height, width = canvas_shape(file) if file else (0, 0)
    except _NOT_TO_BE_HAD:
        return (0,)
    return (round(2 * math.log2(1 + height * width)),)

"""Work in portions for one worker at a time, cut by bucket: what is alike is done together and in a row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import groupby

from pairframe.cohort.job import read_masks
from pairframe.cohort.plan import Chunk
from pairframe.cohort.tasks import PairTask
from pairframe.errors import PairframeError
from pairframe.frame.bucket import ShapeHW
from pairframe.masks import canvas_shape, mass_density
from pairframe.pipeline import frame_of
from pairframe.problem import TransportConfig

MAX_CHUNK = 16
_CHUNKS_PER_WORKER = 8
_READING_THREADS = 8
Bucket = tuple[int, ...]  # larger ones compare as larger


def cut_into_chunks(tasks: Sequence[PairTask], n_workers: int, config: TransportConfig) -> list[Chunk]:
    """Portions of one bucket each.

    With ``crop_policy="bucketed"`` that is the shape that a pair is solved on: an engine that compiles for a shape does so
    once for many pairs. Otherwise there are about as many work grids as pairs, and a bucket is a class of canvases of similar
    size. Pairs that share masks stay together and in order: they share self-problems and start from each other.
    Large ones come first, so that no worker has one of these to do when all others are done.
    """
    size = max(1, min(MAX_CHUNK, len(tasks) // (_CHUNKS_PER_WORKER * n_workers)))
    pieces = _pieces(tasks, size)
    is_bucketed = config.crop_policy == "bucketed"
    # Whoever shares a mask shares its canvas, but not its bucket.
    looked_at = tasks if is_bucketed else [piece[0] for piece in pieces]
    look = partial(_work_bucket, config=config) if is_bucketed else _canvas_bucket
    with ThreadPoolExecutor(_READING_THREADS, thread_name_prefix="pairframe-look") as threads:
        found = threads.map(look, looked_at)
        buckets = {task.pair_id: bucket for task, bucket in zip(looked_at, found, strict=True)}
    if is_bucketed:
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
    try:
        a, b = (mass_density(mask, config.mass_mode) for mask in read_masks(task, config))
        return frame_of(a, b, config).work_shape_hw
    except PairframeError:
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


def _work_bucket(task: PairTask, config: TransportConfig) -> Bucket:
    height, width = work_shape(task, config) or (0, 0)
    return height * width, height, width


def _canvas_bucket(task: PairTask) -> Bucket:
    """Half powers of two of the canvas's pixels."""
    try:
        height, width = canvas_shape(task.source.spec)
    except (PairframeError, OSError):
        return (0,)
    return (round(2 * math.log2(1 + height * width)),)

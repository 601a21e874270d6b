"""Few array shapes for many pairs: pick a bucket for one pair, propose buckets for many."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations
from operator import index
from typing import Any

import numpy as np

from pairframe import checks
from pairframe.errors import FrameError
from pairframe.frame.box import MAX_SIDE
from pairframe.types import Float

ShapeHW = tuple[int, int]
BUCKET_MODES = ("next_larger", "nearest")
_MAX_DISTINCT = 400  # distinct shapes that a proposal of buckets looks at
_MAX_SETS = 20_000  # up to so many sets of buckets are all tried


def parse_bucket_shapes(bucket_shapes: Iterable[Sequence[int]] | None) -> tuple[ShapeHW, ...]:
    """Check and freeze a list of ``(Hb, Wb)`` in work pixels."""
    shapes = _parse_shapes(bucket_shapes, "bucket_shapes", "(Hb, Wb)")
    if not shapes:
        raise FrameError(
            'at least one bucket shape with crop_policy="bucketed"',
            checks.shown(bucket_shapes),
            "give bucket_shapes=[(Hb, Wb), ...] in work pixels; pairframe.propose_bucket_shapes finds good ones",
        )
    return shapes


def _parse_shapes(given: Iterable[Sequence[int]] | None, name: str, symbols: str) -> tuple[ShapeHW, ...]:
    """Pairs of plain integers, from lists, tuples or numpy."""
    shapes = []
    for shape in _items(() if given is None else given):
        try:
            h, w = (index(side) for side in shape)
        except (TypeError, ValueError):
            h = w = 0
        if not (1 <= h <= MAX_SIDE and 1 <= w <= MAX_SIDE):
            raise FrameError(
                f"{name} as pairs {symbols} of positive integers in work pixels",
                checks.shown(shape),
                f"e.g. {name}=[(64, 128), (128, 256)]",
                name,
            )
        shapes.append((h, w))
    return tuple(shapes)


def _items(given: Any) -> list[Any]:
    """The items of a list; a value that is no list is its own only item, so that the error can show it."""
    try:
        return list(given)
    except TypeError:
        return [given]


def check_bucket_mode(bucket_mode: Any) -> None:
    """One of `BUCKET_MODES`."""
    checks.choice(bucket_mode, "bucket_mode", BUCKET_MODES, error=FrameError)


def pick_bucket(work_shape_hw: ShapeHW, bucket_shapes: Sequence[ShapeHW], bucket_mode: str = "next_larger") -> ShapeHW:
    """The bucket for one work shape, among those that fit.

    ``next_larger`` takes the one of least area, ``nearest`` the one whose sides differ least
    (sum of the two differences). Ties go to the smaller shape in sorting order.
    """
    check_bucket_mode(bucket_mode)
    h, w = work_shape_hw
    fitting = [shape for shape in bucket_shapes if shape[0] >= h and shape[1] >= w]
    if not fitting:
        raise FrameError(
            f"a bucket of at least {h} x {w} work pixels",
            "only " + ", ".join(f"{hb} x {wb}" for hb, wb in bucket_shapes),
            f"add ({h}, {w}) or larger to bucket_shapes, or raise the downsample factor",
        )
    if bucket_mode == "nearest":
        return min(fitting, key=lambda b: (b[0] - h + b[1] - w, b))
    return min(fitting, key=lambda b: (b[0] * b[1], b))


def propose_bucket_shapes(work_shapes: Iterable[ShapeHW], max_buckets: int) -> list[ShapeHW]:
    """Bucket shapes that hold all the given work shapes with little padding.

    Parameters
    ----------
    work_shapes : iterable of (Hw, Ww)
        One entry per pair, with repetitions.
    max_buckets : int
        Maximum number of buckets.

    Returns
    -------
    list of (Hb, Wb), sorted by area. Every work shape fits into one of them. For few shapes the sum of bucket areas
    over all pairs is the least possible; for many (a 2-D k-median) it is a local minimum: no bucket can be added,
    or exchanged for another ``(height of one shape, width of another)``, to make it smaller.
    """
    shapes, multiple = _parse_shapes(work_shapes, "work_shapes", "(Hw, Ww)"), 1
    counts = _round_up(shapes, multiple)
    while len(counts) > _MAX_DISTINCT:  # a large cohort: a few pixels of padding buy bounded time and memory
        multiple *= 2
        counts = _round_up(shapes, multiple)
    if not counts or not hasattr(max_buckets, "__index__") or index(max_buckets) < 1:
        raise FrameError(
            "at least one work shape and an integer max_buckets >= 1",
            f"{len(counts)} shapes, max_buckets={max_buckets!r}",
            "give the work shapes of the pairs, e.g. [t.work_shape_hw for t in transforms]",
        )
    heights = sorted({h for h, _ in counts})
    widths = sorted({w for _, w in counts})
    weight = np.array(list(counts.values()), dtype=float)
    candidates = [(h, w) for h in heights for w in widths]
    area = _area_or_inf(candidates, list(counts))  # (n_candidates, n_shapes)
    n_sets = sum(math.comb(len(candidates), k) for k in range(1, min(max_buckets, len(candidates)) + 1))
    chosen = _best_set(area, weight, max_buckets) if n_sets <= _MAX_SETS else _local_search(area, weight, max_buckets)
    used = {chosen[k] for k in np.argmin(area[chosen], axis=0)}
    return sorted((candidates[k] for k in used), key=lambda shape: (shape[0] * shape[1], shape))


def _area_or_inf(candidates: list[ShapeHW], shapes: list[ShapeHW]) -> Float:
    cand, need = np.array(candidates), np.array(shapes)
    fits = (cand[:, None, :] >= need[None, :, :]).all(axis=2)
    return np.where(fits, cand.astype(float).prod(axis=1)[:, None], np.inf)


def _best_set(area: Float, weight: Float, max_buckets: int) -> list[int]:
    sizes = range(1, min(max_buckets, len(area)) + 1)
    sets = (list(rows) for size in sizes for rows in combinations(range(len(area)), size))
    return min(sets, key=lambda rows: float(area[rows].min(axis=0) @ weight))


def _local_search(area: Float, weight: Float, max_buckets: int) -> list[int]:
    """Add the most useful bucket, exchange single buckets while that helps, and repeat."""
    chosen: list[int] = []
    best = np.inf
    while len(chosen) < max_buckets:
        pick, value = _best_addition(area, chosen, weight)
        if value >= best:
            break
        chosen, best = _exchange(area, [*chosen, pick], weight, value)
    return chosen


def _best_addition(area: Float, chosen: list[int], weight: Float) -> tuple[int, float]:
    held = area[chosen].min(axis=0, initial=np.inf)
    values = np.minimum(area, held) @ weight
    pick = int(np.argmin(values))
    return pick, float(values[pick])


def _exchange(area: Float, chosen: list[int], weight: Float, best: float) -> tuple[list[int], float]:
    improved = True
    while improved:
        improved = False
        for k in range(len(chosen)):
            others = chosen[:k] + chosen[k + 1 :]
            pick, value = _best_addition(area, others, weight)
            if value < best * (1 - 1e-12):
                chosen, best, improved = [*others, pick], value, True
                break
    return chosen, best


def _round_up(shapes: Iterable[ShapeHW], multiple: int) -> Counter[ShapeHW]:
    return Counter((-(-h // multiple) * multiple, -(-w // multiple) * multiple) for h, w in shapes)

"""The entries of a plan that carry mass, as a sparse matrix: found tile by tile, never by looking at all n x m pairs."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sparse

from pairframe.compiler import compiled
from pairframe.parallel.threads import run_in_threads
from pairframe.types import Float, Int

_TILE = 8  # pixels along each side of a tile; its pixels are skipped together


def list_plan(
    positions_a: Float,
    positions_b: Float,
    log_scale_a: Float,
    log_scale_b: Float,
    log_marginal_a: Float,
    log_marginal_b: Float,
    epsilon: float,
    *,
    depth: float,
    most_entries: int,
) -> sparse.csr_matrix | None:
    """The entries ``exp(log_scale_a_i + log_scale_b_j - |x_i - x_j|^2 / eps)`` above ``e^-depth`` of a marginal.

    Parameters
    ----------
    positions_a, positions_b : (n, d), (m, d)
        In work px.
    log_scale_a, log_scale_b : (n,), (m,)
        ``log u + f/eps`` and ``log v + g/eps``.
    log_marginal_a, log_marginal_b : (n,), (m,)
        An entry is listed when it is a share of more than ``e^-depth`` of its row's or of its column's sum.
    most_entries : int
        With more entries than this the answer is None.

    Returns
    -------
    (n, m) sparse matrix
    """
    order_a, starts_a, low_a, high_a = _tiles(positions_a)
    order_b, starts_b, low_b, high_b = _tiles(positions_b)
    share_a, share_b = log_scale_a - log_marginal_a, log_scale_b - log_marginal_b
    side_a = _side(positions_a, order_a, log_scale_a, share_a, starts_a)
    side_b = _side(positions_b, order_b, log_scale_b, share_b, starts_b)
    arguments = (*side_a, starts_a, low_a, high_a, *side_b, starts_b, low_b, high_b, 1.0 / epsilon, depth)
    counts = np.zeros(len(order_a), np.int64)
    run_in_threads(lambda first, step: _count(*arguments, most_entries, counts, first, step), len(order_a))
    if counts.sum() > most_entries:
        return None
    ends = np.cumsum(counts)
    columns, log_values = np.empty(ends[-1], np.int32), np.empty(ends[-1])
    run_in_threads(lambda first, step: _fill(*arguments, ends - counts, columns, log_values, first, step), len(order_a))
    rows = np.concatenate([[0], ends]).astype(np.int32)
    ordered = sparse.csr_matrix(
        (np.exp(log_values), order_b.astype(np.int32)[columns], rows), shape=(len(order_a), len(order_b))
    )
    return ordered[np.argsort(order_a)]


def _side(positions: Float, order: Int, log_scale: Float, share: Float, starts: Int) -> tuple[Float, ...]:
    """Positions, scales and shares in the order of tiles, and the largest scale and share of each tile."""
    scale, share = log_scale[order], share[order]
    tops = np.stack([np.maximum.reduceat(values, starts[:-1]) for values in (scale, share)])
    return np.ascontiguousarray(positions[order]), scale, share, tops


def _tiles(positions: Float) -> tuple[Int, Int, Float, Float]:
    """Points in the order of their tiles, where each tile starts, and the corners of its bounding box."""
    tile = np.floor((positions - positions.min(axis=0)) / _TILE).astype(np.int64)
    key = np.ravel_multi_index(tuple(tile.T), tuple(tile.max(axis=0) + 1))
    order = np.argsort(key, kind="stable")
    starts = np.concatenate([[0], np.flatnonzero(np.diff(key[order])) + 1, [len(order)]])
    ordered = positions[order]
    return (
        order,
        starts,
        np.minimum.reduceat(ordered, starts[:-1], axis=0),
        np.maximum.reduceat(ordered, starts[:-1], axis=0),
    )


@compiled(nogil=True)
def _near_tiles(  # type: ignore[no-untyped-def]
    tile_a, tops_a, low_a, high_a, tops_b, low_b, high_b, inverse_epsilon, depth, near
):
    """Tiles of b that may share a listed entry with a tile of a, written to `near`; their number."""
    n_near = 0
    for tile_b in range(len(low_b)):
        squared = 0.0
        for axis in range(low_a.shape[1]):
            gap = max(low_b[tile_b, axis] - high_a[tile_a, axis], low_a[tile_a, axis] - high_b[tile_b, axis], 0.0)
            squared += gap * gap
        fall = squared * inverse_epsilon
        if (
            tops_a[1, tile_a] + tops_b[0, tile_b] - fall > -depth
            or tops_a[0, tile_a] + tops_b[1, tile_b] - fall > -depth
        ):
            near[n_near] = tile_b
            n_near += 1
    return n_near


@compiled(nogil=True)
def _is_near(x, scale, share, tile, tops, low, high, inverse_epsilon, depth):  # type: ignore[no-untyped-def]
    """Whether a pixel of a may share a listed entry with a pixel of a tile of b."""
    squared = 0.0
    for axis in range(len(x)):
        gap = max(low[tile, axis] - x[axis], x[axis] - high[tile, axis], 0.0)
        squared += gap * gap
    fall = squared * inverse_epsilon
    return share + tops[0, tile] - fall > -depth or scale + tops[1, tile] - fall > -depth


@compiled(nogil=True)
def _count(  # type: ignore[no-untyped-def]
    xa, scale_a, share_a, tops_a, starts_a, low_a, high_a, xb, scale_b, share_b, tops_b, starts_b, low_b, high_b,
    inverse_epsilon, depth, most, counts, first, step,
):  # fmt: skip
    near = np.empty(len(low_b), np.int64)
    total = 0
    for tile_a in range(first, len(low_a), step):
        n_near = _near_tiles(tile_a, tops_a, low_a, high_a, tops_b, low_b, high_b, inverse_epsilon, depth, near)
        for i in range(starts_a[tile_a], starts_a[tile_a + 1]):
            for tile_b in near[:n_near]:
                if not _is_near(xa[i], scale_a[i], share_a[i], tile_b, tops_b, low_b, high_b, inverse_epsilon, depth):
                    continue
                for j in range(starts_b[tile_b], starts_b[tile_b + 1]):
                    squared = 0.0
                    for axis in range(xa.shape[1]):
                        squared += (xa[i, axis] - xb[j, axis]) ** 2
                    fall = squared * inverse_epsilon
                    if share_a[i] + scale_b[j] - fall > -depth or scale_a[i] + share_b[j] - fall > -depth:
                        counts[i] += 1
            total += counts[i]
        if total > most:
            break


@compiled(nogil=True)
def _fill(  # type: ignore[no-untyped-def]
    xa, scale_a, share_a, tops_a, starts_a, low_a, high_a, xb, scale_b, share_b, tops_b, starts_b, low_b, high_b,
    inverse_epsilon, depth, row_starts, columns, values, first, step,
):  # fmt: skip
    near = np.empty(len(low_b), np.int64)
    for tile_a in range(first, len(low_a), step):
        n_near = _near_tiles(tile_a, tops_a, low_a, high_a, tops_b, low_b, high_b, inverse_epsilon, depth, near)
        for i in range(starts_a[tile_a], starts_a[tile_a + 1]):
            at = row_starts[i]
            for tile_b in near[:n_near]:
                if not _is_near(xa[i], scale_a[i], share_a[i], tile_b, tops_b, low_b, high_b, inverse_epsilon, depth):
                    continue
                for j in range(starts_b[tile_b], starts_b[tile_b + 1]):
                    squared = 0.0
                    for axis in range(xa.shape[1]):
                        squared += (xa[i, axis] - xb[j, axis]) ** 2
                    fall = squared * inverse_epsilon
                    if share_a[i] + scale_b[j] - fall > -depth or scale_a[i] + share_b[j] - fall > -depth:
                        columns[at] = j
                        values[at] = scale_a[i] + scale_b[j] - fall
                        at += 1

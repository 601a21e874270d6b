"""The entries of a plan that carry mass, as a sparse matrix: found tile by tile, never by looking at all n x m pairs."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sparse

from pairframe.compiler import compiled
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
    order, starts, low, high = _tiles(positions_b)
    share_a, share_b = log_scale_a - log_marginal_a, log_scale_b - log_marginal_b
    tops = np.stack([np.maximum.reduceat(values[order], starts[:-1]) for values in (log_scale_b, share_b)])
    arguments = (
        np.ascontiguousarray(positions_a),
        np.ascontiguousarray(positions_b[order]),
        log_scale_a,
        log_scale_b[order],
        share_a,
        share_b[order],
        1.0 / epsilon,
        depth,
        starts,
        low,
        high,
        tops,
    )
    counts = _count(*arguments, most_entries)
    if counts.sum() > most_entries:
        return None
    first = np.concatenate([[0], np.cumsum(counts)])
    columns, log_values = np.empty(first[-1], np.int64), np.empty(first[-1])
    _fill(*arguments, first, columns, log_values)
    return sparse.csr_matrix((np.exp(log_values), order[columns], first), shape=(len(positions_a), len(positions_b)))


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
def _is_near(i, tile, xa, scale_a, share_a, inverse_epsilon, depth, low, high, tops):  # type: ignore[no-untyped-def]
    """Whether pixel i may share a listed entry with a pixel of the tile."""
    squared = 0.0
    for axis in range(xa.shape[1]):
        gap = max(low[tile, axis] - xa[i, axis], xa[i, axis] - high[tile, axis], 0.0)
        squared += gap * gap
    fall = squared * inverse_epsilon
    return share_a[i] + tops[0, tile] - fall > -depth or scale_a[i] + tops[1, tile] - fall > -depth


@compiled(nogil=True)
def _count(  # type: ignore[no-untyped-def]
    xa, xb, scale_a, scale_b, share_a, share_b, inverse_epsilon, depth, starts, low, high, tops, most
):
    counts = np.zeros(len(xa), np.int64)
    total = 0
    for i in range(len(xa)):
        for tile in range(len(starts) - 1):
            if not _is_near(i, tile, xa, scale_a, share_a, inverse_epsilon, depth, low, high, tops):
                continue
            for j in range(starts[tile], starts[tile + 1]):
                squared = 0.0
                for axis in range(xa.shape[1]):
                    squared += (xa[i, axis] - xb[j, axis]) ** 2
                fall = squared * inverse_epsilon
                if share_a[i] + scale_b[j] - fall > -depth or scale_a[i] + share_b[j] - fall > -depth:
                    counts[i] += 1
        total += counts[i]
        if total > most:
            break
    return counts


@compiled(nogil=True)
def _fill(  # type: ignore[no-untyped-def]
    xa, xb, scale_a, scale_b, share_a, share_b, inverse_epsilon, depth, starts, low, high, tops, first, columns, values
):
    for i in range(len(xa)):
        at = first[i]
        for tile in range(len(starts) - 1):
            if not _is_near(i, tile, xa, scale_a, share_a, inverse_epsilon, depth, low, high, tops):
                continue
            for j in range(starts[tile], starts[tile + 1]):
                squared = 0.0
                for axis in range(xa.shape[1]):
                    squared += (xa[i, axis] - xb[j, axis]) ** 2
                fall = squared * inverse_epsilon
                if share_a[i] + scale_b[j] - fall > -depth or scale_a[i] + share_b[j] - fall > -depth:
                    columns[at] = j
                    values[at] = scale_a[i] + scale_b[j] - fall
                    at += 1

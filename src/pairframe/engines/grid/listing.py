"""The entries of a plan that carry mass, as a sparse matrix: found tile by tile, never by looking at all n x m pairs."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sparse

from pairframe.compiler import compiled
from pairframe.parallel.threads import run_in_threads
from pairframe.types import Float, Int

Groups = tuple[Int, Float, Float, Float]  # starts, low and high corners, largest scale and share

_TILE = 8  # pixels along each side of a tile; its pixels are skipped together
_BLOCK = 8  # tiles along each side of a block; its tiles are skipped together


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
    share_a, share_b = log_scale_a - log_marginal_a, log_scale_b - log_marginal_b
    order_a, *side_a = _side(positions_a, log_scale_a, share_a)
    order_b, *side_b = _side(positions_b, log_scale_b, share_b)
    arguments = (*side_a, *side_b, 1.0 / epsilon, depth)
    counts = np.zeros(len(order_a), np.int64)
    run_in_threads(lambda first, step: _count(*arguments, most_entries, counts, first, step), len(order_a))
    if counts.sum() > most_entries:
        return None
    ends = np.cumsum(counts)
    columns, log_values, places = np.empty(ends[-1], np.int32), np.empty(ends[-1]), ends - counts
    run_in_threads(lambda first, step: _fill(*arguments, places, columns, log_values, first, step), len(order_a))
    rows = np.concatenate([[0], ends]).astype(np.int32)
    ordered = sparse.csr_matrix(
        (np.exp(log_values), order_b.astype(np.int32)[columns], rows), shape=(len(order_a), len(order_b))
    )
    return ordered[np.argsort(order_a)]


def _side(positions: Float, log_scale: Float, share: Float) -> tuple[Int, Float, Float, Float, Groups, Groups]:
    """The order of points by blocks of tiles; positions, scales and shares in that order; the tiles and the blocks."""
    tile = np.floor((positions - positions.min(axis=0)) / _TILE).astype(np.int64)
    block = tile // _BLOCK
    shape = tuple(block.max(axis=0) + 1)
    key_block = np.ravel_multi_index(tuple(block.T), shape)
    within = np.ravel_multi_index(tuple((tile - _BLOCK * block).T), (_BLOCK,) * tile.shape[1])
    key = key_block * _BLOCK ** tile.shape[1] + within
    order = np.argsort(key, kind="stable")
    ordered, scale, share, key = np.ascontiguousarray(positions[order]), log_scale[order], share[order], key[order]
    starts = _starts(key)
    tiles = _groups(starts, ordered, ordered, scale, share)
    of_tiles = _groups(_starts(key[starts[:-1]] // _BLOCK ** tile.shape[1]), tiles[1], tiles[2], *tiles[3])
    return order, ordered, scale, share, tiles, of_tiles


def _starts(key: Int) -> Int:
    """Where each run of equal keys starts, and the end."""
    return np.concatenate([[0], np.flatnonzero(np.diff(key)) + 1, [len(key)]])


def _groups(starts: Int, low: Float, high: Float, scale: Float, share: Float) -> Groups:
    """The bounding box of each group of neighbours in the order, and its largest scale and share."""
    first = starts[:-1]
    tops = np.stack([np.maximum.reduceat(values, first) for values in (scale, share)])
    return starts, np.minimum.reduceat(low, first, axis=0), np.maximum.reduceat(high, first, axis=0), tops


@compiled(nogil=True)
def _may_share(low_a, high_a, scale, share, group, low_b, high_b, tops_b, other, inverse_epsilon, depth):  # type: ignore[no-untyped-def]
    """Whether points of two boxes, rows `group` and `other` of their corners, may share a listed entry."""
    squared = 0.0
    for axis in range(low_a.shape[1]):
        gap = max(low_b[other, axis] - high_a[group, axis], low_a[group, axis] - high_b[other, axis], 0.0)
        squared += gap * gap
    fall = squared * inverse_epsilon
    return share + tops_b[0, other] - fall > -depth or scale + tops_b[1, other] - fall > -depth


@compiled(nogil=True)
def _near_groups(group, of_a, of_b, candidates, inverse_epsilon, depth, near):  # type: ignore[no-untyped-def]
    """Of the candidates among b's groups those that may share a listed entry with a group of a, in `near`; their number."""
    _, low_a, high_a, tops_a = of_a
    _, low_b, high_b, tops_b = of_b
    scale, share = tops_a[0, group], tops_a[1, group]
    n_near = 0
    for other in candidates:
        if _may_share(low_a, high_a, scale, share, group, low_b, high_b, tops_b, other, inverse_epsilon, depth):
            near[n_near] = other
            n_near += 1
    return n_near


@compiled(nogil=True)
def _count(  # type: ignore[no-untyped-def]
    xa, scale_a, share_a, tiles_a, blocks_a, xb, scale_b, share_b, tiles_b, blocks_b,
    inverse_epsilon, depth, most, counts, first, step,
):  # fmt: skip
    no_columns, no_values = np.empty(0, np.int32), np.empty(0)
    total = 0
    for block in range(first, len(blocks_a[1]), step):
        _visit(
            block, xa, scale_a, share_a, tiles_a, blocks_a, xb, scale_b, share_b, tiles_b, blocks_b,
            inverse_epsilon, depth, counts, no_columns, no_values,
        )  # fmt: skip
        tiles = blocks_a[0][block], blocks_a[0][block + 1]
        total += counts[tiles_a[0][tiles[0]] : tiles_a[0][tiles[1]]].sum()
        if total > most:
            break


@compiled(nogil=True)
def _fill(  # type: ignore[no-untyped-def]
    xa, scale_a, share_a, tiles_a, blocks_a, xb, scale_b, share_b, tiles_b, blocks_b,
    inverse_epsilon, depth, places, columns, log_values, first, step,
):  # fmt: skip
    for block in range(first, len(blocks_a[1]), step):
        _visit(
            block, xa, scale_a, share_a, tiles_a, blocks_a, xb, scale_b, share_b, tiles_b, blocks_b,
            inverse_epsilon, depth, places, columns, log_values,
        )  # fmt: skip


@compiled(nogil=True)
def _visit(  # type: ignore[no-untyped-def]
    block, xa, scale_a, share_a, tiles_a, blocks_a, xb, scale_b, share_b, tiles_b, blocks_b,
    inverse_epsilon, depth, places, columns, log_values,
):  # fmt: skip
    """Raise `places` by the entries of each row of a block, and write them there if there is room for any."""
    starts_b, low_b, high_b, tops_b = tiles_b
    n_tiles_b, is_filling = len(low_b), len(columns) > 0
    near_blocks, near_tiles = np.empty(len(blocks_b[1]), np.int64), np.empty(n_tiles_b, np.int64)
    candidates = np.empty(n_tiles_b, np.int64)
    n_blocks = _near_groups(block, blocks_a, blocks_b, np.arange(len(blocks_b[1])), inverse_epsilon, depth, near_blocks)
    n_candidates = 0
    for near in near_blocks[:n_blocks]:
        for tile in range(blocks_b[0][near], blocks_b[0][near + 1]):
            candidates[n_candidates] = tile
            n_candidates += 1
    for tile_a in range(blocks_a[0][block], blocks_a[0][block + 1]):
        n_near = _near_groups(tile_a, tiles_a, tiles_b, candidates[:n_candidates], inverse_epsilon, depth, near_tiles)
        for i in range(tiles_a[0][tile_a], tiles_a[0][tile_a + 1]):
            for tile_b in near_tiles[:n_near]:
                if not _may_share(
                    xa, xa, scale_a[i], share_a[i], i, low_b, high_b, tops_b, tile_b, inverse_epsilon, depth
                ):
                    continue
                for j in range(starts_b[tile_b], starts_b[tile_b + 1]):
                    squared = 0.0
                    for axis in range(xa.shape[1]):
                        squared += (xa[i, axis] - xb[j, axis]) ** 2
                    fall = squared * inverse_epsilon
                    if share_a[i] + scale_b[j] - fall > -depth or scale_a[i] + share_b[j] - fall > -depth:
                        if is_filling:
                            columns[places[i]] = j
                            log_values[places[i]] = scale_a[i] + scale_b[j] - fall
                        places[i] += 1

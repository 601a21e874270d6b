"""The entries of a plan that carry mass, as a sparse matrix: found tile by tile, never by looking at all n x m pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sparse

from pairframe.compiler import compiled
from pairframe.parallel.threads import run_in_threads
from pairframe.types import Float, Int

Groups = tuple[Int, Float, Float, Float]  # starts, low and high corners, largest scale and share

_TILE = 8  # pixels along each side of a tile; its pixels are skipped together
_BLOCK = 8  # tiles along each side of a block; its tiles are skipped together


@dataclass(frozen=True, eq=False)
class PlanSide:
    """One side of a plan, its points in the order of blocks of tiles.

    Attributes
    ----------
    order : (n,) int
    positions : (n, d)
        In that order, like the two below.
    scale, share : (n,)
        Logs of the factor in every entry, and of its ratio to the marginal.
    tiles, blocks : Groups
    """

    order: Int
    positions: Float
    scale: Float
    share: Float
    tiles: Groups
    blocks: Groups

    @classmethod
    def of(cls, positions: Float, log_scale: Float, log_marginal: Float) -> PlanSide:
        """From positions (n, d), work px, ``log u + f/eps`` (n,) and the log of the marginal (n,)."""
        tile = np.floor((positions - positions.min(axis=0)) / _TILE).astype(np.int64)
        block, n_axes = tile // _BLOCK, tile.shape[1]
        of_block = np.ravel_multi_index(tuple(block.T), tuple(block.max(axis=0) + 1))
        within = np.ravel_multi_index(tuple((tile - _BLOCK * block).T), (_BLOCK,) * n_axes)
        key = of_block * _BLOCK**n_axes + within
        order = np.argsort(key, kind="stable")
        key, ordered, scale = key[order], np.ascontiguousarray(positions[order]), log_scale[order]
        share, starts = scale - log_marginal[order], _starts(key)
        tiles = _groups(starts, ordered, ordered, scale, share)
        blocks = _groups(_starts(key[starts[:-1]] // _BLOCK**n_axes), tiles[1], tiles[2], *tiles[3])
        return cls(order, ordered, scale, share, tiles, blocks)

    @property
    def arrays(self) -> tuple[Float, Float, Float, Groups, Groups]:
        """All but the order."""
        return self.positions, self.scale, self.share, self.tiles, self.blocks


def list_plan(a: PlanSide, b: PlanSide, epsilon: float, *, depth: float, most_entries: int) -> sparse.csr_matrix | None:
    """The entries ``exp(scale_i + scale_j - |x_i - x_j|^2 / eps)`` above ``e^-depth`` of the sum of their row or column.

    Returns
    -------
    (n, m) sparse matrix, rows and columns in the original order; None if there are more than `most_entries`
    """
    n, m = len(a.order), len(b.order)
    arguments = (*a.arrays, *b.arrays, 1.0 / epsilon, depth)
    counts = np.zeros(n, np.int64)
    run_in_threads(lambda first, step: _count(*arguments, most_entries, counts, first, step), n)
    if counts.sum() > most_entries:
        return None
    ends = np.cumsum(counts)
    columns, log_values, places = np.empty(ends[-1], np.int32), np.empty(ends[-1]), ends - counts
    run_in_threads(lambda first, step: _fill(*arguments, places, columns, log_values, first, step), n)
    rows = np.concatenate([[0], ends]).astype(np.int32)
    ordered = sparse.csr_matrix((np.exp(log_values), b.order.astype(np.int32)[columns], rows), shape=(n, m))
    return ordered[np.argsort(a.order)]


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

"""Branch and bound over turn and shift, compiled. The bound is explained in `pairframe.alignment.proof`."""

from __future__ import annotations

import heapq
import math

import numpy as np

from pairframe.compiler import compiled

_SLACK = 0.7072  # more than half the diagonal of a pixel
_ROUNDING = 1e-6  # px; more than the rounding errors of a position or a distance


@compiled()
def upper_bound(distance, points, counts, lengths, radii, sign, angle, ty, tx, turn, side):
    """The largest overlap of any pose in a cell is at most this.

    Parameters
    ----------
    distance : (H, W) float32
        Distance of each pixel to the source, px.
    points, counts, lengths, radii : (n, 2), (n,), (n,), (n,)
        Blocks of target pixels: barycentre in source pixels around the centroid, number of pixels, distance of the
        barycentre from the origin, largest distance of a pixel from the barycentre.
    sign : float
        -1 mirrors the target first.
    angle, ty, tx : float
        Middle of the cell, radians and source pixels.
    turn, side : float
        Widths of the cell: angles within ``turn / 2`` and shifts within ``side / 2`` along each axis.
    """
    height, width = distance.shape
    c, s = math.cos(angle), math.sin(angle)
    by_turn = 2.0 * math.sin(min(turn, 2.0 * math.pi) / 4.0)
    by_shift = side / math.sqrt(2.0) + _SLACK + _ROUNDING
    total = 0.0
    for k in range(len(counts)):
        py, px = points[k, 0] * sign, points[k, 1]
        y, x = c * py - s * px + ty, s * py + c * px + tx
        i, j = math.floor(y + 0.5), math.floor(x + 0.5)
        far = lengths[k] * by_turn + by_shift + radii[k]
        near_i, near_j = min(max(i, 0), height - 1), min(max(j, 0), width - 1)
        if near_i == i and near_j == j:
            far += math.sqrt((y - i) * (y - i) + (x - j) * (x - j))
            if distance[i, j] <= far:
                total += counts[k]
        else:
            # Beyond the array: the source is at least as far as the array itself, and its distance is 1-Lipschitz.
            gap = math.sqrt((y - near_i) * (y - near_i) + (x - near_j) * (x - near_j))
            if max(gap, distance[near_i, near_j] - gap) <= far:
                total += counts[k]
    return total


@compiled()
def branch_and_bound(
    distance, all_points, all_counts, all_lengths, all_radii, starts, coarseness, radius, incumbent, sign, low, high,
    cy, cx, reach, most_visits, fineness,
):  # fmt: skip
    """Search the angles `low` to `high` and shifts up to `reach` around (cy, cx) for an overlap above `incumbent`.

    Best cell first; whichever of turn and shift moves the target more is halved. Cells use the coarsest blocks whose
    size is small beside the motion within the cell.

    Parameters
    ----------
    all_points, all_counts, all_lengths, all_radii, starts
        Blocks of several sizes, finest first; size ``m`` is at ``starts[m]:starts[m + 1]``.
    coarseness : (n_sizes,)
        Largest radius of a block of each size, px.
    radius : float
        Typical distance of the target's pixels from the origin, px.
    most_visits : int
        Stop after looking at so many blocks.
    fineness : float
        Largest share of the motion within a cell that the radius of a block may have.

    Returns
    -------
    bound : float
        No pose in the domain has a larger overlap.
    nodes : int
    """
    heap = [(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)]
    heap.pop()
    nodes, visits = 0, 0
    n_first = max(1, math.ceil((high - low) / math.radians(20.0)))
    turn = (high - low) / n_first
    for m in range(n_first):
        angle = low + (m + 0.5) * turn
        bound, n_points = _bound_of_cell(
            distance, all_points, all_counts, all_lengths, all_radii, starts, coarseness, radius, sign, angle, cy, cx,
            turn, 2.0 * reach, fineness,
        )  # fmt: skip
        nodes += 1
        visits += n_points
        if bound > incumbent:
            heapq.heappush(heap, (-bound, angle, turn, cy, cx, 2.0 * reach))
    while len(heap) > 0 and visits < most_visits:
        _, angle, turn, ty, tx, side = heapq.heappop(heap)
        by_turn = radius * turn / 2.0 > 0.75 * side
        for m in range(2 if by_turn else 4):
            if by_turn:
                angle_m, ty_m, tx_m, turn_m, side_m = angle + (m - 0.5) * turn / 2.0, ty, tx, turn / 2.0, side
            else:
                angle_m, turn_m, side_m = angle, turn, side / 2.0
                ty_m, tx_m = ty + (m // 2 - 0.5) * side / 2.0, tx + (m % 2 - 0.5) * side / 2.0
            bound, n_points = _bound_of_cell(
                distance, all_points, all_counts, all_lengths, all_radii, starts, coarseness, radius, sign, angle_m,
                ty_m, tx_m, turn_m, side_m, fineness,
            )  # fmt: skip
            nodes += 1
            visits += n_points
            if bound > incumbent:
                heapq.heappush(heap, (-bound, angle_m, turn_m, ty_m, tx_m, side_m))
    return (incumbent if len(heap) == 0 else -heap[0][0]), nodes


@compiled()
def _bound_of_cell(
    distance, all_points, all_counts, all_lengths, all_radii, starts, coarseness, radius, sign, angle, ty, tx, turn, side,
    fineness,
):  # fmt: skip
    motion = radius * turn / 2.0 + side / math.sqrt(2.0)
    size = 0
    while size + 1 < len(coarseness) and coarseness[size + 1] < fineness * motion:
        size += 1
    first, last = starts[size], starts[size + 1]
    bound = upper_bound(
        distance, all_points[first:last], all_counts[first:last], all_lengths[first:last], all_radii[first:last], sign,
        angle, ty, tx, turn, side,
    )  # fmt: skip
    return bound, last - first


@compiled()
def overlap_count(inside, points, counts, sign, angle, ty, tx):
    """Number of target pixels, (n, 2) points, whose nearest source pixel is inside, at one pose."""
    height, width = inside.shape
    c, s = math.cos(angle), math.sin(angle)
    total = 0.0
    for k in range(len(counts)):
        py, px = points[k, 0] * sign, points[k, 1]
        i = math.floor(c * py - s * px + ty + 0.5)
        j = math.floor(s * py + c * px + tx + 0.5)
        if 0 <= i < height and 0 <= j < width and inside[i, j]:
            total += counts[k]
    return total


@compiled()
def distances_rounded_down(squared):
    """Square roots as float32 numbers that are not above them, (H, W)."""
    out = np.empty(squared.shape, np.float32)
    for i in range(squared.shape[0]):
        for j in range(squared.shape[1]):
            root = np.float32(math.sqrt(squared[i, j]))
            out[i, j] = root if root * np.float64(root) <= squared[i, j] else root * np.float32(1.0 - 1.2e-7)
    return out

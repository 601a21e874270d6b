"""Minimum-cost flow between two supports, compiled: integer potentials close to optimal come in, optimal ones go out.

This is the primal-dual method. Slacks ``r_ij = |x_i - x_j|^2 - f_i - g_j >= 0`` are integers. Mass flows only along tight
pairs (slack 0), so the flow is optimal for the mass it carries. When the tight pairs carry all they can (`_push_flow`,
Dinic's method), a shortest-path search from the mass left over (`_raise_potentials`) finds the raise that makes new pairs
tight. It lifts the dual value by the raise times the mass left over.

Only pairs of small slack are listed (`_list_pairs`). Raises reduce slack, so while they add up to less than the width of
the list, no unlisted pair can have become tight.
"""

from __future__ import annotations

import numpy as np

from pairframe.compiler import compiled
from pairframe.types import Int

Pairs = tuple[Int, Int, Int, Int, Int, Int]

_WIDTH = 4  # largest slack in the first list, px^2; the raises after a good start hardly add up to more
_WIDEST = 64
_TILE = 8  # side of the tiles in which targets are skipped
_FAR = np.int64(2**60)


@compiled(nogil=True)
def transport(
    yx_a: Int, yx_b: Int, left_a: Int, left_b: Int, f: Int, g: Int, shape_hw: tuple[int, int], max_raises: int
) -> tuple[Int, Int, int]:
    """Raise `f` and `g` in place until all mass flows, at most `max_raises` times.

    Parameters
    ----------
    yx_a, yx_b : (n, 2), (m, 2) int64
        Pixels in row-major order.
    left_a, left_b : (n,), (m,) int64
        Masses with equal totals below 2^63. Reduced in place to the mass that does not flow, zero if all of it does.
    f, g : (n,), (m,) int64
        In px^2, feasible: f_i + g_j <= |x_i - x_j|^2 for all pairs. They stay feasible.

    Returns
    -------
    flow, cost : (k,), (k,) int64
        Mass and px^2 of each pair in the last list. They are not multiplied here, because the product may overflow int64.
    raises : int
        Number of times the potentials were raised.
    """
    width = _WIDTH
    pairs = _list_pairs(yx_a, yx_b, f, g, shape_hw, width)
    flow = np.zeros(len(pairs[1]), np.int64)
    room = width
    raises = 0
    while True:
        _push_flow(pairs, flow, left_a, left_b, f, g)
        if raises >= max_raises or not (left_a > 0).any():
            break
        if room == 0:
            kept = pairs
            width = min(2 * width, _WIDEST)  # far from the optimum, a few long lists are cheaper than many short ones
            pairs = _list_pairs(yx_a, yx_b, f, g, shape_hw, width)
            flow = _flow_on_new_list(kept, flow, pairs)
            room = width
        room -= _raise_potentials(pairs, flow, left_a, left_b, f, g, room)
        raises += 1
    return flow, pairs[2], raises


@compiled(nogil=True)
def _list_pairs(yx_a: Int, yx_b: Int, f: Int, g: Int, shape_hw: tuple[int, int], width: int) -> Pairs:
    """List pairs with slack <= width, as CSR by source (start, target, cost) and by target (start, pair, source of pair)."""
    n, m = len(yx_a), len(yx_b)
    tiles_y, tiles_x = (shape_hw[0] + _TILE - 1) // _TILE, (shape_hw[1] + _TILE - 1) // _TILE
    best = np.full((tiles_y, tiles_x), -_FAR)
    count = np.zeros(tiles_y * tiles_x + 1, np.int64)
    for j in range(m):
        ty, tx = yx_b[j, 0] // _TILE, yx_b[j, 1] // _TILE
        best[ty, tx] = max(best[ty, tx], g[j])
        count[ty * tiles_x + tx + 1] += 1
    members_start = np.cumsum(count)
    fill = members_start[:-1].copy()
    members = np.empty(m, np.int64)
    for j in range(m):
        t = yx_b[j, 0] // _TILE * tiles_x + yx_b[j, 1] // _TILE
        members[fill[t]] = j
        fill[t] += 1
    room = 16 * n + 1024
    target, cost = np.empty(room, np.int64), np.empty(room, np.int64)
    start = np.zeros(n + 1, np.int64)
    k = 0
    for i in range(n):
        y, x = yx_a[i, 0], yx_a[i, 1]
        limit = f[i] + width
        for ty in range(tiles_y):
            dy = max(0, ty * _TILE - y, y - ty * _TILE - _TILE + 1)
            for tx in range(tiles_x):
                dx = max(0, tx * _TILE - x, x - tx * _TILE - _TILE + 1)
                if dy * dy + dx * dx - best[ty, tx] > limit:
                    continue
                t = ty * tiles_x + tx
                for s in range(members_start[t], members_start[t + 1]):
                    j = members[s]
                    c = (yx_b[j, 0] - y) ** 2 + (yx_b[j, 1] - x) ** 2
                    if c - g[j] > limit:
                        continue
                    if k == room:
                        room *= 2
                        longer_target, longer_cost = np.empty(room, np.int64), np.empty(room, np.int64)
                        longer_target[:k] = target[:k]
                        longer_cost[:k] = cost[:k]
                        target, cost = longer_target, longer_cost
                    target[k] = j
                    cost[k] = c
                    k += 1
        start[i + 1] = k
    target, cost = target[:k].copy(), cost[:k].copy()
    back_start = np.zeros(m + 1, np.int64)
    for p in range(k):
        back_start[target[p] + 1] += 1
    back_start = np.cumsum(back_start)
    fill = back_start[:-1].copy()
    back, source = np.empty(k, np.int64), np.empty(k, np.int64)
    for i in range(n):
        for p in range(start[i], start[i + 1]):
            back[fill[target[p]]] = p
            fill[target[p]] += 1
            source[p] = i
    return start, target, cost, back_start, back, source


@compiled(nogil=True)
def _flow_on_new_list(old: Pairs, flow: Int, new: Pairs) -> Int:
    """Move the flow to a new list; pairs with flow are tight, and every list contains all tight pairs."""
    carried = np.zeros(len(new[1]), np.int64)
    place = np.empty(len(new[3]) - 1, np.int64)
    for i in range(len(old[0]) - 1):
        for p in range(new[0][i], new[0][i + 1]):
            place[new[1][p]] = p
        for p in range(old[0][i], old[0][i + 1]):
            if flow[p] > 0:
                carried[place[old[1][p]]] = flow[p]
    return carried


@compiled(nogil=True)
def _raise_potentials(pairs: Pairs, flow: Int, left_a: Int, left_b: Int, f: Int, g: Int, most: int) -> int:
    """Raise potentials by the distance from the mass left over to the nearest free target, at most `most`; return it."""
    start, target, cost, back_start, back, source = pairs
    n, m = len(f), len(g)
    far_a, far_b = np.full(n, most), np.full(m, most)
    head = np.full(most + 1, np.int64(-1))  # linked lists of visits, one per distance
    room = n + m + len(target) + np.count_nonzero(flow)
    visit, after = np.empty(room, np.int64), np.empty(room, np.int64)
    n_visits = 0
    for i in range(n):
        if left_a[i] > 0:
            far_a[i] = 0
            visit[n_visits], after[n_visits] = i, head[0]
            head[0] = n_visits
            n_visits += 1
    found = most
    d = 0
    while d < found:
        entry = head[d]
        if entry < 0:
            d += 1
            continue
        head[d] = after[entry]
        node = visit[entry]
        if node < n:
            if far_a[node] < d:
                continue
            for p in range(start[node], start[node + 1]):
                j = target[p]
                there = d + cost[p] - f[node] - g[j]
                if there < far_b[j]:
                    far_b[j] = there
                    if left_b[j] > 0:
                        found = min(found, there)
                    visit[n_visits], after[n_visits] = n + j, head[there]
                    head[there] = n_visits
                    n_visits += 1
        else:
            j = node - n
            if far_b[j] < d:
                continue
            for s in range(back_start[j], back_start[j + 1]):
                p = back[s]
                if flow[p] > 0 and far_a[source[p]] > d:
                    i = source[p]
                    far_a[i] = d
                    visit[n_visits], after[n_visits] = i, head[d]
                    head[d] = n_visits
                    n_visits += 1
    for i in range(n):
        f[i] += max(0, found - far_a[i])
    for j in range(m):
        g[j] -= max(0, found - far_b[j])
    return found


@compiled(nogil=True)
def _push_flow(pairs: Pairs, flow: Int, left_a: Int, left_b: Int, f: Int, g: Int) -> None:
    """Push as much flow as the tight pairs can carry, by Dinic's method."""
    start, target, cost = pairs[:3]
    n, m = len(f), len(g)
    # Tight pairs only, by node: sources 0..n-1 point to targets n..n+m-1, and targets point back.
    first = np.zeros(n + m + 1, np.int64)
    for i in range(n):
        for p in range(start[i], start[i + 1]):
            if cost[p] == f[i] + g[target[p]]:
                first[i + 1] += 1
                first[n + target[p] + 1] += 1
    first = np.cumsum(first)
    fill = first[:-1].copy()
    other, pair = np.empty(first[-1], np.int64), np.empty(first[-1], np.int64)
    for i in range(n):
        for p in range(start[i], start[i + 1]):
            j = n + target[p]
            if cost[p] == f[i] + g[j - n]:
                other[fill[i]], pair[fill[i]] = j, p
                fill[i] += 1
                other[fill[j]], pair[fill[j]] = i, p
                fill[j] += 1
    level, queue = np.empty(n + m, np.int64), np.empty(n + m, np.int64)
    while True:
        reached = _levels(first, other, pair, flow, left_a, left_b, level, queue)
        if reached < 0:
            return
        _push_blocking_flow(first, other, pair, flow, left_a, left_b, level, reached)


@compiled(nogil=True)
def _levels(first: Int, other: Int, pair: Int, flow: Int, left_a: Int, left_b: Int, level: Int, queue: Int) -> int:
    """Count steps from the mass left over to each node, -1 if out of reach; return those to the nearest free target or -1."""
    n = len(left_a)
    level[:] = -1
    size = 0
    for i in range(n):
        if left_a[i] > 0:
            level[i] = 0
            queue[size] = i
            size += 1
    reached = -1
    at = 0
    while at < size:
        node = queue[at]
        at += 1
        if reached >= 0 and level[node] >= reached:
            break
        for s in range(first[node], first[node + 1]):
            there = other[s]
            if level[there] < 0 and (node < n or flow[pair[s]] > 0):
                level[there] = level[node] + 1
                queue[size] = there
                size += 1
                if node < n and left_b[there - n] > 0:
                    reached = level[there]
    return reached


@compiled(nogil=True)
def _push_blocking_flow(
    first: Int, other: Int, pair: Int, flow: Int, left_a: Int, left_b: Int, level: Int, reached: int
) -> None:
    """Push flow along paths of `reached` steps until each of them is blocked."""
    n = len(left_a)
    current = first[:-1].copy()
    path = np.empty(reached + 1, np.int64)  # nodes
    step = np.empty(reached + 1, np.int64)  # pairs between them
    for root in range(n):
        depth = 0
        path[0] = root
        while depth >= 0 and left_a[root] > 0:
            node = path[depth]
            if node >= n and left_b[node - n] > 0:
                amount = min(left_a[root], left_b[node - n])
                for q in range(1, depth, 2):
                    amount = min(amount, flow[step[q]])
                left_a[root] -= amount
                left_b[node - n] -= amount
                depth -= 1
                for q in range(depth, -1, -1):
                    flow[step[q]] += amount if q % 2 == 0 else -amount
                    if q % 2 == 1 and flow[step[q]] == 0:
                        depth = q  # continue before the first pair that is now empty
                continue
            onwards = False
            if level[node] < reached:
                while current[node] < first[node + 1]:
                    s = current[node]
                    if level[other[s]] == level[node] + 1 and (node < n or flow[pair[s]] > 0):
                        onwards = True
                        break
                    current[node] += 1
            if onwards:
                step[depth] = pair[s]
                depth += 1
                path[depth] = other[s]
            else:
                level[node] = -1
                depth -= 1

"""The pixels of a support as indices, and the stretches of lines that they cover: the work of `numpy.nonzero`, in one quick pass."""

from __future__ import annotations

import numpy as np

from pairframe.compiler import compiled
from pairframe.types import Bool, Index, Int


def places(support: Bool) -> tuple[Index, ...]:
    """`numpy.nonzero` of a bool array with at least one axis."""
    lines = np.ascontiguousarray(support).reshape(-1, support.shape[-1])
    n = int(np.count_nonzero(lines))
    line, place = np.empty(n, np.intp), np.empty(n, np.intp)
    _list(lines, line, place)
    if support.ndim <= 2:
        return (line, place)[2 - support.ndim :]
    return *np.unravel_index(line, support.shape[:-1]), place


def spans(line: Index, place: Index, n_lines: int) -> Int:
    """First and one past the last place of each line; (n_lines, 2), 0:0 for none."""
    found = np.zeros((n_lines, 2), dtype=np.int64)
    _widen(line, place, found)
    return found


def widened(support: Bool, margin: int) -> Bool:
    """Where any pixel of a support (H, W) is at most so far along the last axis."""
    found = np.empty(support.shape, dtype=bool)
    _mark_near(np.ascontiguousarray(support), margin, found)
    return found


@compiled(nogil=True)
def _list(lines, line, place):
    n = 0
    for i in range(lines.shape[0]):
        for j in range(lines.shape[1]):
            if lines[i, j]:
                line[n], place[n] = i, j
                n += 1


@compiled(nogil=True)
def _widen(line, place, found):
    for k in range(line.size):
        i, j = line[k], place[k]
        if found[i, 1] == 0:
            found[i, 0], found[i, 1] = j, j + 1
        else:
            found[i, 0], found[i, 1] = min(found[i, 0], j), max(found[i, 1], j + 1)


@compiled(nogil=True)
def _mark_near(lines, margin, found):
    n = lines.shape[1]
    for i in range(lines.shape[0]):
        before, after = -1 - margin, n + margin
        for j in range(n):
            before = j if lines[i, j] else before
            found[i, j] = j - before <= margin
        for j in range(n - 1, -1, -1):
            after = j if lines[i, j] else after
            found[i, j] = found[i, j] or after - j <= margin

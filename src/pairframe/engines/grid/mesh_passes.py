"""Hat functions on a coarse mesh, compiled: pixels to nodes and back, and the matrix of a killed diffusion.

A pixel touches the ``2^n_axes`` nodes at the corners of its cell. Node number ``first[i] + offsets[c]`` is corner c of pixel i,
with the first axis as the most significant bit of c, and ``upper[k][i]`` is the value along axis k of the hat at the upper corner.
Hats are computed anew in every pass: kept, they would be as large as several images. Axes and corners come as tuples, whose
lengths the compiler knows, so that it unrolls all loops over them.
"""

from __future__ import annotations

import numpy as np

from pairframe.compiler import compiled

_FLAGS = {"contract", "reassoc", "nsz"}


@compiled(nogil=True, fastmath=_FLAGS)
def _hats(upper, i, hats):
    """The hats of all corners at pixel i."""
    hats[0] = 1.0
    size = 1
    for k in range(len(upper)):
        share = upper[k][i]
        for c in range(size - 1, -1, -1):
            hats[2 * c + 1] = hats[c] * share
            hats[2 * c] = hats[c] * (1.0 - share)
        size *= 2


@compiled(nogil=True, fastmath=_FLAGS)
def add_to_nodes(first, upper, offsets, values, nodes):
    """Add ``sum_i hat values_i`` to `nodes`, (n_nodes,)."""
    hats = np.empty(len(offsets))
    for i in range(first.size):
        _hats(upper, i, hats)
        for c in range(len(offsets)):
            nodes[first[i] + offsets[c]] += hats[c] * values[i]


@compiled(nogil=True, fastmath=_FLAGS)
def interpolate(first, upper, offsets, nodes, out):
    """Values at the pixels, (n,), from those at the nodes."""
    hats = np.empty(len(offsets))
    for i in range(first.size):
        _hats(upper, i, hats)
        total = 0.0
        for c in range(len(offsets)):
            total += hats[c] * nodes[first[i] + offsets[c]]
        out[i] = total


@compiled(nogil=True, fastmath=_FLAGS)
def list_hats(first, upper, offsets, columns, values):
    """The nodes and hats of every pixel, (n, n_corners)."""
    hats = np.empty(len(offsets))
    for i in range(first.size):
        _hats(upper, i, hats)
        for c in range(len(offsets)):
            columns[i, c], values[i, c] = first[i] + offsets[c], hats[c]


@compiled(nogil=True, fastmath=_FLAGS)
def add_stencil(first, upper, offsets, inverse_widths, row_of_pair, pull, push, stencil):
    """Sum ``pull_i hat hat' + push_i grad hat . grad hat'`` over the pixels, for each two corners of a cell.

    Parameters
    ----------
    inverse_widths : tuple of float, per axis, 1 / work px
    row_of_pair : (n_pairs,) int
        The row of `stencil` for each two corners, (0, 0), (0, 1), ...: it belongs to the difference of their nodes.
    pull, push : (n,)
    stencil : (n_steps, n_nodes)
        Entry (node, node + step) of a symmetric matrix, added to.
    """
    n_axes, n_corners = len(upper), len(offsets)
    hats, slopes = np.empty(n_corners), np.empty((n_axes, n_corners))
    for i in range(first.size):
        _hats(upper, i, hats)
        for k in range(n_axes):
            for c in range(n_corners):
                slope = inverse_widths[k] if (c >> (n_axes - 1 - k)) & 1 else -inverse_widths[k]
                for other in range(n_axes):
                    if other != k:
                        share = upper[other][i]
                        slope *= share if (c >> (n_axes - 1 - other)) & 1 else 1.0 - share
                slopes[k, c] = slope
        pair = 0
        for one in range(n_corners):
            for two in range(one, n_corners):
                energy = 0.0
                for k in range(n_axes):
                    energy += slopes[k, one] * slopes[k, two]
                value = pull[i] * hats[one] * hats[two] + push[i] * energy
                stencil[row_of_pair[pair], first[i] + offsets[one]] += value
                pair += 1


@compiled(nogil=True)
def fill_band(stencil, steps, used, number, band):
    """The used nodes of a stencil as the lower band of their matrix, in the layout of LAPACK: entry (i, j) is at (i - j, j).

    Parameters
    ----------
    steps : (n_steps,)
        Ascending, the first one 0.
    used, number : (n_used,), (n_nodes,)
        The nodes, and the number of each among them or -1.
    band : (width + 1, n_used)
        Zeros, written.
    """
    for column in range(used.size):
        node = used[column]
        for k in range(steps.size):
            after = node + steps[k]
            if after < number.size and number[after] >= 0:
                band[number[after] - column, column] += stencil[k, node]


@compiled(nogil=True)
def fill_columns(stencil, steps, used, number, starts, rows, values):
    """The same matrix as compressed columns, with the rows of each in order.

    Parameters
    ----------
    starts, rows, values : (n_used + 1,), (n_used (2 n_steps - 1),) twice
        Written; the last start is the number of entries.
    """
    place = 0
    for column in range(used.size):
        node = used[column]
        starts[column] = place
        for k in range(steps.size - 1, -steps.size, -1):
            other = node - steps[k] if k >= 0 else node + steps[-k]
            if 0 <= other < number.size and number[other] >= 0:
                value = stencil[k, other] if k >= 0 else stencil[-k, node]
                if value != 0.0:
                    rows[place], values[place] = number[other], value
                    place += 1
    starts[used.size] = place

"""Killed diffusion on a coarse mesh: ``kill d - div(D grad d) = r`` by multilinear hat functions, for any number of axes."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations_with_replacement, product

import numpy as np
import scipy.sparse as sparse
from scipy.sparse.linalg import LinearOperator, cg, splu

from pairframe.types import Bool, Float, Int

SPACING_BLURS = 1.75  # mesh width in units of sqrt(eps): finer modes decay without help
_MOST_FACTORED_NODES = 4_000  # of a mesh with three or more axes; larger ones have factors with many more entries
_CG_TOLERANCE = 1e-2  # relative; the correction is an approximation anyway
_CG_ITERATIONS = 500


class KilledDiffusion:
    """Solves for the smooth part of a Newton step; see `correction`.

    Parameters
    ----------
    mesh : Mesh
    free : (n,) bool
        Pixels that take part; hats are masked to them.
    weight : (n,)
        Mass of each pixel, > 0 on free ones.
    kill : (n,)
        Share of a constant that is undone, >= 0.
    spread : (n,)
        D, px^2, > 0.
    """

    def __init__(self, mesh: Mesh, free: Bool, weight: Float, kill: Float, spread: Float) -> None:
        stencil = _Stencil(mesh.n_nodes)
        weight = np.where(free, weight, 0.0)
        push, pull = weight * spread, weight * kill
        for i, j in combinations_with_replacement(range(2**mesh.n_axes), 2):
            overlap = mesh.hat(i) * mesh.hat(j)
            energy = push * sum(one * other for one, other in zip(mesh.slopes(i), mesh.slopes(j), strict=True))
            stencil.add(mesh.corner(i), mesh.corner(j), pull * overlap + energy)
        used = stencil.nodes()
        newton = stencil.matrix(used)
        # Without killing the constant is in the null space; a small diagonal keeps the matrix regular.
        regular = newton + sparse.diags(1e-7 * newton.diagonal() + 1e-14 * newton.diagonal().max())
        factor = mesh.n_axes <= 2 or used.size <= _MOST_FACTORED_NODES
        self._solve = factored(regular) if factor else _by_conjugate_gradients(regular)
        self._to_pixels, self._used = mesh.to_pixels, used
        self._free = free

    def __call__(self, pull: Float) -> Float:
        """The smooth solution (n,) for a forcing times weight (n,), 0 where pixels are not free."""
        at_nodes = np.zeros(self._to_pixels.shape[1])
        at_nodes[self._used] = self._solve((self._to_pixels.T @ np.where(self._free, pull, 0.0))[self._used])
        return np.where(self._free, np.asarray(self._to_pixels @ at_nodes), 0.0)


class Mesh:
    """Multilinear hat functions on a regular mesh, seen from the n pixels of a support.

    Attributes
    ----------
    n_nodes, n_axes : int
    to_pixels : (n, n_nodes) sparse
        Values at the pixels from values at the nodes.

    Notes
    -----
    The nodes at the corners of a pixel's cell are two to the power of the number of axes. Their hats and slopes are computed
    when they are needed: kept, they would be as large as ten images.
    """

    def __init__(self, support: Bool, epsilon: float, spacing: tuple[float, ...], axes: tuple[int, ...]) -> None:
        indices = np.nonzero(support)
        cells: list[Int] = []
        self._upper: list[Float] = []  # (n,) per axis: the value of the hat at the upper corner
        self._widths: list[float] = []
        for axis in axes:
            width_px = max(2.0, SPACING_BLURS * math.sqrt(epsilon) / spacing[axis])
            place = (indices[axis] - indices[axis].min()) / width_px
            cell = np.floor(place).astype(np.int64)
            cells.append(cell)
            self._upper.append(place - cell)
            self._widths.append(width_px * spacing[axis])
        sides = tuple(int(cell.max()) + 2 for cell in cells)
        self._strides = [math.prod(sides[k + 1 :]) for k in range(len(sides))]
        self._first: Int = np.asarray(sum(cell * stride for cell, stride in zip(cells, self._strides, strict=True)))
        self.n_nodes, self.n_axes = math.prod(sides), len(axes)
        self._corners = list(product((0, 1), repeat=len(axes)))
        n, n_corners = self._first.size, len(self._corners)
        columns, values = np.empty((n, n_corners), np.int32), np.empty((n, n_corners))
        for k in range(n_corners):
            columns[:, k], values[:, k] = self.corner(k), self.hat(k)
        rows: Int = np.arange(0, n_corners * n + 1, n_corners)
        self.to_pixels: sparse.csr_matrix = sparse.csr_matrix(
            (values.ravel(), columns.ravel(), rows), shape=(n, self.n_nodes)
        )

    def corner(self, number: int) -> Int:
        """The node at a corner of each pixel's cell, (n,)."""
        return self._first + sum(
            upper * stride for upper, stride in zip(self._corners[number], self._strides, strict=True)
        )

    def hat(self, number: int) -> Float:
        """The value of that node's hat function at each pixel, (n,)."""
        along = self._along(number)
        return np.asarray(math.prod(along[1:], start=along[0]))

    def slopes(self, number: int) -> list[Float]:
        """Its gradient there, (n,) per axis, per work px."""
        along, n = self._along(number), self._first.size
        return [
            math.prod(along[:k] + along[k + 1 :], start=1.0 if upper else -1.0) / np.full(n, width)
            for k, (upper, width) in enumerate(zip(self._corners[number], self._widths, strict=True))
        ]

    def _along(self, number: int) -> list[Float]:
        """The hats along each axis whose product is that of a corner."""
        return [
            share if upper else 1.0 - share for share, upper in zip(self._upper, self._corners[number], strict=True)
        ]


def factored(matrix: sparse.csc_matrix) -> Callable[[Float], Float]:
    solve: Callable[[Float], Float] = splu(
        matrix.tocsc(), permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True}
    ).solve
    return solve


def _by_conjugate_gradients(matrix: sparse.csc_matrix) -> Callable[[Float], Float]:
    """Solve to `_CG_TOLERANCE` with the diagonal as preconditioner: memory of the matrix, not of its factors."""
    rows, inverse = matrix.tocsr(), 1.0 / matrix.diagonal()
    preconditioner = LinearOperator(rows.shape, lambda x: inverse * x)

    def solve(right: Float) -> Float:
        found, _ = cg(rows, right, rtol=_CG_TOLERANCE, maxiter=_CG_ITERATIONS, M=preconditioner)
        return np.asarray(found)

    return solve


class _Stencil:
    """A symmetric matrix on a mesh, summed over pixels: one array of node values per neighbour, of each two only one."""

    def __init__(self, n_nodes: int) -> None:
        self._n_nodes = n_nodes
        self._by_step: dict[int, Float] = {}

    def add(self, row: Int, column: Int, value: Float) -> None:
        """Add `value` (n,) at (row, column); ``column - row`` is the same for all of them."""
        step = int(column[0] - row[0])
        total = np.bincount(row, weights=value, minlength=self._n_nodes).astype(np.float64)
        self._by_step[step] = self._by_step[step] + total if step in self._by_step else total

    def nodes(self) -> Int:
        """The nodes that free pixels touch."""
        diagonal = self._by_step[0]
        return np.flatnonzero(diagonal > 1e-13 * diagonal.max())

    def matrix(self, used: Int) -> sparse.csc_matrix:
        """The rows and columns of some nodes."""
        renumber = np.full(self._n_nodes, -1)
        renumber[used] = np.arange(used.size)
        rows, columns, values = [], [], []
        for step, value in self._by_step.items():
            row = used[value[used] != 0]
            row = row[renumber[row + step] >= 0]
            one, other = renumber[row], renumber[row + step]
            rows += [one] if step == 0 else [one, other]
            columns += [other] if step == 0 else [other, one]
            values += [value[row]] if step == 0 else [value[row]] * 2
        index = (np.concatenate(rows), np.concatenate(columns))
        return sparse.coo_matrix((np.concatenate(values), index), shape=(used.size, used.size)).tocsc()

"""Killed diffusion on a coarse mesh: ``kill d - div(D grad d) = r`` by multilinear hat functions, for any number of axes."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations_with_replacement, product

import numpy as np
import scipy.sparse as sparse
from scipy.linalg.lapack import dpbtrf, dpbtrs
from scipy.sparse.linalg import LinearOperator, cg, splu

from pairframe.engines.grid import mesh_passes
from pairframe.engines.grid.places import places
from pairframe.parallel.threads import one_blas_thread
from pairframe.types import Bool, Float, Int

SPACING_BLURS = 1.75  # mesh width in units of sqrt(eps): finer modes decay without help
_MOST_BAND = 4_000_000  # numbers: up to that a band is factored in a fraction of the time of sparse factors
_MOST_FACTORED_NODES = 4_000  # of a mesh with three or more axes; larger ones have factors with many more entries
_CG_TOLERANCE = 1e-2  # relative; the correction is an approximation anyway
_CG_ITERATIONS = 500
_REGULAR, _LEAST_REGULAR = 1e-7, 1e-14  # added to the diagonal: shares of an entry, and of the largest one
_EMPTY = 1e-13  # of the largest entry: nodes that no free pixel touches


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
        weight = np.where(free, weight, 0.0)
        matrix = mesh.matrix(weight * kill, weight * spread)
        self._used, self._solve = matrix.used, matrix.solver()
        self._mesh, self._free = mesh, free

    def __call__(self, pull: Float) -> Float:
        """The smooth solution (n,) for a forcing times weight (n,), 0 where pixels are not free."""
        at_nodes = self._mesh.to_nodes(np.where(self._free, pull, 0.0))
        smooth = np.zeros(at_nodes.shape)
        smooth[self._used] = self._solve(at_nodes[self._used])
        return np.where(self._free, self._mesh.to_pixels(smooth), 0.0)


class Mesh:
    """Multilinear hat functions on a regular mesh, seen from the n pixels of a support; see `mesh_passes`.

    Attributes
    ----------
    n_nodes, n_axes : int
    """

    def __init__(self, support: Bool, epsilon: float, spacing: tuple[float, ...], axes: tuple[int, ...]) -> None:
        cells: list[Int] = []
        shares: list[Float] = []  # (n,) per axis: the value of the hat at the upper corner
        widths: list[float] = []
        indices = places(support)
        for axis in axes:
            width_px = max(2.0, SPACING_BLURS * math.sqrt(epsilon) / spacing[axis])
            place = (indices[axis] - indices[axis].min()) / width_px
            cells.append(place.astype(np.int32))
            shares.append(place - cells[-1])
            widths.append(width_px * spacing[axis])
        sides = tuple(int(cell.max()) + 2 for cell in cells)
        strides = [math.prod(sides[k + 1 :]) for k in range(len(sides))]
        first = np.asarray(sum(cell * np.int32(stride) for cell, stride in zip(cells, strides, strict=True)))
        corners = product((0, 1), repeat=len(axes))
        offsets = tuple(sum(map(operator.mul, corner, strides)) for corner in corners)
        self._places = first, tuple(shares), offsets
        self._inverse_widths = tuple(1.0 / width for width in widths)
        self.n_nodes, self.n_axes = math.prod(sides), len(axes)

    def to_nodes(self, values: Float) -> Float:
        """The sums (n_nodes,) of pixel values (n,), each weighted by the hats there."""
        nodes = np.zeros(self.n_nodes)
        mesh_passes.add_to_nodes(*self._places, values, nodes)
        return nodes

    def to_pixels(self, nodes: Float) -> Float:
        """Values at the pixels, (n,), from values at the nodes, (n_nodes,)."""
        values = np.empty(self._places[0].size)
        mesh_passes.interpolate(*self._places, nodes, values)
        return values

    def hats(self) -> sparse.csr_matrix:
        """The same map as a matrix, (n, n_nodes)."""
        first, _, offsets = self._places
        shape = first.size, len(offsets)
        columns, values = np.empty(shape, np.int32), np.empty(shape)
        mesh_passes.list_hats(*self._places, columns, values)
        rows: Int = np.arange(0, values.size + 1, len(offsets))
        return sparse.csr_matrix((values.ravel(), columns.ravel(), rows), shape=(first.size, self.n_nodes))

    def matrix(self, pull: Float, push: Float) -> MeshMatrix:
        """``sum_i pull_i hat hat' + push_i grad hat . grad hat'`` over the pixels (n,), regular."""
        offsets = self._places[2]
        differences = [two - one for one, two in combinations_with_replacement(offsets, 2)]
        steps, row_of_pair = np.unique(differences, return_inverse=True)
        stencil = np.zeros((steps.size, self.n_nodes))
        mesh_passes.add_stencil(*self._places, self._inverse_widths, row_of_pair, pull, push, stencil)
        return MeshMatrix.of(stencil, steps, self.n_axes)


@dataclass(frozen=True, eq=False)
class MeshMatrix:
    """A symmetric positive matrix on the nodes of a mesh that pixels touch.

    Attributes
    ----------
    stencil : (n_steps, n_nodes)
        Entries (node, node + step).
    steps : (n_steps,)
        Ascending, the first one 0.
    used : (k,)
        The nodes that matter.
    n_axes : int
    """

    stencil: Float
    steps: Int
    used: Int
    n_axes: int

    @classmethod
    def of(cls, stencil: Float, steps: Int, n_axes: int) -> MeshMatrix:
        """Find the nodes that matter and make the matrix regular: without killing, a constant is in its null space."""
        diagonal = stencil[0]
        largest = float(diagonal.max())
        used = np.flatnonzero(diagonal > _EMPTY * largest)
        diagonal[used] += _REGULAR * diagonal[used] + _LEAST_REGULAR * largest
        return cls(stencil, steps, used, n_axes)

    def solver(self) -> Callable[[Float], Float]:
        """The solution (k,) of a right side (k,): the quickest way for a matrix of this size."""
        number = np.full(self.stencil.shape[1], -1)
        number[self.used] = np.arange(self.used.size)
        width = self._band_width(number)
        if self.used.size * (width + 1) <= _MOST_BAND:
            band = np.zeros((width + 1, self.used.size), order="F")
            mesh_passes.fill_band(self.stencil, self.steps, self.used, number, band)
            solve = _by_band(band)
            if solve is not None:
                return solve
        most = self.used.size * (2 * self.steps.size - 1)
        starts, rows, values = np.empty(self.used.size + 1, np.int32), np.empty(most, np.int32), np.empty(most)
        mesh_passes.fill_columns(self.stencil, self.steps, self.used, number, starts, rows, values)
        columns = values[: starts[-1]], rows[: starts[-1]], starts
        matrix = sparse.csc_matrix(columns, shape=(self.used.size, self.used.size))
        factor = self.n_axes <= 2 or self.used.size <= _MOST_FACTORED_NODES
        return factored(matrix) if factor else _by_conjugate_gradients(matrix)

    def _band_width(self, number: Int) -> int:
        """How far apart two neighbours are at most, in the numbers of the used nodes."""
        width = 0
        for step in self.steps[1:]:
            before = self.used[: np.searchsorted(self.used, number.size - step)]
            after = number[before + step]
            width = max(width, int((after - number[before]).max(initial=0)))
        return width


def _by_band(band: Float) -> Callable[[Float], Float] | None:
    """Cholesky factors of a lower band (width + 1, k) in the layout of LAPACK; None if rounding made it indefinite."""
    with one_blas_thread():
        factors, failed = dpbtrf(band, lower=1, overwrite_ab=1)
    return None if failed else lambda right: np.asarray(dpbtrs(factors, right, lower=1)[0])


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

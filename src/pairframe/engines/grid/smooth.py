"""The slow modes of alternating updates are smooth: solve for them on a coarse mesh, as a diffusion.

Near the optimum one round of updates multiplies an error phi of the potential by ``J = theta_a theta_b E[E[phi|Y]|X]``:
two conditional means under the plan. What is left, ``D (I - J)``, is the quadratic form
``sum p (1/theta_a - theta_b) phi^2 + E[Var(phi(X) | Y)]``, and for smooth phi the variance is a Dirichlet energy,
``E[Cov(X|Y) grad phi . grad phi]``: the plan blurs with covariance about ``eps/2``. So the Newton step ``(I - J)^-1 r`` is,
on smooth modes, the solution of a sparse elliptic problem on a mesh about as wide as the blur. It is added to r, which
serves the rough modes (``1/(1 - e^-x)`` is ``1/x`` for the smooth, 1 for the rough); Anderson acceleration mends the rest.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sparse
from numpy.typing import NDArray
from scipy.sparse.linalg import splu

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]

SPACING_BLURS = 1.75  # mesh width in units of sqrt(eps): finer modes already decay by themselves
_CORNERS = ((0, 0), (0, 1), (1, 0), (1, 1))


class SmoothCorrection:
    """Adds the coarse solution to a residual.

    Parameters
    ----------
    support : (H, W) bool, n pixels
    weight : (n,)
        The marginal that the potential asks for, ``D`` above.
    epsilon : float
        Work px^2.
    stiffness : (n,)
        ``1/theta_a - E[theta_b | x]``: what the penalties alone give back of an error; 0 for balanced sides.
    spread : (n,)
        ``E[Var(X | Y)/2 | x]``, px^2: about ``eps/2`` for a rigid move, less where the plan spreads mass out.
    """

    def __init__(self, support: Bool, weight: Float, epsilon: float, stiffness: Float, spread: Float) -> None:
        ys, xs = np.nonzero(support)
        spacing = max(2.0, SPACING_BLURS * np.sqrt(epsilon))
        y, x = (ys - ys.min()) / spacing, (xs - xs.min()) / spacing
        iy, ix = np.floor(y).astype(np.int64), np.floor(x).astype(np.int64)
        ty, tx = y - iy, x - ix
        n_x = int(ix.max()) + 2
        n_nodes = (int(iy.max()) + 2) * n_x
        corner = [iy * n_x + ix + dy * n_x + dx for dy, dx in _CORNERS]
        shape = [(ty if dy else 1 - ty) * (tx if dx else 1 - tx) for dy, dx in _CORNERS]
        slope_y = [(1 if dy else -1) * (tx if dx else 1 - tx) / spacing for dy, dx in _CORNERS]
        slope_x = [(1 if dx else -1) * (ty if dy else 1 - ty) / spacing for dy, dx in _CORNERS]

        stencil = _Stencil(n_nodes)
        push, pull = weight * spread, weight * stiffness
        for i in range(4):
            for j in range(4):
                overlap = shape[i] * shape[j]
                energy = push * (slope_y[i] * slope_y[j] + slope_x[i] * slope_x[j])
                stencil.add(corner[i], corner[j], pull * overlap + energy)
        used = np.flatnonzero(np.bincount(np.concatenate(corner), minlength=n_nodes))
        newton = stencil.matrix(used)
        # The constant is in the null space when nothing gives back; a whisper on the diagonal keeps it solvable.
        whisper = sparse.diags(1e-7 * newton.diagonal() + 1e-14 * newton.diagonal().max())
        self._newton = splu((newton + whisper).tocsc(), permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True})
        self._weight = weight
        renumber = np.zeros(n_nodes, dtype=np.int64)
        renumber[used] = np.arange(used.size)
        columns, values = renumber[np.stack(corner, axis=1)].ravel(), np.stack(shape, axis=1).ravel()
        self._to_pixels = sparse.csr_matrix(
            (values, columns, np.arange(0, 4 * ys.size + 1, 4)), shape=(ys.size, used.size)
        )
        self._to_nodes = self._to_pixels.T.tocsr()

    def __call__(self, residual: Float) -> Float:
        """The residual (n,) with its smooth part replaced by the coarse Newton step."""
        # The constant is the optimal translation's business, and here it would be divided by nearly nothing.
        pull = self._weight * residual
        pull = pull - self._weight * (pull.sum() / self._weight.sum())
        at_nodes = self._to_nodes @ pull
        corrected: Float = residual + self._to_pixels @ self._newton.solve(at_nodes)
        return corrected


class _Stencil:
    """A symmetric matrix on a mesh, summed up pixel by pixel: one array of node values per neighbour."""

    def __init__(self, n_nodes: int) -> None:
        self._n_nodes = n_nodes
        self._by_step: dict[int, Float] = {}

    def add(self, row: NDArray[np.int64], column: NDArray[np.int64], value: Float) -> None:
        """Add `value` (n,) at (row, column); ``column - row`` is the same for all of them."""
        step = int(column[0] - row[0])
        total = np.bincount(row, weights=value, minlength=self._n_nodes).astype(np.float64)
        self._by_step[step] = self._by_step[step] + total if step in self._by_step else total

    def matrix(self, used: NDArray[np.int64]) -> sparse.csc_matrix:
        """The rows and columns of the nodes that any pixel touches."""
        renumber = np.full(self._n_nodes, -1)
        renumber[used] = np.arange(used.size)
        rows, columns, values = [], [], []
        for step, value in self._by_step.items():
            row = used[value[used] != 0]
            rows.append(renumber[row])
            columns.append(renumber[row + step])
            values.append(value[row])
        index = (np.concatenate(rows), np.concatenate(columns))
        return sparse.coo_matrix((np.concatenate(values), index), shape=(used.size, used.size)).tocsc()

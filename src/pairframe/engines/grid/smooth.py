"""The slow modes of alternating updates are smooth: solve for them on a coarse mesh, as a diffusion.

At the optimum one round of updates multiplies an error phi of the potential by ``J = theta_a theta_b E[E[phi | y] | x]``:
two conditional means under the plan. ``phi'(D - P D_q^-1 P') phi = E_q[Var(phi(X) | Y)]``, and for smooth phi this is a
Dirichlet energy, because the plan blurs with covariance about ``eps/2``: ``E[(eps/2) |grad phi|^2]``. So the Newton step
``(I - J)^-1 r`` is, on smooth modes, the solution of ``(1/theta_a - theta_b) D phi + (eps/2) div(D grad) phi = D r``: a
sparse elliptic problem that needs the mass alone, no plan. Its inverse, minus half a mass-weighted projection (the next
term of ``1/(1 - e^-x) = 1/x + 1/2 + ...``), is added to the residual; Anderson acceleration on top mends the rest.
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
    """

    def __init__(self, support: Bool, weight: Float, epsilon: float, stiffness: Float, spread: Float) -> None:
        ys, xs = np.nonzero(support)
        spacing = max(2.0, SPACING_BLURS * np.sqrt(epsilon))
        y, x = (ys - ys.min()) / spacing, (xs - xs.min()) / spacing
        iy, ix = np.floor(y).astype(np.int64), np.floor(x).astype(np.int64)
        ty, tx = y - iy, x - ix
        n_x = int(ix.max()) + 2
        n_nodes = (int(iy.max()) + 2) * n_x
        node = iy * n_x + ix
        self._weight = weight
        shape = [(ty if dy else 1 - ty) * (tx if dx else 1 - tx) for dy, dx in _CORNERS]
        corner = [node + dy * n_x + dx for dy, dx in _CORNERS]
        grad_y = [(1 if dy else -1) * (tx if dx else 1 - tx) / spacing for dy, dx in _CORNERS]
        grad_x = [(1 if dx else -1) * (ty if dy else 1 - ty) / spacing for dy, dx in _CORNERS]

        used = np.unique(np.concatenate(corner))
        renumber = np.zeros(n_nodes, dtype=np.int64)
        renumber[used] = np.arange(used.size)

        def assemble(i_part: list[Float], j_part: list[Float], per_pixel: Float) -> sparse.csc_matrix:
            pairs = [(i, j) for i in range(4) for j in range(4)]
            here, there = (np.concatenate([renumber[corner[k]] for k in side]) for side in zip(*pairs, strict=True))
            values = np.concatenate([per_pixel * i_part[i] * j_part[j] for i, j in pairs])
            return sparse.coo_matrix((values, (here, there)), shape=(used.size, used.size)).tocsc()

        mass = assemble(shape, shape, weight)
        energy = assemble(grad_y, grad_y, weight * spread) + assemble(grad_x, grad_x, weight * spread)
        # A node with hardly any mass has hardly any equation; a whisper of its own diagonal keeps it solvable.
        whisper = sparse.diags(1e-7 * mass.diagonal() + 1e-14 * mass.diagonal().max())
        newton = assemble(shape, shape, weight * stiffness) + energy + whisper
        self._newton = splu(newton.tocsc())
        self._project = splu((mass + 1e-3 * whisper).tocsc())
        columns = renumber[np.stack(corner, axis=1)].ravel()
        values = np.stack(shape, axis=1).ravel()
        rows = np.arange(0, 4 * ys.size + 1, 4)
        self._to_pixels = sparse.csr_matrix((values, columns, rows), shape=(ys.size, used.size))
        self._to_nodes = self._to_pixels.T.tocsr()

    def __call__(self, residual: Float) -> Float:
        """The residual (n,) with its smooth part replaced by the coarse Newton step."""
        # The constant is the optimal translation's business, and here it would be divided by nearly nothing.
        pull = self._weight * residual
        pull = pull - self._weight * (pull.sum() / self._weight.sum())
        at_nodes = self._to_nodes @ pull
        corrected: Float = residual + self._to_pixels @ (
            self._newton.solve(at_nodes) - 0.5 * self._project.solve(at_nodes)
        )
        return corrected

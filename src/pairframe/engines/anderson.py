"""Anderson acceleration of a fixed-point iteration, in a weighted norm, with a bounded memory."""

from __future__ import annotations

import numpy as np

from pairframe.types import Float

_RIDGE = 1e-12  # of the Gram matrix's trace: keeps the fit stable for nearly parallel differences


class Anderson:
    """Mixes the last steps so that the combined residual is least.

    Parameters
    ----------
    weight : (n,)
        Norm of the least-squares fit: ``|r|^2 = sum weight r^2``.
    depth : int
        Differences kept.
    """

    def __init__(self, weight: Float, depth: int) -> None:
        self._weight = weight / weight.sum()
        self._dx = np.empty((depth, weight.size))
        self._dr = np.empty((depth, weight.size))
        self._gram = np.zeros((depth, depth))
        self.clear()

    def clear(self) -> None:
        """Forget all steps: the next one is a plain one."""
        self._count = 0
        self._last: tuple[Float, Float] | None = None

    def step(self, x: Float, r: Float) -> Float:
        """The next point, after being at `x` with (preconditioned) residual `r`; both (n,)."""
        if self._last is not None:
            depth = len(self._dx)
            slot = self._count % depth
            np.subtract(x, self._last[0], out=self._dx[slot])
            np.subtract(r, self._last[1], out=self._dr[slot])
            self._count += 1
            known = min(self._count, depth)
            products = _products(self._dr[:known], self._weight * self._dr[slot])
            self._gram[slot, :known] = products
            self._gram[:known, slot] = products
        self._last = (x, r)
        known = min(self._count, len(self._dx))
        if known == 0:
            return x + r
        gram = self._gram[:known, :known]
        target = _products(self._dr[:known], self._weight * r)
        ridge = _RIDGE * np.trace(gram)
        if not ridge > 0:
            return x + r
        share = np.linalg.solve(gram + ridge * np.eye(known), target)
        mixed = x + r
        for k in range(known):
            mixed -= share[k] * self._dx[k]
            mixed -= share[k] * self._dr[k]
        return mixed


def _products(rows: Float, vector: Float) -> Float:
    """``rows @ vector`` without BLAS, whose threads would compete with ours for a task this small."""
    return np.asarray(np.einsum("kn,n->k", rows, vector))

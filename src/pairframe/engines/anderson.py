"""Anderson acceleration of a fixed-point iteration, in a weighted norm, with a bounded memory."""

from __future__ import annotations

import numpy as np

from pairframe.engines import anderson_passes as passes
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
        self._steps = np.empty((depth, weight.size))
        self._changes = np.empty((depth, weight.size))
        self._gram = np.zeros((depth, depth))
        self.clear()

    def clear(self) -> None:
        """Forget all steps: the next one is a plain one."""
        self._count = 0
        self._last: tuple[Float, Float] | None = None

    def step(self, x: Float, r: Float) -> Float:
        """The next point, after being at `x` with (preconditioned) residual `r`; both (n,)."""
        last, self._last = self._last, (x, r)
        if last is None:
            return x + r
        depth = len(self._steps)
        slot, self._count = self._count % depth, self._count + 1
        known = min(self._count, depth)
        with_newest, target = np.empty(known), np.empty(known)
        passes.remember(x, r, *last, self._weight, slot, known, self._steps, self._changes, with_newest, target)
        self._gram[slot, :known] = self._gram[:known, slot] = with_newest
        gram = self._gram[:known, :known]
        ridge = _RIDGE * np.trace(gram)
        if not ridge > 0:
            return x + r
        share = np.linalg.solve(gram + ridge * np.eye(known), target)
        mixed = np.empty(x.size)
        passes.mix(x, r, share, self._steps, mixed)
        return mixed

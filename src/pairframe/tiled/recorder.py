"""The record of a loop from which a backward pass rebuilds its iterations."""

from __future__ import annotations

import torch
from torch import Tensor

_FIRST_CAPACITY = 32


class Recorder:
    """Log sums and shifts of each batch element's last iterations: N + M + 1 numbers per iteration.

    Parameters
    ----------
    max_iters : int
        The most iterations that the loop may run.
    keep : int
        How many iterations to keep per element; 0 for all.

    Attributes
    ----------
    sums_a, sums_b : (B, K, N), (B, K, M)
        Log sums. Iteration k = 0, 1, ... of an element is at k modulo K. Places that no iteration filled hold 0.
    shifts : (B, K)
        The shift after the iteration, float64.
    most : int
        The most iterations that are kept.
    """

    def __init__(self, log_a: Tensor, log_b: Tensor, max_iters: int, keep: int = 0) -> None:
        batch, device = log_a.shape[0], log_a.device
        self.most = min(max_iters, keep) if keep else max_iters
        size = self.most if keep else min(max_iters, _FIRST_CAPACITY)
        self.sums_a = log_a.new_zeros((batch, size, log_a.shape[1]))
        self.sums_b = log_b.new_zeros((batch, size, log_b.shape[1]))
        self.shifts = torch.zeros((batch, size), dtype=torch.float64, device=device)

    def add(self, k: int, elements: list[int], sums_a: Tensor, sums_b: Tensor, shift: Tensor) -> None:
        """Keep iteration `k` of the batch elements that are still iterating."""
        size = self.shifts.shape[1]
        if k >= size and size < self.most:
            self._resize(min(2 * size, self.most))
        at = k % self.shifts.shape[1]
        which = slice(None) if len(elements) == len(self.shifts) else elements
        self.sums_a[which, at], self.sums_b[which, at], self.shifts[which, at] = sums_a, sums_b, shift

    def replace(self, sums_a: Tensor, sums_b: Tensor, shifts: Tensor) -> None:
        """Take over a record that was written elsewhere."""
        self.sums_a, self.sums_b, self.shifts = sums_a, sums_b, shifts

    def trim(self, n_iters: Tensor) -> None:
        """Give back the room that the loop did not need, once it has ended after `n_iters` (B,)."""
        used = int(n_iters.max())
        if used < self.shifts.shape[1]:
            self._resize(used)

    def _resize(self, size: int) -> None:
        for name in ("sums_a", "sums_b", "shifts"):
            old: Tensor = getattr(self, name)
            new = old.new_zeros((old.shape[0], size, *old.shape[2:]))
            kept = min(size, old.shape[1])
            new[:, :kept] = old[:, :kept]
            setattr(self, name, new)

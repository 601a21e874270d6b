"""Small transport problems for the gradients of the tiled Sinkhorn."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

SIDES = {"balanced": (None, None), "unbalanced": (0.7, 0.4), "hard a": (None, 0.5), "hard b": (2.0, None)}


@dataclass(frozen=True)
class Problem:
    """Leaves (float64 unless said): C (B, N, M), x (B, N, d), y (B, M, d), a (B, N), b (B, M); and weights of a loss."""

    C: Tensor
    x: Tensor
    y: Tensor
    a: Tensor
    b: Tensor
    weight_f: Tensor
    weight_g: Tensor

    def loss(self, f: Tensor, g: Tensor) -> Tensor:
        return (self.weight_f * f).sum() + (self.weight_g * g).sum() + 0.5 * (f * f).sum()


def problem(
    seed: int = 0, shape: tuple[int, int, int] = (2, 5, 4), d: int = 2, mass_b: float = 1.0, dtype=torch.float64
) -> Problem:
    """Random points in the unit square, masses that sum to 1 and `mass_b`."""
    batch, n, m = shape
    rng = torch.Generator().manual_seed(seed)

    def draw(*size: int) -> Tensor:
        return torch.rand(size, generator=rng, dtype=torch.float64)

    x, y = draw(batch, n, d), draw(batch, m, d)
    a, b = draw(batch, n) + 0.1, draw(batch, m) + 0.1
    a, b = a / a.sum(1, keepdim=True), mass_b * b / b.sum(1, keepdim=True)
    C = (x.unsqueeze(2) - y.unsqueeze(1)).square().sum(3)
    leaves = [one.to(dtype).requires_grad_() for one in (C, x, y, a, b)]
    return Problem(*leaves, draw(batch, n).to(dtype) - 0.5, draw(batch, m).to(dtype) - 0.5)


def largest_difference(ours: tuple[Tensor, ...], theirs: tuple[Tensor, ...]) -> float:
    """Largest absolute difference of two tuples of tensors, relative to the largest entry of each tensor."""
    return max(
        float((one - other).abs().max() / (other.abs().max() + 1e-12)) for one, other in zip(ours, theirs, strict=True)
    )

"""The reference gradient: autograd through the loop in plain torch. For small problems and tests."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from pairframe.tiled.cost import DenseCost
from pairframe.tiled.grad import dense_passes
from pairframe.tiled.grad.settings import Settings


def squared_distances(x: Tensor, y: Tensor) -> Tensor:
    """(B, N, M) from points (B, N, d) and (B, M, d), stored."""
    return (x.unsqueeze(2) - y.unsqueeze(1)).square().sum(3)


def unrolled_potentials(matrix: Tensor, log_a: Tensor, log_b: Tensor, settings: Settings) -> tuple[Tensor, Tensor]:
    """Potentials (B, N), (B, M) with autograd's own graph.

    Parameters
    ----------
    matrix : (B, N, M)
    log_a, log_b : (B, N), (B, M)
        -inf where there is no mass.
    """
    loop = replace(settings, passes=dense_passes).loop(DenseCost(matrix), log_a, log_b)
    return loop.potentials(loop.end_on_a(loop.iterate(settings.stopping)))

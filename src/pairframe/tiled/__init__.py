"""Batched, masked, differentiable Sinkhorn in PyTorch and Triton, computed tile by tile.

In: costs (B, N, M) or points, masses, masks. Out: potentials, plans, values and their gradients. This folder knows nothing
of images, frames or engines, and imports nothing of pairframe but its compiler.
"""

from __future__ import annotations

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError("pairframe.tiled needs torch: pip install 'pairframe[torch]'") from error

from pairframe.tiled.cost import DenseCost, PointCost
from pairframe.tiled.differentiable import sinkhorn_differentiable, sinkhorn_value
from pairframe.tiled.divergence import divergence
from pairframe.tiled.errors import NotConvergedWarning, TiledError
from pairframe.tiled.jvp import sinkhorn_jvp
from pairframe.tiled.output import SinkhornOutput
from pairframe.tiled.plan import Plan
from pairframe.tiled.sinkhorn import sinkhorn
from pairframe.tiled.softmin import softmin

__all__ = [
    "DenseCost",
    "NotConvergedWarning",
    "Plan",
    "PointCost",
    "SinkhornOutput",
    "TiledError",
    "divergence",
    "sinkhorn",
    "sinkhorn_differentiable",
    "sinkhorn_jvp",
    "sinkhorn_value",
    "softmin",
]

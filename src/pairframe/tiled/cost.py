"""Costs that are read in blocks: a stored matrix, or squared distances that are never stored."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass

import torch
from torch import Tensor

from pairframe.tiled.errors import TiledError
from pairframe.tiled.small.model import is_worth_storing

FLOATS = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
_MAX_DIFFERENCES = 3  # up to this dimension the cost is a sum of squared differences; above it, a product


def compute_dtype(dtype: torch.dtype) -> torch.dtype:
    """float64 for float64, float32 for anything shorter: half precision is only read, sums are in float32."""
    return torch.float64 if dtype == torch.float64 else torch.float32


@dataclass(frozen=True, eq=False)
class DenseCost:
    """A stored cost.

    Parameters
    ----------
    matrix : (B, N, M)
        In cost units; +inf forbids a pair.
    """

    matrix: Tensor

    def __post_init__(self) -> None:
        if self.matrix.dim() != 3:
            raise TiledError(
                "a cost of shape (B, N, M)", f"shape {tuple(self.matrix.shape)}", "use C.unsqueeze(0) for one problem"
            )
        _check_float("the cost", self.matrix)

    @property
    def batch(self) -> int:
        return self.matrix.shape[0]

    @property
    def n(self) -> int:
        return self.matrix.shape[1]

    @property
    def m(self) -> int:
        return self.matrix.shape[2]

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the computations."""
        return compute_dtype(self.matrix.dtype)

    @property
    def device(self) -> torch.device:
        return self.matrix.device

    def tile(self, b: int, i0: int, i1: int, j0: int, j1: int) -> Tensor:
        """Costs (i1-i0, j1-j0) of one block."""
        return self.matrix[b, i0:i1, j0:j1].to(self.dtype)

    def scaled(self, scale: float) -> ScaledDense:
        """-scale C, read strip by strip."""
        return ScaledDense(self.matrix, scale)

    def batch_slice(self, start: int, stop: int) -> DenseCost:
        """The batch elements from `start` to `stop`, a view."""
        return DenseCost(self.matrix[start:stop])

    def columns(self, j: Tensor) -> DenseCost:
        """The columns `j` (k,), copied."""
        return DenseCost(self.matrix.index_select(2, j))

    def transposed(self) -> DenseCost:
        """The transposed cost, a view."""
        return DenseCost(self.matrix.transpose(1, 2))


@dataclass(frozen=True, eq=False)
class PointCost:
    """``C_ij = |x_i - y_j|^2``, computed on the fly.

    In up to three dimensions the differences are squared directly, so close pairs keep all their digits. In more, it is
    ``|x|^2 + |y|^2 - 2 xy`` about the common centre, in float64 whatever the dtype of the points, and at least 0.

    Parameters
    ----------
    x : (B, N, d)
    y : (B, M, d)
    """

    x: Tensor
    y: Tensor

    def __post_init__(self) -> None:
        for name, points in (("x", self.x), ("y", self.y)):
            if points.dim() != 3:
                raise TiledError(
                    f"points {name} of shape (B, N, d)",
                    f"shape {tuple(points.shape)}",
                    "use points.unsqueeze(0) for one problem",
                )
            _check_float(f"points {name}", points)
        if self.x.shape[0] != self.y.shape[0] or self.x.shape[2] != self.y.shape[2]:
            raise TiledError(
                "points x (B, N, d) and y (B, M, d) with the same B and d",
                f"{tuple(self.x.shape)} and {tuple(self.y.shape)}",
                "use the same batch size and dimension on both sides",
            )
        if self.x.shape[2] < 1:
            raise TiledError(
                "points of at least one coordinate",
                f"{tuple(self.x.shape)} and {tuple(self.y.shape)}",
                "pass (B, N, d) with d >= 1, or a stored cost",
            )
        if self.x.dtype != self.y.dtype or self.x.device != self.y.device:
            raise TiledError(
                "x and y of one dtype on one device",
                f"{self.x.dtype} on {self.x.device} and {self.y.dtype} on {self.y.device}",
                "convert one of them with .to(other)",
            )

    @property
    def batch(self) -> int:
        return self.x.shape[0]

    @property
    def n(self) -> int:
        return self.x.shape[1]

    @property
    def m(self) -> int:
        return self.y.shape[1]

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the computations."""
        return compute_dtype(self.x.dtype)

    @property
    def device(self) -> torch.device:
        return self.x.device

    def tile(self, b: int, i0: int, i1: int, j0: int, j1: int) -> Tensor:
        """Costs (i1-i0, j1-j0) of one block."""
        out = torch.empty((1, i1 - i0, j1 - j0), dtype=self.dtype, device=self.device)
        block = PointCost(self.x[b : b + 1, i0:i1], self.y[b : b + 1, j0:j1])
        block.scaled(1.0).fill(slice(0, 1), slice(0, i1 - i0), None, None, out)
        return out[0].neg_()

    def scaled(self, scale: float) -> ScaledPoints:
        """-scale C, computed strip by strip."""
        return ScaledPoints.of(self, scale)

    def batch_slice(self, start: int, stop: int) -> PointCost:
        """The batch elements from `start` to `stop`, a view."""
        return PointCost(self.x[start:stop], self.y[start:stop])

    def columns(self, j: Tensor) -> PointCost:
        """The columns `j` (k,), copied."""
        return PointCost(self.x, self.y.index_select(1, j))

    def transposed(self) -> PointCost:
        """The transposed cost."""
        return PointCost(self.y, self.x)


@dataclass(frozen=True, eq=False)
class ScaledDense:
    """-scale C of a stored cost (B, N, M)."""

    matrix: Tensor
    scale: float

    def fill(self, b: slice, rows: slice, log_a: Tensor | None, log_b: Tensor | None, out: Tensor) -> None:
        """log_a_i + log_b_j - scale C_ij into `out` (nb, r, M), for log weights (nb, r) and (nb, M)."""
        block = self.matrix[b, rows]
        if log_b is not None:
            torch.add(log_b.unsqueeze(1), block, alpha=-self.scale, out=out)
            if log_a is not None:
                out.add_(log_a.unsqueeze(2))
        elif log_a is not None:
            torch.add(log_a.unsqueeze(2), block, alpha=-self.scale, out=out)
        else:
            torch.mul(block, -self.scale, out=out)


class ScaledPoints:
    """-scale |x_i - y_j|^2; the points are scaled once, by the square root."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.x, self.y = x, y  # (B, d, N), (B, d, M), so that one coordinate is contiguous
        self._local = threading.local()
        self.by_product = x.shape[1] > _MAX_DIFFERENCES
        if self.by_product:
            self.squares_x, self.squares_y = x.square().sum(1), y.square().sum(1)

    @classmethod
    def of(cls, cost: PointCost, scale: float) -> ScaledPoints:
        dtype = torch.float64 if cost.x.shape[2] > _MAX_DIFFERENCES else cost.dtype
        x, y = cost.x.to(dtype), cost.y.to(dtype)
        if cost.x.shape[2] > _MAX_DIFFERENCES:
            centre = y.mean(1, keepdim=True)
            x, y = x - centre, y - centre
        root = math.sqrt(scale)
        return cls((x * root).transpose(1, 2).contiguous(), (y * root).transpose(1, 2).contiguous())

    def fill(self, b: slice, rows: slice, log_a: Tensor | None, log_b: Tensor | None, out: Tensor) -> None:
        """log_a_i + log_b_j - scale C_ij into `out` (nb, r, M), for log weights (nb, r) and (nb, M)."""
        x, y = self.x[b, :, rows], self.y[b]
        scratch = self._scratch(out)
        if self.by_product:
            torch.bmm(x.transpose(1, 2) * 2.0, y, out=scratch)
            scratch.sub_(self.squares_x[b, rows].unsqueeze(2)).sub_(self.squares_y[b].unsqueeze(1)).clamp_(max=0.0)
            if log_b is not None:
                torch.add(scratch, log_b.unsqueeze(1), out=out)
            else:
                out.copy_(scratch)
        else:
            torch.sub(x[:, 0].unsqueeze(2), y[:, 0].unsqueeze(1), out=out)
            if log_b is not None:
                torch.addcmul(log_b.unsqueeze(1), out, out, value=-1.0, out=out)
            else:
                torch.mul(out, out, out=out).neg_()
            for k in range(1, x.shape[1]):
                torch.sub(x[:, k].unsqueeze(2), y[:, k].unsqueeze(1), out=scratch)
                out.addcmul_(scratch, scratch, value=-1.0)
        if log_a is not None:
            out.add_(log_a.unsqueeze(2))

    def _scratch(self, like: Tensor) -> Tensor:
        """This thread's buffer, in the shape of `like`."""
        flat: Tensor | None = getattr(self._local, "flat", None)
        if flat is None or flat.numel() < like.numel():
            flat = torch.empty(like.numel(), dtype=self.x.dtype, device=like.device)
            self._local.flat = flat
        return flat[: like.numel()].view(like.shape)


ScaledCost = ScaledDense | ScaledPoints
Cost = DenseCost | PointCost


def is_stored(cost: Cost) -> bool:
    """Whether a solve on tiles stores the squared distances of points, by the cost model."""
    if isinstance(cost, DenseCost) or cost.device.type != "cpu":
        return False
    return is_worth_storing(cost.batch, cost.n, cost.m, cost.x.shape[2])


def stored(cost: Cost) -> DenseCost:
    """The same cost as a matrix, in its dtype; squared distances are computed in float64."""
    if isinstance(cost, DenseCost):
        return cost
    out = torch.empty((cost.batch, cost.n, cost.m), dtype=cost.dtype, device=cost.device)
    cost.scaled(1.0).fill(slice(0, cost.batch), slice(0, cost.n), None, None, out)
    return DenseCost(out.neg_())


def _check_float(name: str, tensor: Tensor) -> None:
    if tensor.dtype not in FLOATS:
        fix = "use its .real or .abs()" if tensor.is_complex() else "convert with .double() or .float()"
        raise TiledError(f"{name} in floating point", str(tensor.dtype), fix)

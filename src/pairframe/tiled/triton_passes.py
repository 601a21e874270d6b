"""The passes of `passes`, as Triton kernels: same names, same arguments, same results to rounding.

A full iteration is two kernels here, each reading a stored cost once. Long reductions are split into chunks, so that a
single problem fills a GPU; chunks depend only on the buckets of the sizes. Importing this module does not load Triton.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pairframe.tiled.backends import backend_name
from pairframe.tiled.cost import Cost, DenseCost, PointCost
from pairframe.tiled.kernels.configs import Shape, choices, elementwise
from pairframe.tiled.kernels.launch import bucket, run
from pairframe.tiled.passes import Update

_PROGRAMS = 512  # enough to keep a large GPU busy
_LEAST_CHUNK = 1024  # inputs; shorter chunks cost more in launches and partial results than they gain
_ROWS_OF_A_PROGRAM = 64  # approximately
_PRODUCT_FROM = 17  # dimensions; with fewer, differences cost no more, and close points keep all their digits
_COLUMNS = 8  # multiplied in one pass over the plan


@torch.no_grad()
def log_sum_rows(cost: Cost, epsilon: float, log_b_hat: Tensor) -> Tensor:
    """log sum_j exp(log_b_hat_j - C_ij/epsilon), (B, N); -inf for an empty sum."""
    return _log_sum(_Side.of(cost, epsilon), log_b_hat)


@torch.no_grad()
def log_sum_cols(cost: Cost, epsilon: float, log_a_hat: Tensor) -> Tensor:
    """log sum_i exp(log_a_hat_i - C_ij/epsilon), (B, M); -inf for an empty sum."""
    return _log_sum(_Side.of(cost.transposed(), epsilon), log_a_hat)


@torch.no_grad()
def rows_then_cols(cost: Cost, epsilon: float, log_b_hat: Tensor, update: Update) -> tuple[Tensor, Tensor, Tensor]:
    """One full iteration: row sums (B, N), the result of `update` (B, N), and its column sums (B, M)."""
    rows = log_sum_rows(cost, epsilon, log_b_hat)
    log_a_hat = update((slice(0, cost.batch), slice(0, cost.n)), rows)
    return rows, log_a_hat, log_sum_cols(cost, epsilon, log_a_hat)


@torch.no_grad()
def plan_times(cost: Cost, epsilon: float, log_a_hat: Tensor, log_b_hat: Tensor, values: Tensor) -> Tensor:
    """P V for V (B, M, k), as (B, N, k)."""
    return _plan_times(_Side.of(cost, epsilon), log_a_hat, log_b_hat, values)


@torch.no_grad()
def plan_transposed_times(cost: Cost, epsilon: float, log_a_hat: Tensor, log_b_hat: Tensor, values: Tensor) -> Tensor:
    """P' U for U (B, N, k), as (B, M, k)."""
    return _plan_times(_Side.of(cost.transposed(), epsilon), log_b_hat, log_a_hat, values)


@torch.no_grad()
def plan_gram(
    cost: Cost, epsilon: float, log_a_hat: Tensor, log_b_hat: Tensor, values: Tensor, scale: Tensor
) -> tuple[Tensor, Tensor]:
    """y = P w (B, N, k) and z = P' (scale y) (B, M, k) for w (B, M, k), scale (B, N)."""
    y = plan_times(cost, epsilon, log_a_hat, log_b_hat, values)
    return y, plan_transposed_times(cost, epsilon, log_a_hat, log_b_hat, scale.unsqueeze(2) * y)


@torch.no_grad()
def plan_cost_sum(cost: Cost, epsilon: float, log_a_hat: Tensor, log_b_hat: Tensor) -> Tensor:
    """<C, P>, (B,) float64; a forbidden pair (C = inf) without mass costs nothing."""
    from pairframe.tiled.kernels.plan import plan_cost_kernel

    side = _Side.of(cost, epsilon)
    out = side.empty(())
    logs = {"log_p": side.ready(log_a_hat), "log_q": side.ready(log_b_hat)}
    side.run(plan_cost_kernel, {**side.cost_arguments, **logs, "out": out})
    return out.sum((0, 2), dtype=torch.float64)


@torch.no_grad()
def accumulate_cost_gradient(
    cost: Cost, epsilon: float, log_a_hat: Tensor, log_b_hat: Tensor, x: Tensor, y: Tensor, out: Tensor | None = None
) -> Tensor | tuple[Tensor, Tensor]:
    """Gradient of sum_ij G_ij C_ij with G_ij = P_ij (x_i + y_j) for x (B, N), y (B, M).

    Returns
    -------
    (B, N, M)
        G itself for a stored cost, added to `out` if given.
    (B, N, d), (B, M, d)
        With respect to the points, for a `PointCost`.
    """
    if isinstance(cost, DenseCost):
        total = torch.zeros_like(cost.matrix, dtype=cost.dtype) if out is None else out
        _dense_gradient(cost, epsilon, log_a_hat, log_b_hat, x, y, total)
        return total
    d_x = _point_gradient(_Side.of(cost, epsilon), log_a_hat, log_b_hat, x, y)
    d_y = _point_gradient(_Side.of(cost.transposed(), epsilon), log_b_hat, log_a_hat, y, x)
    return d_x, d_y


@dataclass(frozen=True)
class _Side:
    """A cost with the outputs `p` as its rows, and the arguments common to all kernels over it."""

    cost: Cost
    scale: Tensor  # (1,), log2(e) / epsilon
    n_chunks: int
    chunk: int
    points: tuple[Tensor, Tensor] | None  # (B, P, d), (B, Q, d)
    dim: int
    product: bool

    @classmethod
    def of(cls, cost: Cost, epsilon: float) -> _Side:
        backend_name("triton", cost.device)  # raises an error if kernels cannot run there
        scale = torch.full((1,), math.log2(math.e) / epsilon, dtype=cost.dtype, device=cost.device)
        # Blocks of outputs alone would leave most of a GPU idle. Sizes are bucketed, so that a bucket shares its chunks.
        programs = max(1, cost.batch * math.ceil(bucket(cost.n) / _ROWS_OF_A_PROGRAM))
        chunk = max(_LEAST_CHUNK, bucket(cost.m) // bucket(math.ceil(_PROGRAMS / programs)))
        n_chunks = math.ceil(cost.m / chunk)
        if isinstance(cost, DenseCost):
            return cls(cost, scale, n_chunks, chunk, None, 0, False)
        dim = cost.x.shape[2]
        product = dim >= _PRODUCT_FROM and cost.dtype == torch.float32
        points = _centred(cost) if product else (cost.x.contiguous(), cost.y.contiguous())
        return cls(cost, scale, n_chunks, chunk, points, dim, product)

    def shape(self, wide: bool) -> Shape:
        turned = isinstance(self.cost, DenseCost) and self.cost.matrix.stride(1) < self.cost.matrix.stride(2)
        return Shape(turned, self.cost.dtype == torch.float64, self.product, wide)

    @property
    def cost_arguments(self) -> dict[str, Any]:
        if isinstance(self.cost, DenseCost):
            matrix = self.cost.matrix
            strides = dict(zip(("stride_b", "stride_p", "stride_q"), matrix.stride(), strict=True))
            return {"cost": matrix, **strides, "x": matrix, "y": matrix}
        assert self.points is not None
        x, y = self.points
        return {"cost": x, "stride_b": 0, "stride_p": 0, "stride_q": 1, "x": x, "y": y}

    def ready(self, tensor: Tensor) -> Tensor:
        return tensor.to(self.cost.dtype).contiguous()

    def empty(self, columns: tuple[int, ...]) -> Tensor:
        """An empty tensor for the partial results (chunks, B, P, ...)."""
        size = (self.n_chunks, self.cost.batch, self.cost.n, *columns)
        return torch.empty(size, dtype=self.cost.dtype, device=self.cost.device)

    def run(self, kernel: Any, arguments: dict[str, Any], n_columns: int = 0, column_block: int = 1) -> None:
        n_batch, n_p = self.cost.batch, self.cost.n
        sizes = {"n_batch": n_batch, "n_p": n_p, "n_q": self.cost.m, "chunk": self.chunk}
        keys = {"bucket_p": bucket(n_p), "bucket_q": bucket(self.cost.m), "DIM": self.dim, "PRODUCT": self.product}
        run(
            kernel,
            choices(self.shape(wide=n_columns > 0)),
            lambda blocks: (
                n_batch * math.ceil(n_p / blocks["BP"]),
                self.n_chunks,
                max(1, math.ceil(n_columns / column_block)),
            ),
            {**arguments, "scale": self.scale, **sizes, **keys},
            self.cost.device,
        )


def _log_sum(side: _Side, log_weight: Tensor) -> Tensor:
    from pairframe.tiled.kernels.log_sum import log_sum_kernel

    out = side.empty(())
    side.run(log_sum_kernel, {**side.cost_arguments, "log_weight": side.ready(log_weight), "out": out})
    return out[0] if side.n_chunks == 1 else torch.logsumexp(out, 0)


def _plan_times(side: _Side, log_p: Tensor, log_q: Tensor, values: Tensor) -> Tensor:
    from pairframe.tiled.kernels.plan import plan_times_matrix_kernel, plan_times_vector_kernel

    n_k = values.shape[2]
    out = side.empty((n_k,))
    arguments = {"log_p": side.ready(log_p), "log_q": side.ready(log_q), "values": side.ready(values), "out": out}
    if n_k == 1:
        side.run(plan_times_vector_kernel, {**side.cost_arguments, **arguments})
    else:
        block = min(_COLUMNS, bucket(n_k))
        columns = {"n_k": n_k, "KB": block}
        side.run(plan_times_matrix_kernel, {**side.cost_arguments, **arguments, **columns}, n_k, block)
    return out[0] if side.n_chunks == 1 else out.sum(0)


def _point_gradient(side: _Side, log_p: Tensor, log_q: Tensor, u: Tensor, v: Tensor) -> Tensor:
    from pairframe.tiled.kernels.gradient import point_gradient_kernel

    assert side.points is not None
    out = side.empty((side.dim,))
    block = min(_COLUMNS, bucket(side.dim))
    arguments = {
        "x": side.points[0],
        "y": side.points[1],
        "log_p": side.ready(log_p),
        "log_q": side.ready(log_q),
        "u": side.ready(u),
        "v": side.ready(v),
        "out": out,
        "KB": block,
    }
    side.run(point_gradient_kernel, arguments, side.dim, block)
    return out[0] if side.n_chunks == 1 else out.sum(0)


def _dense_gradient(
    cost: DenseCost, epsilon: float, log_a_hat: Tensor, log_b_hat: Tensor, x: Tensor, y: Tensor, out: Tensor
) -> None:
    from pairframe.tiled.kernels.gradient import dense_gradient_kernel

    side = _Side.of(cost, epsilon)
    given = side.cost_arguments
    strides = dict(zip(("out_b", "out_p", "out_q"), out.stride(), strict=True))
    arguments = {
        **{name: given[name] for name in ("cost", "stride_b", "stride_p", "stride_q")},
        **strides,
        "log_p": side.ready(log_a_hat),
        "log_q": side.ready(log_b_hat),
        "u": side.ready(x),
        "v": side.ready(y),
        "scale": side.scale,
        "out": out,
        "n_batch": cost.batch,
        "n_p": cost.n,
        "n_q": cost.m,
    }
    blocks = elementwise(cost.dtype == torch.float64)
    grid = (cost.batch * math.ceil(cost.n / blocks.bp), math.ceil(cost.m / blocks.bq))
    run(dense_gradient_kernel, (blocks,), lambda _: grid, arguments, cost.device)


def _centred(cost: PointCost) -> tuple[Tensor, Tensor]:
    """Points relative to the mean of y: the expanded square loses digits far from the origin."""
    x, y = cost.x.to(cost.dtype), cost.y.to(cost.dtype)
    centre = y.mean(1, keepdim=True)
    return (x - centre).contiguous(), (y - centre).contiguous()

"""Building blocks of all kernels over a cost: the place of a program, and a tile of the cost in registers.

A program computes BP outputs `p` and loops over the inputs `q` in tiles of BQ. Rows and columns use the same kernel with
the strides of the cost, and the roles of `p` and `q`, swapped.
"""
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

from __future__ import annotations

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)
LN2 = tl.constexpr(0.6931471805599453)
LOWEST = tl.constexpr(-1e38)  # below every exponent, even in float32


@triton.jit
def place(n_p, n_batch, BP: tl.constexpr):
    """Batch element (int64) and first output of this program: axis 0 of the grid is (blocks of p, batch)."""
    program = tl.program_id(0)
    return (program % n_batch).to(tl.int64), (program // n_batch) * BP


@triton.jit
def cost_tile(
    cost, stride_p, stride_q, x, y, p0, q0, n_p, n_q,
    ACC: tl.constexpr, DIM: tl.constexpr, PRODUCT: tl.constexpr, BP: tl.constexpr, BQ: tl.constexpr,
):  # fmt: skip
    """Costs (BP, BQ) from (p0, q0) on, in ACC; 0 outside.

    DIM = 0 reads a stored cost, else x (n_p, DIM) and y (n_q, DIM) are coordinates: squared differences, or with PRODUCT
    |x|^2 + |y|^2 - 2 xy on tensor cores, for many dimensions and coordinates about their centre.
    """
    p, q = p0 + tl.arange(0, BP), q0 + tl.arange(0, BQ)
    on_p, on_q = p < n_p, q < n_q
    if DIM == 0:
        # The offset of the corner may exceed 2^31 entries; offsets within the tile do not.
        corner = cost + tl.cast(p0, tl.int64) * stride_p + tl.cast(q0, tl.int64) * stride_q
        inside = tl.arange(0, BP)[:, None] * stride_p + tl.arange(0, BQ)[None, :] * stride_q
        tile = tl.load(corner + inside, mask=on_p[:, None] & on_q[None, :], other=0.0).to(ACC)
    elif PRODUCT:
        tile = tl.zeros((BP, BQ), ACC)
        norm_p, norm_q = tl.zeros((BP,), ACC), tl.zeros((BQ,), ACC)
        for k0 in range(0, DIM, 16):
            k = k0 + tl.arange(0, 16)
            x_k = tl.load(x + p[:, None] * DIM + k[None, :], mask=(k < DIM)[None, :] & on_p[:, None], other=0.0).to(ACC)
            y_k = tl.load(y + q[None, :] * DIM + k[:, None], mask=(k < DIM)[:, None] & on_q[None, :], other=0.0).to(ACC)
            norm_p += tl.sum(x_k * x_k, 1)
            norm_q += tl.sum(y_k * y_k, 0)
            tile = tl.dot(x_k, y_k, acc=tile, input_precision="tf32x3")
        tile = tl.maximum(norm_p[:, None] + norm_q[None, :] - 2.0 * tile, 0.0)
    else:
        tile = tl.zeros((BP, BQ), ACC)
        for k in range(DIM):
            x_k = tl.load(x + p * DIM + k, mask=on_p, other=0.0).to(ACC)
            y_k = tl.load(y + q * DIM + k, mask=on_q, other=0.0).to(ACC)
            step = x_k[:, None] - y_k[None, :]
            tile += step * step
    return tile


@triton.jit
def exponents(log_weight, index, count, ACC: tl.constexpr):
    """Natural log-weights as powers of two; -inf outside."""
    return tl.load(log_weight + index, mask=index < count, other=float("-inf")).to(ACC) * LOG2E


@triton.jit
def add_to_log_sum(top, total, z):
    """Add exponents z to running maxima and sums of powers of two, one of each per slot of a tile, all (BP, BQ).

    Threads exchange nothing until the end, and one exponential suffices: either the new term or the old sum keeps its
    scale. `top` starts at LOWEST, a finite number, so that -inf adds nothing and no NaN arises.
    """
    rise = z - top
    share = tl.exp2(-tl.abs(rise))
    return tl.maximum(top, z), tl.where(rise > 0.0, total * share + 1.0, total + share)


@triton.jit
def log_of(top, total):
    """top + log2(total), -inf for an empty sum."""
    return tl.where(total > 0.0, top + tl.log2(tl.where(total > 0.0, total, 1.0)), float("-inf"))


@triton.jit
def log_of_slots(top, total):
    """log2 of the sum over axis 1 of the slots, (BP,); -inf for an empty sum."""
    highest = tl.max(top, 1)
    return log_of(highest, tl.sum(total * tl.exp2(top - highest[:, None]), 1))

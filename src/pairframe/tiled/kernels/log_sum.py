"""``out_p = log sum_q exp(w_q - C_pq / eps)``: the row update, and with swapped strides the column update."""
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

from __future__ import annotations

import triton
import triton.language as tl

from pairframe.tiled.kernels.tiles import LN2, LOWEST, add_to_log_sum, cost_tile, exponents, log_of_slots, place


@triton.jit
def log_sum_kernel(
    cost, stride_b, stride_p, stride_q, x, y, log_weight, scale, out,
    n_batch, n_p, n_q, chunk, bucket_p, bucket_q,
    DIM: tl.constexpr, PRODUCT: tl.constexpr, BP: tl.constexpr, BQ: tl.constexpr,
):  # fmt: skip
    """One block of outputs over one chunk of inputs; grid (blocks of p x batch, chunks of q).

    Parameters
    ----------
    cost : (B, P, Q) by strides if DIM = 0; otherwise the points `x` (B, P, DIM) and `y` (B, Q, DIM) are used.
    log_weight : (B, Q) natural logarithms.
    scale : (1,) log2(e) / eps: a tensor, because float arguments of a kernel are float32.
    out : (chunks, B, P) natural logarithms; its dtype is that of the computation.
    bucket_p, bucket_q : sizes rounded up to powers of two; only keys for the autotuner.
    """
    ACC: tl.constexpr = out.dtype.element_ty
    b, p0 = place(n_p, n_batch, BP)
    part = tl.program_id(1)
    cost += b * stride_b
    x += b * DIM * n_p
    y += b * DIM * n_q
    log_weight += b * n_q
    per_cost = tl.load(scale)
    top = tl.full((BP, BQ), LOWEST, ACC)
    total = tl.zeros((BP, BQ), ACC)
    for q0 in range(part * chunk, min(part * chunk + chunk, n_q), BQ):
        tile = cost_tile(cost, stride_p, stride_q, x, y, p0, q0, n_p, n_q, ACC, DIM, PRODUCT, BP, BQ)
        w = exponents(log_weight, q0 + tl.arange(0, BQ), n_q, ACC)
        top, total = add_to_log_sum(top, total, w[None, :] - tile * per_cost)
    p = p0 + tl.arange(0, BP)
    tl.store(out + (part * n_batch + b) * n_p + p, log_of_slots(top, total) * LN2, mask=p < n_p)

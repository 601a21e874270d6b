"""The plan ``P_pq = exp(a_p + b_q - C_pq / eps)`` times a matrix, and its cost; P is never stored."""
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

from __future__ import annotations

import triton
import triton.language as tl

from pairframe.tiled.kernels.tiles import cost_tile, exponents, place


@triton.jit
def plan_times_vector_kernel(
    cost, stride_b, stride_p, stride_q, x, y, log_p, log_q, values, scale, out,
    n_batch, n_p, n_q, chunk, bucket_p, bucket_q,
    DIM: tl.constexpr, PRODUCT: tl.constexpr, BP: tl.constexpr, BQ: tl.constexpr,
):  # fmt: skip
    """``sum_q P_pq values_q``; grid (blocks of p x batch, chunks of q).

    Parameters
    ----------
    log_p, log_q : (B, P), (B, Q) natural logarithms.
    values : (B, Q) in the dtype of `out`.
    out : (chunks, B, P).
    Other arguments as in `log_sum_kernel`.
    """
    ACC: tl.constexpr = out.dtype.element_ty
    b, p0 = place(n_p, n_batch, BP)
    part = tl.program_id(1)
    p = p0 + tl.arange(0, BP)
    cost += b * stride_b
    x += b * DIM * n_p
    y += b * DIM * n_q
    log_q += b * n_q
    values += b * n_q
    per_cost = tl.load(scale)
    a = exponents(log_p + b * n_p, p, n_p, ACC)
    sums = tl.zeros((BP, BQ), ACC)  # a slot per tile element, so that threads exchange nothing until the end
    for q0 in range(part * chunk, min(part * chunk + chunk, n_q), BQ):
        q = q0 + tl.arange(0, BQ)
        tile = cost_tile(cost, stride_p, stride_q, x, y, p0, q0, n_p, n_q, ACC, DIM, PRODUCT, BP, BQ)
        plan = tl.exp2(a[:, None] + exponents(log_q, q, n_q, ACC)[None, :] - tile * per_cost)
        sums += plan * tl.load(values + q, mask=q < n_q, other=0.0)[None, :]
    tl.store(out + (part * n_batch + b) * n_p + p, tl.sum(sums, 1), mask=p < n_p)


@triton.jit
def plan_times_matrix_kernel(
    cost, stride_b, stride_p, stride_q, x, y, log_p, log_q, values, scale, out,
    n_batch, n_p, n_q, n_k, chunk, bucket_p, bucket_q,
    DIM: tl.constexpr, PRODUCT: tl.constexpr, KB: tl.constexpr, BP: tl.constexpr, BQ: tl.constexpr,
):  # fmt: skip
    """The same for `values` (B, Q, K) into `out` (chunks, B, P, K), KB columns at a time on axis 2 of the grid.

    The tile is transposed, (BQ, BP): neighbouring threads have neighbouring outputs, and each sums over q by itself.
    """
    ACC: tl.constexpr = out.dtype.element_ty
    b, p0 = place(n_p, n_batch, BP)
    part, k0 = tl.program_id(1), tl.program_id(2) * KB
    p = p0 + tl.arange(0, BP)
    column = tl.arange(0, KB)
    cost += b * stride_b
    x += b * DIM * n_p
    y += b * DIM * n_q
    log_q += b * n_q
    values += b * n_q * n_k
    per_cost = tl.load(scale)
    a = exponents(log_p + b * n_p, p, n_p, ACC)
    sums = tl.zeros((KB, BP), ACC)
    for q0 in range(part * chunk, min(part * chunk + chunk, n_q), BQ):
        q = q0 + tl.arange(0, BQ)
        tile = cost_tile(cost, stride_q, stride_p, y, x, q0, p0, n_q, n_p, ACC, DIM, PRODUCT, BQ, BP)
        plan = tl.exp2(a[None, :] + exponents(log_q, q, n_q, ACC)[:, None] - tile * per_cost)
        for k in tl.static_range(KB):
            v = tl.load(values + q.to(tl.int64) * n_k + k0 + k, mask=q < tl.where(k0 + k < n_k, n_q, 0), other=0.0)
            sums += tl.where(column[:, None] == k, tl.sum(plan * v[:, None], 0)[None, :], 0.0)
    target = out + ((part * n_batch + b) * n_p + p[None, :]) * n_k + k0 + column[:, None]
    tl.store(target, sums, mask=(p < n_p)[None, :] & (k0 + column < n_k)[:, None])


@triton.jit
def plan_cost_kernel(
    cost, stride_b, stride_p, stride_q, x, y, log_p, log_q, scale, out,
    n_batch, n_p, n_q, chunk, bucket_p, bucket_q,
    DIM: tl.constexpr, PRODUCT: tl.constexpr, BP: tl.constexpr, BQ: tl.constexpr,
):  # fmt: skip
    """``sum_q P_pq C_pq`` into `out` (chunks, B, P); an infinite cost without mass contributes nothing."""
    ACC: tl.constexpr = out.dtype.element_ty
    b, p0 = place(n_p, n_batch, BP)
    part = tl.program_id(1)
    p = p0 + tl.arange(0, BP)
    cost += b * stride_b
    x += b * DIM * n_p
    y += b * DIM * n_q
    log_q += b * n_q
    per_cost = tl.load(scale)
    a = exponents(log_p + b * n_p, p, n_p, ACC)
    sums = tl.zeros((BP, BQ), ACC)
    for q0 in range(part * chunk, min(part * chunk + chunk, n_q), BQ):
        tile = cost_tile(cost, stride_p, stride_q, x, y, p0, q0, n_p, n_q, ACC, DIM, PRODUCT, BP, BQ)
        w = exponents(log_q, q0 + tl.arange(0, BQ), n_q, ACC)
        plan = tl.exp2(a[:, None] + w[None, :] - tile * per_cost)
        sums += plan * tl.where(plan > 0.0, tile, 0.0)
    tl.store(out + (part * n_batch + b) * n_p + p, tl.sum(sums, 1), mask=p < n_p)

"""Backward accumulation: ``G_pq = P_pq (u_p + v_q)`` is the gradient with respect to the cost."""
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

from __future__ import annotations

import triton
import triton.language as tl

from pairframe.tiled.kernels.tiles import cost_tile, exponents, place


@triton.jit
def dense_gradient_kernel(
    cost, stride_b, stride_p, stride_q, log_p, log_q, u, v, scale, out, out_b, out_p, out_q,
    n_batch, n_p, n_q,
    BP: tl.constexpr, BQ: tl.constexpr,
):  # fmt: skip
    """Add G to `out` (B, P, Q) by its strides; grid (blocks of p x batch, blocks of q)."""
    ACC: tl.constexpr = u.dtype.element_ty
    b, p0 = place(n_p, n_batch, BP)
    q0 = tl.program_id(1) * BQ
    p, q = p0 + tl.arange(0, BP), q0 + tl.arange(0, BQ)
    on_p, on_q = p < n_p, q < n_q
    tile = cost_tile(cost + b * stride_b, stride_p, stride_q, cost, cost, p0, q0, n_p, n_q, ACC, 0, False, BP, BQ)
    a = exponents(log_p + b * n_p, p, n_p, ACC)
    w = exponents(log_q + b * n_q, q, n_q, ACC)
    plan = tl.exp2(a[:, None] + w[None, :] - tile * tl.load(scale))
    u_p = tl.load(u + b * n_p + p, mask=on_p, other=0.0)
    v_q = tl.load(v + b * n_q + q, mask=on_q, other=0.0)
    corner = out + b * out_b + tl.cast(p0, tl.int64) * out_p + tl.cast(q0, tl.int64) * out_q
    target = corner + tl.arange(0, BP)[:, None] * out_p + tl.arange(0, BQ)[None, :] * out_q
    inside = on_p[:, None] & on_q[None, :]
    before = tl.load(target, mask=inside, other=0.0).to(ACC)
    tl.store(target, before + plan * (u_p[:, None] + v_q[None, :]), mask=inside)


@triton.jit
def point_gradient_kernel(
    x, y, log_p, log_q, u, v, scale, out,
    n_batch, n_p, n_q, chunk, bucket_p, bucket_q,
    DIM: tl.constexpr, PRODUCT: tl.constexpr, KB: tl.constexpr, BP: tl.constexpr, BQ: tl.constexpr,
):  # fmt: skip
    """``2 sum_q G_pq (x_p - y_q)`` into `out` (chunks, B, P, DIM), KB dimensions at a time.

    Grid (blocks of p x batch, chunks of q, blocks of dimensions); x (B, P, DIM), y (B, Q, DIM). Tiles are transposed,
    (BQ, BP), as in `plan_times_matrix_kernel`.
    """
    ACC: tl.constexpr = out.dtype.element_ty
    b, p0 = place(n_p, n_batch, BP)
    part, k0 = tl.program_id(1), tl.program_id(2) * KB
    p = p0 + tl.arange(0, BP)
    column = tl.arange(0, KB)
    x += b * DIM * n_p
    y += b * DIM * n_q
    log_q += b * n_q
    v += b * n_q
    per_cost = tl.load(scale)
    a = exponents(log_p + b * n_p, p, n_p, ACC)
    u_p = tl.load(u + b * n_p + p, mask=p < n_p, other=0.0)
    sums = tl.zeros((KB, BP), ACC)
    for q0 in range(part * chunk, min(part * chunk + chunk, n_q), BQ):
        q = q0 + tl.arange(0, BQ)
        tile = cost_tile(x, 0, 0, y, x, q0, p0, n_q, n_p, ACC, DIM, PRODUCT, BQ, BP)
        plan = tl.exp2(a[None, :] + exponents(log_q, q, n_q, ACC)[:, None] - tile * per_cost)
        g = plan * (u_p[None, :] + tl.load(v + q, mask=q < n_q, other=0.0)[:, None])
        for k in tl.static_range(KB):
            x_k = tl.load(x + p * DIM + k0 + k, mask=p < tl.where(k0 + k < DIM, n_p, 0), other=0.0).to(ACC)
            y_k = tl.load(y + q * DIM + k0 + k, mask=q < tl.where(k0 + k < DIM, n_q, 0), other=0.0).to(ACC)
            moved = 2.0 * tl.sum(g * (x_k[None, :] - y_k[:, None]), 0)
            sums += tl.where(column[:, None] == k, moved[None, :], 0.0)
    target = out + ((part * n_batch + b) * n_p + p[None, :]) * DIM + k0 + column[:, None]
    tl.store(target, sums, mask=(p < n_p)[None, :] & (k0 + column < DIM)[:, None])

"""One axis of the grid's Gaussian kernel: ``out_i = log sum_j exp(h_j - (i - j)^2 / eps)`` along rows, at any epsilon.

A program computes BP outputs of a row and visits tiles of BQ inputs, nearest first, with a running maximum and sum. It
skips a tile if its largest term is below every output's maximum by more than `cut`, so that it cannot change a digit: at
fixed blur the cost is linear in the pixels. Nothing else is skipped, so holes, spikes and tiny epsilons need no second
method.
"""
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

from __future__ import annotations

import triton
import triton.language as tl

from pairframe.tiled.kernels.tiles import LN2, LOG2E, log_of


@triton.jit
def grid_pass_kernel(
    h, tile_top, phi, scale, out, means,
    n_rows, n_in, n_out, n_tiles, n_phi, offset, cut,
    out_b, out_r, out_i, means_b, means_c, means_r, means_i,
    FAST_EXP: tl.constexpr, WITH_MEANS: tl.constexpr, BP: tl.constexpr, BQ: tl.constexpr,
):  # fmt: skip
    """A block of outputs of one row; grid (B x rows, blocks of outputs, channels).

    Parameters
    ----------
    h : (B, R, n_in) natural log-weights, -inf for none; its dtype is that of the exponents.
    tile_top : (B, R, n_tiles) the largest h of each BQ inputs.
    phi : (B, c, R, n_in) channels to average, in the dtype of `h`; unused without WITH_MEANS.
    scale : (B,) log2(e) / eps.
    out, means : (B, R, n_out), (B, c, R, n_out) by strides, so that a pass can write its result transposed.
    offset : input coordinate of output 0.
    cut : terms below ``2^-cut`` of an output's largest are dropped.
    FAST_EXP : exponents stay float64, their differences are exponentiated in float32.
    """
    ACC: tl.constexpr = h.dtype.element_ty
    SUM: tl.constexpr = tl.float32 if FAST_EXP else ACC
    row = tl.program_id(0).to(tl.int64)  # of all batch elements
    b, r = row // n_rows, row % n_rows
    channel = tl.program_id(2)
    i0 = tl.program_id(1) * BP
    i = i0 + tl.arange(0, BP)
    at = i + offset
    per_px2 = tl.load(scale + b)
    h += row * n_in
    tile_top += row * n_tiles
    if WITH_MEANS:
        phi += ((b * n_phi + channel) * n_rows + r) * n_in
    first, last = i0 + offset, min(i0 + BP, n_out) - 1 + offset
    nearest = min(max((first + last) // 2, 0), n_in - 1) // BQ
    top = tl.full((BP,), float("-inf"), ACC)
    total = tl.zeros((BP,), SUM)
    moment = tl.zeros((BP,), SUM)
    for visit in range(2 * n_tiles):
        step = (visit + 1) // 2
        tile = nearest + step - 2 * step * (visit % 2)  # nearest, -1, +1, -2, +2, ...
        if (tile >= 0) & (tile < n_tiles):
            j0 = tile * BQ
            gap = tl.maximum(tl.maximum(j0 - last, first - (j0 + BQ - 1)), 0).to(ACC)
            best = tl.load(tile_top + tile) * LOG2E - gap * gap * per_px2
            floor = tl.min(tl.where(i < n_out, top, float("inf")), 0) - cut
            if (best > float("-inf")) & (best >= floor):
                j = j0 + tl.arange(0, BQ)
                h_j = tl.load(h + j, mask=j < n_in, other=float("-inf")) * LOG2E
                distance = (at[:, None] - j[None, :]).to(ACC)
                z = h_j[None, :] - distance * distance * per_px2
                new = tl.maximum(top, tl.max(z, 1))
                safe = tl.where(new == float("-inf"), 0.0, new)
                weight = tl.exp2((z - safe[:, None]).to(SUM))
                keep = tl.exp2((top - safe).to(SUM))
                total = total * keep + tl.sum(weight, 1)
                if WITH_MEANS:
                    phi_j = tl.load(phi + j, mask=j < n_in, other=0.0).to(SUM)
                    moment = moment * keep + tl.sum(weight * phi_j[None, :], 1)
                top = new
    inside = i < n_out
    if channel == 0:
        target = out + b * out_b + r * out_r + i.to(tl.int64) * out_i
        tl.store(target, log_of(top, total.to(ACC)) * LN2, mask=inside)
    if WITH_MEANS:
        mean = moment / tl.where(total > 0.0, total, 1.0)
        target = means + b * means_b + channel * means_c + r * means_r + i.to(tl.int64) * means_i
        tl.store(target, mean.to(ACC), mask=inside)

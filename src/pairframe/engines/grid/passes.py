"""One-dimensional passes of the grid kernel, compiled: ``out[i] = log sum_j exp(h[j] - (i - j)^2 / eps)`` along rows.

Exact at any epsilon without a dense matrix. For a tile of neighbouring outputs the inputs that matter form one window,
because ``v_i(j) = h[j] - (i - j)^2 / eps`` has differences ``v_{i+1}(j) - v_i(j)`` that increase in j: the window's edges
move one way only, holes or not. Inside a tile the kernel is shifted by an integer, so that the tile's centre looks at its
own maximum, and the window's maximum is taken out; the rest is a small dense product with slices of one Toeplitz
kernel. A tile whose range would leave float64 is halved; a single output is summed directly.

Powers are lifted by a power of two, so that no product with the kernel is subnormal: a processor takes a hundred times as
long for a subnormal number, and sums of neighbouring pixels met enough of them to take more than twice their time.
"""

from __future__ import annotations

import math

import numpy as np

from pairframe.compiler import compiled

_FLAGS = {"contract", "reassoc", "nsz", "arcp", "nnan"}  # never "ninf": -inf means "no mass here"
_BLOCK = 16  # inputs per block of the maximum table
_LOWEST = -1e308
_DIP = 5.0  # the sums between both ends of a tile may be smaller than theirs by this factor of e
_LOG2E = 1.4426950408889634
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
_TWO52_BIAS = 4503599627370496.0 + 1023.0
_SHIFTER = 6755399441055744.0 + 1023.0  # 1.5 * 2**52 + exponent bias: adding it leaves an integer in the low bits


@compiled(fastmath=_FLAGS)
def exp_shifted(w, m, lowest, lift, e, power, power_bits, n):
    """``e[k] = 2^lift exp(w[k] - m)`` for k < n, arguments from `lowest` to 0; plain loops over arrays become vector code."""
    for k in range(n):
        x = w[k] - m
        x = x if x > lowest else lowest
        q = np.floor(x * _LOG2E + 0.5)
        r = (x - q * _LN2_HIGH) - q * _LN2_LOW
        y = 1.0 / 479001600.0
        y = y * r + 1.0 / 39916800.0
        y = y * r + 1.0 / 3628800.0
        y = y * r + 1.0 / 362880.0
        y = y * r + 1.0 / 40320.0
        y = y * r + 1.0 / 5040.0
        y = y * r + 1.0 / 720.0
        y = y * r + 1.0 / 120.0
        y = y * r + 1.0 / 24.0
        y = y * r + 1.0 / 6.0
        y = y * r + 0.5
        y = y * r + 1.0
        e[k] = y * r + 1.0
        power[k] = q + lift + _SHIFTER
    for k in range(n):
        power_bits[k] = power_bits[k] << 52
    for k in range(n):
        e[k] = e[k] * power[k]


@compiled(fastmath=_FLAGS)
def _best_input(h, position, block_max, row_max, i, first, last, inv_eps):
    """Value and position of the largest ``h[j] - (i - j)^2 / eps``: block by block, outwards, until none can be better."""
    near = min(max(i, first), last)
    top = _LOWEST
    best_first, best_last = near, near
    b_first, b_last, b_near = first // _BLOCK, last // _BLOCK, near // _BLOCK
    for side in range(2):
        b = b_near if side == 0 else b_near + 1
        while b_first <= b <= b_last:
            j0, j1 = max(first, b * _BLOCK), min(last, b * _BLOCK + _BLOCK - 1)
            gap = max(0, max(j0 - i, i - j1)) * 1.0
            reach = gap * gap * inv_eps
            if row_max - reach <= top:
                break
            if block_max[b] - reach > top:
                here, where = h[j0 : j1 + 1], position[j0 : j1 + 1]
                best = _LOWEST
                for k in range(j1 + 1 - j0):
                    v = here[k] - (i - where[k]) * (i - where[k]) * inv_eps
                    best = v if v > best else best
                if best > top:
                    top = best
                    best_first, best_last = j0, j1
            b += 2 * side - 1
    # Where in its block, in a second loop: the first one, which need not know, becomes vector code.
    arg, best = best_first, _LOWEST
    for j in range(best_first, best_last + 1):
        v = h[j] - (i - position[j]) * (i - position[j]) * inv_eps
        if v > best:
            best = v
            arg = j
    return top, arg


@compiled(fastmath=_FLAGS)
def _first_that_matters(h, block_max, i, first, last, inv_eps, floor):
    j = first
    while j < last:
        if j % _BLOCK == 0:
            end = min(last, j + _BLOCK - 1)
            gap = max(0, max(j - i, i - end))
            if block_max[j // _BLOCK] - gap * gap * inv_eps < floor:
                j = end + 1
                continue
        if h[j] - (i - j) * (i - j) * inv_eps >= floor:
            break
        j += 1
    return min(j, last)


@compiled(fastmath=_FLAGS)
def _last_that_matters(h, block_max, i, first, last, inv_eps, floor):
    j = last
    while j > first:
        if j % _BLOCK == _BLOCK - 1:
            start = max(first, j - _BLOCK + 1)
            gap = max(0, max(start - i, i - j))
            if block_max[j // _BLOCK] - gap * gap * inv_eps < floor:
                j = start - 1
                continue
        if h[j] - (i - j) * (i - j) * inv_eps >= floor:
            break
        j -= 1
    return max(j, first)


@compiled(fastmath=_FLAGS)
def log_of_sums(sums, sums_bits, lift, mantissa, mantissa_bits, exponent, exponent_bits, n):
    """``sums[q] = log(2^-lift sums[q])`` for q < n, normal positive numbers; vector code like `exp_shifted`."""
    for q in range(n):
        bits = sums_bits[q]
        mantissa_bits[q] = (bits & 0x000FFFFFFFFFFFFF) | 0x3FF0000000000000
        exponent_bits[q] = (bits >> 52) | 0x4330000000000000
    for q in range(n):
        x = mantissa[q]
        power = exponent[q] - (_TWO52_BIAS + lift)
        large = x > 1.4142135623730951
        x = 0.5 * x if large else x
        power = power + 1.0 if large else power
        f = (x - 1.0) / (x + 1.0)
        z = f * f
        y = 1.0 / 21.0
        y = y * z + 1.0 / 19.0
        y = y * z + 1.0 / 17.0
        y = y * z + 1.0 / 15.0
        y = y * z + 1.0 / 13.0
        y = y * z + 1.0 / 11.0
        y = y * z + 1.0 / 9.0
        y = y * z + 1.0 / 7.0
        y = y * z + 1.0 / 5.0
        y = y * z + 1.0 / 3.0
        y = y * z + 1.0
        sums[q] = power * _LN2_HIGH + (2.0 * f * y + power * _LN2_LOW)


@compiled(fastmath=_FLAGS)
def products(kernel, k0, e, width, t, sums):
    """``sums[q] = sum_k kernel[k0 - q + k] e[k]`` for q < t: slices of the Toeplitz kernel, eight outputs at a time.

    The outputs are the lanes of the vector code, so nothing is added across lanes at the end.
    """
    zero = kernel.dtype.type(0)
    q = 0
    while q + 8 <= t:
        # A slice, because an index that might be negative keeps the compiler from vector code.
        here = kernel[k0 - q - 7 : k0 - q + width]
        s0, s1, s2, s3, s4, s5, s6, s7 = zero, zero, zero, zero, zero, zero, zero, zero
        for k in range(width):
            x = e[k]
            s0 += here[k + 7] * x
            s1 += here[k + 6] * x
            s2 += here[k + 5] * x
            s3 += here[k + 4] * x
            s4 += here[k + 3] * x
            s5 += here[k + 2] * x
            s6 += here[k + 1] * x
            s7 += here[k] * x
        sums[q], sums[q + 1], sums[q + 2], sums[q + 3] = s0, s1, s2, s3
        sums[q + 4], sums[q + 5], sums[q + 6], sums[q + 7] = s4, s5, s6, s7
        q += 8
    while q < t:
        here = kernel[k0 - q : k0 - q + width]
        s0 = zero
        for k in range(width):
            s0 += here[k] * e[k]
        sums[q] = s0
        q += 1


@compiled(fastmath=_FLAGS, nogil=True)
def _row(
    h, phi, offset, start, stop, kernel, centre, inv_eps, cut, tile, scale, out, means, scratch, product, position
):
    """One row: `out[start:stop]` from all of `h`; output i sits at input coordinate ``i + offset``."""
    n = h.shape[0]
    n_phi = phi.shape[0]
    w, e, power, sums, mantissa, exponent, block_max = scratch
    depth, floor, lift = scale
    least = math.exp(-depth - _DIP) * 2.0**lift
    power_bits, sums_bits = power.view(np.int64), sums.view(np.int64)
    mantissa_bits, exponent_bits = mantissa.view(np.int64), exponent.view(np.int64)
    first, last = 0, n - 1
    while first < n and h[first] == -np.inf:
        first += 1
    while last >= 0 and h[last] == -np.inf:
        last -= 1
    if first > last:
        for i in range(start, stop):
            out[i] = -np.inf
            for c in range(n_phi):
                means[c, i] = 0.0
        return
    row_max = -np.inf
    for b in range(first // _BLOCK, last // _BLOCK + 1):
        top = -np.inf
        for j in range(max(first, b * _BLOCK), min(last, b * _BLOCK + _BLOCK - 1) + 1):
            top = h[j] if h[j] > top else top
        block_max[b] = top
        row_max = top if top > row_max else row_max
    left = first
    i0 = start + offset  # in input coordinates from here on
    end = stop + offset
    t = tile
    while i0 < end:
        t = min(t, end - i0)
        i1 = i0 + t - 1
        top0, arg0 = _best_input(h, position, block_max, row_max, i0, left, last, inv_eps)
        lo = _first_that_matters(h, block_max, i0, left, last, inv_eps, top0 - cut)
        if t == 1:
            total = 0.0
            for c in range(n_phi):
                means[c, i0 - offset] = 0.0
            for j in range(lo, last + 1):
                x = h[j] - (i0 - j) * (i0 - j) * inv_eps - top0
                if x > -cut:
                    x = math.exp(x)
                    total += x
                    for c in range(n_phi):
                        means[c, i0 - offset] += x * phi[c, j]
            if total == 0.0:  # exponents beyond 1e16 differ by more than the cut through rounding alone
                total = 1.0
                for c in range(n_phi):
                    means[c, i0 - offset] = phi[c, arg0]
            for c in range(n_phi):
                means[c, i0 - offset] /= total
            out[i0 - offset] = top0 + math.log(total)
            left = lo
            i0 += 1
            t = tile if (i0 - start - offset) % tile == 0 else 1
            continue
        top1, arg1 = _best_input(h, position, block_max, row_max, i1, arg0, last, inv_eps)
        hi = _last_that_matters(h, block_max, i1, arg0, last, inv_eps, top1 - cut)
        ic = (i0 + i1) // 2
        _, jc = _best_input(h, position, block_max, row_max, ic, arg0, arg1, inv_eps)
        d = jc - ic  # -(i - j)^2 = -(i + d - j)^2 + 2 d (i - j) + d^2
        width = hi - lo + 1
        m = _LOWEST
        tilt = 2.0 * d * inv_eps
        here, where = h[lo : hi + 1], position[lo : hi + 1]
        for k in range(width):
            x = here[k] - tilt * (where[k] - jc)
            w[k] = x
            m = x if x > m else m
        s0 = top0 - (tilt * (i0 - jc) + d * d * inv_eps) - m
        s1 = top1 - (tilt * (i1 - jc) + d * d * inv_eps) - m
        good = s0 > -depth and s1 > -depth
        if good:
            exp_shifted(w, m, -floor, lift, e, power, power_bits, width)
            for k in range(width):
                product[k] = e[k]
            k0 = centre + lo - i0 - d
            products(kernel, k0, product, width, t, sums)
            lowest = sums[0]
            for q in range(t):
                lowest = sums[q] if sums[q] < lowest else lowest
            good = lowest > least  # then underflow has dropped only negligible terms
        if not good:
            t = max(1, t // 2)
            continue
        for c in range(n_phi):
            row_means = means[c, i0 - offset : i0 - offset + t]
            row_phi = phi[c, lo : hi + 1]
            for k in range(width):
                product[k] = e[k] * row_phi[k]
            products(kernel, k0, product, width, t, mantissa)
            for q in range(t):
                row_means[q] = mantissa[q] / sums[q]
        log_of_sums(sums, sums_bits, lift, mantissa, mantissa_bits, exponent, exponent_bits, t)
        row_out = out[i0 - offset : i0 - offset + t]
        shift = m + tilt * (i0 - jc) + d * d * inv_eps
        for q in range(t):
            row_out[q] = shift + tilt * position[q] + sums[q]
        left = lo
        i0 += t
        t = tile


@compiled(nogil=True)
def pass_rows(h, phi, offset, spans, kernel, centre, inv_eps, cut, tile, scale, out, means, turned, first, step):
    """Rows first, first + step, ... of `h` into `out`, with the weighted means of `phi`; releases the GIL.

    Parameters
    ----------
    h : (R, n) log-weights, -inf for none.
    phi : (R, c, n) channels to average; c may be 0.
    offset : int, input coordinate of output 0.
    spans : (R, 2) int, the outputs wanted in each row.
    kernel : (2 centre + 1,) Toeplitz table ``exp(-k^2 / eps)``; its dtype is that of the products.
    cut : float, terms below ``exp(-cut)`` of the largest are dropped.
    scale : (depth, floor, lift), floats: sums may reach ``exp(-depth)`` in a tile, powers and kernel are at least
        ``exp(-floor)`` or nothing, and powers are multiplied by ``2^lift``.
    out, means : (R, k), (R, c, k), written on the spans only; with `turned` (k, R), (k, c, R), ready for the other axis.
    """
    rows, n = h.shape
    scratch = (
        np.empty(n),
        np.empty(n),
        np.empty(n),
        np.empty(tile),
        np.empty(tile),
        np.empty(tile),
        np.empty(n // _BLOCK + 1),
    )
    product = np.empty(n, kernel.dtype)
    position = np.arange(max(n, tile)) * 1.0
    for r in range(first, rows, step):
        # Two calls, because a row and a column of `out` differ in type; all input arrays are C-contiguous,
        # so that no shape, however thin, needs another compilation.
        if turned:
            _row(
                h[r], phi[r], offset, spans[r, 0], spans[r, 1], kernel, centre, inv_eps, cut, tile, scale,
                out[:, r], means[:, :, r].T, scratch, product, position,
            )  # fmt: skip
        else:
            _row(
                h[r], phi[r], offset, spans[r, 0], spans[r, 1], kernel, centre, inv_eps, cut, tile, scale,
                out[r], means[r], scratch, product, position,
            )  # fmt: skip


@compiled(nogil=True)
def sum_image(log_weight, index_in, log_in, first, index_out, second, log_sum):
    """The sums over an image in one call, which holds the interpreter lock for none of it: what `SupportKernel.log_sum` does.

    Parameters
    ----------
    log_weight, log_sum : (n_in,), (n_out,)
        From the pixels of one support to those of the other; `log_sum` is written.
    index_in, index_out : (n_in,), (n_out,) int
        Where they are among the inputs of the first pass, `log_in`, and the outputs of the second.
    first, second : tuples
        The arguments of both passes from `phi` to `turned`; see `pass_rows`.
    """
    flat = log_in.ravel()
    for k in range(index_in.size):
        flat[index_in[k]] = log_weight[k]
    phi, offset, spans, kernel, centre, inv_eps, cut, tile, scale, between, means, turned = first
    pass_rows(log_in, phi, offset, spans, kernel, centre, inv_eps, cut, tile, scale, between, means, turned, 0, 1)
    phi, offset, spans, kernel, centre, inv_eps, cut, tile, scale, out, means, turned = second
    pass_rows(between, phi, offset, spans, kernel, centre, inv_eps, cut, tile, scale, out, means, turned, 0, 1)
    flat = out.ravel()
    for k in range(index_out.size):
        log_sum[k] = flat[index_out[k]]

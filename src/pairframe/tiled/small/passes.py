"""The compiled parts of the loop: rows of a stored kernel, exponentials as vector code, and the figures of a side."""

from __future__ import annotations

import math

import numpy as np

from pairframe.compiler import compiled

CONTRACT = {"contract"}
_REORDER = {"contract", "reassoc", "nsz"}
_LOG2E = 1.4426950408889634
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
_SHIFTER = 6755399441055744.0 + 1023.0  # 1.5 * 2**52 + exponent bias: adding it leaves an integer in the low bits
_LEAST = -700.0  # exp of less is 0
LANES = 16  # rows are padded with zeros to a multiple of it, so that sums need no remainder
_RESTING = 8 * 2.0**-52
_BALANCED = 1e-14


@compiled(nogil=True)
def padded(m):
    """The width of a row of `m` entries."""
    return (m + LANES - 1) // LANES * LANES


@compiled(nogil=True, fastmath=CONTRACT)
def exp_row(x, out, bits, n):
    """``out[k] = exp(x[k])`` for k < n and x <= 0, and 0 below -700. Plain loops over arrays, so that they become vector code."""
    for k in range(n):
        v = x[k]
        v = v if v > _LEAST else _LEAST
        q = np.floor(v * _LOG2E + 0.5)
        r = (v - q * _LN2_HIGH) - q * _LN2_LOW
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
        out[k] = y * r + 1.0
        bits[k] = np.int64(q + 1023.0) << 52
    factor = bits.view(np.float64)
    for k in range(n):
        out[k] = out[k] * factor[k] if x[k] > _LEAST else 0.0


@compiled(nogil=True, fastmath=_REORDER)
def dot(row, w, width):
    """sum_j row_j w_j, in an order that depends on the width alone."""
    total = 0.0
    for j in range(width):
        total += row[j] * w[j]
    return total


@compiled(nogil=True, fastmath=CONTRACT)
def add_scaled(total, row, s, width):
    for j in range(width):
        total[j] += s * row[j]


@compiled(nogil=True, fastmath=CONTRACT)
def fill_kernel(scaled, eb, kernel, top, row, bits, n, m, width):
    """K_ij = exp(eb_j - C_ij/eps - top_i) with top_i the largest exponent of the row; zeros up to the width."""
    for i in range(n):
        best = -math.inf
        for j in range(m):
            row[j] = eb[j] - scaled[i, j]
            best = max(best, row[j])
        top[i] = best
        for j in range(m):
            row[j] -= best
        for j in range(m, width):
            row[j] = -math.inf
        exp_row(row, kernel[i], bits, width)


@compiled(nogil=True, fastmath=CONTRACT)
def log_sum_col(scaled, ea, j, n):
    """log sum_i exp(ea_i - C_ij/eps), by itself."""
    best = -math.inf
    for i in range(n):
        best = max(best, ea[i] - scaled[i, j])
    if best == -math.inf:
        return best
    total = 0.0
    for i in range(n):
        total += math.exp(ea[i] - scaled[i, j] - best)
    return best + math.log(total)


@compiled(nogil=True)
def log_implied_total(log_mass, f0, shift, tau, total, n):
    """Log of sum a e^(-f/tau), or of sum a for a hard side."""
    if tau < 0.0:
        return math.log(total)
    best = -math.inf
    for i in range(n):
        best = max(best, log_mass[i] - (f0[i] + shift) / tau)
    found = 0.0
    for i in range(n):
        found += math.exp(log_mass[i] - (f0[i] + shift) / tau - best)
    return best + math.log(found)


@compiled(nogil=True)
def translation(la, f0, tau_a, total_a, n, lb, g0, tau_b, total_b, m, shift):
    """The step t that maximises the dual over (f + t, g - t); see `side.optimal_translation`."""
    rate = (0.0 if tau_a < 0.0 else 1.0 / tau_a) + (0.0 if tau_b < 0.0 else 1.0 / tau_b)
    if rate == 0.0:
        return 0.0
    imbalance = log_implied_total(la, f0, shift, tau_a, total_a, n) - log_implied_total(
        lb, g0, -shift, tau_b, total_b, m
    )
    step = imbalance / rate
    return 0.0 if abs(step) <= _RESTING * abs(shift) or abs(imbalance) <= _BALANCED else step


@compiled(nogil=True)
def residual_of(log_marginal, log_mass, f0, shift, tau, total, n):
    """L1 distance between a marginal and the implied one, relative to the side's mass."""
    found = 0.0
    for i in range(n):
        implied = log_mass[i] if tau < 0.0 else log_mass[i] - (f0[i] + shift) / tau
        found += abs(math.exp(log_marginal[i]) - math.exp(implied))
    return found / total


@compiled(nogil=True)
def gather(log_mass, log_reference, potential, index, la, lu, f0, mass):
    """Entries with mass to the front; their number and total."""
    n = 0
    total = 0.0
    for i in range(log_mass.shape[0]):
        if log_mass[i] > -math.inf:
            index[n], la[n], lu[n], f0[n], mass[n] = (
                i,
                log_mass[i],
                log_reference[i],
                potential[i],
                math.exp(log_mass[i]),
            )
            total += mass[n]
            n += 1
    return n, total


@compiled(nogil=True)
def gather_cost(cost, rows, cols, n, m, inv_eps, scaled):
    """C_ij/eps of the entries with mass."""
    for i in range(n):
        source, goal = cost[rows[i]], scaled[i]
        if m == source.shape[0]:
            for j in range(m):
                goal[j] = source[j] * inv_eps
        else:
            for j in range(m):
                goal[j] = source[cols[j]] * inv_eps

"""The compiled Sinkhorn loop: one problem at a time, in float64, on the entries with mass.

The kernel ``K_ij = exp(rb_j - C_ij/eps - top_i)`` is stored: its rows have the maximum 1 for the exponents ``rb`` at which it was
computed. A full iteration then reads it once, with one product for the row sums and one for the column sums, and takes no
exponential per entry. If a factor has moved by more than exp(30) since then, or a column is so small that underflow could
affect it, the kernel is computed again at the present exponents, and a column that is still too small is summed by itself.

Sums run in a fixed order over entries with mass alone, so masked entries change no bit.
"""

from __future__ import annotations

import math

import numpy as np

from pairframe.compiler import compiled
from pairframe.tiled.small.passes import (
    CONTRACT,
    add_scaled,
    dot,
    fill_kernel,
    gather,
    gather_cost,
    log_sum_col,
    padded,
    residual_of,
    translation,
)

_FAR, _NEAR = math.exp(30.0), math.exp(-30.0)  # range of a factor before the kernel is computed again
_FARTHEST = 600.0  # exp of which is a number
_LARGEST, _TINIEST = 1e150, 1e-290
_SURE = 1e-280  # of the largest factor; underflow does not affect a column sum above

# Places in the row of figures of a problem.
SHIFT, PLAN_MASS, CHANGE, RESIDUAL, N_ITERS, CONVERGED, N_KERNELS = range(7)
N_FIGURES = 7
HARD = -1.0  # as tau


@compiled(nogil=True, fastmath=CONTRACT)
def _half_iteration(kernel, w, top, col, la, lu, mass_a, sum_a, ea, tau_a, shift, wants_logs, n, width):
    """Row sums, the new exponents of the rows, and the column sums ``col`` of the stored kernel; the largest row factor.

    The log sum of a row is log(K w)_i + top_i, and the factor of the row in the column sums exp(ea_i + top_i).
    """
    damp, undamped = 1.0 if tau_a < 0.0 else tau_a / (tau_a + 1.0), 0.0 if tau_a < 0.0 else 1.0 / (tau_a + 1.0)
    for j in range(width):
        col[j] = 0.0
    largest = 0.0
    for i in range(n):
        t = dot(kernel[i], w, width)
        if wants_logs:
            sum_a[i] = math.log(t) + top[i]
            ea[i] = damp * (la[i] - lu[i]) + lu[i] - undamped * shift - damp * sum_a[i]
        factor = mass_a[i] / t if tau_a < 0.0 else math.exp(ea[i] + top[i])
        largest = max(largest, factor)
        add_scaled(col, kernel[i], factor, width)
    return largest


@compiled(nogil=True)
def solve_batch(
    cost, epsilon, log_a, log_b, log_u, log_v, taus, stopping, f0_out, g0_out, figures, sums_a, sums_b, shifts, b0, b1
):  # fmt: skip
    """The loop of `loop.Loop.iterate` for the problems b0 to b1 of a batch.

    Parameters
    ----------
    cost : (B, N, M) float
    log_a, log_u : (B, N); log_b, log_v : (B, M), float64
        Log masses and log references.
    taus : (tau_a, tau_b)
        Over epsilon; `HARD` for a hard side.
    stopping : (max_iters, threshold, check_every)
    f0_out, g0_out : (B, N), (B, M), float64
        Start and end of the potentials over epsilon, without the shift.
    figures : (B, N_FIGURES)
        The shift to start from, and the figures of the end.
    sums_a, sums_b, shifts : (B, K, N), (B, K, M), (B, K)
        A record as in `Recorder`; K = 0 for none.
    """
    n_all, m_all = cost.shape[1], cost.shape[2]
    scaled, kernel = np.empty((n_all, m_all)), np.empty((n_all, padded(m_all)))
    rows, cols, bits = np.empty(n_all, np.int64), np.empty(m_all, np.int64), np.empty(padded(m_all), np.int64)
    v = np.empty((8, n_all))
    la, lu, f0, f_old, ea, top, sum_a, mass_a = v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]
    v = np.empty((8, m_all))
    lb, lv, g0, g_old, eb, rb, sum_b, mass_b = v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]
    w, col, row = np.empty(padded(m_all)), np.empty(padded(m_all)), np.empty(padded(m_all))
    (tau_a, tau_b), (max_iters, threshold, check_every) = taus, stopping
    is_hard, size = tau_a < 0.0 and tau_b < 0.0, shifts.shape[1]
    damp_b, undamped_b = 1.0 if tau_b < 0.0 else tau_b / (tau_b + 1.0), 0.0 if tau_b < 0.0 else 1.0 / (tau_b + 1.0)
    for p in range(b0, b1):
        n, total_a = gather(log_a[p], log_u[p], f0_out[p], rows, la, lu, f0, mass_a)
        m, total_b = gather(log_b[p], log_v[p], g0_out[p], cols, lb, lv, g0, mass_b)
        width = padded(m)
        gather_cost(cost[p], rows, cols, n, m, 1.0 / epsilon, scaled)
        for j in range(m):
            eb[j] = g0[j] + lv[j]
        w[:width] = 0.0
        shift, n_kernels, has_kernel, is_stale = figures[p, SHIFT], 0, False, False
        plan_mass = change = residual = math.inf
        for k in range(1, max_iters + 1):
            check = k == max_iters or (threshold > 0.0 and k % check_every == 0)
            before_check = k + 1 == max_iters or (threshold > 0.0 and (k + 1) % check_every == 0)
            wants_logs = check or before_check or size > 0 or not is_hard
            is_fresh = False
            while True:
                if is_stale and (wants_logs or not has_kernel):
                    for j in range(m):
                        eb[j] = rb[j] + math.log(w[j])
                        g0[j] = eb[j] - lv[j]
                    is_stale = False
                if not has_kernel:
                    fill_kernel(scaled, eb, kernel, top, row, bits, n, m, width)
                    for j in range(m):
                        w[j], rb[j] = 1.0, eb[j]
                    has_kernel = is_fresh = True
                    n_kernels += 1
                largest = _half_iteration(
                    kernel, w, top, col, la, lu, mass_a, sum_a, ea, tau_a, shift, wants_logs, n, width
                )
                sure = max(_TINIEST, _SURE * largest) if largest < _LARGEST else math.inf
                is_sure = True
                for j in range(m):
                    is_sure = is_sure and col[j] > sure
                if is_sure or (is_fresh and wants_logs):
                    break
                if is_fresh:
                    wants_logs = True  # some columns are summed by themselves, from the exponents of the rows
                has_kernel = has_kernel and is_fresh
            if not wants_logs:  # both sides are hard, and no logarithms are asked for: factors alone
                is_stale = True
                for j in range(m):
                    w[j] = mass_b[j] / col[j]
                    has_kernel = has_kernel and _NEAR < w[j] < _FAR
                continue
            for i in range(n):
                f_old[i] = f0[i]
                f0[i] = ea[i] - lu[i]
            step = translation(la, f0, tau_a, total_a, n, lb, g0, tau_b, total_b, m, shift)
            for j in range(m):
                sum_b[j] = math.log(col[j]) - rb[j] if col[j] > sure else log_sum_col(scaled, ea, j, n)
            if check:
                for i in range(n):
                    ea[i] += sum_a[i]  # log of the marginal
                for j in range(m):
                    row[j] = eb[j] + sum_b[j]
                residual = max(
                    residual_of(ea, la, f0, shift, tau_a, total_a, n),
                    residual_of(row, lb, g0, -shift, tau_b, total_b, m),
                )
            shift += step
            plan_mass = change = 0.0
            for j in range(m):
                g_old[j] = g0[j]
                if tau_b < 0.0 and is_sure:  # to the bit what the factors alone give
                    w[j] = mass_b[j] / col[j]
                    eb[j] = rb[j] + math.log(w[j])
                else:
                    eb[j] = damp_b * (lb[j] - lv[j]) + lv[j] + undamped_b * shift - damp_b * sum_b[j]
                    moved = eb[j] - rb[j]
                    w[j] = math.exp(moved) if abs(moved) < _FARTHEST else 0.0
                g0[j] = eb[j] - lv[j]
                has_kernel = has_kernel and _NEAR < w[j] < _FAR
                change = max(change, abs(g0[j] - g_old[j] - step))
            if size > 0:
                at = (k - 1) % size
                shifts[p, at] = shift
                for i in range(n):
                    sums_a[p, at, rows[i]] = sum_a[i]
                for j in range(m):
                    sums_b[p, at, cols[j]] = sum_b[j]
            if check:
                for i in range(n):
                    change = max(change, abs(f0[i] - f_old[i] + step))
                if k == max_iters or (change <= threshold and residual <= threshold):
                    for j in range(m):
                        plan_mass += math.exp(eb[j] + sum_b[j])
                    break
        for i in range(n):
            f0_out[p, rows[i]] = f0[i]
        for j in range(m):
            g0_out[p, cols[j]] = g0[j]
        figures[p, SHIFT], figures[p, PLAN_MASS], figures[p, CHANGE] = shift, plan_mass, change
        figures[p, RESIDUAL], figures[p, N_ITERS], figures[p, N_KERNELS] = residual, k, n_kernels
        figures[p, CONVERGED] = 1.0 if change <= threshold and residual <= threshold else 0.0


@compiled(nogil=True)
def solve_symmetric_batch(cost, epsilon, log_a, log_u, tau, stopping, f0_out, figures, b0, b1):
    """The loop of `loop.Loop.run_symmetric` for the problems b0 to b1 of a batch; arguments as in `solve_batch`."""
    n_all = cost.shape[1]
    scaled, kernel = np.empty((n_all, n_all)), np.empty((n_all, padded(n_all)))
    rows, bits = np.empty(n_all, np.int64), np.empty(padded(n_all), np.int64)
    v = np.empty((9, n_all))
    la, lu, f0, ef, rb, top, log_p, mass, new = v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8]
    w, row = np.empty(padded(n_all)), np.empty(padded(n_all))
    max_iters, threshold, _ = stopping
    damp = 1.0 if tau < 0.0 else tau / (tau + 1.0)
    for p in range(b0, b1):
        n, total = gather(log_a[p], log_u[p], f0_out[p], rows, la, lu, f0, mass)
        width = padded(n)
        gather_cost(cost[p], rows, rows, n, n, 1.0 / epsilon, scaled)
        w[:width] = 0.0
        has_kernel, n_kernels = False, 0
        plan_mass = change = residual = math.inf
        for k in range(1, max_iters + 1):
            for i in range(n):
                ef[i] = f0[i] + lu[i]
            for i in range(n):
                if has_kernel:
                    moved = ef[i] - rb[i]
                    w[i] = math.exp(moved) if abs(moved) < _FARTHEST else 0.0
                    has_kernel = _NEAR < w[i] < _FAR
            if not has_kernel:
                fill_kernel(scaled, ef, kernel, top, row, bits, n, n, width)
                for i in range(n):
                    w[i], rb[i] = 1.0, ef[i]
                has_kernel = True
                n_kernels += 1
            plan_mass = change = 0.0
            for i in range(n):
                log_sum = math.log(dot(kernel[i], w, width)) + top[i]
                new[i] = damp * (la[i] - lu[i] - log_sum)
                log_p[i] = ef[i] + log_sum
                plan_mass += math.exp(log_p[i])
                change = max(change, abs(new[i] - f0[i]))
            residual = residual_of(log_p, la, f0, 0.0, tau, total, n)
            if (change <= threshold and residual <= threshold) or k == max_iters:
                break
            for i in range(n):
                f0[i] = 0.5 * (f0[i] + new[i])
        for i in range(n):
            f0_out[p, rows[i]] = f0[i]
        figures[p, SHIFT], figures[p, PLAN_MASS], figures[p, CHANGE] = 0.0, plan_mass, change
        figures[p, RESIDUAL], figures[p, N_ITERS], figures[p, N_KERNELS] = residual, k, n_kernels
        figures[p, CONVERGED] = 1.0 if change <= threshold and residual <= threshold else 0.0

"""Compiled checks before, and results after, a solve of plain problems: finite costs, masses >= 0, few surprises.

The solve itself is not called from here: inside another compiled function its loops took four times as long.

Anything else has a status other than `PLAIN`; the general path then repeats the checks and names what is wrong.
"""

from __future__ import annotations

import math

import numpy as np

from pairframe.compiler import compiled
from pairframe.tiled.small.loops import PLAN_MASS, SHIFT
from pairframe.tiled.small.passes import CONTRACT, exp_row

PLAIN, UNUSUAL = 0, 1
# Planes of the block of a side.
LOG_MASS, LOG_REFERENCE, F0, POTENTIAL, LOG_HAT = range(5)
N_PLANES = 5
_LARGEST_LOG_TOTAL = 300.0


@compiled(nogil=True)
def _log_masses(mass, mask, log_mass):
    """Log masses (n,) of one problem; their total, or NaN if something is unusual."""
    n, count, total = log_mass.shape[0], 0, 0.0
    for i in range(n):
        on = mask.shape[0] == 0 or mask[i]
        count += on
        value = (1.0 if mass.shape[0] == 0 else mass[i]) if on else 0.0
        if not (0.0 <= value < math.inf):
            return math.nan
        log_mass[i] = math.log(value) if value > 0.0 else -math.inf
        total += value
    if mass.shape[0] == 0 and count > 0:
        for i in range(n):
            log_mass[i] -= math.log(count)
        total /= count
    if not (total > 0.0 and abs(math.log(total)) < _LARGEST_LOG_TOTAL):
        return math.nan
    return total


@compiled(nogil=True)
def _is_finite(cost, log_a, log_b, lowest):
    """Whether every cost between entries with mass is a moderate number."""
    for i in range(cost.shape[0]):
        if log_a[i] > -math.inf:
            row = cost[i]
            good = True
            for j in range(cost.shape[1]):
                good &= (lowest <= row[j] < math.inf) | (log_b[j] == -math.inf)
            if not good:
                return False
    return True


@compiled(nogil=True)
def prepare(cost, masses, masks, taus, is_product, lowest, agree, block_a, block_b, mismatch, b0, b1):
    """Check the problems b0 to b1 of a batch, and write log masses, log references and zeros to start from; the status.

    Parameters
    ----------
    masses, masks : pairs of (B, n) float64 and bool
        With no rows for uniform masses and for no mask.
    taus : (tau_a, tau_b)
        Over epsilon; `HARD` for a hard side.
    is_product : bool
        The reference: ``product``, else ``counting``.
    lowest, agree : float
        The lowest cost, and the relative difference up to which the totals of hard marginals are scaled to their mean.
    block_a, block_b : (N_PLANES, B, N), (N_PLANES, B, M) float64
    mismatch : (B,)
    """
    for p in range(b0, b1):
        totals = np.empty(2)
        for side, block in ((0, block_a), (1, block_b)):
            mass, mask = masses[side], masks[side]
            totals[side] = _log_masses(mass[min(p, mass.shape[0] - 1)] if mass.shape[0] > 0 else mass.ravel(),
                                       mask[min(p, mask.shape[0] - 1)] if mask.shape[0] > 0 else mask.ravel(),
                                       block[LOG_MASS, p])  # fmt: skip
        if not (totals[0] > 0.0 and totals[1] > 0.0):
            return UNUSUAL
        if taus[0] < 0.0 and taus[1] < 0.0:
            mean = 0.5 * (totals[0] + totals[1])
            mismatch[p] = abs(totals[0] - totals[1]) / mean
            if mismatch[p] > agree:
                return UNUSUAL
            block_a[LOG_MASS, p] += math.log(mean / totals[0])
            block_b[LOG_MASS, p] += math.log(mean / totals[1])
            totals[:] = mean
        for side, block in ((0, block_a), (1, block_b)):
            root = 0.5 * math.log(totals[side])
            for i in range(block.shape[2]):
                log_mass = block[LOG_MASS, p, i]
                block[LOG_REFERENCE, p, i] = log_mass - root if is_product and log_mass > -math.inf else 0.0
                block[F0, p, i] = 0.0
        if not _is_finite(cost[p], block_a[LOG_MASS, p], block_b[LOG_MASS, p], lowest):
            return UNUSUAL
    return PLAIN


@compiled(nogil=True)
def finish(block, epsilon, sign, figures, b0, b1):
    """Potentials in cost units and exponents, from f0; `sign` is that of the shift on this side."""
    for p in range(b0, b1):
        shift = sign * figures[p, SHIFT]
        for i in range(block.shape[2]):
            is_empty = block[LOG_MASS, p, i] == -math.inf
            block[POTENTIAL, p, i] = 0.0 if is_empty else epsilon * (block[F0, p, i] + shift)
            block[LOG_HAT, p, i] = -math.inf if is_empty else block[F0, p, i] + block[LOG_REFERENCE, p, i]


@compiled(nogil=True)
def _dual_term(block, p, tau, epsilon):
    """-D*(-f), in cost units: <a, f>, or -tau sum a (e^(-f/tau) - 1)."""
    total = 0.0
    for i in range(block.shape[2]):
        log_mass = block[LOG_MASS, p, i]
        if log_mass > -math.inf:
            f = block[POTENTIAL, p, i]
            total += math.exp(log_mass) * (f if tau < 0.0 else -tau * epsilon * math.expm1(-f / (tau * epsilon)))
    return total


@compiled(nogil=True)
def dual_values(epsilon, taus, block_a, block_b, figures, with_reference, values):
    """The dual values (B,) at the end; the reference is ``counting``."""
    for p in range(values.shape[0]):
        value = _dual_term(block_a, p, taus[0], epsilon) + _dual_term(block_b, p, taus[1], epsilon)
        value -= epsilon * figures[p, PLAN_MASS]
        if with_reference:
            n_a, n_b = (block_a[LOG_MASS, p] > -math.inf).sum(), (block_b[LOG_MASS, p] > -math.inf).sum()
            value += epsilon * n_a * n_b
        values[p] = value


@compiled(nogil=True)
def mass_gradients(bar, epsilon, taus, masses, block_a, block_b, bar_a, bar_b):
    """Gradients of `dual_values` for the masses (B, N), (B, M); two hard sides: projected on sum da = sum db."""
    for p in range(bar.shape[0]):
        excess, count = 0.0, 0
        for side, block, out in ((0, block_a, bar_a), (1, block_b, bar_b)):
            tau = taus[side] * epsilon
            for i in range(block.shape[2]):
                f, log_mass = block[POTENTIAL, p, i], block[LOG_MASS, p, i]
                out[p, i] = 0.0
                if log_mass > -math.inf:
                    scale = math.exp(log_mass) / masses[side][p, i] if masses[side].shape[0] > 0 else 1.0
                    out[p, i] = bar[p] * scale * (f if tau < 0.0 else -tau * math.expm1(-f / tau))
                    excess += out[p, i] if side == 0 else -out[p, i]
                    count += 1
        if taus[0] < 0.0 and taus[1] < 0.0:
            for side, block, out in ((0, block_a, bar_a), (1, block_b, bar_b)):
                for i in range(block.shape[2]):
                    if block[LOG_MASS, p, i] > -math.inf:
                        out[p, i] -= excess / count if side == 0 else -excess / count


@compiled(nogil=True, fastmath=CONTRACT)
def plans(cost, epsilon, log_a_hat, log_b_hat, factor, out, b0, b1):
    """factor_p P_ij into `out` (B, N, M), for problems b0 to b1."""
    m = cost.shape[2]
    exponents, row, bits = np.empty(m), np.empty(m), np.empty(m, np.int64)
    for p in range(b0, b1):
        for i in range(cost.shape[1]):
            la = log_a_hat[p, i]
            for j in range(m):
                x = la + log_b_hat[p, j] - cost[p, i, j] / epsilon
                exponents[j] = x if x == x else -math.inf  # no mass at an infinite cost
            exp_row(exponents, row, bits, m)
            for j in range(m):
                out[p, i, j] = factor[p] * row[j]

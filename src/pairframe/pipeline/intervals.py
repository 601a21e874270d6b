"""Intervals: numbers of jittered comparisons come in, the interval that holds the true number goes out.

The outlines that were given are the true ones plus an error. The comparisons here are of the given outlines plus a second
error of the same kind, so that (jittered - given) is distributed as (given - true), nearly. The interval is therefore
*given - bias +- t se* with the mean and the spread of those differences, not the range of the jittered numbers, which is
off by twice the bias: errors of outlines always add motion, and jittering adds them once more.
"""

from __future__ import annotations

import math

import numpy as np

from pairframe.results.error_bars import ErrorBar
from pairframe.types import Float

LEVEL = 0.95
# The errors of an outline add to the square of a displacement rather than to the displacement.
SQUARED = ("mean_displacement_um",)
MOST = {"percent_created": 100.0, "percent_destroyed": 100.0, "percent_moved": 100.0}


def interval(name: str, value: float, base: float, pairs: Float) -> ErrorBar:
    """The interval of one number.

    Parameters
    ----------
    value : float
        The number as reported.
    base : float
        The same number of the comparison that was jittered, which may be on a coarser grid.
    pairs : (n, 2)
        The number for n random errors of the outlines and for their opposites.
    """
    if not (math.isfinite(value) and math.isfinite(base)) or not np.isfinite(pairs).all():
        return ErrorBar(value, math.nan, math.nan, math.nan)
    scale = np.square if name in SQUARED else np.asarray
    jittered, middle, given = (np.asarray(scale(number), dtype=np.float64) for number in (pairs, base, value))
    n = len(pairs)
    odd = 0.5 * (jittered[:, 0] - jittered[:, 1])  # its mean is known to be 0
    even = jittered.mean(axis=1) - middle
    bias, spread = float(even.mean()), float(even.var(ddof=1))
    se = math.sqrt(float(np.mean(odd**2)) + spread * (1.0 + 1.0 / n))
    return _bar(name, value, float(given) - bias, se, _student(n))


def interval_of_replicates(name: str, values: Float) -> ErrorBar:
    """The interval of one number of the first of n segmentations, values (n,)."""
    if not np.isfinite(values).all():
        return ErrorBar(float(values[0]), math.nan, math.nan, math.nan)
    scaled = np.square(values) if name in SQUARED else values
    return _bar(name, float(values[0]), float(scaled[0]), float(scaled.std(ddof=1)), _student(len(values) - 1))


def _student(freedom: int) -> float:
    from scipy import stats

    return float(stats.t.ppf(0.5 + LEVEL / 2, freedom))


def _bar(name: str, value: float, centre: float, se: float, t: float) -> ErrorBar:
    low, high = max(0.0, centre - t * se), max(0.0, centre + t * se)
    if name in SQUARED:
        # A standard error of the number itself, also where it is small compared with that of its square.
        se = math.sqrt(max(0.0, centre) + se) - math.sqrt(max(0.0, centre))
        low, high = math.sqrt(low), math.sqrt(high)
    most = MOST.get(name, math.inf)
    return ErrorBar(value, min(low, value), max(min(high, most), value), se)

"""Intervals: numbers of jittered comparisons come in, the interval that holds the true number goes out.

The outlines that were given are the true ones plus an error. The comparisons here are of the given outlines plus a second
error of the same kind, so that (jittered - given) is distributed as (given - true), nearly. The interval is therefore
*given - bias +- t se* with the mean and the spread of those differences, not the range of the jittered numbers, which is
off by twice the bias. Two things are not alike the second time:

- Where growth turns into loss, or a piece comes into reach, numbers have a kink, and the bias on one side of it says little about
  the other. The interval therefore reaches from the one with the bias taken out to the one without.
- Created mass is net growth, if there is any, plus the mass that is created and destroyed alike. If all jittered masks have grown, none
  shows that the true one may have shrunk a little. Net growth itself has no kink, so its own interval is taken into account.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pairframe.results.error_bars import ErrorBar
from pairframe.types import Float

LEVEL = 0.95
# The errors of an outline add to the square of a displacement rather than to the displacement.
SQUARED = ("mean_displacement_um",)


@dataclass(frozen=True, eq=False)
class Draws:
    """One number, as given and for other outlines.

    Attributes
    ----------
    value : float
        As reported.
    base : float
        The same number of the comparison that was jittered, which may be on a coarser grid.
    pairs : (n, 2)
        The number for n random errors of the outlines and for their opposites.
    """

    value: float
    base: float
    pairs: Float

    @property
    def is_known(self) -> bool:
        """Whether all of them are numbers."""
        return bool(math.isfinite(self.value) and math.isfinite(self.base) and np.isfinite(self.pairs).all())

    def squared(self) -> Draws:
        """The same for the square of the number."""
        return Draws(self.value**2, self.base**2, np.square(self.pairs))

    @property
    def bias_and_se(self) -> tuple[float, float]:
        """Mean and standard deviation of the differences."""
        odd = 0.5 * (self.pairs[:, 0] - self.pairs[:, 1])  # its mean is known to be 0
        even = self.pairs.mean(axis=1) - self.base
        spread = float(even.var(ddof=1)) * (1.0 + 1.0 / len(even))
        return float(even.mean()), math.sqrt(float(np.mean(odd**2)) + spread)

    @property
    def ends(self) -> tuple[float, float]:
        """Both ends of the interval, which may leave the range of the number."""
        bias, se = self.bias_and_se
        half = student(len(self.pairs)) * se
        return self.value - max(bias, 0.0) - half, self.value - min(bias, 0.0) + half


def interval(name: str, draws: Draws) -> ErrorBar:
    """The interval of a number that is not negative."""
    if not draws.is_known:
        return ErrorBar(draws.value, math.nan, math.nan, math.nan)
    if name in SQUARED:
        squared = draws.squared()
        return _bar_of_square(draws.value, *squared.ends, squared.bias_and_se[1])
    low, high = draws.ends
    return ErrorBar(draws.value, max(low, 0.0), max(high, 0.0), draws.bias_and_se[1])


def share_interval(share: Draws, net: Draws) -> ErrorBar:
    """The interval of created or destroyed mass in percent; `net` is net growth, or net loss, of the same whole."""
    if not (share.is_known and net.is_known):
        return ErrorBar(share.value, math.nan, math.nan, math.nan)
    (low, high), (least, most) = share.ends, net.ends
    both = share.value - max(net.value, 0.0)  # created and destroyed alike
    low, high = min(low, max(least, 0.0) + both), max(high, max(most, 0.0) + both)
    se = share.bias_and_se[1]
    return ErrorBar(share.value, max(low, 0.0), min(max(high, 0.0), 100.0), se)


def remainder(bar: ErrorBar, value: float) -> ErrorBar:
    """The interval of the rest to 100 percent."""
    return ErrorBar(value, 100.0 - bar.high, 100.0 - bar.low, bar.se)


def interval_of_replicates(name: str, values: Float) -> ErrorBar:
    """The interval of one number of the first of n segmentations, values (n,)."""
    first = float(values[0])
    if not np.isfinite(values).all():
        return ErrorBar(first, math.nan, math.nan, math.nan)
    scaled = np.square(values) if name in SQUARED else values
    se = float(scaled.std(ddof=1))
    half = student(len(values) - 1) * se
    low, high = float(scaled[0]) - half, float(scaled[0]) + half
    if name in SQUARED:
        return _bar_of_square(first, low, high, se)
    most = 100.0 if name.startswith("percent_") else math.inf
    return ErrorBar(first, max(low, 0.0), min(high, most), se)


def student(freedom: int) -> float:
    """The factor on a standard error for the level of the intervals."""
    from scipy import stats

    return float(stats.t.ppf(0.5 + LEVEL / 2, freedom))


def _bar_of_square(value: float, low: float, high: float, se: float) -> ErrorBar:
    """The interval of a number from that of its square."""
    # Also where the number is small compared with its error, where the square has no slope.
    own_se = math.sqrt(value**2 + se) - value
    return ErrorBar(value, math.sqrt(max(low, 0.0)), math.sqrt(max(high, 0.0)), own_se)

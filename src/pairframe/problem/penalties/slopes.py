"""Slopes of one side's dual value when a constant t is added to its potential: decreasing functions of t."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from pairframe.types import Float


class DualSlope(ABC):
    """Derivative of one side's dual value with respect to a translation t of its potential.

    Attributes
    ----------
    lowest : float
        The dual is -inf for any t below it.
    """

    lowest: float = -math.inf

    @abstractmethod
    def at(self, t: float, *, from_above: bool) -> float:
        """One-sided derivative at t: the limit from t+ or from t-."""


class SumSlope(DualSlope):
    """Any smooth slope, as a function of t that sums over all pixels."""

    def __init__(self, slope: Callable[[float], float], lowest: float) -> None:
        self._slope, self.lowest = slope, lowest

    def at(self, t: float, *, from_above: bool) -> float:
        """See `DualSlope.at`; both limits are the same."""
        return self._slope(t)


class ExponentialSlope(DualSlope):
    """``exp(log_total - t/lambda)``: two of them meet in closed form. lambda = inf makes it constant."""

    def __init__(self, log_total: float, marginal_relaxation: float) -> None:
        self._log_total, self._lambda = log_total, marginal_relaxation

    def at(self, t: float, *, from_above: bool) -> float:
        """See `DualSlope.at`; both limits are the same."""
        exponent = self._log_total - t / self._lambda
        return math.exp(exponent) if exponent < 700.0 else math.inf

    def crossing(self, other: ExponentialSlope) -> float:
        """The t at which ``self(t) = other(-t)``; 0.0 if both are constant."""
        lam_a, lam_b = self._lambda, other._lambda
        if lam_a == lam_b == math.inf:
            return 0.0
        if lam_b == math.inf:
            share = lam_a
        elif lam_a == math.inf:
            share = lam_b
        else:
            share = lam_a * (lam_b / (lam_a + lam_b))
        return share * (self._log_total - other._log_total)


class ConstantSlope(ExponentialSlope):
    """The total mass, whatever t is."""

    def __init__(self, total: float) -> None:
        super().__init__(math.log(total), math.inf)
        self._total = total

    def at(self, t: float, *, from_above: bool) -> float:
        """See `DualSlope.at`."""
        return self._total


class StepSlope(DualSlope):
    """The mass of all pixels whose potential f + t is below `high`: a step function of t.

    Only pixels whose step is near the t that are asked for are sorted: mostly few of them come near their bound.
    """

    def __init__(self, f: Float, mass: Float, high: float, lowest: float = -math.inf) -> None:
        self._room, self._mass = high - f, mass  # a pixel's mass counts while t is below its room
        self.lowest = lowest
        self._sort(0.0)

    def at(self, t: float, *, from_above: bool) -> float:
        """See `DualSlope.at`."""
        if t > self._farthest:
            self._sort(_FARTHER * t)
        return float(self._mass_above[np.searchsorted(self._steps, t, side="right" if from_above else "left")])

    def _sort(self, farthest: float) -> None:
        """Find all steps up to `farthest`, and the mass that is left after each."""
        near = self._room <= farthest
        steps, mass = self._room[near], self._mass[near]
        order = np.argsort(steps, kind="stable")
        self._farthest, self._steps = farthest, steps[order]
        # mass_above[k]: mass of the steps k, k+1, ... in that order, and of all pixels beyond
        beyond = float(np.sum(self._mass, where=~near))
        self._mass_above = np.cumsum(np.append(mass[order], beyond)[::-1])[::-1]


_FARTHER = 16.0  # times the t that is asked for: how far steps are sorted ahead

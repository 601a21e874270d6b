"""Potentials of both sides over their supports, and the way from a support to the grid."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pairframe.types import Bool, Float


@dataclass(frozen=True, eq=False)
class Potentials:
    """Potentials f + shift on a and g - shift on b, in cost units.

    The plan depends on f_i + g_j only. With unequal masses the shift is of the order of lambda, which may be 1e7 times
    the cost; kept apart it takes no digits from the exponents.

    Parameters
    ----------
    f, g : (n,), (m,)
        Over the supports, in row-major order.
    shift : float
    """

    f: Float
    g: Float
    shift: float = 0.0

    @property
    def a(self) -> Float:
        """(n,): the potential on a, f + shift."""
        return self.f + self.shift

    @property
    def b(self) -> Float:
        """(m,): the potential on b, g - shift."""
        return self.g - self.shift

    @property
    def is_finite(self) -> bool:
        """Whether all values are finite."""
        return math.isfinite(self.shift) and bool(np.isfinite(self.f).all() and np.isfinite(self.g).all())

    def swapped(self) -> Potentials:
        """The same for the problem with source and target exchanged."""
        return Potentials(self.g, self.f, -self.shift)


def on_grid(values: Float, support: Bool, outside: float = 0.0) -> Float:
    """An array over the grid from values (n, ...) on its support, in row-major order."""
    array = np.full((*support.shape, *values.shape[1:]), outside)
    array[support] = values
    return array

"""Two masses in whole units, so that sums over them are exact: dual values are rounded down, costs rounded up."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairframe.types import Float, Int

Array = NDArray[Any]

_MOST = 2**62  # largest total in units, so that sums fit in int64
_ROUNDING = 2.0**-50  # relative rounding of products in float64 that are summed without error


@dataclass(frozen=True, eq=False)
class WholeMasses:
    """Two masses with equal totals, in whole units.

    Attributes
    ----------
    units_a, units_b : (H, W) int64
    unit : float
        Mass of one unit, a power of two; 1 if the masses are whole numbers.
    is_lossless : bool
        Whether the units represent the given masses exactly.
    mass_a, mass_b : (H, W)
        The given masses. If the totals differ in the last digits, `mass_b` is scaled to the total of `mass_a`.
    max_cost : int
        Largest squared distance on the grid, px^2.
    """

    units_a: Int
    units_b: Int
    unit: float
    is_lossless: bool
    mass_a: Array
    mass_b: Array
    max_cost: int

    @classmethod
    def of(cls, mass_a: Array, mass_b: Array) -> WholeMasses:
        """Take masses (H, W) with equal totals as they are if possible, else cut them into 2^61 to 2^62 units.

        Totals must lie between 2^-900 and 2^900, so that a unit is a float64.
        """
        max_cost = max_cost_px2(mass_a.shape)
        if all(_is_whole(mass) for mass in (mass_a, mass_b)):
            units_a, units_b = mass_a.astype(np.int64), mass_b.astype(np.int64)
            if units_a.sum() == units_b.sum():
                return cls(units_a, units_b, 1.0, True, mass_a, mass_b, max_cost)
        a, b = (np.asarray(mass, dtype=np.float64) for mass in (mass_a, mass_b))
        sum_a, sum_b = math.fsum(a.ravel()), math.fsum(b.ravel())
        b = b * (sum_a / sum_b)  # remove the rounding difference between the totals
        # Multiplying by a power of two is exact, so the mass lost by cutting is known to the last digit.
        exponent = 62 - math.frexp(sum_a)[1]
        total = int(math.ldexp(sum_a, exponent))
        units_a, units_b = _cut(a, exponent, total), _cut(b, exponent, total)
        return cls(units_a, units_b, math.ldexp(1.0, -exponent), False, a, b, max_cost)

    def dual_value(self, f: Int, g: Int) -> float:
        """``<a, f> + <b, g>`` of potentials (H, W) over the supports, rounded down."""
        if self.is_lossless:
            return below(exact_dot(self.units_a, f) + exact_dot(self.units_b, g))
        terms = np.concatenate([(self.mass_a * f).ravel(), (self.mass_b * g).ravel()])
        return math.fsum(terms) - _ROUNDING * math.fsum(np.abs(terms))

    def cost(self, carried: int, left_a: Int, left_b: Int) -> float:
        """Cost of a plan, rounded up: `carried` by the flow, plus the units left over (H, W), matched in proportion."""
        left = int(left_a.sum())
        if left:
            carried += _cost_of_product(left_a, left_b, left)
        if self.is_lossless:
            return above(carried)
        # Rows and columns are scaled down to the true masses, and the missing mass is charged the largest cost.
        return (carried * self.unit + self.max_cost * self.missing) * (1.0 + _ROUNDING)

    @property
    def missing(self) -> float:
        """Upper bound on the mass that a plan between the units lacks once its rows and columns are scaled to the masses."""
        if self.is_lossless:
            return 0.0
        off_a = np.abs(self.mass_a - self.units_a * self.unit)
        off_b = np.abs(self.mass_b - self.units_b * self.unit)
        rounding = _ROUNDING * self.unit * int(self.units_a.sum())
        return 0.5 * math.fsum(np.concatenate([off_a.ravel(), off_b.ravel()])) + rounding


def below(value: int) -> float:
    """Largest float that does not exceed a whole number."""
    nearest = float(value)
    return nearest if int(nearest) <= value else math.nextafter(nearest, -math.inf)


def above(value: int) -> float:
    """Smallest float that is at least a whole number."""
    return 0.0 - below(-value)


def max_cost_px2(shape_hw: tuple[int, ...]) -> int:
    """Squared distance between opposite corners of an image, px^2."""
    return int((shape_hw[0] - 1) ** 2 + (shape_hw[1] - 1) ** 2)


def exact_dot(units: Int, values: Int) -> int:
    """Sum of products in Python integers, which do not overflow."""
    on = units > 0
    return sum(x * y for x, y in zip(units[on].tolist(), values[on].tolist(), strict=True))


def _is_whole(mass: Array) -> bool:
    """Whether a mass consists of whole numbers with a total that fits."""
    if not 0 < float(mass.sum(dtype=np.float64)) <= _MOST:
        return False
    return mass.dtype.kind in "bui" or bool((mass == np.floor(mass)).all())


def _cut(mass: Float, exponent: int, total: int) -> Int:
    """``mass 2^exponent`` in whole units that add up to `total`, by largest remainders."""
    wanted = np.ldexp(mass.ravel(), exponent)
    units = np.floor(wanted).astype(np.int64)
    short = total - int(units.sum())
    # `total` is rounded, so the sum may be a few units off either way; the largest remainders absorb them.
    on = np.flatnonzero(mass.ravel() > 0)
    order = on[np.argsort((wanted - units)[on], kind="stable")]
    while short > 0:
        chosen = order[-short:]
        units[chosen] += 1
        short -= len(chosen)
    while short < 0:
        chosen = order[units[order] > 0][:-short]
        units[chosen] -= 1
        short += len(chosen)
    return units.reshape(mass.shape)


def _cost_of_product(left_a: Int, left_b: Int, left: int) -> int:
    """``sum_ij left_a_i left_b_j |x_i - x_j|^2 / left`` rounded up, from moments."""
    squares, products = 0, 0
    for axis in range(2):
        position: Int = np.indices(left_a.shape)[axis]
        squares += exact_dot(left_a, position**2) + exact_dot(left_b, position**2)
        products += exact_dot(left_a, position) * exact_dot(left_b, position)
    return squares - (2 * products) // left

"""Two masses as whole numbers, so that sums over them are exact: dual values rounded down, costs rounded up."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Array = NDArray[Any]

_MOST = 2**62  # units of a total: sums stay inside int64
_ROUNDING = 2.0**-50  # of a sum of products in float64, added up without error


@dataclass(frozen=True, eq=False)
class WholeMasses:
    """Masses in whole units, of equal totals.

    Attributes
    ----------
    units_a, units_b : (H, W) int64
    unit : float
        Mass of one unit, a power of two; 1 where the masses are whole numbers.
    is_same : bool
        Whether these are the masses that came in, to the last digit.
    mass_a, mass_b : (H, W)
        Those that came in; where their totals differ in the last digits, the second one scaled to the first one's.
    farthest : int
        Largest cost on the grid, px^2.
    """

    units_a: Int
    units_b: Int
    unit: float
    is_same: bool
    mass_a: Array
    mass_b: Array
    farthest: int

    @classmethod
    def of(cls, mass_a: Array, mass_b: Array) -> WholeMasses:
        """Masses (H, W) whose totals agree: as they are where possible, else cut into 2^61 to 2^62 units.

        Totals lie between 2^-900 and 2^900, so that no unit leaves float64.
        """
        farthest = largest_cost(mass_a.shape)
        if all(_is_whole(mass) for mass in (mass_a, mass_b)):
            units_a, units_b = mass_a.astype(np.int64), mass_b.astype(np.int64)
            if units_a.sum() == units_b.sum():
                return cls(units_a, units_b, 1.0, True, mass_a, mass_b, farthest)
        a, b = (np.asarray(mass, dtype=np.float64) for mass in (mass_a, mass_b))
        sum_a, sum_b = math.fsum(a.ravel()), math.fsum(b.ravel())
        b = b * (sum_a / sum_b)  # totals that agree up to rounding are made to agree
        # A power of two times a mass is exact, so that what cutting takes off a mass is known to the last digit.
        exponent = 62 - math.frexp(sum_a)[1]
        total = int(math.ldexp(sum_a, exponent))
        units_a, units_b = _cut(a, exponent, total), _cut(b, exponent, total)
        return cls(units_a, units_b, math.ldexp(1.0, -exponent), False, a, b, farthest)

    def dual_value(self, f: Int, g: Int) -> float:
        """``<a, f> + <b, g>`` of potentials (H, W), read on the supports; rounded down."""
        if self.is_same:
            return below(exact_dot(self.units_a, f) + exact_dot(self.units_b, g))
        terms = np.concatenate([(self.mass_a * f).ravel(), (self.mass_b * g).ravel()])
        return math.fsum(terms) - _ROUNDING * math.fsum(np.abs(terms))

    def cost(self, carried: int, left_a: Int, left_b: Int) -> float:
        """A plan's cost, rounded up: `carried` by the flow, and every unit left of (H, W) shared out in proportion."""
        left = int(left_a.sum())
        if left:
            carried += _cost_of_product(left_a, left_b, left)
        if self.is_same:
            return above(carried)
        # Rows and columns scaled down to the true masses, and what is then missing sent anywhere.
        return (carried * self.unit + self.farthest * self.missing) * (1.0 + _ROUNDING)

    @property
    def missing(self) -> float:
        """Mass, at most, that a plan between the units lacks after its rows and columns are scaled down to the masses."""
        if self.is_same:
            return 0.0
        off_a = np.abs(self.mass_a - self.units_a * self.unit)
        off_b = np.abs(self.mass_b - self.units_b * self.unit)
        rounding = _ROUNDING * self.unit * int(self.units_a.sum())
        return 0.5 * math.fsum(np.concatenate([off_a.ravel(), off_b.ravel()])) + rounding


def below(value: int) -> float:
    """The largest float that is not above a whole number."""
    nearest = float(value)
    return nearest if int(nearest) <= value else math.nextafter(nearest, -math.inf)


def above(value: int) -> float:
    """The smallest float that is not below a whole number."""
    return 0.0 - below(-value)


def largest_cost(shape_hw: tuple[int, ...]) -> int:
    """From corner to corner of an image, px^2."""
    return int((shape_hw[0] - 1) ** 2 + (shape_hw[1] - 1) ** 2)


def exact_dot(units: Int, values: Int) -> int:
    """A sum of products in Python's integers, which do not overflow."""
    on = units > 0
    return sum(x * y for x, y in zip(units[on].tolist(), values[on].tolist(), strict=True))


def _is_whole(mass: Array) -> bool:
    """Whether a mass can be taken as it is."""
    if not 0 < float(mass.sum(dtype=np.float64)) <= _MOST:
        return False
    return mass.dtype.kind in "bui" or bool((mass == np.floor(mass)).all())


def _cut(mass: Float, exponent: int, total: int) -> Int:
    """``mass 2^exponent`` in whole units that add up to `total`, by largest remainders."""
    wanted = np.ldexp(mass.ravel(), exponent)
    units = np.floor(wanted).astype(np.int64)
    short = total - int(units.sum())
    # The sum is a rounded one, so it may be a few units off on either side; pixels with most to give take them.
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

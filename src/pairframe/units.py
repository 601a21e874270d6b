"""The pixel size of a comparison, and with it the unit of every length: micrometres, or pixels if no size is known."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from pairframe.checks import is_real_number, shown
from pairframe.errors import PixelSizeError

PxSize = float | tuple[float, float, float]  # side of a pixel; of a voxel, sides along (z, y, x)
AXES = {2: ("y", "x"), 3: ("z", "y", "x")}  # names of the axes of an image and of a volume

# Beyond these an area, or a length times a factor, would leave the range of float64.
LEAST_LENGTH, LARGEST_LENGTH = 1e-100, 1e100


def checked_px_size(px_size_um: Any) -> float:
    """Side of a pixel in micrometres as a float; an error unless it is a positive, finite number."""
    if not is_real_number(px_size_um) or not LEAST_LENGTH <= px_size_um <= LARGEST_LENGTH:
        raise PixelSizeError(
            "a finite, positive pixel size in um",
            shown(px_size_um),
            f"give the side of one pixel, such as 0.65, or leave it out if it is unknown (from {LEAST_LENGTH:g} to {LARGEST_LENGTH:g})",
            field="px_size_um",
        )
    return float(px_size_um)


def checked_px_sides(px_size_um: Any) -> PxSize:
    """A pixel size as `checked_px_size` takes it, or the three sides (z, y, x) of a voxel; none of them may be missing."""
    if not hasattr(px_size_um, "__len__") or isinstance(px_size_um, str):
        return checked_px_size(px_size_um)
    sides = tuple(px_size_um)
    if len(sides) != 3:
        raise PixelSizeError(
            "one pixel size, or three sides of a voxel in the order (z, y, x), um",
            shown(px_size_um),
            "give a number for an image with square pixels, or all three sides, such as (2.5, 1.0, 1.0), for a volume",
            field="px_size_um",
        )
    z, y, x = (checked_px_size(side) for side in sides)
    return z, y, x


def px_size_text(px_size_um: PxSize) -> str:
    """A pixel size as messages show it: ``0.65`` or ``2.5 x 1 x 1``."""
    return f"{px_size_um:g}" if isinstance(px_size_um, float | int) else " x ".join(f"{side:g}" for side in px_size_um)


@dataclass(frozen=True)
class Units:
    """The unit of lengths and areas. Names such as ``blur_um`` are in micrometres only if a pixel size is known.

    Parameters
    ----------
    px_size_um : float or (float, float, float), optional
        Side of a canonical pixel in um; of a voxel, its sides (z, y, x). None: unknown, and lengths are in pixels.
    n_axes : int
        2 for images, 3 for volumes.
    """

    px_size_um: PxSize | None = None
    n_axes: int = 2

    def __post_init__(self) -> None:
        if self.px_size_um is None:
            return
        size = checked_px_sides(self.px_size_um)
        object.__setattr__(self, "px_size_um", size)
        if isinstance(size, tuple):
            object.__setattr__(self, "n_axes", len(size))

    @property
    def in_px(self) -> bool:
        """Whether lengths are in pixels because no pixel size is known."""
        return self.px_size_um is None

    @property
    def px_size(self) -> float:
        """Side of a canonical pixel in these units: multiply a length in pixels by it. Of a voxel, its shortest side."""
        size = self.px_size_um
        if size is None:
            return 1.0
        return min(size) if isinstance(size, tuple) else size

    @property
    def px_sides(self) -> tuple[float, ...]:
        """Sides of a canonical pixel in these units, one per axis of the grid."""
        size = self.px_size_um
        return size if isinstance(size, tuple) else (self.px_size,) * self.n_axes

    @property
    def spacing(self) -> tuple[float, ...]:
        """Distance between neighbouring pixels along each axis, in units of `px_size`; 1 for square pixels."""
        return tuple(side / self.px_size for side in self.px_sides)

    @property
    def px_area(self) -> float:
        """Area of a canonical pixel in these units; of a voxel, its volume."""
        return self.px_size**2 if self.n_axes == 2 else math.prod(self.px_sides)

    @property
    def length(self) -> str:
        """``um`` or ``px``, as files and column names spell it."""
        return "px" if self.in_px else "um"

    @property
    def length_text(self) -> str:
        """``µm`` or ``px``, for people."""
        return pretty(self.length)

    @property
    def area_text(self) -> str:
        """``µm²`` or ``px²``, for people; ``µm³`` or ``px³`` for a volume."""
        return pretty(f"{self.length}^{self.n_axes}")

    def of(self, unit: str) -> str:
        """A unit written for micrometres, such as ``um/min``, in these units."""
        return unit.replace("um", self.length)


def pretty(unit: str) -> str:
    """A unit as people write it: ``um^2`` becomes ``µm²``."""
    return unit.replace("um", "µm").replace("^2", "²").replace("^3", "³")

"""The pixel size of a comparison, and with it the unit of every length: micrometres, or pixels if no size is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pairframe.checks import is_real_number, shown
from pairframe.errors import PixelSizeError

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


@dataclass(frozen=True)
class Units:
    """The unit of lengths and areas. Names such as ``blur_um`` are in micrometres only if a pixel size is known.

    Parameters
    ----------
    px_size_um : float, optional
        Side of a canonical pixel in um. None: unknown, and lengths are in pixels.
    """

    px_size_um: float | None = None

    def __post_init__(self) -> None:
        if self.px_size_um is not None:
            object.__setattr__(self, "px_size_um", checked_px_size(self.px_size_um))

    @property
    def in_px(self) -> bool:
        """Whether lengths are in pixels because no pixel size is known."""
        return self.px_size_um is None

    @property
    def px_size(self) -> float:
        """Side of a canonical pixel in these units: multiply a length in pixels by it."""
        return 1.0 if self.px_size_um is None else self.px_size_um

    @property
    def px_area(self) -> float:
        """Area of a canonical pixel in these units."""
        return self.px_size**2

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
        """``µm²`` or ``px²``, for people."""
        return pretty(f"{self.length}^2")

    def of(self, unit: str) -> str:
        """A unit written for micrometres, such as ``um/min``, in these units."""
        return unit.replace("um", self.length)


def pretty(unit: str) -> str:
    """A unit as people write it: ``um^2`` becomes ``µm²``."""
    return unit.replace("um", "µm").replace("^2", "²")

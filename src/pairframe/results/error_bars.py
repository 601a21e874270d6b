"""`ErrorBars`: how far the numbers of a comparison may be off because the outlines of the masks are uncertain."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass
from typing import Any

from pairframe.plain_json import exact

QUANTITIES = ("percent_created", "percent_destroyed", "percent_moved", "mean_displacement_um", "divergence")
PARTS = ("low", "high", "se")


@dataclass(frozen=True)
class ErrorBar:
    """One number with its interval.

    Attributes
    ----------
    value : float
        As reported by the result.
    low, high : float
        The interval that holds the value of the true outlines with a probability of about 95 %.
    se : float
        Standard error.
    """

    value: float
    low: float
    high: float
    se: float


@dataclass(frozen=True)
class ErrorBars:
    """Intervals of the main numbers of a comparison, from the uncertainty of the segmentation alone.

    Attributes
    ----------
    percent_created, percent_destroyed, percent_moved, mean_displacement_um, divergence : ErrorBar
        In the units of the columns of the same names.
    rim_um : float
        Standard deviation of the outlines' position; NaN if it comes from several segmentations.
    correlation_um : float
        Distance along an outline over which its errors are alike; NaN as above.
    n_draws : int
        Comparisons with other outlines that the intervals come from.
    """

    percent_created: ErrorBar
    percent_destroyed: ErrorBar
    percent_moved: ErrorBar
    mean_displacement_um: ErrorBar
    divergence: ErrorBar
    rim_um: float
    correlation_um: float
    n_draws: int

    def items(self) -> Iterator[tuple[str, ErrorBar]]:
        """The intervals by name."""
        return ((name, getattr(self, name)) for name in QUANTITIES)

    @property
    def is_from_replicates(self) -> bool:
        """Whether several segmentations were given."""
        return math.isnan(self.rim_um)

    def columns(self) -> dict[str, float | int]:
        """Ends and standard errors by the names of their columns, and the rim."""
        found = {column_name(name, part): getattr(bar, part) for name, bar in self.items() for part in PARTS}
        return {**found, "rim_um": self.rim_um, "error_bar_draws": self.n_draws}

    def to_plain(self) -> dict[str, Any]:
        """Plain values; `from_plain` gives equal error bars back."""
        bars = {name: [exact(value) for value in astuple(bar)] for name, bar in self.items()}
        return {
            **bars,
            "rim_um": exact(self.rim_um),
            "correlation_um": exact(self.correlation_um),
            "n_draws": self.n_draws,
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> ErrorBars:
        """From the values of `to_plain`."""
        bars = {name: ErrorBar(*map(float, plain[name])) for name in QUANTITIES}
        return cls(
            **bars,
            rim_um=float(plain["rim_um"]),
            correlation_um=float(plain["correlation_um"]),
            n_draws=int(plain["n_draws"]),
        )


def column_name(quantity: str, part: str) -> str:
    """The column of ``low``, ``high`` or ``se`` of a quantity; a unit stays last."""
    stem = quantity.removesuffix("_um")
    return f"{stem}_{part}_um" if stem != quantity else f"{stem}_{part}"

"""`Sweep`: the same pair compared at several reaches and blurs, as a table with a recommendation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pairframe.results.features import Parts
from pairframe.results.recommend import Advice, advise
from pairframe.results.result import TransportResult
from pairframe.types import Float
from pairframe.units import Units

if TYPE_CHECKING:
    import pandas as pd

# Columns of the table, as in `results.parquet`, and the net growth in percent of the source.
NUMBERS = (
    "reach_um",
    "blur_um",
    "percent_created",
    "percent_destroyed",
    "percent_moved",
    "mean_displacement_um",
    "divergence",
    "growth_percent",
)


@dataclass(frozen=True, eq=False, repr=False)
class SweepPoint:
    """One comparison of a sweep.

    Attributes
    ----------
    reach_um, blur_um : float
        Its scales.
    percent_created, percent_destroyed, percent_moved : float
        Of the target, of the source and of the source.
    mean_displacement_um : float
        Of the moved mass; NaN if none moved.
    divergence : float
        Mass times work px^2 (``euclidean``: work px).
    growth_percent : float
        Mass of the target beyond that of the source, in percent of the source; the same at every point.
    status : str
    iterations : int
        Kernel applications on the work grid, of the pair alone.
    notices : tuple of str
        Codes of its notices.
    mass_arrived, mass_created, mass_destroyed : (Hw, Ww) float32
        Mass per work pixel, for small maps.
    """

    reach_um: float
    blur_um: float
    percent_created: float
    percent_destroyed: float
    percent_moved: float
    mean_displacement_um: float
    divergence: float
    growth_percent: float
    status: str
    iterations: int
    notices: tuple[str, ...]
    mass_arrived: Float
    mass_created: Float
    mass_destroyed: Float

    @classmethod
    def of(cls, result: TransportResult) -> SweepPoint:
        """The numbers and the small maps of a result."""
        parts, work = Parts(result), result.work
        arrived = np.maximum(work.mass_target - work.mass_created, 0.0)
        return cls(
            reach_um=result.reach_um,
            blur_um=result.blur_um,
            percent_created=100 * result.total_mass_created / result.M_target,
            percent_destroyed=100 * result.total_mass_destroyed / result.M_source,
            percent_moved=100 * result.total_mass_moved / result.M_source,
            mean_displacement_um=parts.result.mean_displacement_um,
            divergence=result.divergence,
            growth_percent=100 * (result.M_target / result.M_source - 1),
            status=str(result.status),
            iterations=result.iterations,
            notices=tuple(dict.fromkeys(notice.code for notice in result.notices)),
            mass_arrived=arrived.astype(np.float32),
            mass_created=work.mass_created.astype(np.float32),
            mass_destroyed=work.mass_destroyed.astype(np.float32),
        )

    def row(self) -> dict[str, Any]:
        """Its line in the table."""
        return {
            **{name: getattr(self, name) for name in NUMBERS},
            "status": self.status,
            "iterations": self.iterations,
            "notices": " ".join(self.notices),
        }


@dataclass(frozen=True, eq=False, repr=False)
class Sweep:
    """A pair compared at several reaches, blurs, or both.

    Attributes
    ----------
    points : tuple of SweepPoint
        By blur, then by reach, both increasing.
    units : Units
        The unit of lengths, wherever a name says um.
    """

    points: tuple[SweepPoint, ...]
    units: Units

    @property
    def reaches_um(self) -> tuple[float, ...]:
        """The reaches, increasing."""
        return tuple(sorted({point.reach_um for point in self.points}))

    @property
    def blurs_um(self) -> tuple[float, ...]:
        """The blurs, increasing."""
        return tuple(sorted({point.blur_um for point in self.points}))

    @property
    def table(self) -> pd.DataFrame:
        """One line per point: scales, created, destroyed and moved mass, displacement, divergence, status, notices."""
        import pandas as pd

        return pd.DataFrame([point.row() for point in self.points])

    @property
    def advice(self) -> Advice:
        """The recommended scales and the reason, apart."""
        return advise(self.points, self.units)

    @property
    def recommendation(self) -> str:
        """What to choose, and why."""
        return self.advice.sentence

    def at(self, blur_um: float | None = None) -> tuple[SweepPoint, ...]:
        """The points of one blur (default: the shortest), by increasing reach."""
        blur_um = self.blurs_um[0] if blur_um is None else blur_um
        return tuple(point for point in self.points if point.blur_um == blur_um)

    def __repr__(self) -> str:
        unit = self.units.length
        span = f"reach {_span(self.reaches_um)} {unit}, blur {_span(self.blurs_um)} {unit}"
        return f"Sweep of {len(self.points)} comparisons: {span}\n{self.recommendation}"


def _span(values: tuple[float, ...]) -> str:
    return f"{values[0]:.4g}" if len(values) == 1 else f"{values[0]:.4g} to {values[-1]:.4g}"

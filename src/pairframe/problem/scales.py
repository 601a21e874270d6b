"""All unit conversions of a problem: micrometres, canonical and work pixels, cost units.

Users set lengths: the blur (details below it are not resolved) and the reach (beyond it, mass is destroyed and created
rather than moved). Engines see cost units in work pixels, where the cost of a length is its power p: 2 for
``sqeuclidean``, 1 for ``euclidean``. eps = blur^p, and lam is reach^p times `Penalty.relaxation_per_reach`: 1/2 for ``tv``
and ``partial``, under which a pair of pixels is moved if C < 2 lam, and 1 for ``kl``. Older config files set `epsilon` and `marginal_relaxation` directly, in cost
units after `coord_scale`, where the cost is (coord_scale * work pixels)^p.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

from pairframe import checks
from pairframe.errors import ConfigError, ProblemError
from pairframe.frame.crop import check_factor
from pairframe.problem.reference import check_metric
from pairframe.units import LARGEST_LENGTH, LEAST_LENGTH, checked_px_size

DEFAULT_BLUR_CANONICAL_PX = 2.0


@dataclass(frozen=True)
class Scales:
    """The size of a pixel in every unit in use.

    Parameters
    ----------
    px_size_um : float
        Side of a canonical pixel in um; 1.0 for lengths in pixels.
    downsample_factor : int
        Canonical pixels along the side of a work pixel.
    coord_scale : float
        Factor on the work coordinates for which `epsilon` and `marginal_relaxation` were chosen.
    metric : {"sqeuclidean", "euclidean"}
    spacing : one float per axis
        Sides of a voxel in units of `px_size_um`, its shortest side; () for square pixels.
    """

    px_size_um: float = 1.0
    downsample_factor: int = 1
    coord_scale: float = 1.0
    metric: str = "sqeuclidean"
    spacing: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "px_size_um", checked_px_size(self.px_size_um))
        object.__setattr__(self, "downsample_factor", check_factor(self.downsample_factor))
        fix = "leave it out unless a config in cost units needs it"
        coord_scale = checks.within(
            self.coord_scale, "coord_scale", LEAST_LENGTH, LARGEST_LENGTH, fix=fix, error=ProblemError
        )
        object.__setattr__(self, "coord_scale", coord_scale)
        check_metric(self.metric)

    @property
    def power(self) -> int:
        """The cost is a length to this power."""
        return 2 if self.metric == "sqeuclidean" else 1

    @property
    def work_px_size_um(self) -> float:
        """Side of a work pixel in um."""
        return self.px_size_um * self.downsample_factor

    # --- costs -------------------------------------------------------------------------------

    def cost_work_from_length_um(self, length_um: float) -> float:
        """A blur or a reach as eps or lam of the work problem."""
        return float((length_um / self.work_px_size_um) ** self.power)

    def length_um_from_cost_work(self, cost_work: float) -> float:
        """eps or lam of the work problem as a blur or a reach."""
        return (cost_work if self.power == 1 else math.sqrt(cost_work)) * self.work_px_size_um

    def cost_work_from_cost_units(self, cost: float) -> float:
        """`epsilon` or `marginal_relaxation` of a config as eps or lam of the work problem."""
        return float(cost / self.coord_scale**self.power)

    def cost_units_from_cost_work(self, cost_work: float) -> float:
        """eps or lam of the work problem as `epsilon` or `marginal_relaxation` of a config."""
        return float(cost_work * self.coord_scale**self.power)

    def cost_um_from_cost_work(self, cost_work: float) -> float:
        """A cost in work pixels^p as one in um^p."""
        return float(cost_work * self.work_px_size_um**self.power)

    # --- what a config means -----------------------------------------------------------------

    def epsilon_work(self, epsilon: float | None = None, blur_um: float | None = None) -> float:
        """eps of the work problem; by default a blur of 2 canonical pixels, at any downsample factor.

        In a volume these are pixels along the shortest side of a voxel, and the blur is no less than the longest side, so that
        neighbouring planes see each other.
        """
        if epsilon is None and blur_um is None:
            blur_um = max(DEFAULT_BLUR_CANONICAL_PX, *self.spacing, 0.0) * self.px_size_um
        return self._cost_work(epsilon, blur_um, "blur_um" if epsilon is None else "epsilon")

    def relaxation_work(
        self, per_reach: float, marginal_relaxation: float | None = None, reach_um: float | None = None
    ) -> float:
        """lam of the work problem, from itself or from the reach.

        Parameters
        ----------
        per_reach : float
            `Penalty.relaxation_per_reach`; not used if lam itself is given.
        """
        if marginal_relaxation is not None:
            return self._cost_work(marginal_relaxation, None, "marginal_relaxation")
        return per_reach * self._cost_work(None, reach_um, "reach_um")

    def reach_um(self, per_reach: float, relaxation_work: float) -> float:
        """The reach that gives this lam, um; the inverse of `relaxation_work`."""
        return self.length_um_from_cost_work(relaxation_work / per_reach)

    def _cost_work(self, cost: float | None, length_um: float | None, field: str) -> float:
        if cost is None and length_um is None:
            raise ConfigError(
                f"a {field}, as this is no pair of masks that it could be taken from", "none", f"give {field}", field
            )
        try:
            if cost is None:
                assert length_um is not None
                found = self.cost_work_from_length_um(length_um)
            else:
                found = self.cost_work_from_cost_units(cost)
        except OverflowError:
            found = math.inf
        # Both are kept in results.
        if not all(sys.float_info.min <= value < math.inf for value in (found, self.cost_units_from_cost_work(found))):
            raise ConfigError(
                f"{field} to be a cost within the range of float64, in work pixels and in cost units",
                f"{length_um if cost is None else cost:g} for work pixels of {self.work_px_size_um:g} and "
                f"coord_scale {self.coord_scale:g}",
                f"choose {field}, px_size_um and coord_scale closer to each other",
                field,
            )
        return found

"""All unit maths: micrometres, canonical and work pixels, cost units, and what the peers call these parameters.

A person sets lengths: the blur (below it nothing is resolved) and the reach (well beyond it mass is created and destroyed
rather than moved). Engines see cost units in work pixels: eps = blur^p and lam = reach^p, where p is 2 for
``sqeuclidean`` and 1 for ``euclidean``. Config files of the past set `epsilon` and `marginal_relaxation` directly, in
cost units after `coord_scale`, where the cost is (coord_scale * work pixels)^p.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from pairframe.errors import ScalesError
from pairframe.frame.crop import check_factor, check_px_size
from pairframe.problem.reference import check_metric

DEFAULT_BLUR_CANONICAL_PX = 2.0
DEFAULT_REACH_CANONICAL_PX = 50.0


@dataclass(frozen=True)
class Scales:
    """How long a pixel is, in every unit in use.

    Parameters
    ----------
    px_size_um : float
        Side of a canonical pixel in um.
    downsample_factor : int
        Canonical pixels along the side of a work pixel.
    coord_scale : float
        What work coordinates were multiplied by when `epsilon` and `marginal_relaxation` were chosen.
    metric : {"sqeuclidean", "euclidean"}
    """

    px_size_um: float = 1.0
    downsample_factor: int = 1
    coord_scale: float = 1.0
    metric: str = "sqeuclidean"

    def __post_init__(self) -> None:
        object.__setattr__(self, "px_size_um", check_px_size(self.px_size_um))
        object.__setattr__(self, "downsample_factor", check_factor(self.downsample_factor))
        object.__setattr__(self, "coord_scale", positive(self.coord_scale, "coord_scale"))
        check_metric(self.metric)

    @property
    def power(self) -> int:
        """The cost is a length to this power."""
        return 2 if self.metric == "sqeuclidean" else 1

    @property
    def work_px_size_um(self) -> float:
        """Side of a work pixel in um."""
        return self.px_size_um * self.downsample_factor

    # --- lengths -----------------------------------------------------------------------------

    def canonical_px_from_um(self, length_um: float) -> float:
        return length_um / self.px_size_um

    def um_from_canonical_px(self, length_canonical_px: float) -> float:
        return length_canonical_px * self.px_size_um

    def work_px_from_um(self, length_um: float) -> float:
        return length_um / self.work_px_size_um

    def um_from_work_px(self, length_work_px: float) -> float:
        return length_work_px * self.work_px_size_um

    def work_px_from_canonical_px(self, length_canonical_px: float) -> float:
        return length_canonical_px / self.downsample_factor

    def canonical_px_from_work_px(self, length_work_px: float) -> float:
        return length_work_px * self.downsample_factor

    # --- costs -------------------------------------------------------------------------------

    def cost_work_from_length_um(self, length_um: float) -> float:
        """A blur or a reach as eps or lam of the work problem."""
        return float(self.work_px_from_um(length_um) ** self.power)

    def length_um_from_cost_work(self, cost_work: float) -> float:
        """eps or lam of the work problem as a blur or a reach."""
        return self.um_from_work_px(cost_work if self.power == 1 else math.sqrt(cost_work))

    def cost_work_from_cost_units(self, cost: float) -> float:
        """`epsilon` or `marginal_relaxation` of a config as eps or lam of the work problem."""
        return float(cost / self.coord_scale**self.power)

    def cost_units_from_cost_work(self, cost_work: float) -> float:
        """eps or lam of the work problem as `epsilon` or `marginal_relaxation` of a config."""
        return float(cost_work * self.coord_scale**self.power)

    def cost_um_from_cost_work(self, cost_work: float) -> float:
        """A cost in work pixels^p as one in um^p."""
        return float(cost_work * self.work_px_size_um**self.power)

    def cost_work_from_cost_um(self, cost_um: float) -> float:
        """A cost in um^p as one in work pixels^p."""
        return float(cost_um / self.work_px_size_um**self.power)

    # --- what a config means -----------------------------------------------------------------

    def epsilon_work(self, epsilon: float | None = None, blur_um: float | None = None) -> float:
        """eps of the work problem; neither given means a blur of 2 canonical pixels, at any downsample factor."""
        return self._cost_work(epsilon, blur_um, DEFAULT_BLUR_CANONICAL_PX)

    def strength_work(self, marginal_relaxation: float | None = None, reach_um: float | None = None) -> float:
        """lam of the work problem; neither given means a reach of 50 canonical pixels."""
        return self._cost_work(marginal_relaxation, reach_um, DEFAULT_REACH_CANONICAL_PX)

    def _cost_work(self, cost: float | None, length_um: float | None, default_canonical_px: float) -> float:
        if cost is not None:
            return self.cost_work_from_cost_units(cost)
        if length_um is None:
            length_um = self.um_from_canonical_px(default_canonical_px)
        return self.cost_work_from_length_um(length_um)


# --- the peers' names ------------------------------------------------------------------------


def ott_tau(strength: float, epsilon: float) -> float:
    """OTT-JAX's ``tau_a``/``tau_b`` of a kl penalty: lam / (lam + eps), exactly; 1 for ``balanced`` (lam = inf)."""
    if strength == math.inf:
        return 1.0
    return positive(strength, "strength") / (strength + positive(epsilon, "epsilon"))


def strength_from_ott_tau(tau: float, epsilon: float) -> float:
    """lam of OTT-JAX's ``tau``: eps tau / (1 - tau); inf (``balanced``) for tau = 1."""
    if not 0.0 < tau <= 1.0:
        raise ScalesError("0 < tau <= 1", repr(tau), "tau is lam / (lam + eps); 1 means balanced")
    return math.inf if tau == 1.0 else positive(epsilon, "epsilon") * tau / (1.0 - tau)


class PotParameters(NamedTuple):
    """Arguments for POT: ``reg``, ``reg_m`` and a constant to add to the cost matrix (after dividing it)."""

    reg: float
    reg_m: float
    cost_offset: float


def pot_parameters(
    epsilon: float, strength: float, *, raw_totals: tuple[float, float] | None = None, cost_divisor: float = 1.0
) -> PotParameters:
    """POT's parameters for the ``product`` reference with kl penalties (always with ``reg_type="kl"``).

    Parameters
    ----------
    epsilon, strength : float
        eps and lam of the problem.
    raw_totals : (M_a, M_b), optional
        None: POT is given both masses divided by sqrt(M_a M_b). Else it is given them as they are; its reference is
        then sqrt(M_a M_b) times ours, and the same plan needs a constant added to the cost.
    cost_divisor : float
        What the cost matrix was divided by before (POT's examples divide by its maximum).
    """
    divisor = positive(cost_divisor, "cost_divisor")
    offset = 0.0
    if raw_totals is not None:
        log_totals = [math.log(positive(total, "a total mass")) for total in raw_totals]
        offset = 0.5 * positive(epsilon, "epsilon") * sum(log_totals)
    return PotParameters(
        positive(epsilon, "epsilon") / divisor, positive(strength, "strength") / divisor, offset / divisor
    )


def from_pot_parameters(reg: float, reg_m: float, *, cost_divisor: float = 1.0) -> tuple[float, float]:
    """(eps, lam) of POT's ``reg`` and ``reg_m``."""
    divisor = positive(cost_divisor, "cost_divisor")
    return positive(reg, "reg") * divisor, positive(reg_m, "reg_m") * divisor


def positive(value: object, name: str) -> float:
    """A positive, finite number."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = math.nan
    if isinstance(value, bool) or not (math.isfinite(number) and number > 0):
        raise ScalesError(f"a positive, finite {name}", repr(value), f"give {name} as a positive number")
    return number

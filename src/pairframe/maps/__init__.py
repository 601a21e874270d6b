"""MAPS: potentials of a solved pair come in, the maps that people read go out.

It defines created, destroyed, moved and noise, on grids with any number of axes, and never builds a dense plan.
It must not know about files, configs or how results are kept.
"""

from pairframe.maps.accounting import FeasiblePart, feasible_part
from pairframe.maps.displacement import displacement
from pairframe.maps.divergence import Divergence, divergence_of
from pairframe.maps.flows import Flows, flows_between
from pairframe.maps.lift import CanonicalMaps, carry_to_grid, lift
from pairframe.maps.motion import Motion, decompose_motion
from pairframe.maps.plan import MAX_DENSE_ENTRIES, PlanOperator
from pairframe.maps.spread import spread_part
from pairframe.maps.strain import local_growth_rate, map_gradient, strain

__all__ = [
    "MAX_DENSE_ENTRIES",
    "CanonicalMaps",
    "Divergence",
    "FeasiblePart",
    "Flows",
    "Motion",
    "PlanOperator",
    "carry_to_grid",
    "decompose_motion",
    "displacement",
    "divergence_of",
    "feasible_part",
    "flows_between",
    "lift",
    "local_growth_rate",
    "map_gradient",
    "spread_part",
    "strain",
]

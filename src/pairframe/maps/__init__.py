"""MEAN: potentials of a solved pair come in, the maps that people read go out.

It owns what created, destroyed, moved and noise mean, and never writes out a dense plan.
It must not know about files, configs or how results are kept.
"""

from pairframe.maps.accounting import FeasiblePart, feasible_part
from pairframe.maps.displacement import displacement
from pairframe.maps.divergence import Divergence, divergence_of
from pairframe.maps.lift import CanonicalMaps, carry_to_grid, lift
from pairframe.maps.plan import MAX_DENSE_ENTRIES, PlanOperator
from pairframe.maps.selves import (
    SelfTransport,
    SolvedPair,
    clear_self_cache,
    self_transport,
    solve_pair,
)
from pairframe.maps.spread import spread_part

__all__ = [
    "MAX_DENSE_ENTRIES",
    "CanonicalMaps",
    "Divergence",
    "FeasiblePart",
    "PlanOperator",
    "SelfTransport",
    "SolvedPair",
    "carry_to_grid",
    "clear_self_cache",
    "displacement",
    "divergence_of",
    "feasible_part",
    "lift",
    "self_transport",
    "solve_pair",
    "spread_part",
]

"""STATE: work-grid masses and a `TransportConfig` come in, one `TransportProblem` and its objective go out.

It owns the mathematics (penalties, reference, primal, dual, gap) and every unit conversion.
It must not know how a problem is solved, nor what the maps mean.
"""

from pairframe.problem.config import TransportConfig
from pairframe.problem.objective import (
    Certificate,
    certificate,
    dual_value,
    optimal_translation,
    plan_cost_plus_entropy,
)
from pairframe.problem.penalties import KL, PENALTIES, TV, Balanced, Partial, Penalty, penalty_class, penalty_of
from pairframe.problem.potentials import Potentials, on_grid
from pairframe.problem.problem import TransportProblem
from pairframe.problem.reference import METRICS, REFERENCES, log_lattice_sum, log_reference
from pairframe.problem.scales import Scales
from pairframe.problem.state import penalties_of, state_problem

__all__ = [
    "KL",
    "METRICS",
    "PENALTIES",
    "REFERENCES",
    "TV",
    "Balanced",
    "Certificate",
    "Partial",
    "Penalty",
    "Potentials",
    "Scales",
    "TransportConfig",
    "TransportProblem",
    "certificate",
    "dual_value",
    "log_lattice_sum",
    "log_reference",
    "on_grid",
    "optimal_translation",
    "penalties_of",
    "penalty_class",
    "penalty_of",
    "plan_cost_plus_entropy",
    "state_problem",
]

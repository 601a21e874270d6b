"""STATE: work-grid masses and a `TransportConfig` come in, one `TransportProblem` and its objective go out.

It owns the mathematics (penalties, reference, primal, dual, gap) and every unit conversion.
It must not know how a problem is solved, nor what the maps mean.
"""

from pairframe.problem.config import TransportConfig
from pairframe.problem.objective import (
    Certificate,
    certificate,
    dual_value,
    marginal_from_update,
    optimal_translation,
    plan_cost_plus_entropy,
)
from pairframe.problem.penalties import PENALTIES, Penalty
from pairframe.problem.problem import TransportProblem
from pairframe.problem.reference import METRICS, REFERENCES, log_lattice_sum, log_reference
from pairframe.problem.scales import Scales
from pairframe.problem.state import state_problem

__all__ = [
    "METRICS",
    "PENALTIES",
    "REFERENCES",
    "Certificate",
    "Penalty",
    "Scales",
    "TransportConfig",
    "TransportProblem",
    "certificate",
    "dual_value",
    "log_lattice_sum",
    "log_reference",
    "marginal_from_update",
    "optimal_translation",
    "plan_cost_plus_entropy",
    "state_problem",
]

"""The passes of `passes`, and the whole loop in compiled code, for small problems on the CPU."""

from __future__ import annotations

from pairframe.tiled.passes import (
    accumulate_cost_gradient,
    full_iteration,
    log_sum_cols,
    log_sum_rows,
    plan_cost_sum,
    plan_gram,
    plan_times,
    plan_transposed_times,
    rows_then_cols,
)
from pairframe.tiled.small.solve import solve_small, solve_small_symmetric, stored_plan

__all__ = [
    "accumulate_cost_gradient",
    "full_iteration",
    "log_sum_cols",
    "log_sum_rows",
    "plan_cost_sum",
    "plan_gram",
    "plan_times",
    "plan_transposed_times",
    "rows_then_cols",
    "solve_small",
    "solve_small_symmetric",
    "stored_plan",
]

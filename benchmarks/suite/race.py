"""The contestant's side of a race: find the effort that a certified accuracy needs, then time exactly that effort.

Every answer of a contestant is certified here, from its potentials alone, by `pairframe.problem.objective`; the best
constant between f and g is added first, which only helps. Neither this nor the search for the effort is timed.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

from pairframe.maps import PlanOperator
from pairframe.problem import Certificate, TransportProblem, certificate, on_grid
from pairframe.problem.objective import optimal_translation
from suite.memory import peak_mb_of
from suite.problems import PairSpec, problem_of
from suite.solvers import SOLVERS, Potentials

_WHY = {"broke down": "its potentials are not finite", "stuck": "more effort changes nothing"}
_STUCK = 5  # steps with the same errors to the last digit


def certify(problem: TransportProblem, found: Potentials) -> Certificate | None:
    """The certificate of the potentials; None if they are not finite."""
    if not (np.isfinite(found.f).all() and np.isfinite(found.g).all()):
        return None
    f, g = on_grid(found.f, problem.support_a), on_grid(found.g, problem.support_b)
    with np.errstate(over="ignore", invalid="ignore"):
        t = optimal_translation(problem, f, g)
        f, g = (f + t, g - t) if np.isfinite(t) else (f, g)
        return certificate(problem, f, g, *PlanOperator(problem, f, g).marginals())


def find(setting: dict[str, Any]) -> dict[str, Any]:
    """The least effort of its ladder for each accuracy.

    Parameters
    ----------
    setting : {"solver", "spec", "tols", "limit_s"}

    Returns
    -------
    dict
        ``efforts``: by accuracy, with the seconds it took on the way; ``trace``: (seconds, relative gap, marginal error)
        of every step; ``last_effort``: of the last step; ``ended``: "met", "limit", "refused", "broke down" or "stuck", and
        ``why`` in words.
    """
    solver, problem = SOLVERS[setting["solver"]](), problem_of(PairSpec(**setting["spec"]))
    points = [int(problem.support_a.sum()), int(problem.support_b.sum())]
    reason = solver.refuses(problem)
    if reason is not None:
        return {"ended": "refused", "why": reason, "points": points, "efforts": {}, "trace": []}
    tols, limit_s = sorted(setting["tols"], reverse=True), setting["limit_s"]
    efforts: dict[str, dict[str, float]] = {}
    trace: list[tuple[float, float, float]] = []
    solver.warm_up(problem)
    set_up_s = min(_seconds_of(lambda: solver.solve(problem, 1)) for _ in range(2)) if solver.resumes else 0.0
    charged_s, done, at, ended, effort = 0.0, 0.0, None, "stuck", 0.0
    for effort in solver.efforts():
        began = perf_counter()
        at = solver.solve(problem, effort - done if at is not None else effort, at if solver.resumes else None)
        step_s = perf_counter() - began
        # In one go there is one set-up: the others are not charged. Without going on, only the last attempt is.
        charged_s = charged_s + max(0.0, step_s - (set_up_s if done else 0.0)) if solver.resumes else step_s
        done = effort if solver.resumes else 0.0
        worth = certify(problem, at)
        if worth is None:
            ended = "broke down"
            break
        trace.append((charged_s, worth.relative_gap, worth.marginal_error))
        for tol in tols:
            if worth.meets(tol):
                efforts.setdefault(key(tol), {"effort": effort, "seconds": charged_s})
        if key(tols[-1]) in efforts:
            ended = "met"
            break
        if charged_s > (limit_s if solver.resumes else limit_s / solver.growth):
            ended = "limit"
            break
        if len(trace) > _STUCK and len({record[1:] for record in trace[-_STUCK:]}) == 1:
            break
    return {
        "ended": ended,
        "why": _WHY.get(ended, ""),
        "points": points,
        "efforts": efforts,
        "trace": trace,
        "last_effort": effort,
    }


def _seconds_of(job: Callable[[], object]) -> float:
    began = perf_counter()
    job()
    return perf_counter() - began


def timed(setting: dict[str, Any]) -> dict[str, Any]:
    """Seconds and errors of one solve from masses to potentials with a known effort."""
    solver, problem = SOLVERS[setting["solver"]](), problem_of(PairSpec(**setting["spec"]))
    began = perf_counter()
    found = solver.solve(problem, setting["effort"])
    seconds = perf_counter() - began
    worth = certify(problem, found)
    errors = (worth.relative_gap, worth.marginal_error) if worth else (float("inf"), float("inf"))
    return {"seconds": seconds, "relative_gap": errors[0], "marginal_error": errors[1]}


def memory(setting: dict[str, Any]) -> dict[str, Any]:
    """Peak memory of this (fresh) process for one solve with little effort: iterations reuse what the first one takes."""
    solver, problem = SOLVERS[setting["solver"]](), problem_of(PairSpec(**setting["spec"]))
    if (reason := solver.refuses(problem)) is not None:
        return {"refused": reason}
    solver.warm_up(problem)
    effort = next(iter(solver.efforts()))
    extra, peak = peak_mb_of(lambda: solver.solve(problem, effort))
    return {"extra_mb": extra, "peak_mb": peak}


def key(tol: float) -> str:
    """An accuracy as JSON names it."""
    return f"{tol:.0e}"

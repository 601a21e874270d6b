"""SOLVE: a `TransportProblem` comes in, a certified `Solution` goes out, from any engine.

It owns the ways to solve. Engines are loaded on first use; importing this loads no numba, torch, jax or ot.
It must not know about masks, files, micrometres or what the maps mean.
"""

from __future__ import annotations

from pairframe.engines.base import Engine, Progress, Solution, SolveOptions, Start, Status, TraceRecord
from pairframe.engines.registry import engine_names, get_engine
from pairframe.errors import UnsupportedProblemError
from pairframe.problem import TransportProblem

__all__ = [
    "Engine",
    "Progress",
    "Solution",
    "SolveOptions",
    "Start",
    "Status",
    "TraceRecord",
    "engine_names",
    "get_engine",
    "solve",
]


def solve(
    problem: TransportProblem,
    backend: str = "grid",
    options: SolveOptions | None = None,
    init: Start | None = None,
    progress: Progress | None = None,
) -> Solution:
    """Solve a problem with one engine; never with another one in silence.

    Parameters
    ----------
    backend : str
        One of `engine_names()`.
    init : (potential_a, potential_b), optional
        (H, W) each, in cost units, NaN where unknown: potentials to start from.
    progress : callable, optional
        Called with a `TraceRecord` now and then.
    """
    if not isinstance(problem, TransportProblem):
        raise UnsupportedProblemError(
            "a TransportProblem", type(problem).__name__, "state one; compare() does it for masks"
        )
    engine = get_engine(backend)
    options = SolveOptions() if options is None else options
    reason = engine.supports(problem, options)
    if reason is not None:
        raise UnsupportedProblemError(
            f"a problem that the engine {backend!r} solves", reason, "choose another backend or change the problem"
        )
    return engine.run(problem, options, init, progress)

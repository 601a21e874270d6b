"""The engines on this machine: availability, dtypes, devices, the smallest epsilon each supports, and a self-test."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata

import numpy as np

from pairframe.engines.base import DTYPES, Engine, Solution, SolveOptions, Status
from pairframe.engines.registry import engine_names, get_engine
from pairframe.errors import EngineError
from pairframe.problem import KL, TransportProblem

# Largest relative difference from the oracle: objective and marginals.
ACCURACY = {"float64": (1e-6, 1e-5), "float32": (1e-3, 1e-3)}
_TOL = {"float64": 1e-7, "float32": 1e-4}


@dataclass(frozen=True)
class Backend:
    """One engine on this machine.

    Attributes
    ----------
    available : bool
    why_not : str
        What is missing and how to install it; empty if the engine is available.
    versions : tuple of (library, version)
    devices : tuple of str
        The first is the default.
    dtypes : tuple of str
    """

    name: str
    available: bool
    why_not: str = ""
    versions: tuple[tuple[str, str], ...] = ()
    devices: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()

    def smallest_epsilon(self, shape: tuple[int, ...], dtype: str = "float64") -> float:
        """The smallest usable epsilon on a work grid of that shape, work px^2; see `Engine.smallest_epsilon`."""
        return get_engine(self.name).smallest_epsilon(shape, dtype)

    def __repr__(self) -> str:
        if not self.available:
            return f"{self.name}: not available: {self.why_not}"
        versions = ", ".join(f"{library} {version}" for library, version in self.versions)
        return f"{self.name}: {', '.join(self.dtypes)} on {', '.join(self.devices)}" + f" ({versions})" * bool(versions)


def backends() -> list[Backend]:
    """List all engines, available or not. Loads the libraries that are installed."""
    return [_describe(name) for name in engine_names()]


def _describe(name: str) -> Backend:
    try:
        engine = get_engine(name)
    except EngineError as error:
        return Backend(name, False, f"{error.expected}; {error.fix}")
    problem = _small_problem()
    dtypes = tuple(dtype for dtype in DTYPES if engine.supports(problem, SolveOptions(dtype=dtype)) is None)
    return Backend(name, True, "", versions_of(engine), engine.devices(), dtypes)


def versions_of(engine: Engine) -> tuple[tuple[str, str], ...]:
    """Name and version of each library that an engine computes with."""
    return tuple((library, metadata.version(library)) for library in engine.libraries)


@dataclass(frozen=True)
class SelfTest:
    """A small problem with unequal masses, solved by an engine and by the oracle.

    Attributes
    ----------
    objective_error, marginal_error : float
        Relative differences from the oracle; NaN if the solve failed.
    seconds : float
        Time of the second solve.
    first_seconds : float
        Time of the first solve, which may include compilation.
    """

    name: str
    dtype: str
    device: str
    status: Status
    objective_error: float
    marginal_error: float
    seconds: float
    first_seconds: float

    @property
    def passed(self) -> bool:
        """Whether the solve converged within `ACCURACY` of the oracle."""
        objective, marginals = ACCURACY[self.dtype]
        return (
            self.status is Status.converged and self.objective_error <= objective and self.marginal_error <= marginals
        )


def self_test(name: str, dtype: str = "float64", device: str | None = None) -> SelfTest:
    """Solve a small problem with an engine and compare the solution with that of the oracle."""
    engine, problem = get_engine(name), _small_problem()
    options = SolveOptions(tol=_TOL[dtype], max_iterations=5000, dtype=dtype, device=device)
    start = time.perf_counter()
    engine.run(problem, options)
    between = time.perf_counter()
    solution = engine.run(problem, options)
    end = time.perf_counter()
    truth = _truth()
    return SelfTest(
        name=name,
        dtype=solution.dtype,
        device=solution.device,
        status=solution.status,
        objective_error=abs(solution.certificate.primal_upper / truth.certificate.primal_upper - 1.0),
        marginal_error=max(
            float(np.abs(getattr(solution, side) - getattr(truth, side)).sum() / getattr(truth, side).sum())
            for side in ("marginal_a", "marginal_b")
        ),
        seconds=end - between,
        first_seconds=between - start,
    )


@lru_cache(maxsize=1)
def _small_problem() -> TransportProblem:
    """Two discs of different size on 24 x 24 pixels, about 200 and 80 of them."""
    ys, xs = np.ogrid[:24, :24]
    source = ((ys - 10.0) ** 2 + (xs - 10.0) ** 2 <= 64.0).astype(np.float64)
    target = ((ys - 14.0) ** 2 + (xs - 15.0) ** 2 <= 25.0).astype(np.float64)
    penalty = KL(100.0)
    return TransportProblem(source, target, 4.0, penalty, penalty)


@lru_cache(maxsize=1)
def _truth() -> Solution:
    return get_engine("oracle").run(_small_problem(), SolveOptions(tol=1e-12, max_iterations=20_000))

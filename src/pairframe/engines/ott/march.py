"""One solve, seen from the host: chunks of OTT iterations and the decisions between them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from numpy.typing import NDArray

from pairframe.engines.base import Progress, Solution, SolveOptions, Start, TraceRecord
from pairframe.engines.ott.bridge import OttProblem
from pairframe.engines.ott.relaxation import Relaxation
from pairframe.engines.points import final_solution
from pairframe.engines.solve_end import Orientation, SolveEnd

Array = NDArray[Any]  # of the solve's dtype

NAME = "ott"
_ITERATIONS = 20  # in a chunk; measuring the error costs about one more
_SCALED_ITERATIONS = 5  # at each epsilon on the way down
_SCALING = 4.0  # epsilon goes down by this factor
_KERNELS_TO_MEASURE = 2  # a chunk's error, and likewise a certificate


class Chunk(NamedTuple):
    """A task for the device: `iterations` from these padded vectors."""

    mass_a: Array
    mass_b: Array
    epsilon: float
    taus: tuple[float, float]
    complements: tuple[float, float]  # 1 - tau, without cancellation
    f: Array
    g: Array
    momentum: float
    iterations: int


class March:
    """Defines chunks (`next_chunk`), takes their results (`take`), and ends with a certified solution."""

    def __init__(
        self,
        ott_problem: OttProblem,
        options: SolveOptions,
        init: Start | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.ott_problem = ott_problem
        self._options, self._progress = options, progress
        self._here = ott_problem.start(init)
        self._epsilons = [] if init is not None else self._larger_epsilons()
        self._relaxation = Relaxation(options.dtype)
        self._best = self._here
        self._goal = options.tol
        self._end: SolveEnd | None = None
        self._n_sums = 0
        self._trace: list[TraceRecord] = []
        problem = ott_problem.problem
        self._smaller_total = min(problem.total_a, problem.total_b)

    def _larger_epsilons(self) -> list[float]:
        """Larger epsilons to start with, at the same lambda: a few dozen softmins, which halve the total of hard problems."""
        epsilon, largest = self.ott_problem.problem.epsilon, self.ott_problem.largest_cost()
        steps = math.ceil(math.log(max(largest / _SCALING / epsilon, 1.0), _SCALING))
        return [epsilon * _SCALING**step for step in range(steps, 0, -1)]

    # --- chunks ------------------------------------------------------------------------------

    @property
    def done(self) -> bool:
        """Certified, stalled, failed, or out of budget."""
        certified = self._end is not None and self._end.certificate.meets(self._options.tol)
        return certified or self._relaxation.stalled or self._relaxation.failed or self._affordable() < 1

    def _affordable(self) -> int:
        """Iterations that the budget still allows, with the error after them and the certificate at the end."""
        return (self._options.max_iterations - self._n_sums - 2 * _KERNELS_TO_MEASURE) // 2

    def next_chunk(self) -> Chunk:
        """The next chunk; also valid, and harmless, when done."""
        warming = bool(self._epsilons)
        count = min(_SCALED_ITERATIONS if warming else _ITERATIONS, self._affordable())
        epsilon = self._epsilons[0] if warming else self.ott_problem.problem.epsilon
        momentum = 1.0 if warming else self._relaxation.momentum
        f, g = self.ott_problem.to_ott(self._here)
        lams = (
            self.ott_problem.problem.penalty_a.marginal_relaxation,
            self.ott_problem.problem.penalty_b.marginal_relaxation,
        )
        taus = (_tau(lams[0], epsilon), _tau(lams[1], epsilon))
        complements = (epsilon / (lams[0] + epsilon), epsilon / (lams[1] + epsilon))
        return Chunk(
            self.ott_problem.mass_a, self.ott_problem.mass_b, epsilon, taus, complements, f, g, momentum, max(count, 0)
        )

    def take(self, padded_f: Array, padded_g: Array, error: float, count: int) -> None:
        """The result of a chunk of `count` iterations: potentials and OTT's own error, in mass units."""
        self._n_sums += 2 * count + _KERNELS_TO_MEASURE
        found = self.ott_problem.from_ott(padded_f, padded_g)
        if self._epsilons:
            # After the last chunk at a larger epsilon, or one that is not finite, go on with the real epsilon.
            self._epsilons = self._epsilons[1:] if found.is_finite else []
            if found.is_finite:
                self._here = self.ott_problem.translated(found)
                self._best = self._here
            return
        error = error / self._smaller_total if found.is_finite else math.inf
        record = TraceRecord(float(self._n_sums), math.nan, error)
        if not self._relaxation.observe(error, count):
            self._here = self._best
        else:
            self._here = self.ott_problem.translated(found)
            if error <= self._relaxation.best:
                self._best = self._here
            if error <= self._goal:
                record = self._certify(error)
        self._trace.append(record)
        if self._progress is not None:
            self._progress(record)

    def _certify(self, error: float) -> TraceRecord:
        """OTT's error is small enough: compute the certificate, and again after the error has halved twice."""
        self._end = self.ott_problem.points.end(self._here)
        self._n_sums += _KERNELS_TO_MEASURE
        self._goal = 0.25 * error
        return TraceRecord(float(self._n_sums), self._end.certificate.gap, self._end.certificate.marginal_error)

    # --- the end -----------------------------------------------------------------------------

    def solution(self, device: str) -> Solution:
        """The certified result; its status follows from the certificate alone."""
        problem, trace = self.ott_problem.problem, tuple(self._trace)
        failed = self._relaxation.failed
        if self._end is not None and self._end.certificate.meets(self._options.tol):
            return Orientation(problem, swap=False).solution(
                self._end, self._options, engine=NAME, iterations=self._n_sums, device=device, trace=trace
            )
        return final_solution(
            problem,
            self._options,
            self._best,
            engine=NAME,
            iterations=self._n_sums + _KERNELS_TO_MEASURE,
            failed=failed,
            device=device,
            trace=trace,
            points=self.ott_problem.points,
        )


def _tau(marginal_relaxation: float, epsilon: float) -> float:
    """OTT's ``tau_a`` or ``tau_b``: lambda / (lambda + eps), and 1 for ``balanced`` (lambda = inf)."""
    return 1.0 if marginal_relaxation == math.inf else marginal_relaxation / (marginal_relaxation + epsilon)

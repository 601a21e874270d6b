"""One solve, seen from the host: chunks of OTT iterations, and what to decide between them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pairframe.engines.base import Progress, Solution, SolveOptions, Start, TraceRecord
from pairframe.engines.ott.relaxation import Relaxation
from pairframe.engines.ott.stated import Stated
from pairframe.engines.points import Ended, final_solution, solution_of
from pairframe.problem.scales import ott_tau

Float = NDArray[np.float64]
Array = NDArray[Any]  # of the solve's dtype

NAME = "ott"
_ITERATIONS = 20  # in a chunk; measuring the error costs about one more
_SCALED_ITERATIONS = 5  # at each epsilon on the way down
_SCALING = 4.0  # epsilon goes down by this factor
_KERNELS_TO_MEASURE = 2  # a chunk's error, and likewise a certificate


class Chunk(NamedTuple):
    """What the device is to do: `iterations` from these padded vectors."""

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
    """Asks for chunks (`next_chunk`), takes their results (`take`), and ends with a certified solution.

    The device may run the chunks of one march, or those of many side by side: the march does not know.
    """

    def __init__(
        self, stated: Stated, options: SolveOptions, init: Start | None = None, progress: Progress | None = None
    ) -> None:
        self.stated = stated
        self._options, self._progress = options, progress
        self._f, self._g = stated.start(init)
        self._epsilons = [] if init is not None else self._way_down()
        self._relaxation = Relaxation(options.dtype)
        self._best = (self._f, self._g)
        self._goal = options.tol
        self._ended: Ended | None = None
        self._work = 0
        self._trace: list[TraceRecord] = []
        problem = stated.problem
        self._smaller_total = min(problem.total_a, problem.total_b)

    def _way_down(self) -> list[float]:
        """Larger epsilons to start with, at the same lam: a few dozen softmins, and half of them saved when it is hard."""
        epsilon, largest = self.stated.problem.epsilon, self.stated.largest_cost()
        steps = math.ceil(math.log(max(largest / _SCALING / epsilon, 1.0), _SCALING))
        return [epsilon * _SCALING**step for step in range(steps, 0, -1)]

    # --- chunks ------------------------------------------------------------------------------

    @property
    def done(self) -> bool:
        """Certified, stalled, failed, or out of budget."""
        certified = self._ended is not None and self._ended.certificate.meets(self._options.tol)
        return certified or self._relaxation.stalled or self._relaxation.failed or self._affordable() < 1

    def _affordable(self) -> int:
        """Iterations that the budget still allows, with the error after them and the certificate at the end."""
        return (self._options.max_iterations - self._work - 2 * _KERNELS_TO_MEASURE) // 2

    def next_chunk(self) -> Chunk:
        """The next thing to do; also valid, and harmless, when done."""
        warming = bool(self._epsilons)
        count = min(_SCALED_ITERATIONS if warming else _ITERATIONS, self._affordable())
        epsilon = self._epsilons[0] if warming else self.stated.problem.epsilon
        momentum = 1.0 if warming else self._relaxation.momentum
        f, g = self.stated.to_ott(self._f, self._g)
        lams = (self.stated.problem.penalty_a.strength, self.stated.problem.penalty_b.strength)
        taus = (ott_tau(lams[0], epsilon), ott_tau(lams[1], epsilon))
        complements = (epsilon / (lams[0] + epsilon), epsilon / (lams[1] + epsilon))
        return Chunk(self.stated.mass_a, self.stated.mass_b, epsilon, taus, complements, f, g, momentum, max(count, 0))

    def take(self, padded_f: Array, padded_g: Array, error: float, count: int) -> None:
        """The result of a chunk of `count` iterations: potentials and OTT's own error, in mass units."""
        self._work += 2 * count + _KERNELS_TO_MEASURE
        f, g = self.stated.from_ott(padded_f, padded_g)
        is_sound = bool(np.isfinite(f).all() and np.isfinite(g).all())
        if self._epsilons:
            # The last chunk at a larger epsilon, or numbers that are none: on with the real one.
            self._epsilons = self._epsilons[1:] if is_sound else []
            if is_sound:
                self._f, self._g = self.stated.translated(f, g)
                self._best = (self._f, self._g)
            return
        error = error / self._smaller_total if is_sound else math.inf
        record = TraceRecord(float(self._work), math.nan, error)
        if not self._relaxation.observe(error, count):
            self._f, self._g = self._best
        else:
            self._f, self._g = self.stated.translated(f, g)
            if error <= self._relaxation.best:
                self._best = (self._f, self._g)
            if error <= self._goal:
                record = self._certify(error)
        self._trace.append(record)
        if self._progress is not None:
            self._progress(record)

    def _certify(self, error: float) -> TraceRecord:
        """OTT's error is small enough: look at the real thing, and again after it has halved twice."""
        self._ended = self.stated.points.end(self._f, self._g, self.stated.shift)
        self._work += _KERNELS_TO_MEASURE
        self._goal = 0.25 * error
        return TraceRecord(float(self._work), self._ended.certificate.gap, self._ended.certificate.marginal_error)

    # --- the end -----------------------------------------------------------------------------

    def solution(self, device: str) -> Solution:
        """The certified result; its status follows from the certificate alone."""
        problem, trace = self.stated.problem, tuple(self._trace)
        failed = self._relaxation.failed
        if self._ended is not None and self._ended.certificate.meets(self._options.tol):
            return solution_of(
                self._ended, problem, self._options, engine=NAME, iterations=self._work, device=device, trace=trace
            )
        f, g = self._best
        return final_solution(
            problem,
            self._options,
            f,
            g,
            shift=self.stated.shift,
            engine=NAME,
            iterations=self._work + _KERNELS_TO_MEASURE,
            failed=failed,
            device=device,
            trace=trace,
            points=self.stated.points,
        )

"""The end of a solve and the `Solution` made from it, the same for every engine."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pairframe.engines.base import Solution, SolveOptions, Start, Status, TraceRecord
from pairframe.problem import Certificate, Potentials, TransportProblem, on_grid
from pairframe.types import Float


@dataclass(frozen=True, eq=False)
class SolveEnd:
    """The last potentials of a solve, the marginals of their plan, (n,) and (m,), and the certificate."""

    potentials: Potentials
    marginal_a: Float
    marginal_b: Float
    certificate: Certificate

    @property
    def error(self) -> float:
        """The error that `tol` bounds."""
        return self.certificate.error

    @property
    def is_finite(self) -> bool:
        """Whether potentials and marginals are finite."""
        return self.potentials.is_finite and bool(
            np.isfinite(self.marginal_a).all() and np.isfinite(self.marginal_b).all()
        )

    def swapped(self) -> SolveEnd:
        """The same for the problem with source and target exchanged."""
        return SolveEnd(self.potentials.swapped(), self.marginal_b, self.marginal_a, self.certificate)


class Orientation:
    """A problem turned so that its harder side is b, on which solves end, and the way back.

    Parameters
    ----------
    problem : TransportProblem
    swap : bool, optional
        Whether source and target change places; by default if a's penalty is harder than b's.

    Attributes
    ----------
    problem : TransportProblem
        The turned one, to be solved.
    """

    def __init__(self, problem: TransportProblem, *, swap: bool | None = None) -> None:
        self._original = problem
        self._swap = problem.penalty_a.hardness > problem.penalty_b.hardness if swap is None else swap
        self.problem = problem.swapped() if self._swap else problem

    def start(self, init: Start | None) -> Start | None:
        """Starting potentials of the turned problem."""
        return init if init is None or not self._swap else (init[1], init[0])

    def solution(
        self,
        end: SolveEnd,
        options: SolveOptions,
        *,
        engine: str,
        iterations: int,
        failed: bool = False,
        device: str = "cpu",
        trace: tuple[TraceRecord, ...] = (),
    ) -> Solution:
        """The `Solution` of the original problem from the end of the turned one; its status follows from the certificate.

        Parameters
        ----------
        failed : bool
            Whether numbers left the dtype: without convergence the status is then ``impossible`` instead of
            ``max_iterations``.
        """
        problem = self._original
        end = end.swapped() if self._swap else end
        if not end.is_finite:
            end, failed = _unknown_end(problem), True
        if end.certificate.meets(options.tol):
            status = Status.converged
        elif failed or not math.isfinite(end.certificate.marginal_error):
            status = Status.impossible
        else:
            status = Status.max_iterations
        potential_a, marginal_a = (
            on_grid(end.potentials.a, problem.support_a, np.nan),
            on_grid(end.marginal_a, problem.support_a),
        )
        is_one = end.potentials.f is end.potentials.g and not end.potentials.shift  # a measure against itself
        return Solution(
            problem=problem,
            potential_a=potential_a,
            potential_b=potential_a if is_one else on_grid(end.potentials.b, problem.support_b, np.nan),
            marginal_a=marginal_a,
            marginal_b=marginal_a if is_one else on_grid(end.marginal_b, problem.support_b),
            certificate=end.certificate,
            status=status,
            iterations=iterations,
            engine=engine,
            dtype=options.dtype,
            device=device,
            trace=trace,
            split_potentials=end.potentials,
        )


def _unknown_end(problem: TransportProblem) -> SolveEnd:
    """The end of a solve whose numbers left float64: zeros, and bounds that promise nothing."""
    zeros_a, zeros_b = np.zeros(int(problem.support_a.sum())), np.zeros(int(problem.support_b.sum()))
    return SolveEnd(Potentials(zeros_a, zeros_b), zeros_a, zeros_b, Certificate.of_nothing())

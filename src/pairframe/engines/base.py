"""What an engine is given, what it must do, and what it hands back."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from operator import index
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pairframe.errors import SolveOptionsError, StartError
from pairframe.problem import Certificate, TransportProblem

Float = NDArray[np.float64]
DTYPES = ("float64", "float32")


class Status(StrEnum):
    """How a solve ended; `advice` says what to do about it."""

    converged = "converged"
    max_iterations = "max_iterations"
    empty_source = "empty_source"
    empty_target = "empty_target"
    impossible = "impossible"

    @property
    def advice(self) -> str:
        """One sentence for the person who reads the result."""
        return _ADVICE[self]


_ADVICE = {
    Status.converged: "nothing to do: the gap and the marginal error are within tol",
    Status.max_iterations: "stopped before tol was reached: raise max_iterations where all of them were used; raise blur_um or loosen tol where "
    "it stopped earlier, for want of digits",
    Status.empty_source: "the source has no mass: everything was created; check the source mask",
    Status.empty_target: "the target has no mass: everything was destroyed; check the target mask",
    Status.impossible: "the numbers left what float64 can hold; raise blur_um, or use a coarser downsample_factor",
}


class TraceRecord(NamedTuple):
    """One line of a solve's history."""

    work: float  # kernel applications so far, in units of one at the finest level
    gap: float  # NaN in a live report where it is not known yet
    marginal_error: float


Progress = Callable[[TraceRecord], None]
Start = tuple[Float, Float]


@dataclass(frozen=True)
class SolveOptions:
    """How far to go, and in which numbers.

    Parameters
    ----------
    tol : float
        Bounds the relative gap and the marginal error.
    max_iterations : int
        Kernel applications (softmins) at the finest level.
    dtype : {"float64", "float32"}
    device : str, optional
        For engines that know devices.
    """

    tol: float = 1e-6
    max_iterations: int = 2000
    dtype: str = "float64"
    device: str | None = None

    def __post_init__(self) -> None:
        if not (isinstance(self.tol, int | float) and 0 < self.tol < 1):
            raise SolveOptionsError("SolveOptions.tol between 0 and 1", repr(self.tol), "e.g. tol=1e-6")
        try:
            iterations = 0 if isinstance(self.max_iterations, bool) else index(self.max_iterations)
        except TypeError:
            iterations = 0
        if iterations < 1:
            raise SolveOptionsError(
                "SolveOptions.max_iterations to be an integer >= 1", repr(self.max_iterations), "e.g. 2000"
            )
        object.__setattr__(self, "max_iterations", iterations)
        if self.dtype not in DTYPES:
            raise SolveOptionsError(
                f"SolveOptions.dtype one of {', '.join(DTYPES)}", repr(self.dtype), "use one of these"
            )


@dataclass(frozen=True, eq=False)
class Solution:
    """What every engine returns, in work pixels.

    Attributes
    ----------
    potential_a, potential_b : (H, W)
        In cost units; NaN off the support. ``tv`` and ``balanced`` leave a constant open: compare f_i + g_j.
    marginal_a, marginal_b : (H, W)
        Marginals of the plan, mass per work pixel; 0 off the support.
    iterations : int
        Kernel applications at the finest level.
    """

    problem: TransportProblem
    potential_a: Float
    potential_b: Float
    marginal_a: Float
    marginal_b: Float
    certificate: Certificate
    status: Status
    iterations: int
    engine: str
    dtype: str = "float64"
    device: str = "cpu"
    trace: tuple[TraceRecord, ...] = field(default=())

    def __post_init__(self) -> None:
        for name in ("potential_a", "potential_b", "marginal_a", "marginal_b"):
            array = getattr(self, name)
            if array.shape != self.problem.shape_hw:
                raise StartError(
                    f"Solution.{name} of shape {self.problem.shape_hw}",
                    str(array.shape),
                    "an engine hands back arrays on the work grid",
                )

    def __repr__(self) -> str:
        return (
            f"Solution({self.status} by {self.engine} after {self.iterations} iterations, "
            f"relative gap {self.certificate.relative_gap:.2g}, marginal error {self.certificate.marginal_error:.2g})"
        )


class Engine(ABC):
    """One way to solve a `TransportProblem`. An instance may keep what can be reused between problems."""

    name: ClassVar[str]
    side_by_side: ClassVar[bool] = False  # whether several `run` may go on at once in threads, and gain by it
    needs_points: ClassVar[bool] = False  # whether fewer support points help: `max_support_points` is for those alone
    libraries: ClassVar[tuple[str, ...]] = ()  # distributions that compute here; results record their versions

    @abstractmethod
    def supports(self, problem: TransportProblem, options: SolveOptions) -> str | None:
        """None when this engine solves the problem, else the reason why not."""

    def devices(self) -> tuple[str, ...]:
        """Where it can run on this machine, as `SolveOptions.device` names it; the first is the default."""
        return ("cpu",)

    def smallest_epsilon(self, shape_hw: tuple[int, int], dtype: str) -> float:
        """Work px^2 (``sqeuclidean``): with less, rounding alone keeps a solve on such a grid from its usual accuracy.

        Exponents reach C/eps and round at the last digit of that: 1e-6 (float64) or 1e-3 (float32) of the answer must
        be left. Engines with other limits than rounding say so here.
        """
        farthest = float((shape_hw[0] - 1) ** 2 + (shape_hw[1] - 1) ** 2)
        wanted = {"float64": 1e-6, "float32": 1e-3}[dtype]
        return farthest * float(np.finfo(dtype).eps) / wanted

    def prepare(self, shape_hw: tuple[int, int]) -> None:  # noqa: B027  (most engines have nothing to prepare)
        """Make ready whatever problems of that shape can share."""

    @abstractmethod
    def run(
        self,
        problem: TransportProblem,
        options: SolveOptions,
        init: Start | None = None,
        progress: Progress | None = None,
    ) -> Solution:
        """Solve. `init` are potentials (H, W) to start from, NaN where unknown."""


def start_on_supports(problem: TransportProblem, init: Start | None) -> tuple[Float, Float]:
    """Starting potentials on the two supports, 1-D each: zeros without `init`, its mean where it is NaN."""
    result = []
    for side, support in enumerate((problem.support_a, problem.support_b)):
        if init is None:
            result.append(np.zeros(int(support.sum())))
            continue
        potential = np.asarray(init[side], dtype=np.float64)
        if potential.shape != problem.shape_hw:
            raise StartError(
                f"starting potentials of shape {problem.shape_hw}",
                str(potential.shape),
                "start from a solution on the same work grid",
            )
        values = potential[support]
        known = np.isfinite(values)
        mean = float(values[known].mean()) if known.any() else 0.0
        result.append(np.where(known, values, mean if math.isfinite(mean) else 0.0))
    return result[0], result[1]

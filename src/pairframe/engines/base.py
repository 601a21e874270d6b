"""The interface of an engine: its options, its methods, and the solution it returns."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, NamedTuple

import numpy as np

from pairframe import checks
from pairframe.errors import ArgumentError, StartError
from pairframe.problem import Certificate, Potentials, TransportProblem, on_grid
from pairframe.types import Float

DTYPES = ("float64", "float32")


class Status(StrEnum):
    """How a solve ended, with `advice` on how to proceed."""

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
    Status.converged: "the gap and the marginal error are within tol; no action needed",
    Status.max_iterations: "stopped before tol was reached; raise max_iterations if all of them were used, otherwise the error stopped "
    "falling for lack of digits: raise blur_um or loosen tol, or, if reach_um is far beyond the image, lower it "
    'or use penalty="balanced", normalization="each"',
    Status.empty_source: "the source has no mass, so all of the target was created; check the source mask",
    Status.empty_target: "the target has no mass, so all of the source was destroyed; check the target mask",
    Status.impossible: "numbers left the range of the dtype; raise blur_um or downsample_factor",
}


class TraceRecord(NamedTuple):
    """One line of a solve's history."""

    iterations: float  # kernel applications so far, in units of one at the finest level
    gap: float  # NaN in a live report if it is not known yet
    marginal_error: float


Progress = Callable[[TraceRecord], None]
Start = tuple[Float, Float]


@dataclass(frozen=True)
class SolveOptions:
    """When to stop, and the dtype and device to compute with.

    Parameters
    ----------
    tol : float
        Bounds the relative gap and the marginal error.
    max_iterations : int
        Kernel applications (softmins) at the finest level.
    dtype : {"float64", "float32"}
    device : str, optional
        For engines that run on several devices.
    """

    tol: float = 1e-6
    max_iterations: int = 2000
    dtype: str = "float64"
    device: str | None = None

    def __post_init__(self) -> None:
        if not (isinstance(self.tol, int | float) and 0 < self.tol < 1):
            raise ArgumentError("tol between 0 and 1", repr(self.tol), "e.g. tol=1e-6", "tol")
        iterations = checks.integer(self.max_iterations, "max_iterations", 1, fix="e.g. 2000")
        object.__setattr__(self, "max_iterations", iterations)
        checks.choice(self.dtype, "dtype", DTYPES)


@dataclass(frozen=True, eq=False)
class Solution:
    """The result of an engine, in work pixels.

    Attributes
    ----------
    potential_a, potential_b : arrays over the grid
        In cost units; NaN off the support. ``tv`` and ``balanced`` leave a constant open: compare f_i + g_j.
    marginal_a, marginal_b : arrays over the grid
        Marginals of the plan, mass per work pixel; 0 off the support.
    iterations : int
        Kernel applications at the finest level.
    split_potentials : Potentials, optional
        The same potentials over the supports with a large constant apart, from which `plan_potentials` takes its digits.
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
    split_potentials: Potentials | None = None

    @property
    def plan_potentials(self) -> Start:
        """Arrays over the grid with the plan of (potential_a, potential_b), without a constant that cancels in it.

        With unequal masses the constant is of the order of lambda, and would take digits from the plan's exponents.
        """
        if self.split_potentials is None:
            return self.potential_a, self.potential_b
        on_a, on_b = self.problem.support_a, self.problem.support_b
        return on_grid(self.split_potentials.f, on_a, np.nan), on_grid(self.split_potentials.g, on_b, np.nan)

    def __post_init__(self) -> None:
        for name in ("potential_a", "potential_b", "marginal_a", "marginal_b"):
            array = getattr(self, name)
            if array.shape != self.problem.shape:
                raise StartError(
                    f"Solution.{name} of shape {self.problem.shape}",
                    str(array.shape),
                    "return arrays on the work grid",
                )

    def __repr__(self) -> str:
        return (
            f"Solution({self.status} by {self.engine} after {self.iterations} iterations, "
            f"relative gap {self.certificate.relative_gap:.2g}, marginal error {self.certificate.marginal_error:.2g})"
        )


class Engine(ABC):
    """One way to solve a `TransportProblem`. An instance may keep data that problems share."""

    name: ClassVar[str]
    side_by_side: ClassVar[bool] = False  # whether several `run` in threads at once are allowed and faster
    needs_points: ClassVar[bool] = False  # whether `max_support_points` helps: fewer support points cost less
    libraries: ClassVar[tuple[str, ...]] = ()  # distributions that do the computing; results record their versions

    @abstractmethod
    def supports(self, problem: TransportProblem, options: SolveOptions) -> str | None:
        """None if this engine can solve the problem, else the reason why not."""

    def devices(self) -> tuple[str, ...]:
        """Devices of this machine that it can run on, as for `SolveOptions.device`; the first is the default."""
        return ("cpu",)

    def smallest_epsilon(self, shape: tuple[int, ...], dtype: str) -> float:
        """Work px^2 (``sqeuclidean``): with less, rounding alone keeps a solve on such a grid from its usual accuracy.

        Exponents reach C/eps and round at the last digit of that: 1e-6 (float64) or 1e-3 (float32) of the answer must
        be left. Engines with limits other than rounding override this.
        """
        farthest = float(sum((side - 1) ** 2 for side in shape))
        wanted = {"float64": 1e-6, "float32": 1e-3}[dtype]
        return farthest * float(np.finfo(dtype).eps) / wanted

    @abstractmethod
    def run(
        self,
        problem: TransportProblem,
        options: SolveOptions,
        init: Start | None = None,
        progress: Progress | None = None,
    ) -> Solution:
        """Solve. `init` are potentials over the grid to start from, NaN where unknown."""


def only_plain_images(problem: TransportProblem) -> str | None:
    """The reason why an engine for images refuses volumes and anisotropic pixels, or None when the problem is neither."""
    if problem.is_plain_image:
        return None
    grid = f"a {' x '.join(map(str, problem.shape))} grid with a spacing of {problem.spacing}"
    return f"{grid}; it solves problems on images with square pixels"


def start_on_supports(problem: TransportProblem, init: Start | None) -> Potentials:
    """Starting potentials on the supports: zeros without `init`, its mean where it is NaN."""
    result = []
    for side, support in enumerate((problem.support_a, problem.support_b)):
        if init is None:
            result.append(np.zeros(int(support.sum())))
            continue
        potential = np.asarray(init[side], dtype=np.float64)
        if potential.shape != problem.shape:
            raise StartError(
                f"starting potentials of shape {problem.shape}",
                str(potential.shape),
                "start from a solution on the same work grid",
            )
        values = potential[support]
        known = np.isfinite(values)
        mean = float(values[known].mean()) if known.any() else 0.0
        result.append(np.where(known, values, mean if math.isfinite(mean) else 0.0))
    return Potentials(result[0], result[1])

"""The contestants: each solves one problem with a given effort and returns potentials, and only these are used.

All are given the same objective, in float64: kl penalties and the product reference a (x) b of masses divided by
sqrt(M_a M_b). Potentials are on the supports, in work px^2, of the plan u_i v_j exp((f_i + g_j - C_ij)/eps).
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from pairframe.engines import SolveOptions, get_engine
from pairframe.engines.points import refuse_past_memory
from pairframe.problem import TransportProblem
from pairframe.types import Float
from suite.problems import PairSpec, problem_of

if TYPE_CHECKING:
    import torch


class Potentials(NamedTuple):
    """f (n,) on the source's support and g (m,) on the target's."""

    f: Float
    g: Float


class Solver(ABC):
    """One contestant.

    Attributes
    ----------
    label : str
        As tables name it.
    package : str
        The distribution that has to be installed.
    resumes : bool
        Whether `solve` goes on from a start, so that the effort needed can be looked for step by step.
    growth : float
        From one effort to the next, about.
    dense_copies : int
        n x m matrices of float64 that it keeps at once; 0 for none.
    """

    label: ClassVar[str]
    package: ClassVar[str]
    resumes: ClassVar[bool] = False
    growth: ClassVar[float] = 1.5
    dense_copies: ClassVar[int] = 0

    def refuses(self, problem: TransportProblem) -> str | None:
        """Why this problem is not for it, or None."""
        if not self.dense_copies:
            return None
        reason = refuse_past_memory(problem, dtype="float64", copies=self.dense_copies)
        return None if reason is None else reason.split(";")[0]

    def warm_up(self, problem: TransportProblem) -> None:
        """Load and compile what a solve of this problem needs, so that no clock runs meanwhile."""
        self.solve(problem_of(PairSpec(scale=1 / 16, blur_px=32.0)), next(iter(self.efforts())))

    @abstractmethod
    def efforts(self) -> Iterator[float]:
        """Increasing efforts; each contestant decides what the number means."""

    @abstractmethod
    def solve(self, problem: TransportProblem, effort: float, start: Potentials | None = None) -> Potentials:
        """Solve; with a `start`, `effort` is what is added to it."""


class GridSolver(Solver):
    """Ours; the effort is the number of digits."""

    label, package = "pairframe", "pairframe"

    def efforts(self) -> Iterator[float]:
        """1, 2, ... 12 digits."""
        yield from (float(digits) for digits in range(1, 13))

    def solve(self, problem: TransportProblem, effort: float, start: Potentials | None = None) -> Potentials:
        """One run of the grid engine."""
        options = SolveOptions(tol=10.0**-effort, max_iterations=20_000)
        solution = get_engine("grid").run(problem, options)
        return Potentials(solution.potential_a[problem.support_a], solution.potential_b[problem.support_b])


class _Iterating(Solver):
    """The effort is the number of iterations."""

    resumes = True
    growth = 1.2
    step: ClassVar[int] = 1

    def efforts(self) -> Iterator[float]:
        """Fifth by fifth, in whole steps: what is found is at most a fifth (or a step) more than needed."""
        done = 10
        while True:
            yield float(done)
            done = self.step * math.ceil(self.growth * done / self.step)


class PotSolver(_Iterating):
    """POT's unbalanced Sinkhorn, its default method."""

    label, package, dense_copies = "POT", "POT", 6
    method: ClassVar[str] = "sinkhorn"

    def solve(self, problem: TransportProblem, effort: float, start: Potentials | None = None) -> Potentials:
        """So many iterations, no stopping rule of its own."""
        import ot

        eps, lam = problem.epsilon, problem.penalty_a.marginal_relaxation
        x, y = _points(problem)
        a, b = _masses(problem)
        warm = None if start is None else (start.f / eps, start.g / eps)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it has not converged, or has overflowed: the certificate says so
            _, log = ot.unbalanced.sinkhorn_unbalanced(
                a,
                b,
                ot.dist(x, y),
                eps,
                lam,
                method=self.method,
                reg_type="kl",
                warmstart=warm,
                numItermax=int(effort),
                stopThr=0.0,
                log=True,
            )
        return Potentials(eps * np.asarray(log["logu"]), eps * np.asarray(log["logv"]))


class PotTranslationInvariantSolver(PotSolver):
    """POT's translation-invariant variant: the one for unequal masses."""

    label = "POT, translation invariant"
    method = "sinkhorn_translation_invariant"


class OttSolver(_Iterating):
    """OTT-JAX on a point cloud, log domain, recentred potentials; compiled once per size.

    Its reference is counting; masses ``a u^(eps/lam)`` make it ours (same plan). Its `Grid` is left out: with pixels
    that have no mass its sums are wrong.
    """

    label, package, dense_copies = "OTT-JAX", "ott-jax", 3
    step = 10  # a call of OTT's solver looks at its error once, after so many iterations

    def warm_up(self, problem: TransportProblem) -> None:
        """A program per number of points: compile it, and do nothing with it."""
        self.solve(problem, 0)

    def solve(self, problem: TransportProblem, effort: float, start: Potentials | None = None) -> Potentials:
        """So many iterations, in whole steps."""
        import jax.numpy as jnp

        eps, lam = problem.epsilon, problem.penalty_a.marginal_relaxation
        advance = _ott_program()
        x, y = (jnp.asarray(points) for points in _points(problem))
        log_u, log_v = problem.log_u[problem.support_a], problem.log_v[problem.support_b]
        a, b = _masses(problem)
        masses = (jnp.asarray(a * np.exp(log_u * eps / lam)), jnp.asarray(b * np.exp(log_v * eps / lam)))
        at = start or Potentials(np.zeros(len(a)), np.zeros(len(b)))
        f, g = jnp.asarray(at.f + eps * log_u), jnp.asarray(at.g + eps * log_v)
        f, g = advance(x, y, *masses, eps, lam / (lam + eps), f, g, math.ceil(effort / self.step))
        return Potentials(np.asarray(f) - eps * log_u, np.asarray(g) - eps * log_v)


class GeomLossSolver(Solver):
    """GeomLoss' `SamplesLoss`, tensorized, without debiasing: one sweep down an epsilon ladder, and that is its answer.

    It has no stopping rule and no start: a finer ladder (`scaling` nearer to 1) is the only way to more digits. Its cost is
    |x - y|^2 / 2, so blur^2 = eps/2 and reach^2 = lam/2.
    """

    label, package, dense_copies = "GeomLoss", "geomloss", 5

    def efforts(self) -> Iterator[float]:
        """About how many steps the ladder has per factor of e; half as many again each time."""
        yield from (self.growth**k for k in range(1, 30))

    def solve(self, problem: TransportProblem, effort: float, start: Potentials | None = None) -> Potentials:
        """One sweep."""
        import torch
        from geomloss import SamplesLoss  # type: ignore[import-untyped]

        loss = SamplesLoss(
            "sinkhorn",
            p=2,
            blur=math.sqrt(problem.epsilon / 2),
            reach=math.sqrt(problem.penalty_a.marginal_relaxation / 2),
            scaling=math.exp(-1.0 / effort),
            debias=False,
            potentials=True,
            backend="tensorized",
        )
        x, y, a, b = (torch.from_numpy(array) for array in (*_points(problem), *_masses(problem)))
        with torch.no_grad():
            f, g = loss(a, x, b, y)
        return Potentials(2 * f.numpy().ravel(), 2 * g.numpy().ravel())


class PlainTorchSolver(_Iterating):
    """The loop that people write themselves: a stored cost and `torch.logsumexp`."""

    label, package, dense_copies = "plain torch", "torch", 4

    def solve(self, problem: TransportProblem, effort: float, start: Potentials | None = None) -> Potentials:
        """So many iterations."""
        import torch

        eps, lam = problem.epsilon, problem.penalty_a.marginal_relaxation
        x, y = (torch.from_numpy(points) for points in _points(problem))
        cost = _squared_distances(x, y)
        log_a, log_b = (torch.log(torch.from_numpy(mass)) for mass in _masses(problem))
        g = torch.zeros_like(log_b) if start is None else torch.from_numpy(start.g)
        f = torch.zeros_like(log_a)
        damping = lam / (lam + eps)
        for _ in range(int(effort)):
            f = -damping * eps * torch.logsumexp((g - cost) / eps + log_b, 1)
            g = -damping * eps * torch.logsumexp((f[:, None] - cost) / eps + log_a[:, None], 0)
        return Potentials(f.numpy(), g.numpy())


SOLVERS: dict[str, type[Solver]] = {
    "grid": GridSolver,
    "pot": PotSolver,
    "pot-ti": PotTranslationInvariantSolver,
    "ott": OttSolver,
    "geomloss": GeomLossSolver,
    "torch": PlainTorchSolver,
}
OURS = "grid"


# --- small things ----------------------------------------------------------------------------


def _points(problem: TransportProblem) -> tuple[Float, Float]:
    """(n, 2) and (m, 2): pixel indices (y, x) of the supports."""
    return np.argwhere(problem.support_a).astype(np.float64), np.argwhere(problem.support_b).astype(np.float64)


def _masses(problem: TransportProblem) -> tuple[Float, Float]:
    return problem.mass_a[problem.support_a], problem.mass_b[problem.support_b]


def _squared_distances(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (x[:, None, 0] - y[None, :, 0]).square_() + (x[:, None, 1] - y[None, :, 1]).square_()


@cache
def _ott_program() -> Any:
    """A step of OTT's `Sinkhorn`, so many times, as one compiled program."""
    import jax

    jax.config.update("jax_enable_x64", True)  # type: ignore[no-untyped-call]
    with warnings.catch_warnings():  # OTT imports jaxopt, which warns that it is unmaintained
        warnings.simplefilter("ignore", DeprecationWarning)
        from ott.geometry import pointcloud
        from ott.problems.linear import linear_problem
        from ott.solvers.linear import sinkhorn

    step = OttSolver.step
    solver = sinkhorn.Sinkhorn(
        lse_mode=True,
        threshold=0.0,
        min_iterations=step,
        max_iterations=step,
        inner_iterations=step,
        recenter_potentials=True,
    )

    def advance(x: Any, y: Any, a: Any, b: Any, eps: Any, tau: Any, f: Any, g: Any, calls: Any) -> Any:
        geometry = pointcloud.PointCloud(x, y, epsilon=eps)
        problem = linear_problem.LinearProblem(geometry, a, b, tau_a=tau, tau_b=tau)

        def one_call(_: Any, at: Any) -> Any:
            done = solver(problem, init=at)
            return done.f, done.g

        return jax.lax.fori_loop(0, calls, one_call, (f, g))

    # OTT asks whether tau is 1 while it traces: that and the number of points make a program.
    return jax.jit(advance, static_argnames=("tau",))

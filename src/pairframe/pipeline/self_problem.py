"""Self-problems: each mask against itself, which shows the bias of the method.

The solution does not depend on the position of the mask, nor, for the references ``heat`` and ``product``, on its total
mass. It is therefore solved on the tight box with total mass 1 and cached by content, so that a time series solves the
self-problem of each mask once.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass, replace
from threading import Lock
from typing import Literal

import numpy as np

from pairframe.engines import Solution, SolveOptions, Start, solve
from pairframe.frame import tight_box
from pairframe.maps.accounting import feasible_part
from pairframe.maps.plan import PlanOperator
from pairframe.problem import Certificate, TransportProblem
from pairframe.types import Float

HOMOGENEOUS = ("heat", "product")
CACHE_ENTRIES = 64
CACHE_BYTES = 64 * 2**20


@dataclass(frozen=True, eq=False)
class SelfSolution:
    """The solution of a self-problem, over the support of the mask (n pixels in row-major order).

    Attributes
    ----------
    solution : Solution
        On the tight box of the mask.
    total : float
        Mass of the solved problem; 1 for homogeneous references.
    displacement : (n, ndim)
        Mean target of each pixel minus its position, work px: the entropic bias.
    noise_floor : float
        Share of the mass called destroyed.
    mean_cost : (n,)
        Cost of the transported mass of each pixel per unit, work px^2 (``euclidean``: work px): about blur^2, although
        nothing moves.
    """

    solution: Solution
    total: float
    displacement: Float
    noise_floor: float
    mean_cost: Float

    @property
    def n_bytes(self) -> int:
        """Size of the arrays in bytes."""
        s = self.solution
        arrays = [s.potential_a, s.potential_b, s.marginal_a, s.marginal_b, s.problem.mass_a, s.problem.mass_b]
        arrays += [self.displacement, self.mean_cost]
        if s.split_potentials is not None:
            arrays += [s.split_potentials.f, s.split_potentials.g]
        return sum({id(array): array.nbytes for array in arrays}.values())  # both sides may share an array

    def solution_of(self, problem: TransportProblem) -> Solution:
        """Convert to the solution of `problem`: the same mask against itself on a larger grid or with another total."""
        box = tight_box(problem.mass_a)
        assert box is not None  # a problem has mass
        scale = problem.total_a / self.total

        def placed(array: Float, outside: float, factor: float = 1.0) -> Float:
            larger = np.full(problem.shape, outside)
            larger[box.slices] = array * factor
            return larger

        own = self.solution
        return replace(
            own,
            problem=problem,
            potential_a=placed(own.potential_a, np.nan),
            potential_b=placed(own.potential_b, np.nan),
            split_potentials=own.split_potentials,
            marginal_a=placed(own.marginal_a, 0.0, scale),
            marginal_b=placed(own.marginal_b, 0.0, scale),
            certificate=scaled_certificate(own.certificate, scale),
            trace=tuple(record._replace(gap=record.gap * scale) for record in own.trace),
        )


def scaled_certificate(certificate: Certificate, scale: float) -> Certificate:
    """The certificate of the same problem with all masses multiplied by `scale`."""
    return replace(
        certificate,
        primal_upper=certificate.primal_upper * scale,
        dual_lower=certificate.dual_lower * scale,
        gap=certificate.gap * scale,
        scale=certificate.scale * scale,
    )


@dataclass(frozen=True, eq=False)
class SelfStart:
    """A similar self-problem that was solved before, on the same grid.

    Attributes
    ----------
    potential : (H, W)
        NaN where unknown.
    solution : SelfSolution
        Taken as it is if it solves the next self-problem too.
    """

    potential: Float
    solution: SelfSolution

    @classmethod
    def of(cls, solution: SelfSolution, mass: Float) -> SelfStart:
        """From the solution of a mask (H, W)."""
        box = tight_box(mass)
        assert box is not None  # a problem has mass
        placed = np.full(mass.shape, np.nan)
        placed[box.slices] = solution.solution.potential_a
        return cls(placed, solution)


def solve_self_problem(
    problem: TransportProblem,
    side: Literal["a", "b"],
    mass_work: Float,
    backend: str,
    options: SolveOptions,
    start: SelfStart | None = None,
) -> SelfSolution:
    """Solve the self-problem of one side of `problem`, or take its solution from the cache.

    Parameters
    ----------
    mass_work : (H, W)
        Mass of that side before any normalisation, which is the same in every pair that contains the mask.
    start : SelfStart, optional
        Where to start. A solution that started somewhere is not cached, because its last digits depend on the start.
    """
    mass, penalty = (problem.mass_a, problem.penalty_a) if side == "a" else (problem.mass_b, problem.penalty_b)
    if problem.reference in HOMOGENEOUS:
        mass = mass_work
    box = tight_box(mass)
    assert box is not None  # a problem has mass
    mass = np.ascontiguousarray(mass[box.slices], dtype=np.float64)
    settings = (
        mass.shape,
        problem.spacing,
        problem.epsilon,
        penalty,
        problem.reference,
        problem.metric,
        backend,
        options,
    )
    key = hashlib.sha256(repr(settings).encode() + mass.tobytes()).hexdigest()
    found = _cache.get(key)
    if found is None:
        if problem.reference in HOMOGENEOUS:
            mass = mass / mass.sum()
        own = replace(problem, mass_a=mass, mass_b=mass, penalty_a=penalty, penalty_b=penalty)
        if start is not None:
            if _solves(start.solution.solution, own, options):
                return start.solution
            return _solve(own, backend, options, (start.potential[box.slices],) * 2)
        found = _solve(own, backend, options)
        _cache.put(key, found)
    return found


def clear_self_cache() -> None:
    """Remove all cached solutions."""
    _cache.clear()


def _solves(solution: Solution, problem: TransportProblem, options: SolveOptions) -> bool:
    """Whether a solution, with its certificate, holds for `problem` too: the same with a smaller lambda that does not bind.

    ``partial`` and ``tv`` only bound the potentials. While the potentials stay within the bound, the dual value does not
    depend on lambda, and the primal value of a plan falls with it, so both certified bounds remain bounds.
    """
    old, penalty, before = solution.problem, problem.penalty_a, solution.problem.penalty_a
    if type(penalty) is not type(before) or not penalty.clips or not solution.certificate.meets(options.tol):
        return False
    settings = [(p.epsilon, p.reference, p.metric, p.spacing) for p in (old, problem)]
    if settings[0] != settings[1] or not np.array_equal(old.mass_a, problem.mass_a):
        return False
    low, high = penalty.bounds
    potential = solution.potential_a[old.support_a]
    is_within = bool((potential >= low).all() and (potential <= high).all())
    return is_within and penalty.marginal_relaxation <= before.marginal_relaxation


def _solve(problem: TransportProblem, backend: str, options: SolveOptions, start: Start | None = None) -> SelfSolution:
    solution = solve(problem, backend, options, start)
    part = feasible_part(PlanOperator.of(solution))
    on = problem.support_a
    left = part.left[on]
    return SelfSolution(
        solution=solution,
        total=problem.total_a,
        displacement=part.displacement[on],
        noise_floor=part.destroyed_share,
        mean_cost=np.divide(part.cost_source[on], left, out=np.zeros(left.shape), where=left > 0),
    )


class _Cache:
    """A thread-safe cache of the most recently used solutions, limited in number and in bytes."""

    def __init__(self) -> None:
        self._entries: OrderedDict[str, SelfSolution] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def get(self, key: str) -> SelfSolution | None:
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
            return self._entries.get(key)

    def put(self, key: str, entry: SelfSolution) -> None:
        with self._lock:
            if key in self._entries or entry.n_bytes > CACHE_BYTES:
                return
            self._entries[key] = entry
            self._bytes += entry.n_bytes
            while len(self._entries) > CACHE_ENTRIES or self._bytes > CACHE_BYTES:
                self._bytes -= self._entries.popitem(last=False)[1].n_bytes

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
            self._bytes = 0

    def __len__(self) -> int:
        return len(self._entries)


_cache = _Cache()

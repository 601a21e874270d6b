"""Each measure against itself: what the method does when nothing happened. Solved once per mask and kept.

The answer does not depend on where the measure lies, and for the references ``heat`` and ``product`` not on its total
either. So it is solved on the tight box, with total mass 1, and found again by content: a time series needs each of
its masks once.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from threading import Lock
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pairframe.engines import Progress, Solution, SolveOptions, Start, get_engine, solve
from pairframe.engines.threads import n_threads
from pairframe.frame import tight_box
from pairframe.maps.accounting import feasible_part
from pairframe.maps.plan import PlanOperator
from pairframe.problem import Certificate, TransportProblem

Float = NDArray[np.float64]

HOMOGENEOUS = ("heat", "product")
CACHE_ENTRIES = 64
CACHE_BYTES = 64 * 2**20


@dataclass(frozen=True, eq=False)
class SelfTransport:
    """A measure's transport to itself, over its support (n pixels in row-major order).

    Attributes
    ----------
    solution : Solution
        On the tight box of the measure.
    total : float
        Mass of the solved problem: 1 for homogeneous references.
    shift_yx : (n, 2)
        Mean target minus own position, work px: the entropic bias of every pixel.
    left_share : (n,)
        Share of each pixel's mass that stays transported.
    noise_floor : float
        Share of the mass that the method itself calls destroyed.
    """

    solution: Solution
    total: float
    shift_yx: Float
    left_share: Float
    noise_floor: float

    @property
    def n_bytes(self) -> int:
        """What the arrays of an entry take, in bytes."""
        s = self.solution
        arrays = (s.potential_a, s.potential_b, s.marginal_a, s.marginal_b, s.problem.mass_a, s.problem.mass_b)
        return sum(array.nbytes for array in (*arrays, self.shift_yx, self.left_share))

    def solution_of(self, problem: TransportProblem) -> Solution:
        """The solution of `problem`, which is this measure against itself on a larger grid or with another total."""
        box = tight_box(problem.mass_a)
        assert box is not None  # a problem has mass
        scale = problem.total_a / self.total

        def placed(array: Float, outside: float, factor: float = 1.0) -> Float:
            larger = np.full(problem.shape_hw, outside)
            larger[box.slices] = array * factor
            return larger

        own = self.solution
        return replace(
            own,
            problem=problem,
            potential_a=placed(own.potential_a, np.nan),
            potential_b=placed(own.potential_b, np.nan),
            marginal_a=placed(own.marginal_a, 0.0, scale),
            marginal_b=placed(own.marginal_b, 0.0, scale),
            certificate=scaled_certificate(own.certificate, scale),
            trace=tuple(record._replace(gap=record.gap * scale) for record in own.trace),
        )


def scaled_certificate(certificate: Certificate, scale: float) -> Certificate:
    """The certificate of the same problem with all masses multiplied."""
    return replace(
        certificate,
        primal_upper=certificate.primal_upper * scale,
        dual_lower=certificate.dual_lower * scale,
        gap=certificate.gap * scale,
    )


def self_transport(
    problem: TransportProblem, side: Literal["a", "b"], mass_work: Float, backend: str, options: SolveOptions
) -> SelfTransport:
    """Solve the self-problem of one side of `problem`, or find it solved.

    Parameters
    ----------
    mass_work : (H, W)
        That side's mass before any normalisation: it is the same in every pair that the mask is part of.
    """
    mass, penalty = (problem.mass_a, problem.penalty_a) if side == "a" else (problem.mass_b, problem.penalty_b)
    if problem.reference in HOMOGENEOUS:
        mass = mass_work
    box = tight_box(mass)
    assert box is not None  # a problem has mass
    mass = np.ascontiguousarray(mass[box.slices], dtype=np.float64)
    settings = (mass.shape, problem.epsilon, penalty, problem.reference, problem.metric, backend, options)
    key = hashlib.sha256(repr(settings).encode() + mass.tobytes()).hexdigest()
    found = _cache.get(key)
    if found is None:
        if problem.reference in HOMOGENEOUS:
            mass = mass / mass.sum()
        found = _solve(
            replace(problem, mass_a=mass, mass_b=mass, penalty_a=penalty, penalty_b=penalty), backend, options
        )
        _cache.put(key, found)
    return found


@dataclass(frozen=True, eq=False)
class SolvedPair:
    """A pair's solution, and each side against itself."""

    solution: Solution
    self_a: SelfTransport
    self_b: SelfTransport


def solve_pair(
    problem: TransportProblem,
    masses_work: tuple[Float, Float],
    backend: str,
    options: SolveOptions,
    init: Start | None = None,
    progress: Progress | None = None,
) -> SolvedPair:
    """Solve a pair and its two self-problems. One measure under one penalty is solved once: it is its own self-problem.

    Parameters
    ----------
    masses_work : two (H, W)
        Both masses before any normalisation; see `self_transport`.
    init : (potential_a, potential_b), optional
        To start the pair from.
    progress : callable, optional
        Told of the pair's solve, not of the self-problems'.
    """
    if problem.is_symmetric:
        own = self_transport(problem, "a", masses_work[0], backend, options)
        return SolvedPair(own.solution_of(problem), own, own)

    def both_selves() -> tuple[SelfTransport, SelfTransport]:
        return (
            self_transport(problem, "a", masses_work[0], backend, options),
            self_transport(problem, "b", masses_work[1], backend, options),
        )

    if n_threads() == 1 or not get_engine(backend).side_by_side:
        return SolvedPair(solve(problem, backend, options, init, progress), *both_selves())
    # The self-problems take about as long as the pair: a second core does them meanwhile.
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="pairframe-selves") as beside:
        selves = beside.submit(both_selves)
        solution = solve(problem, backend, options, init, progress)
        return SolvedPair(solution, *selves.result())


def clear_self_cache() -> None:
    """Forget every self-solution."""
    _cache.clear()


def _solve(problem: TransportProblem, backend: str, options: SolveOptions) -> SelfTransport:
    solution = solve(problem, backend, options)
    part = feasible_part(PlanOperator.of(solution))
    on = problem.support_a
    return SelfTransport(
        solution=solution,
        total=problem.total_a,
        shift_yx=part.shift_yx[on],
        left_share=part.left_share[on],
        noise_floor=part.destroyed_share,
    )


class _Cache:
    """The most recently used entries, bounded by number and by bytes; shared by threads."""

    def __init__(self) -> None:
        self._entries: OrderedDict[str, SelfTransport] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def get(self, key: str) -> SelfTransport | None:
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
            return self._entries.get(key)

    def put(self, key: str, entry: SelfTransport) -> None:
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

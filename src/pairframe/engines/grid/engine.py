"""`GridEngine`: a pyramid of levels, rounds at each, and a certificate at the end."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pairframe.engines.base import (
    Engine,
    Progress,
    Solution,
    SolveOptions,
    Start,
    Status,
    TraceRecord,
    start_on_supports,
)
from pairframe.engines.grid.compiling import make_ready
from pairframe.engines.grid.cuda import why_not
from pairframe.engines.grid.level import Level, Point
from pairframe.engines.grid.pyramid import BLUR_PX, coarse_problems, prolong
from pairframe.engines.grid.rounds import run_rounds
from pairframe.engines.grid.symmetric import run_symmetric
from pairframe.engines.grid.watch import Watch
from pairframe.problem import Certificate, TransportProblem, certificate

Float = NDArray[np.float64]
COARSE_TOL = 1e-2  # a coarse level need not be better than what carrying it to the next one spoils
COARSE_SUMS = 60
# A start whose marginals are off by less than this share is better than the pyramid's: where that is good, where pixels do not resolve
# the blur, and where potentials are pinned, which a start has at other places.
GOOD_START, GOOD_UNRESOLVED_START, GOOD_PINNED_START = 0.1, 0.3, 0.01


class GridEngine(Engine):
    """The default engine; see `pairframe.engines.grid`."""

    name: ClassVar[str] = "grid"
    side_by_side: ClassVar[bool] = True
    libraries: ClassVar[tuple[str, ...]] = ("numba",)

    def devices(self) -> tuple[str, ...]:
        """The CPU, and CUDA where torch and triton find it."""
        return ("cpu", "cuda") if why_not("cuda") is None else ("cpu",)

    def smallest_epsilon(self, shape_hw: tuple[int, int], dtype: str) -> float:
        """See `Engine.smallest_epsilon`: exponents are float64 whatever the products are."""
        return super().smallest_epsilon(shape_hw, "float64")

    def supports(self, problem: TransportProblem, options: SolveOptions) -> str | None:
        """Squared Euclidean cost, any penalty, reference, epsilon and size, on the CPU or a CUDA device."""
        if problem.metric != "sqeuclidean":
            return f'metric "{problem.metric}": its kernel does not separate into rows and columns'
        if options.device not in (None, "cpu") and (reason := why_not(options.device)) is not None:
            return f'device "{options.device}": {reason}'
        return None

    def run(
        self,
        problem: TransportProblem,
        options: SolveOptions,
        init: Start | None = None,
        progress: Progress | None = None,
    ) -> Solution:
        """Solve; see `Engine.run`."""
        make_ready(options.dtype)
        # Rounds end exact on b: where only a is hard, it has to take b's place.
        if problem.penalty_a.is_hard and not problem.penalty_b.is_hard:
            turned = _Run(problem.swapped(), options, None if init is None else init[::-1], progress)
            return turned.solve().solution(problem, turned_back=True)
        return _Run(problem, options, init, progress).solve().solution(problem, turned_back=False)


class _Run:
    """One solve: its levels, its best point so far, its history."""

    def __init__(
        self, problem: TransportProblem, options: SolveOptions, init: Start | None, progress: Progress | None
    ) -> None:
        self._problem = problem
        self._options = options
        if init is not None:
            start_on_supports(problem, init)  # refuses arrays that are not on this grid
        self._init = init
        self._progress = progress
        self._history: list[tuple[float, float, float]] = []  # work, dual, residual
        self._coarse_work = 0.0
        self._goal = options.tol
        self._certificate: Certificate | None = None

    def solve(self) -> _Run:
        # What leaves float64 is found out at the end, and is a status.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            return self._solve()

    def _solve(self) -> _Run:
        self._level = level = Level(self._problem, self._options.dtype, self._options.device)
        start, shift, is_even = self._start(level)
        watch = Watch(level, self._is_done, max(1, self._options.max_iterations - level.n_sums), self._note)
        if self._problem.is_symmetric:
            self._point = run_symmetric(level, start, watch)
        else:
            self._point = run_rounds(level, start, watch, shift=shift, is_even=is_even)
        if not self._is_sound():
            self._certificate = Certificate.of_nothing()
        elif self._certificate is None or not self._certificate.meets(self._options.tol):
            self._certificate = self._certify(self._point)
        return self

    def _is_sound(self) -> bool:
        """Whether the potentials are numbers: at an epsilon beyond all digits they are not."""
        return bool(np.isfinite(self._point.potential_a).all() and np.isfinite(self._point.potential_b).all())

    # --- where to start ----------------------------------------------------------------------

    def _start(self, level: Level) -> tuple[Float, float, bool]:
        """The potential on a, its `shift` and whether it `is_even`: from `init` when that is any good, else from coarser levels."""
        if self._init is not None:
            f = _fill(np.asarray(self._init[0], dtype=np.float64), self._problem.support_a)
            if self._problem.is_symmetric:
                return f, 0.0, True
            shift = float(f @ level.mass_a / level.mass_a.sum())  # apart again, as `Point` has it
            point = level.answer(f - shift, shift)
            next_f = level.complete(point)
            if point.residual < _good_start(self._problem):
                return next_f, point.shift, True
        if self._problem.is_symmetric:
            return np.zeros(level.mass_a.size), 0.0, True
        *coarse, (_, finest) = coarse_problems(self._problem)
        f, here = np.zeros(0), None
        for side, problem in coarse:
            below = Level(problem, self._options.dtype, self._options.device)
            f = np.zeros(below.mass_a.size) if here is None else prolong(f, here, problem)
            f = run_rounds(below, f, Watch(below, lambda point: point.residual <= COARSE_TOL, COARSE_SUMS)).f
            self._coarse_work += below.n_sums / side**2
            here = problem
        return np.zeros(level.mass_a.size) if here is None else prolong(f, here, finest), 0.0, False

    # --- when to stop ------------------------------------------------------------------------

    def _note(self, point: Point) -> None:
        work = self._coarse_work + self._level.n_sums
        self._history.append((work, point.dual, point.residual))
        if self._progress is not None:
            self._progress(TraceRecord(work, math.nan, point.residual))

    def _is_done(self, point: Point) -> bool:
        """The cheap residual first; the certificate only when that is good, and again after it has halved twice."""
        if point.residual <= self._goal:
            self._certificate = self._certify(point)
            if self._certificate.meets(self._options.tol):
                return True
            self._goal = 0.25 * point.residual
        return False

    def _certify(self, point: Point) -> Certificate:
        f, g, p, q = self._on_grid(point)
        return certificate(self._problem, f, g, p, q, self._marginals)

    def _marginals(self, f: Float, g: Float) -> tuple[Float, Float]:
        """Both marginals of the plan of any potentials (H, W): two kernel applications."""
        level, problem = self._level, self._problem
        on_a, on_b = problem.support_a, problem.support_b
        p, q = np.zeros(problem.shape_hw), np.zeros(problem.shape_hw)
        with np.errstate(over="ignore"):
            p[on_a] = level.mass_a * np.exp((f[on_a] - level.update_a(g[on_b])) / level.epsilon)
            q[on_b] = level.mass_b * np.exp((g[on_b] - level.update_b(f[on_a])) / level.epsilon)
        return p, q

    # --- what comes out ----------------------------------------------------------------------

    def _on_grid(self, point: Point) -> tuple[Float, Float, Float, Float]:
        problem = self._problem
        assert point.marginal_a is not None  # every point that leaves the rounds is complete
        arrays = []
        for values, support, outside in (
            (point.potential_a, problem.support_a, np.nan),
            (point.potential_b, problem.support_b, np.nan),
            (np.nan_to_num(point.marginal_a), problem.support_a, 0.0),
            (np.nan_to_num(point.marginal_b), problem.support_b, 0.0),
        ):
            array = np.full(problem.shape_hw, outside)
            array[support] = values
            arrays.append(array)
        return arrays[0], arrays[1], arrays[2], arrays[3]

    def solution(self, problem: TransportProblem, turned_back: bool) -> Solution:
        f, g, p, q = self._on_grid(self._point)
        if turned_back:
            f, g, p, q = g, f, q, p
        found = self._certificate
        assert found is not None
        if found.meets(self._options.tol):
            status = Status.converged
        else:
            status = Status.max_iterations if math.isfinite(found.marginal_error) else Status.impossible
        upper = found.primal_upper
        trace = tuple(TraceRecord(work, max(0.0, upper - dual), error) for work, dual, error in self._history)
        return Solution(
            problem=problem,
            potential_a=f,
            potential_b=g,
            marginal_a=p,
            marginal_b=q,
            certificate=found,
            status=status,
            iterations=self._level.n_sums,
            engine=GridEngine.name,
            dtype=self._options.dtype,
            device=self._options.device or "cpu",
            trace=trace,
        )


def _good_start(problem: TransportProblem) -> float:
    if any(penalty.kind in ("tv", "partial") for penalty in (problem.penalty_a, problem.penalty_b)):
        return GOOD_PINNED_START
    return GOOD_START if problem.epsilon >= BLUR_PX**2 else GOOD_UNRESOLVED_START


def _fill(potential: Float, support: NDArray[np.bool_]) -> Float:
    """A start on the support, (n,): each unknown pixel takes the nearest known value; zeros when nothing is known."""
    known = np.isfinite(potential)
    if known[support].all():
        return potential[support]
    if not known.any():
        return np.zeros(int(support.sum()))
    from scipy import ndimage  # a quarter of a second to import, and few starts need it

    nearest = ndimage.distance_transform_edt(~known, return_distances=False, return_indices=True)
    filled: Float = potential[tuple(nearest)][support]
    return filled

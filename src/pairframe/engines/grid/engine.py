"""`GridEngine`: a pyramid of levels, rounds at each, and a certificate at the end."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import ClassVar

import numpy as np

from pairframe.engines.base import (
    Engine,
    Progress,
    Solution,
    SolveOptions,
    Start,
    TraceRecord,
    only_plain_images,
    start_on_supports,
)
from pairframe.engines.grid.compiling import make_ready
from pairframe.engines.grid.correction import Correction
from pairframe.engines.grid.cuda import why_not
from pairframe.engines.grid.level import Level, Round
from pairframe.engines.grid.pyramid import BLUR_PX, coarse_problems, interpolate, prolong, rungs
from pairframe.engines.grid.rounds import run_rounds
from pairframe.engines.grid.symmetric import run_symmetric
from pairframe.engines.grid.watch import PATIENCE, Watch
from pairframe.engines.solve_end import Orientation, SolveEnd
from pairframe.problem import Certificate, TransportProblem, certificate, on_grid
from pairframe.problem.objective import Marginals, unavoidable_translation
from pairframe.types import Bool, Float

COARSE_TOL = 1e-2  # a coarse level need not be better than what carrying it to the next one spoils
COARSE_PINNED_TOL = 3e-3  # carried pins have to be nearly right
COARSE_SUMS = 60
_LIKELY = 0.1  # of tol: the residual at which the gap is likely to be within tol too
_MOST_AHEAD, _LEAST_AHEAD = 0.1, 0.8  # shares of a residual at which the certificate is computed again
_MOST_AHEAD_PINNED = 1e-4  # the gap of a bounded potential is linear in the residual, which makes it easy to foresee
_SYMMETRIC_AHEAD = 2e-4  # of tol: nothing is moved, so the gap of a self-problem is relative to little, and it is quick
_LAST_DIGITS = 1e-11  # a residual that rounding allows for certain
RUNG_TOL, RUNG_SUMS = 1e-3, 120  # the same on the full grid at a larger epsilon, where nothing is spoilt
_TINY_GOAL, _MOST_PLAIN = 0.03, 300  # of tol, and kernel applications of plain rounds on a grid of a few pixels
_DESCENTS, _SHORT_PATIENCE, _RUNGS_AGAIN = 3, 60, 3  # after a stall at a blur below a pixel
_RIGID_SPREAD = 0.5  # of a plan that moves mass as a whole, in epsilon
_MOST_STEP = 4.0  # in epsilon, from the level whose spread is carried over
_MOST_POTENTIAL = 100.0  # in eps, beyond the largest cost
# A start whose marginals are off by less than this share is better than the pyramid's: where that is good, and where pixels do not
# resolve the blur.
GOOD_START, GOOD_UNRESOLVED_START = 0.1, 0.3
_WARM_SUMS_PER_DIGIT = 10  # of tol, from such a start where potentials are bounded; most take fewer, and some hundreds


class GridEngine(Engine):
    """The default engine; see `pairframe.engines.grid`."""

    name: ClassVar[str] = "grid"
    side_by_side: ClassVar[bool] = True
    libraries: ClassVar[tuple[str, ...]] = ("numba",)

    def devices(self) -> tuple[str, ...]:
        """The CPU, and CUDA where torch and triton find it."""
        return ("cpu", "cuda") if why_not("cuda") is None else ("cpu",)

    def smallest_epsilon(self, shape: tuple[int, ...], dtype: str) -> float:
        """See `Engine.smallest_epsilon`: exponents are float64 whatever the products are."""
        return super().smallest_epsilon(shape, "float64")

    def supports(self, problem: TransportProblem, options: SolveOptions) -> str | None:
        """Squared Euclidean cost, any penalty, reference, epsilon and size; volumes on the CPU, images on CUDA as well."""
        if problem.metric != "sqeuclidean":
            return f'metric "{problem.metric}": its kernel does not separate into axes'
        if options.device not in (None, "cpu"):
            reason = why_not(options.device) or only_plain_images(problem)
            if reason is not None:
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
        make_ready(options.dtype, problem.mass_a.ndim)
        turned = Orientation(problem, swap=_is_better_swapped(problem))
        solve = _Solve(turned.problem, options, turned.start(init), progress)
        end = solve.run()
        return turned.solution(
            end,
            options,
            engine=self.name,
            iterations=solve.n_sums,
            device=options.device or "cpu",
            trace=solve.trace(end.certificate.primal_upper),
        )


class _Solve:
    """One solve: its levels, its best point so far, its history."""

    def __init__(
        self, problem: TransportProblem, options: SolveOptions, init: Start | None, progress: Progress | None
    ) -> None:
        self._stated = problem
        self._problem = _with_useful_digits(problem)
        # The constant by which the potentials of both problems differ.
        self._beyond = 0.0
        if self._problem is not problem:
            self._beyond = unavoidable_translation(problem) - unavoidable_translation(self._problem)
        self._options = options
        if init is not None:
            start_on_supports(problem, init)  # refuses arrays that are not on this grid
        self._init = init
        self._progress = progress
        self._history: list[tuple[float, float, float]] = []  # kernel applications, dual, residual
        self._coarse_sums = 0.0
        self._earlier_sums = 0  # on the full grid at larger epsilons
        self._pins = problem.penalty_a.pins or problem.penalty_b.pins
        self._goal = options.tol
        if self._pins and problem.is_symmetric:
            self._goal = max(_SYMMETRIC_AHEAD * options.tol, min(options.tol, _LAST_DIGITS))
        self._certificate: Certificate | None = None

    @property
    def n_sums(self) -> int:
        """Kernel applications at the finest level."""
        return self._earlier_sums + self._level.n_sums

    def trace(self, primal_upper: float) -> tuple[TraceRecord, ...]:
        """The history, with gaps to an upper bound on the optimum."""
        return tuple(TraceRecord(sums, max(0.0, primal_upper - dual), error) for sums, dual, error in self._history)

    def run(self) -> SolveEnd:
        # Numbers that leave float64 are detected at the end, and become a status.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            return self._run()

    def _run(self) -> SolveEnd:
        self._level = level = Level(self._problem, self._options.dtype, self._options.device)
        if self._problem.is_symmetric:
            last = run_symmetric(level, self._symmetric_start(), self._watch(level))
        else:
            known = self._known_start(level)
            warm = None if known is None else self._from_known_start(level, *known)
            last = warm or self._rounds(level, *(self._plain_start(level) or self._start_from_coarser(level)))
        found = self._certificate
        if not last.potentials.is_finite:  # at an epsilon beyond all digits
            found = Certificate.of_nothing()
        elif found is None or not found.meets(self._options.tol):
            found = self._certify(last)
        potentials = replace(last.potentials, shift=last.potentials.shift + self._beyond)
        return SolveEnd(potentials, _numbers(last.marginal_a), _numbers(last.marginal_b), found)

    def _watch(self, level: Level, patience: int = PATIENCE) -> Watch:
        most = max(1, self._options.max_iterations - self.n_sums)
        return Watch(level, self._is_done, most, self._note, patience, _LIKELY * self._options.tol)

    def _rounds(self, level: Level, f: Float, shift: float, is_even: bool, spread_eps: Float | None = None) -> Round:
        """Rounds on the full grid. If the error stops falling at a blur below a pixel, epsilon falls once more, slower."""
        larger = rungs(self._problem)
        descents_left = _DESCENTS if larger else 0
        watch = self._watch(level, _SHORT_PATIENCE if descents_left else PATIENCE)
        correction = Correction(level, spread_eps)
        best, goal = run_rounds(level, f, watch, shift=shift, is_even=is_even, correction=correction), RUNG_TOL
        while watch.has_stalled and descents_left:
            descents_left -= 1
            goal, f, shift = 0.1 * goal, best.potentials.f, best.potentials.shift
            for problem in larger[-_RUNGS_AGAIN:]:
                f, shift = self._descend(problem, f, shift, goal)
            level.forget_round()
            watch = self._watch(level, _SHORT_PATIENCE if descents_left else PATIENCE)
            last = run_rounds(level, f, watch, shift=shift)
            best = best if best.residual < last.residual else last
        return best

    def _descend(self, problem: TransportProblem, f: Float, shift: float, goal: float) -> tuple[Float, float]:
        """The potential on a and its shift after rounds on the full grid at a larger epsilon, as far as the budget allows."""
        most = min(RUNG_SUMS, (self._options.max_iterations - self.n_sums) // 2)
        if most < 2:
            return f, shift
        level = Level(problem, self._options.dtype, self._options.device)
        last = run_rounds(level, f, Watch(level, partial(_is_within, goal), most, goal=goal), shift=shift)
        self._earlier_sums += level.n_sums
        return self._carried(last)

    def _carried(self, last: Round) -> tuple[Float, float]:
        """The part of a point that the next level starts from."""
        return (last.next_f, last.next_shift) if self._pins else (last.potentials.f, 0.0)

    # --- where to start ----------------------------------------------------------------------

    def _symmetric_start(self) -> Float:
        if self._init is not None:
            return self._filled_init(self._init)
        found = self._level.plain_start(_TINY_GOAL * self._goal, self._plain_budget)
        return np.zeros(self._level.mass_a.size) if found is None else found

    @property
    def _plain_budget(self) -> int:
        """Kernel applications of plain rounds on a tiny grid; none if they would take much of what is allowed."""
        return _MOST_PLAIN if self._options.max_iterations >= 4 * _MOST_PLAIN else 0

    def _plain_start(self, level: Level) -> tuple[Float, float, bool] | None:
        """The same as from coarser levels, by plain rounds on a tiny grid."""
        f = level.plain_start(_TINY_GOAL * self._options.tol, self._plain_budget)
        if f is None:
            return None
        shift = float(f @ level.mass_a / level.mass_a.sum())
        return f - shift, shift, True

    def _filled_init(self, init: Start) -> Float:
        return _fill(np.asarray(init[0], dtype=np.float64), self._problem.support_a)

    def _known_start(self, level: Level) -> tuple[Float, float] | None:
        """The potential on a and its `shift` from `init`, if that is any good."""
        if self._init is None:
            return None
        f = self._filled_init(self._init)
        shift = float(f @ level.mass_a / level.mass_a.sum())  # apart again; see `Potentials`
        first = level.complete(level.answer(f - shift, shift - self._beyond))
        if first.residual < _good_start(self._problem):
            return first.next_f, first.next_shift
        level.forget_round()
        return None

    def _from_known_start(self, level: Level, f: Float, shift: float) -> Round | None:
        """Rounds from `init`; None if it leads nowhere, because what was pinned to a bound is pinned elsewhere now."""
        if not self._pins:
            return self._rounds(level, f, shift, True)
        most = round(_WARM_SUMS_PER_DIGIT * -math.log10(min(self._options.tol, 0.1)))
        most = min(most, self._options.max_iterations // 2)
        watch = Watch(level, self._is_done, most, self._note, goal=_LIKELY * self._options.tol)
        last = run_rounds(level, f, watch, shift=shift, is_even=True)
        if self._certificate is not None and self._certificate.meets(self._options.tol):
            return last
        level.forget_round()
        self._goal = self._options.tol
        return None

    def _start_from_coarser(self, level: Level) -> tuple[Float, float, bool, Float | None]:
        """The potential on a, its `shift`, whether it `is_even`, and the plan's spread, from coarser levels."""
        *coarse, (_, finest) = coarse_problems(self._problem)
        f, shift, here = np.zeros(0), 0.0, None
        spread_eps: Float | None = None
        tol = COARSE_PINNED_TOL if self._pins else COARSE_TOL
        for n_pixels, problem in coarse:
            known_spread: Float | None = None
            if here is None:
                f, shift = np.zeros(int(problem.support_a.sum())), 0.0
                # At many times its own epsilon the coarsest grid sees little but the common motion, which spreads nothing.
                known_spread = None if self._pins else np.full(f.size, _RIGID_SPREAD)
            else:
                f, shift = prolong(f, shift, here, problem)
            here = problem
            if n_pixels == 1:
                f, shift = self._descend(problem, f, shift, RUNG_TOL)
                continue
            below = Level(problem, self._options.dtype, self._options.device)
            watch = Watch(below, partial(_is_within, tol), COARSE_SUMS, goal=tol)
            correction = Correction(below, known_spread)
            last = run_rounds(below, f, watch, shift=shift, correction=correction)
            f, shift = self._carried(last)
            spread_eps = correction.spread_eps
            self._coarse_sums += below.n_sums / n_pixels
        if here is None:
            return np.zeros(level.mass_a.size), 0.0, False, None
        # With pinned potentials a spread that is known takes no fewer kernel applications, and from a level with a far larger
        # blur it is that of another plan.
        is_alike = here.shape != finest.shape and 4.0 * here.epsilon <= _MOST_STEP * finest.epsilon
        carried = None
        if spread_eps is not None and is_alike and not self._pins:
            carried = interpolate(spread_eps, here, finest)
        return *prolong(f, shift, here, finest), False, carried

    # --- when to stop ------------------------------------------------------------------------

    def _note(self, point: Round) -> None:
        sums = self._coarse_sums + self.n_sums
        self._history.append((sums, point.dual, point.residual))
        if self._progress is not None:
            self._progress(TraceRecord(sums, math.nan, point.residual))

    def _is_done(self, point: Round) -> bool:
        """The cheap residual first; the certificate only when that is good, and again when it is about to be."""
        if point.residual <= self._goal:
            self._certificate = self._certify(point)
            if self._certificate.meets(self._options.tol):
                return True
            missing = self._options.tol / self._certificate.error  # both fall at about the same rate
            most_ahead = _MOST_AHEAD_PINNED if self._pins else _MOST_AHEAD
            self._goal = min(max(missing, most_ahead), _LEAST_AHEAD) * point.residual
        return False

    def _certify(self, point: Round) -> Certificate:
        on_a, on_b, potentials = self._problem.support_a, self._problem.support_b, point.potentials
        f, p = on_grid(potentials.f, on_a), on_grid(_numbers(point.marginal_a), on_a)
        is_one = potentials.f is potentials.g and point.marginal_a is point.marginal_b
        return certificate(
            self._problem,
            f,
            f if is_one else on_grid(potentials.g, on_b),
            p,
            p if is_one else on_grid(_numbers(point.marginal_b), on_b),
            Marginals(self._marginal_a, self._marginal_b),
            potentials.shift,
            None if self._stated is self._problem else self._stated,
        )

    def _marginal_a(self, f: Float, g: Float) -> Float:
        """Marginal on a of the plan of any potentials over the grid: one kernel application."""
        level, on_a, on_b = self._level, self._problem.support_a, self._problem.support_b
        with np.errstate(over="ignore"):
            found = on_grid(level.mass_a * np.exp((f[on_a] - level.update_a(g[on_b])) / level.epsilon), on_a)
        level.release_large_buffers()  # the certificate goes on without kernels
        return found

    def _marginal_b(self, f: Float, g: Float) -> Float:
        level, on_a, on_b = self._level, self._problem.support_a, self._problem.support_b
        with np.errstate(over="ignore"):
            found = on_grid(level.mass_b * np.exp((g[on_b] - level.update_b(f[on_a])) / level.epsilon), on_b)
        level.release_large_buffers()
        return found


def _is_within(goal: float, point: Round) -> bool:
    return point.residual <= goal


def _is_better_swapped(problem: TransportProblem) -> bool:
    """Rounds end exact on b: if only a is hard, it has to take b's place. Pins are fewest with the smaller mass as a."""
    a, b = problem.penalty_a, problem.penalty_b
    if a.is_hard != b.is_hard:
        return a.is_hard
    return a.pins and type(a) is type(b) and problem.total_a > problem.total_b


def _with_useful_digits(problem: TransportProblem) -> TransportProblem:
    """The problem with a smaller lambda, if lambda is beyond all costs and only takes digits from the potentials.

    ``tv`` and ``partial`` bound the potentials of both sides. Relative to the constant of `unavoidable_translation` one bound
    is 0 and the other 2 lambda away, where it makes no difference if no potential comes near it: the plan is the
    same, and the potentials differ by a constant. That holds for one lambda: of two, the smaller tells which side gives way.
    """
    penalties = problem.penalty_a, problem.penalty_b
    if not all(penalty.clips or penalty.is_exact for penalty in penalties):
        return problem
    if len({penalty.marginal_relaxation for penalty in penalties if penalty.clips}) > 1:
        return problem
    sides = [(n - 1) * length for n, length in zip(problem.shape, problem.spacing, strict=True)]
    most = sum(side**2 for side in sides) + _MOST_POTENTIAL * problem.epsilon
    capped = [penalty.capped_at(most) for penalty in penalties]
    if capped == list(penalties):
        return problem
    return replace(problem, penalty_a=capped[0], penalty_b=capped[1])


def _numbers(values: Float) -> Float:
    """`numpy.nan_to_num`, which takes several passes, where it is needed."""
    return values if np.isfinite(values).all() else np.nan_to_num(values)


def _good_start(problem: TransportProblem) -> float:
    return GOOD_START if problem.epsilon >= BLUR_PX**2 else GOOD_UNRESOLVED_START


def _fill(potential: Float, support: Bool) -> Float:
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

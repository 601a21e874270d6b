"""The oracle: a dense float64 engine on the support points, slow and simple. For tests and small problems.

Alternating exact updates with epsilon scaling and the optimal translation bring it close; projected Newton steps on
the dual, accepted only when they improve it, bring it to rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from pairframe.engines.base import (
    Engine,
    Progress,
    Solution,
    SolveOptions,
    Start,
    TraceRecord,
    start_on_supports,
)
from pairframe.engines.points import Points, cost_matrix
from pairframe.engines.solve_end import Orientation, SolveEnd
from pairframe.problem import Potentials, TransportProblem, dual_value, on_grid, optimal_translation
from pairframe.types import Bool, Float

MAX_ENTRIES = 4_000_000  # of the dense cost: 32 MB each for a handful of arrays
_SCALING = 4.0  # epsilon goes down by this factor
_SWEEPS_PER_EPSILON = 4
_NEWTON_STEPS = 25  # per round
_PATIENCE = 5  # rounds without progress before rounding is taken to be the limit
_NOISE = 1e-13  # smaller relative changes of the dual are rounding


class OracleEngine(Engine):
    """Dense, float64, any metric, up to 4 million pixel pairs."""

    name = "oracle"
    needs_points = True

    def supports(self, problem: TransportProblem, options: SolveOptions) -> str | None:
        entries = int(problem.support_a.sum()) * int(problem.support_b.sum())
        if entries > MAX_ENTRIES:
            return f"{entries} pixel pairs; the dense oracle takes up to {MAX_ENTRIES}"
        if options.dtype != "float64":
            return f"dtype {options.dtype}; the oracle is float64 only"
        if options.device not in (None, "cpu"):
            return f"device {options.device!r}; the oracle runs on the cpu only"
        return None

    def run(
        self,
        problem: TransportProblem,
        options: SolveOptions,
        init: Start | None = None,
        progress: Progress | None = None,
    ) -> Solution:
        turned = Orientation(problem)
        loop = _Loop(turned.problem, options, progress)
        start = start_on_supports(turned.problem, turned.start(init))
        return turned.solution(
            loop.solve(start, warm=init is not None),
            options,
            engine=self.name,
            iterations=loop.n_sums,
            trace=tuple(loop.trace),
        )


@dataclass(frozen=True)
class _Point:
    """Potentials of which g is the update of f, and the log of b's marginal."""

    potentials: Potentials
    s_b: Float  # (m,): the balanced update of g, relative to -shift
    log_q: Float  # (m,)

    @property
    def f0(self) -> Float:
        return self.potentials.f

    @property
    def g0(self) -> Float:
        return self.potentials.g

    @property
    def t(self) -> float:
        return self.potentials.shift


class _Loop:
    def __init__(self, problem: TransportProblem, options: SolveOptions, progress: Progress | None) -> None:
        self.options, self.progress = options, progress
        self.on_a, self.on_b = problem.support_a, problem.support_b
        self.log_a, self.log_b = np.log(problem.mass_a[self.on_a]), np.log(problem.mass_b[self.on_b])
        self.points = Points(problem)
        self.cost = cost_matrix(self.points.positions_a, self.points.positions_b, problem.metric)
        self.n_sums = 0
        self.trace: list[TraceRecord] = []
        self._use(problem)

    def _use(self, problem: TransportProblem) -> None:
        self.problem, self.eps = problem, problem.epsilon
        log_reference = problem.log_u[self.on_a][:, None] + problem.log_v[self.on_b]
        self.log_kernel = log_reference - self.cost / self.eps  # (n, m): log of the plan at f = g = 0

    # --- the kernel --------------------------------------------------------------------------

    def _log_p(self, f0: Float, g0: Float) -> Float:
        self.n_sums += 1
        return f0 / self.eps + _logsumexp(self.log_kernel + g0 / self.eps, axis=1)

    def _log_q(self, f0: Float, g0: Float) -> Float:
        self.n_sums += 1
        return g0 / self.eps + _logsumexp(self.log_kernel + (f0 / self.eps)[:, None], axis=0)

    def _point(self, f0: Float, t: float) -> _Point:
        """End on b: the best g0 for f0 and t."""
        s_b = self.eps * (self.log_b - self._log_q(f0, np.zeros(self.log_b.shape)))
        g0 = self.problem.penalty_b.update(s_b, self.eps, -t)
        return _Point(Potentials(f0, g0, t), s_b, self.log_b + (g0 - s_b) / self.eps)

    def _sweep(self, point: _Point) -> _Point:
        s_a = self.eps * (self.log_a - self._log_p(np.zeros(self.log_a.shape), point.g0))
        f0 = self.problem.penalty_a.update(s_a, self.eps, point.t)
        # A constant belongs to t: clipping may have put lambda itself into f0. Clipped again there, bounds stay exact.
        t = point.t + float(f0.mean())
        moved = t - point.t  # the mean after rounding, so that f itself does not change
        point = self._point(self.problem.penalty_a.update(s_a - moved, self.eps, t), t)
        step = optimal_translation(self.problem, *self._on_grids(point))
        # The plan is the same after it, but g is no longer the update of f.
        return self._point(point.f0, point.t + step) if step and self._may_go_on() else point

    def _sweeps(self, point: _Point, count: int) -> _Point:
        for _ in range(count):
            if self._may_go_on():
                point = self._sweep(point)
        return point

    # --- the loop ----------------------------------------------------------------------------

    def solve(self, start: Potentials, warm: bool) -> SolveEnd:
        f, g = start.f, start.g
        t = 0.5 * (float(f.mean()) - float(g.mean()))
        f0, target = f - t, self.problem
        epsilon = target.epsilon if warm else max(target.epsilon, float(self.cost.max()) / _SCALING)
        while epsilon > target.epsilon and self._may_go_on():
            self._use(replace(target, epsilon=epsilon))
            point = self._newton(self._sweeps(self._point(self._admissible(f0, t), t), _SWEEPS_PER_EPSILON), steps=3)
            f0, t = point.f0, point.t
            epsilon /= _SCALING
        self._use(target)
        point = self._point(self._admissible(f0, t), t)
        best = self._finish(point)
        idle, sweeps = 0, 6
        while self._may_go_on() and not best.certificate.meets(self.options.tol) and idle < _PATIENCE:
            point = self._newton(self._sweeps(point, sweeps), _NEWTON_STEPS)
            now = self._finish(point)
            progressed = now.error < 0.5 * best.error
            if now.error < best.error:
                best = now
            idle = 0 if progressed else idle + 1
            sweeps = 6 if progressed else min(4 * sweeps, 200)
        return best

    def _may_go_on(self) -> bool:
        return self.n_sums < self.options.max_iterations

    def _finish(self, point: _Point) -> SolveEnd:
        before = self.points.n_sums
        done = self.points.end(point.potentials)
        self.n_sums += self.points.n_sums - before
        record = TraceRecord(float(self.n_sums), done.certificate.gap, done.certificate.marginal_error)
        self.trace.append(record)
        if self.progress is not None:
            self.progress(record)
        return done

    # --- Newton on f -> max over g of the dual -----------------------------------------------

    def _newton(self, point: _Point, steps: int) -> _Point:
        """Projected Newton steps; each must raise the dual or, where the dual is down to rounding, lower the residual.

        The Hessian in f, g eliminated, is -(1/eps) (diag(p + eps H_a) - P diag(slope_b/q) P'); scaled by sqrt(p) on
        both sides it is well conditioned. Some penalties bound f: entries pushed against a bound stay there.
        """
        value, ridge = self._dual(point), 0.0
        log_p = self._log_p(point.f0, point.g0)
        residual = self._residual(point, log_p)
        for _ in range(steps):
            if not self._may_go_on() or residual == 0.0:
                break
            matrix, right, free, root_p = self._system(point, log_p)
            accepted = None
            while accepted is None and ridge <= 1.0:
                step = _solve(matrix, right, ridge)
                if step is not None:
                    direction = np.zeros(self.log_a.shape)
                    direction[free] = self.eps * step / root_p[free]
                    accepted = self._accept(point, direction, np.exp(log_p), value, residual)
                if accepted is None:
                    ridge = max(100.0 * ridge, 1e-12)
            if accepted is None:
                break
            point, value, log_p, residual = accepted
            ridge = 0.0 if ridge < 1e-11 else ridge / 10.0
        return point

    def _system(self, point: _Point, log_p: Float) -> tuple[Float, Float, Bool, Float]:
        """Scaled Hessian (k, k) and gradient (k,) on the free entries, which they are, and sqrt(p)."""
        penalty_a, penalty_b = self.problem.penalty_a, self.problem.penalty_b
        z = self._log_optimal_a(point) - log_p  # log of (optimal marginal for f / marginal of the plan)
        low, high = self._bounds_a(point.t)
        slack = (
            1e-14 * (max(map(abs, filter(math.isfinite, penalty_a.bounds))) + abs(point.t)) if penalty_a.pins else 0.0
        )
        free = ~(((point.f0 >= high - slack) & (z > 0)) | ((point.f0 <= low + slack) & (z < 0)))
        slope_b = penalty_b.slope(point.s_b - point.t, self.eps)
        log_plan = self.log_kernel + (point.f0 / self.eps)[:, None] + point.g0 / self.eps
        with np.errstate(under="ignore", over="ignore"):
            root = np.exp(log_plan - 0.5 * log_p[:, None] - 0.5 * point.log_q)[free] * np.sqrt(slope_b)
            root_p = np.exp(0.5 * log_p)
            matrix = -root @ root.T
            matrix[np.diag_indices_from(matrix)] += 1.0
            decay = penalty_a.decay(point.potentials.a, self.eps)
            if decay.any():
                matrix[np.diag_indices_from(matrix)] += (decay * np.exp(z))[free]
            elif free.all() and (slope_b == 1.0).all():
                matrix += np.outer(root_p, root_p) / float(root_p @ root_p)  # a constant changes nothing: fix it
            right = (root_p * np.expm1(np.minimum(z, 50.0)))[free]
        return matrix, right, free, root_p

    def _accept(
        self, point: _Point, direction: Float, weight: Float, value: float, residual: float
    ) -> tuple[_Point, float, Float, float] | None:
        """The first of three step lengths that is an improvement."""
        if not np.isfinite(direction).all() or not np.isfinite(weight).all():
            return None
        for length in (1.0, 0.5, 0.125):
            mean = float(weight @ direction) * length / float(weight.sum())
            if not math.isfinite(mean):
                return None
            t = point.t + mean
            f0 = self._admissible(point.f0 + (length * direction - (t - point.t)), t)
            trial = self._point(f0, t)
            trial_value = self._dual(trial)
            noise = _NOISE * (abs(value) + abs(trial_value))
            if not trial_value >= value - noise:
                continue
            log_p = self._log_p(trial.f0, trial.g0)
            trial_residual = self._residual(trial, log_p)
            if trial_value > value + noise or trial_residual < 0.9 * residual:
                return trial, trial_value, log_p, trial_residual
        return None

    def _dual(self, point: _Point) -> float:
        with np.errstate(over="ignore", under="ignore"):
            total = float(np.exp(point.log_q).sum())
        return dual_value(self.problem, *self._on_grids(point), total)

    def _residual(self, point: _Point, log_p: Float) -> float:
        with np.errstate(over="ignore", under="ignore"):
            p = np.exp(log_p)
        mass = self.problem.mass_a[self.on_a]
        return self.problem.penalty_a.residual(p, point.potentials.a, mass) / self.problem.total_a

    # --- helpers ---------------------------------------------------------------------------

    def _log_optimal_a(self, point: _Point) -> Float:
        return self.problem.penalty_a.log_optimal_marginal(point.potentials.a, self.log_a)

    def _bounds_a(self, t: float) -> tuple[float, float]:
        """Lowest and highest admissible f0."""
        low, high = self.problem.penalty_a.bounds
        return low - t, high - t

    def _admissible(self, f0: Float, t: float) -> Float:
        return np.clip(f0, *self._bounds_a(t))

    def _on_grids(self, point: _Point) -> tuple[Float, Float]:
        return on_grid(point.potentials.a, self.on_a), on_grid(point.potentials.b, self.on_b)


def _logsumexp(exponents: Float, axis: int) -> Float:
    top = exponents.max(axis=axis)
    with np.errstate(under="ignore"):
        sums = np.exp(exponents - np.expand_dims(top, axis)).sum(axis=axis)
    return np.asarray(top + np.log(sums))


def _solve(matrix: Float, right: Float, ridge: float) -> Float | None:
    """Solve a symmetric positive definite system; None if it is not one."""
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    if right.size == 0 or not (np.isfinite(matrix).all() and np.isfinite(right).all()):
        return None
    ridged = matrix + ridge * np.eye(right.size)
    try:
        factor = cho_factor(ridged, lower=True)
    except LinAlgError:
        return None
    solution = cho_solve(factor, right)
    return np.asarray(solution + cho_solve(factor, right - ridged @ solution))  # one refinement

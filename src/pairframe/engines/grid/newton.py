"""A Newton step on the listed plan, with the bounds of the potentials kept exactly.

Around potentials (f, g) with plan P and marginals p, q the dual is, to second order in a step (x, y),

    <A - p, x> + <B - q, y> - (x'(p + c) x + 2 x'P y + y'(q + d) y) / (2 eps),

with the optimal marginals A and B and their decays c and d. ``tv`` and ``partial`` bound x and y, and many pixels sit close
to their bound, so which of them are pinned is part of the question: it is a quadratic programme in a box. After
changing the sign of y its matrix has no positive entry off the diagonal, and primal-dual active sets settle such a
programme in a few steps from any start (Hintermueller, Ito and Kunisch 2002). No kernel is applied on the way.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sparse
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.sparse.linalg import LinearOperator, cg

from pairframe.engines.grid.level import Level, Round
from pairframe.engines.grid.listing import PlanSide, list_plan
from pairframe.engines.grid.smooth import Mesh, factored
from pairframe.parallel.threads import one_blas_thread
from pairframe.problem import Penalty
from pairframe.types import Bool, Float, Int

_DEPTHS = (25.0, 12.0, 6.0)  # entries above e^-depth of a marginal are listed; less deep where that is too many
_MOST_ENTRIES = 20_000_000  # 24 bytes each; with fewer than e^-12 of a marginal left out, steps converge only linearly
_ENTRIES_PER_ROUND = 20_000  # measured: several Newton steps take as long as one round for so many listed entries
_MOST_WINDOW = 24
_MANY_MORE = 4
_RADIUS = 20.0  # in eps
_ARMIJO, _ROUNDING = 1e-4, 1e-12
_SHRINK, _SMALLEST_SHARE = 0.3, 1e-2
_MOST_FAILURES = 3
_PROGRESS, _MOST_IDLE = 0.9, 12  # steps in a row that leave the residual above this share of the best one
_MOST_ROUNDS = 12  # of the active sets; a step that is not settled then is clipped to its box
_MOST_DENSE = 1200  # unknowns up to which a dense factorisation is quicker than conjugate gradients
_FEW = 50  # unknowns up to which it is quicker than sparse factors too
_MOST_PAIRS = 60.0  # pairs of sources of one target, per unknown: a matrix as sparse as that has sparse factors
_REGULAR = 1e-11  # of the diagonal: the constant may be free
_CG_TOLERANCE = 1e-5
_CG_ITERATIONS = 300


class NewtonSteps:
    """Newton steps at one level, within a trust radius; none where the plan has too many entries to list.

    Attributes
    ----------
    cost : int
        Rounds that take as long as Newton steps to the end.
    window : int
        Rounds from which progress is judged.
    is_useful : bool
        False after several steps in a row that plain rounds could have replaced, or where the plan cannot be listed.
    """

    def __init__(self, level: Level) -> None:
        self._level = level
        self._radius = _RADIUS  # in eps
        self._failures = self._idle = 0
        self._best = math.inf
        self._mesh: Mesh | None = None
        most, fewest = (_entries(level, depth) for depth in (_DEPTHS[0], _DEPTHS[-1]))
        self.cost = 8 + int(most / _ENTRIES_PER_ROUND)
        self.window = min(self.cost, _MOST_WINDOW)
        self.is_useful = fewest <= _MOST_ENTRIES

    def step(self, point: Round) -> Round | None:
        """The round after a Newton step, or None if that is no use."""
        level, epsilon, here = self._level, self._level.epsilon, point.potentials
        plan = self._plan(point)
        if plan is None:
            self.is_useful = False
            return None
        problem, radius = level.problem, self._radius * epsilon
        a = side_model(problem.penalty_a, here.a, level.mass_a, point.marginal_a, epsilon, radius)
        b = side_model(problem.penalty_b, here.b, level.mass_b, point.marginal_b, epsilon, radius)
        x, y = self._box_step(sparse.csr_matrix(plan / epsilon), a, b)
        slope = float(a.gradient @ x + b.gradient @ y)
        share, penalty = 1.0, problem.penalty_a
        while share > _SMALLEST_SHARE:
            half = level.answer(penalty.admissible(here.f + share * x, here.shift), here.shift)
            noise = max(_ROUNDING * abs(point.dual), point.dual_noise)
            if half.dual >= point.dual + _ARMIJO * share * slope - noise:
                break
            share *= _SHRINK
        else:
            half = level.answer(point.next_f, point.next_shift)
        self._failures = 0 if share > _SMALLEST_SHARE else self._failures + 1
        found = level.complete(half)
        self._idle = 0 if found.residual < _PROGRESS * self._best else self._idle + 1
        self._best = min(self._best, found.residual)
        self.is_useful = self._failures < _MOST_FAILURES and self._idle < _MOST_IDLE
        if share < 1.0:
            self._radius = max(1.0, 0.5 * self._radius)
        elif np.abs(x).max() > 0.9 * radius:
            self._radius *= 3.0
        return found

    def _box_step(self, plan: sparse.csr_matrix, a: SideModel, b: SideModel) -> tuple[Float, Float]:
        """The side with more pixels by far is eliminated: many of them share a pixel of the other, which couples them all."""
        level = self._level
        is_turned = level.mass_a.size > _MANY_MORE * level.mass_b.size
        if self._mesh is None:
            problem = level.problem
            support = problem.support_b if is_turned else problem.support_a
            self._mesh = Mesh(support, level.epsilon, problem.spacing, problem.long_axes)
        if is_turned:
            y, x = box_step(sparse.csr_matrix(plan.T), b, a, self._mesh.hats())
            return x, y
        return box_step(plan, a, b, self._mesh.hats())

    def _plan(self, point: Round) -> sparse.csr_matrix | None:
        level, problem = self._level, self._level.problem
        log_scale_a, log_scale_b = level.log_scales(point.potentials)
        log_p, log_q = (np.log(np.maximum(marginal, 1e-300)) for marginal in (point.marginal_a, point.marginal_b))
        a = PlanSide.of(problem.positions(problem.support_a), log_scale_a, log_p)
        b = PlanSide.of(problem.positions(problem.support_b), log_scale_b, log_q)
        for depth in _DEPTHS:
            found = list_plan(a, b, level.epsilon, depth=depth, most_entries=_MOST_ENTRIES)
            if found is not None:
                return found
        return None


def _entries(level: Level, depth: float) -> float:
    """About as many entries of the plan are listed at a depth: every pixel of a with those of b in a disc, or a ball, around it."""
    half = level.problem.mass_a.ndim / 2
    within = (math.pi * depth * level.epsilon) ** half / math.gamma(half + 1) / math.prod(level.problem.spacing)
    return float(level.mass_a.size * min(level.mass_b.size, within))


@dataclass(frozen=True, eq=False)
class SideModel:
    """One side of the quadratic model, all (n,).

    Attributes
    ----------
    gradient : ``A - p``, mass
    diagonal : ``(p + c) / eps``, > 0
    low, high : bounds of the step, cost units; low <= 0 <= high
    """

    gradient: Float
    diagonal: Float
    low: Float
    high: Float

    def first_set(self) -> Int:
        """1 and -1 where the gradient pushes against a bound that is reached already, else 0."""
        up, down = (self.high <= 0) & (self.gradient > 0), (self.low >= 0) & (self.gradient < 0)
        return up.astype(np.int64) - down.astype(np.int64)

    def pinned_step(self, pinned: Int) -> Float:
        """The step where it is pinned, 0 elsewhere."""
        return np.where(pinned > 0, self.high, np.where(pinned < 0, self.low, 0.0))

    def next_set(self, pinned: Int, step: Float, multiplier: Float) -> Int:
        """Pin what leaves the box; free what is pulled back into it."""
        free = pinned == 0
        pin = (free & (step > self.high)).astype(np.int64) - (free & (step < self.low)).astype(np.int64)
        kept = np.where(pinned * multiplier < 0, 0, pinned)
        return np.where(free, pin, kept)


def side_model(
    penalty: Penalty, potential: Float, mass: Float, marginal: Float, epsilon: float, radius: float
) -> SideModel:
    """The model of one side around a potential (n,), with steps of at most `radius`, cost units."""
    optimal = penalty.optimal_marginal(potential, mass)
    low, high = penalty.bounds
    return SideModel(
        gradient=optimal - marginal,
        diagonal=np.maximum((marginal + penalty.decay(potential, epsilon) * optimal) / epsilon, 1e-300),
        low=np.maximum(np.minimum(low - potential, 0.0), -radius),
        high=np.minimum(np.maximum(high - potential, 0.0), radius),
    )


def box_step(plan: sparse.csr_matrix, a: SideModel, b: SideModel, hats: sparse.csr_matrix) -> tuple[Float, Float]:
    """The step (x, y), (n,) and (m,), that maximises the quadratic model in the box.

    Parameters
    ----------
    plan : (n, m) sparse
        ``P / eps``.
    hats : (n, k) sparse
        Smooth functions on a, for the coarse half of a preconditioner; see `_ReducedMatrix`.
    """
    turned = sparse.csr_matrix(plan.T)
    set_a, set_b = a.first_set(), b.first_set()
    x, y = np.zeros(a.gradient.size), np.zeros(b.gradient.size)
    reduced = _ReducedMatrix(plan, turned, a.diagonal, hats)
    for _ in range(_MOST_ROUNDS):
        free_a, free_b = set_a == 0, set_b == 0
        fixed_x, fixed_y = a.pinned_step(set_a), b.pinned_step(set_b)
        right_a, right_b = a.gradient - plan @ fixed_y, b.gradient - turned @ fixed_x
        inverse_b = np.where(free_b, 1.0 / b.diagonal, 0.0)
        right = right_a - plan @ (inverse_b * right_b)
        x = np.where(free_a, reduced.solve(free_a, inverse_b, right, x), fixed_x)
        y = np.where(free_b, inverse_b * (right_b - turned @ np.where(free_a, x, 0.0)), fixed_y)
        pull_a = a.gradient - a.diagonal * x - plan @ y
        pull_b = b.gradient - b.diagonal * y - turned @ x
        next_a, next_b = a.next_set(set_a, x, pull_a), b.next_set(set_b, y, pull_b)
        if np.array_equal(next_a, set_a) and np.array_equal(next_b, set_b):
            break
        set_a, set_b = next_a, next_b
    return np.clip(x, a.low, a.high), np.clip(y, b.low, b.high)


class _ReducedMatrix:
    """``diagonal - P inverse_b P'`` on the free pixels of a: the model with b eliminated.

    A few unknowns are solved densely, a very sparse matrix by its factors, and the rest by conjugate gradients: rough modes
    are preconditioned by the diagonal, and smooth ones, and those of islands that exchange mass, by the matrix
    restricted to the hats. That part is made once, as the sets of free pixels change little from round to round.
    """

    def __init__(
        self, plan: sparse.csr_matrix, turned: sparse.csr_matrix, diagonal: Float, hats: sparse.csr_matrix
    ) -> None:
        self._plan, self._turned, self._diagonal, self._hats = plan, turned, diagonal, hats
        self._squares = sparse.csr_matrix((plan.data**2, plan.indices, plan.indptr), shape=plan.shape)
        self._pairs = float((np.diff(turned.indptr).astype(np.float64) ** 2).sum())
        self._coarse: Callable[[Float], Float] | None = None

    def solve(self, free: Bool, inverse_b: Float, right: Float, start: Float) -> Float:
        """(n,), read on the free pixels only."""
        n_free = int(free.sum())
        if n_free == 0:
            return np.zeros(right.size)
        if n_free <= _MOST_DENSE or self._pairs <= _MOST_PAIRS * n_free:
            return self._solve_directly(free, inverse_b, right)
        if self._coarse is None:
            self._coarse = self._coarse_solver(free, inverse_b)
        coarse, own = self._coarse, np.where(free, self._diagonal, 1.0)
        own = np.maximum(own - np.asarray(self._squares @ inverse_b), 1e-3 * own)

        def apply(x: Float) -> Float:
            x = np.where(free, x, 0.0)
            seen = self._plan @ (inverse_b * (self._turned @ x))
            return np.where(free, self._diagonal * (1.0 + _REGULAR) * x - seen, 0.0)

        def precondition(r: Float) -> Float:
            return np.where(free, r / own + coarse(np.where(free, r, 0.0)), 0.0)

        shape = (right.size, right.size)
        operator = LinearOperator(shape, apply, dtype=np.float64)
        preconditioner = LinearOperator(shape, precondition, dtype=np.float64)
        found, _ = cg(
            operator,
            np.where(free, right, 0.0),
            np.where(free, start, 0.0),
            rtol=_CG_TOLERANCE,
            maxiter=_CG_ITERATIONS,
            M=preconditioner,
        )
        return np.asarray(found)

    def _solve_directly(self, free: Bool, inverse_b: Float, right: Float) -> Float:
        rows, root = self._plan[free], np.sqrt(self._diagonal[free])
        scaled = sparse.diags(1.0 / root) @ rows @ sparse.diags(np.sqrt(inverse_b))
        shares = sparse.csc_matrix(scaled @ scaled.T)
        found = np.zeros(right.size)
        n_free = root.size
        if n_free > _FEW and self._pairs <= _MOST_PAIRS * n_free:
            matrix = sparse.csc_matrix((1.0 + _REGULAR) * sparse.identity(n_free) - shares)
            found[free] = factored(matrix)(right[free] / root) / root
            return found
        dense = np.eye(n_free) - shares.toarray()
        with one_blas_thread():
            for regular in (_REGULAR, 1e-8, 1e-5, 1e-2):
                try:
                    factors = cho_factor(dense + regular * np.eye(n_free))
                except LinAlgError:  # rounding made it indefinite
                    continue
                found[free] = cho_solve(factors, right[free] / root) / root
                break
        return found

    def _coarse_solver(self, free: Bool, inverse_b: Float) -> Callable[[Float], Float]:
        hats = sparse.csr_matrix(sparse.diags(free.astype(np.float64)) @ self._hats)
        hats = hats[:, np.flatnonzero(np.asarray(hats.sum(axis=0)).ravel() > 0)]
        seen = sparse.diags(np.sqrt(inverse_b)) @ (self._turned @ hats)
        own = sparse.diags(np.sqrt(self._diagonal)) @ hats
        coarse = sparse.csc_matrix(own.T @ own - seen.T @ seen)
        solve = factored(coarse + sparse.diags(1e-9 * coarse.diagonal() + 1e-300))
        to_nodes = sparse.csr_matrix(hats.T)
        return lambda r: np.asarray(hats @ solve(to_nodes @ r))

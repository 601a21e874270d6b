"""The POT engine: every Sinkhorn iteration is Python Optimal Transport's, on a problem whose numbers stay in range.

POT iterates on scalings exp(f/eps), which leave any dtype when potentials span more than a few hundred eps; its
stabilised variant absorbs only a constant. So POT runs in short chunks, and between them the potentials (f, g) so far
move into its input. For penalties kl and balanced that is exact: the plan that is best for (C, a, b) is best for

    C_ij - f_i - g_j,    a e^(-f/lam_a),    b e^(-g/lam_b)        (a balanced side keeps its mass),

and its kernel is then the current plan itself. The reference enters the same way, as C - eps log u_i - eps log v_j, and
all masses may be multiplied by one number. Between chunks the constant in (f + t, g - t) takes its best value and
Anderson's mixing is tried; from zero, coarser epsilons come first. Values and status come from a float64 certificate.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from ot.unbalanced import sinkhorn_unbalanced

from pairframe.engines.anderson import Anderson
from pairframe.engines.base import Engine, Progress, Solution, SolveOptions, Start, TraceRecord, start_on_supports
from pairframe.engines.points import Points, refuse_past_memory
from pairframe.engines.solve_end import Orientation, SolveEnd
from pairframe.problem import KL, Balanced, Potentials, TransportProblem
from pairframe.types import Bool, Float

_COPIES = 6  # dense matrices alive at once (5.02 measured): the cost, POT's kernel and plan, and its temporaries
_CHUNK = 20  # POT iterations between two certificates
_DEPTH = 10  # of Anderson's memory, in chunks
_SCALING = 4.0  # epsilon goes down by this factor
_SCALING_ITERATIONS = 5  # POT iterations in each of two chunks at a coarser epsilon
_GOOD_START = 0.5  # a start whose marginals are off by less than this share needs no coarser epsilons
# A point whose exponents are this far below the largest has no weight for the others, and would leave the dtype.
_DEAD = {"float64": 600.0, "float32": 70.0}


class PotEngine(Engine):
    """POT on dense support points; kl and balanced penalties in any combination, both metrics, float64 and float32."""

    name: ClassVar[str] = "pot"
    needs_points: ClassVar[bool] = True
    libraries: ClassVar[tuple[str, ...]] = ("POT",)

    def supports(self, problem: TransportProblem, options: SolveOptions) -> str | None:
        """Penalties kl and balanced, on the CPU, as far as the dense matrices fit into memory."""
        for penalty in (problem.penalty_a, problem.penalty_b):
            if not isinstance(penalty, KL | Balanced):
                return f'penalty "{penalty.name}"; POT\'s entropic solvers support "kl" and "balanced" only'
        if options.device not in (None, "cpu"):
            return f'device "{options.device}"; the POT engine runs on the CPU'
        return refuse_past_memory(problem, dtype=options.dtype, copies=_COPIES)

    def smallest_epsilon(self, shape: tuple[int, ...], dtype: str) -> float:
        """See `Engine.smallest_epsilon`: exponents are float64 whatever POT's products are."""
        return super().smallest_epsilon(shape, "float64")

    def run(
        self,
        problem: TransportProblem,
        options: SolveOptions,
        init: Start | None = None,
        progress: Progress | None = None,
    ) -> Solution:
        """Solve; see `Engine.run`. A start with marginals off by half or more is not used."""
        turned = Orientation(problem)
        loop = _Loop(turned.problem, options, progress)
        start = start_on_supports(turned.problem, turned.start(init))
        with np.errstate(all="ignore"):  # numbers that overflow are detected later, and become a status
            end = loop.solve(start, warm=init is not None)
        return turned.solution(
            end,
            options,
            engine=self.name,
            iterations=loop.n_sums,
            failed=loop.failed,
            trace=tuple(loop.trace),
        )


@dataclass(frozen=True)
class _Chunk:
    """Potentials after some iterations of POT, and how many iterations there were."""

    potentials: Potentials
    iterations: int

    @property
    def is_usable(self) -> bool:
        return self.iterations > 0 and self.potentials.is_finite


class _Loop:
    def __init__(self, problem: TransportProblem, options: SolveOptions, progress: Progress | None) -> None:
        self.problem, self.options, self.progress = problem, options, progress
        self.points = Points(problem)
        self._memory, self._remembered = Anderson(self.points.mass_a, _DEPTH), 0  # chunks since it forgot
        both_hard = problem.penalty_a.is_hard and problem.penalty_b.is_hard
        self._end_sums = 6 if both_hard else 2  # kernel applications of `Points.end`, at most
        self._other_sums = 0  # kernel applications inside POT and at coarser epsilons
        self.failed = False
        self.trace: list[TraceRecord] = []

    @property
    def n_sums(self) -> int:
        """Kernel applications so far."""
        return self._other_sums + self.points.n_sums

    def solve(self, start: Potentials, *, warm: bool) -> SolveEnd:
        here = self.points.end(start) if warm else None
        if here is None or not here.is_finite or here.certificate.marginal_error > _GOOD_START:
            here = self.points.end(self._from_coarser_epsilons())
        best = here
        while not best.certificate.meets(self.options.tol):
            iterations = min(_CHUNK, self._left(n_ends=2))
            if iterations < 1:
                break
            chunk = self._chunk(self.points, here.potentials, iterations)
            if not chunk.is_usable:
                if self.failed:
                    break
                self.failed = True  # unless one exact update brings the numbers back into range
                here = self.points.end(_swept(self.points, here.potentials))
                self._forget()
                continue
            self.failed = False
            before = here
            here = self.points.end(_centred(chunk.potentials, self.points.mass_a))
            if not here.certificate.meets(self.options.tol):
                here = self._mixed(before, here)
            self._note(here)
            if here.error < best.error:
                best = here
        return best

    def _mixed(self, before: SolveEnd, plain: SolveEnd) -> SolveEnd:
        """Anderson's mixture of the chunks so far, where it is better than the last one."""
        x = _centred(before.potentials, self.points.mass_a).f
        proposal = self._memory.step(x, plain.potentials.f - x)
        self._remembered += 1
        if self._remembered == 1:
            return plain  # there is no other step to mix with
        mixed = self.points.end(replace(plain.potentials, f=proposal))
        higher = mixed.certificate.dual_lower > plain.certificate.dual_lower
        if mixed.is_finite and (higher or mixed.error < plain.error):
            return mixed
        self._forget()
        return plain

    def _forget(self) -> None:
        self._memory.clear()
        self._remembered = 0

    def _from_coarser_epsilons(self) -> Potentials:
        """A start: a few iterations at each of some larger epsilons, from zero."""
        potentials = Potentials(np.zeros(self.points.mass_a.size), np.zeros(self.points.mass_b.size))
        epsilon = max(float(cost.max()) for _, cost in self.points.costs()) / _SCALING
        while epsilon > self.problem.epsilon:
            points = Points(replace(self.problem, epsilon=epsilon))
            for _ in range(2):
                iterations = min(_SCALING_ITERATIONS, self._left(n_ends=1))
                if iterations < 1:
                    return potentials
                chunk = self._chunk(points, potentials, iterations)
                potentials = chunk.potentials if chunk.is_usable else _swept(points, potentials)
                potentials = points.translated(_centred(potentials, points.mass_a))
            self._other_sums += points.n_sums
            epsilon /= _SCALING
        return potentials

    # --- POT ---------------------------------------------------------------------------------

    def _chunk(self, points: Points, start: Potentials, iterations: int) -> _Chunk:
        """Some iterations of POT from `start`, on the points that have weight for the others."""
        problem, dtype = points.problem, self.options.dtype
        # The masses that stand in for a and b once the potentials are absorbed.
        log_a = problem.penalty_a.log_optimal_marginal(start.a, np.log(points.mass_a))
        log_b = problem.penalty_b.log_optimal_marginal(start.b, np.log(points.mass_b))
        scale = max(float(log_a.max()), float(log_b.max()))  # of all masses: POT sees values up to 1
        live_a, live_b = log_a > scale - _DEAD[dtype], log_b > scale - _DEAD[dtype]
        if not (live_a.any() and live_b.any()):
            return _Chunk(start, 0)
        log_u, log_v, done = self._call(
            np.exp(log_a[live_a] - scale).astype(dtype),
            np.exp(log_b[live_b] - scale).astype(dtype),
            _absorbed_cost(points, start, scale, live_a, live_b, dtype),
            problem,
            iterations,
        )
        f, g = start.f.copy(), start.g.copy()
        f[live_a] += problem.epsilon * log_u
        g[live_b] += problem.epsilon * log_v
        self._other_sums += 2 * done
        chunk = _Chunk(Potentials(f, g, start.shift), done)
        if chunk.is_usable and not (live_a.all() and live_b.all()):
            chunk = _with_dead_points(points, chunk, live_a, live_b)
        return chunk

    @staticmethod
    def _call(
        a: NDArray[Any], b: NDArray[Any], cost: NDArray[Any], problem: TransportProblem, iterations: int
    ) -> tuple[Float, Float, int]:
        """log of POT's scalings (n,), (m,), and the number of iterations before its numbers left the dtype.

        POT warns when it gives up and goes back one iteration; the count shows that, so the warning is not passed on.
        """
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            _, log = sinkhorn_unbalanced(
                a,
                b,
                cost,
                reg=problem.epsilon,
                reg_m=(problem.penalty_a.marginal_relaxation, problem.penalty_b.marginal_relaxation),  # inf: balanced
                method="sinkhorn",
                reg_type="kl",
                c=np.broadcast_to(np.ones((), a.dtype), cost.shape),  # the reference is in the cost
                numItermax=iterations,
                stopThr=0.0,
                log=True,
            )
        done = int(np.isfinite(np.asarray(log["err"], dtype=np.float64)).sum())
        return log["logu"].astype(np.float64), log["logv"].astype(np.float64), done

    # --- helpers ---------------------------------------------------------------------------

    def _left(self, *, n_ends: int) -> int:
        """POT iterations, of two kernel applications each, left in the budget before that many ends."""
        return (self.options.max_iterations - self.n_sums - n_ends * self._end_sums) // 2

    def _note(self, end: SolveEnd) -> None:
        record = TraceRecord(float(self.n_sums), end.certificate.gap, end.certificate.marginal_error)
        self.trace.append(record)
        if self.progress is not None:
            self.progress(record)


def _with_dead_points(points: Points, chunk: _Chunk, live_a: Bool, live_b: Bool) -> _Chunk:
    """The chunk with potentials also for points that have no weight for others: one exact update gives them."""
    old = chunk.potentials
    f = np.where(live_a, old.f, points.update_a(old.g, old.shift)[0])
    g = np.where(live_b, old.g, points.update_b(f, old.shift)[0])
    return _Chunk(Potentials(f, g, old.shift), chunk.iterations)


def _swept(points: Points, potentials: Potentials) -> Potentials:
    """After one exact float64 update of each side."""
    f, _ = points.update_a(potentials.g, potentials.shift)
    g, _ = points.update_b(f, potentials.shift)
    return Potentials(f, g, potentials.shift)


def _absorbed_cost(
    points: Points, potentials: Potentials, log_scale: float, live_a: Bool, live_b: Bool, dtype: str
) -> NDArray[Any]:
    """(n, m) of the live points: minus eps log of the plan, all masses divided by exp(log_scale).

    The differences are float64; values rounded to `dtype` are small wherever the plan has mass.
    """
    eps = points.problem.epsilon
    rows = potentials.f + eps * points.log_u - eps * log_scale
    columns = (potentials.g + eps * points.log_v)[live_b]
    absorbed = np.empty((int(live_a.sum()), columns.size), dtype=dtype)
    first = 0
    for part, cost in points.costs():
        live = live_a[part]
        block = cost[live][:, live_b] - rows[part][live][:, None] - columns
        absorbed[first : first + len(block)] = block
        first += len(block)
    return absorbed


def _centred(potentials: Potentials, mass_a: Float) -> Potentials:
    """The same potentials with the mean of f in the shift: chunks can be compared, and keep their digits."""
    constant = float(mass_a @ potentials.f) / float(mass_a.sum())
    return Potentials(potentials.f - constant, potentials.g + constant, potentials.shift + constant)

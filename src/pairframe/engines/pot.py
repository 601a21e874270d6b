"""The POT engine: every Sinkhorn iteration is Python Optimal Transport's, on a problem it can hold in its numbers.

POT iterates on scalings exp(f/eps), which leave any dtype when potentials span more than a few hundred eps; its
stabilised variant absorbs only a constant. So POT runs in short chunks, and between them the potentials (f, g) so far
move into what it is given. For penalties kl and balanced that is exact: the plan that is best for (C, a, b) is best for

    C_ij - f_i - g_j,    a e^(-f/lam_a),    b e^(-g/lam_b)        (a balanced side keeps its mass),

and its kernel is then the current plan itself. The reference enters the same way, as C - eps log u_i - eps log v_j, and
all masses may be multiplied by one number. Between chunks the constant in (f + t, g - t) takes its best value and
Anderson's mixing is tried; from zero, coarser epsilons come first. Values and status come from a float64 certificate.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from ot.unbalanced import sinkhorn_unbalanced

from pairframe.engines.anderson import Anderson
from pairframe.engines.base import Engine, Progress, Solution, SolveOptions, Start, TraceRecord, start_on_supports
from pairframe.engines.points import Ended, Points, refuse_past_memory, solution_of
from pairframe.problem import Penalty, TransportProblem
from pairframe.problem.scales import pot_parameters

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]

_COPIES = 6  # dense matrices alive at once (5.02 measured): the cost, POT's kernel and plan, and its temporaries
_CHUNK = 20  # POT iterations between two looks at the certificate
_DEPTH = 10  # of Anderson's memory, in chunks
_SCALING = 4.0  # epsilon goes down by this factor
_SCALING_ITERATIONS = 5  # POT iterations in each of two chunks at a coarser epsilon
_GOOD_START = 0.5  # a start whose marginals are off by less than this share needs no coarser epsilons
# Exponents below the largest at which a point has nothing to do with the others, and would leave the dtype.
_DEAD = {"float64": 600.0, "float32": 70.0}


class PotEngine(Engine):
    """POT on dense support points; kl and balanced penalties in any combination, both metrics, float64 and float32."""

    name: ClassVar[str] = "pot"
    needs_points: ClassVar[bool] = True
    libraries: ClassVar[tuple[str, ...]] = ("POT",)

    def supports(self, problem: TransportProblem, options: SolveOptions) -> str | None:
        """Penalties kl and balanced, on the CPU, as far as the dense matrices fit into memory."""
        for penalty in (problem.penalty_a, problem.penalty_b):
            if penalty.kind not in ("kl", "balanced"):
                return f'penalty "{penalty.kind}"; POT\'s entropic solvers know "kl" and "balanced" only'
        if options.device not in (None, "cpu"):
            return f'device "{options.device}"; the POT engine runs on the CPU'
        return refuse_past_memory(problem, dtype=options.dtype, copies=_COPIES)

    def smallest_epsilon(self, shape_hw: tuple[int, int], dtype: str) -> float:
        """See `Engine.smallest_epsilon`: exponents are float64 whatever POT's products are."""
        return super().smallest_epsilon(shape_hw, "float64")

    def run(
        self,
        problem: TransportProblem,
        options: SolveOptions,
        init: Start | None = None,
        progress: Progress | None = None,
    ) -> Solution:
        """Solve; see `Engine.run`. A start with marginals off by half or more is not used."""
        # Everything below ends on b: where only a is balanced, it has to take b's place.
        swap = problem.penalty_a.is_hard and not problem.penalty_b.is_hard
        f, g = start_on_supports(problem, init)
        turned, start = (problem.swapped(), (g, f)) if swap else (problem, (f, g))
        loop = _Loop(turned, options, progress)
        with np.errstate(all="ignore"):  # what leaves the numbers is found out, and is a status
            ended = loop.solve(*start, warm=init is not None)
        return solution_of(
            ended.swapped() if swap else ended,
            problem,
            options,
            engine=self.name,
            iterations=loop.work,
            failed=loop.failed,
            trace=tuple(loop.trace),
        )


@dataclass(frozen=True)
class _Chunk:
    """What some iterations of POT have led to: potentials (n,), (m,), and how many iterations there were."""

    f: Float
    g: Float
    iterations: int

    @property
    def is_sound(self) -> bool:
        return self.iterations > 0 and bool(np.isfinite(self.f).all() and np.isfinite(self.g).all())


class _Loop:
    def __init__(self, problem: TransportProblem, options: SolveOptions, progress: Progress | None) -> None:
        self.problem, self.options, self.progress = problem, options, progress
        self.points = Points(problem)
        self._memory, self._remembered = Anderson(self.points.mass_a, _DEPTH), 0  # chunks since it forgot
        both_hard = problem.penalty_a.is_hard and problem.penalty_b.is_hard
        self._end_work = 6 if both_hard else 2  # kernel applications of `Points.end`, at most
        self._elsewhere = 0  # kernel applications by POT, and at coarser epsilons
        self.failed = False
        self.trace: list[TraceRecord] = []

    @property
    def work(self) -> int:
        """Kernel applications so far."""
        return self._elsewhere + self.points.n_sums

    def solve(self, f: Float, g: Float, *, warm: bool) -> Ended:
        here = self.points.end(f, g, 0.0) if warm else None
        if here is None or not here.is_sound or here.certificate.marginal_error > _GOOD_START:
            here = self.points.end(*self._from_coarser_epsilons())
        best = here
        while not best.certificate.meets(self.options.tol):
            iterations = min(_CHUNK, self._left(n_ends=2))
            if iterations < 1:
                break
            chunk = self._chunk(self.points, here.f, here.g, here.t, iterations)
            if not chunk.is_sound:
                if self.failed:
                    break
                self.failed = True  # unless one exact update brings it back to where POT's numbers suffice
                here = self.points.end(*_swept(self.points, here.g, here.t))
                self._forget()
                continue
            self.failed = False
            before = here
            here = self.points.end(*_centred(chunk.f, chunk.g, here.t, self.points.mass_a))
            if not here.certificate.meets(self.options.tol):
                here = self._mixed(before, here)
            self._note(here)
            if here.error < best.error:
                best = here
        return best

    def _mixed(self, before: Ended, plain: Ended) -> Ended:
        """Anderson's mixture of the chunks so far, where it is better than the last one."""
        x, _, _ = _centred(before.f, before.g, before.t, self.points.mass_a)
        proposal = self._memory.step(x, plain.f - x)
        self._remembered += 1
        if self._remembered == 1:
            return plain  # nothing to mix it with
        mixed = self.points.end(proposal, plain.g, plain.t)
        higher = mixed.certificate.dual_lower > plain.certificate.dual_lower
        if mixed.is_sound and (higher or mixed.error < plain.error):
            return mixed
        self._forget()
        return plain

    def _forget(self) -> None:
        self._memory.clear()
        self._remembered = 0

    def _from_coarser_epsilons(self) -> tuple[Float, Float, float]:
        """A start: a few iterations at each of some larger epsilons, from zero."""
        f, g, t = np.zeros(self.points.mass_a.size), np.zeros(self.points.mass_b.size), 0.0
        epsilon = max(float(cost.max()) for _, cost in self.points.costs()) / _SCALING
        while epsilon > self.problem.epsilon:
            points = Points(replace(self.problem, epsilon=epsilon))
            for _ in range(2):
                iterations = min(_SCALING_ITERATIONS, self._left(n_ends=1))
                if iterations < 1:
                    return f, g, t
                chunk = self._chunk(points, f, g, t, iterations)
                f, g, t = (chunk.f, chunk.g, t) if chunk.is_sound else _swept(points, g, t)
                f, g, t = _centred(f, g, t, points.mass_a)
                t = points.translation(f, g, t)
            self._elsewhere += points.n_sums
            epsilon /= _SCALING
        return f, g, t

    # --- POT ---------------------------------------------------------------------------------

    def _chunk(self, points: Points, f: Float, g: Float, t: float, iterations: int) -> _Chunk:
        """Some iterations of POT from (f + t, g - t), on the points that have anything to do with the others."""
        problem, dtype = points.problem, self.options.dtype
        log_a = _log_asked(points.mass_a, f + t, problem.penalty_a)
        log_b = _log_asked(points.mass_b, g - t, problem.penalty_b)
        scale = max(float(log_a.max()), float(log_b.max()))  # of all masses: POT sees values up to 1
        live_a, live_b = log_a > scale - _DEAD[dtype], log_b > scale - _DEAD[dtype]
        if not (live_a.any() and live_b.any()):
            return _Chunk(f, g, 0)
        log_u, log_v, done = self._call(
            np.exp(log_a[live_a] - scale).astype(dtype),
            np.exp(log_b[live_b] - scale).astype(dtype),
            _absorbed_cost(points, f, g, scale, live_a, live_b, dtype),
            problem,
            iterations,
        )
        new_f, new_g = f.copy(), g.copy()
        new_f[live_a] += problem.epsilon * log_u
        new_g[live_b] += problem.epsilon * log_v
        self._elsewhere += 2 * done
        chunk = _Chunk(new_f, new_g, done)
        if chunk.is_sound and not (live_a.all() and live_b.all()):
            chunk = _with_the_dead(points, chunk, t, live_a, live_b)
        return chunk

    @staticmethod
    def _call(
        a: NDArray[Any], b: NDArray[Any], cost: NDArray[Any], problem: TransportProblem, iterations: int
    ) -> tuple[Float, Float, int]:
        """log of POT's scalings (n,), (m,), and how many of the iterations it did before its numbers gave out.

        POT warns where it gives up and goes back one iteration; its count then tells, and the warning stays here.
        """
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            _, log = sinkhorn_unbalanced(
                a,
                b,
                cost,
                reg=problem.epsilon,
                reg_m=(_reg_m(problem, problem.penalty_a), _reg_m(problem, problem.penalty_b)),
                method="sinkhorn",
                reg_type="kl",
                c=np.broadcast_to(np.ones((), a.dtype), cost.shape),  # the reference is in the cost
                numItermax=iterations,
                stopThr=0.0,
                log=True,
            )
        done = int(np.isfinite(np.asarray(log["err"], dtype=np.float64)).sum())
        return log["logu"].astype(np.float64), log["logv"].astype(np.float64), done

    # --- small things ------------------------------------------------------------------------

    def _left(self, *, n_ends: int) -> int:
        """POT iterations, of two kernel applications each, that may still be done before so many ends."""
        return (self.options.max_iterations - self.work - n_ends * self._end_work) // 2

    def _note(self, ended: Ended) -> None:
        record = TraceRecord(float(self.work), ended.certificate.gap, ended.certificate.marginal_error)
        self.trace.append(record)
        if self.progress is not None:
            self.progress(record)


def _with_the_dead(points: Points, chunk: _Chunk, t: float, live_a: Bool, live_b: Bool) -> _Chunk:
    """Points without any weight for others still have potentials: one exact update gives them."""
    f = np.where(live_a, chunk.f, points.update_a(chunk.g, t)[0])
    g = np.where(live_b, chunk.g, points.update_b(f, t)[0])
    return _Chunk(f, g, chunk.iterations)


def _swept(points: Points, g: Float, t: float) -> tuple[Float, Float, float]:
    """After one exact float64 update of each side."""
    f, _ = points.update_a(g, t)
    g, _ = points.update_b(f, t)
    return f, g, t


def _absorbed_cost(
    points: Points, f: Float, g: Float, log_scale: float, live_a: Bool, live_b: Bool, dtype: str
) -> NDArray[Any]:
    """(n, m) of the live points: minus eps log of the plan of (f, g), all masses divided by exp(log_scale).

    The differences are float64; what is rounded to `dtype` is small wherever the plan has mass.
    """
    eps = points.problem.epsilon
    rows = f + eps * points.log_u - eps * log_scale
    columns = (g + eps * points.log_v)[live_b]
    absorbed = np.empty((int(live_a.sum()), columns.size), dtype=dtype)
    first = 0
    for part, cost in points.costs():
        live = live_a[part]
        block = cost[live][:, live_b] - rows[part][live][:, None] - columns
        absorbed[first : first + len(block)] = block
        first += len(block)
    return absorbed


def _log_asked(mass: Float, potential: Float, penalty: Penalty) -> Float:
    """log of the mass that stands in for `mass` once `potential` is absorbed."""
    log_mass: Float = np.log(mass)
    return log_mass - potential / penalty.strength if penalty.kind == "kl" else log_mass


def _reg_m(problem: TransportProblem, penalty: Penalty) -> float:
    """POT's name for the strength of a side; it takes inf for a balanced one."""
    return math.inf if penalty.kind == "balanced" else pot_parameters(problem.epsilon, penalty.strength).reg_m


def _centred(f: Float, g: Float, t: float, mass_a: Float) -> tuple[Float, Float, float]:
    """The same potentials (f + t, g - t), with the constant of f in t: chunks can be compared, and keep their digits."""
    constant = float(mass_a @ f) / float(mass_a.sum())
    return f - constant, g + constant, t + constant

"""Shared by engines on support points: the points, their costs, a memory limit, and a certified end.

Everything here is float64, in work pixels, and goes through log-sum-exps in chunks, without a dense matrix unless it is small.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairframe.engines.base import Solution, SolveOptions, TraceRecord
from pairframe.engines.solve_end import Orientation, SolveEnd
from pairframe.parallel.memory import memory_limit_bytes
from pairframe.problem import Certificate, Penalty, Potentials, TransportProblem, certificate, on_grid
from pairframe.problem.objective import Marginals
from pairframe.problem.translation import best_translation
from pairframe.types import Float

_CHUNK_ENTRIES = 2_000_000  # pixel pairs handled together: 16 MB an array
_GB = 1e9


# --- memory ----------------------------------------------------------------------------------


def dense_bytes(problem: TransportProblem, *, dtype: str, copies: int) -> int:
    """Bytes of `copies` dense matrices between the two supports."""
    entries = int(problem.support_a.sum()) * int(problem.support_b.sum())
    return entries * np.dtype(dtype).itemsize * copies


def refuse_past_memory(problem: TransportProblem, *, dtype: str, copies: int) -> str | None:
    """None if that many dense matrices fit into `memory_limit_bytes`, else the reason and how to proceed."""
    needed, limit = dense_bytes(problem, dtype=dtype, copies=copies), memory_limit_bytes()
    if needed <= limit:
        return None
    n, m = int(problem.support_a.sum()), int(problem.support_b.sum())
    return (
        f"{n} x {m} support pixels need an estimated {needed / _GB:.3g} GB ({copies} dense {dtype} matrices), more "
        f"than the limit of {limit / _GB:.3g} GB (half of the available memory); raise downsample_factor, set "
        f'max_support_points, or use backend="grid"'
    )


# --- points ----------------------------------------------------------------------------------


def cost_matrix(positions_a: Float, positions_b: Float, metric: str, dtype: str = "float64") -> NDArray[Any]:
    """(n, m): |x_i - x_j|^2 or |x_i - x_j| between positions (n, ndim) and (m, ndim); no coordinate scaling, no offset."""
    cost = np.zeros((len(positions_a), len(positions_b)), dtype)
    for along_a, along_b in zip(positions_a.T, positions_b.T, strict=True):
        difference = (along_a[:, None] - along_b).astype(dtype)
        np.square(difference, out=difference)
        cost += difference
    if metric == "euclidean":
        np.sqrt(cost, out=cost)
    return cost


class Points:
    """The two supports of a problem as points, and exact float64 updates between them.

    Potentials are vectors over the supports; see `Potentials` for their shift.

    Attributes
    ----------
    positions_a, positions_b : (n, ndim), (m, ndim)
        Pixel indices times the spacing, in row-major order: ``array[support]`` gives values in the same order.
    mass_a, mass_b : (n,), (m,)
    log_u, log_v : (n,), (m,)
        Logs of the factors of the reference; all finite.
    n_sums : int
        Kernel applications so far.
    """

    def __init__(self, problem: TransportProblem) -> None:
        self.problem, self.n_sums = problem, 0
        on_a, on_b = problem.support_a, problem.support_b
        self.positions_a, self.positions_b = problem.positions(on_a), problem.positions(on_b)
        self.mass_a, self.mass_b = problem.mass_a[on_a], problem.mass_b[on_b]
        self.log_u, self.log_v = problem.log_factors()

    @cached_property
    def _cost(self) -> Float | None:
        """(n, m), kept if it is small."""
        small = self.mass_a.size * self.mass_b.size <= _CHUNK_ENTRIES
        return cost_matrix(self.positions_a, self.positions_b, self.problem.metric) if small else None

    # --- kernel applications -----------------------------------------------------------------

    def log_sums_a(self, g: Float) -> Float:
        """(n,): log sum_j v_j exp((g_j - C_ij)/eps), for finite g (m,)."""
        return self._log_sums(g, self.log_v, to_a=True)

    def log_sums_b(self, f: Float) -> Float:
        """(m,): log sum_i u_i exp((f_i - C_ij)/eps), for finite f (n,)."""
        return self._log_sums(f, self.log_u, to_a=False)

    def _log_sums(self, potential: Float, log_factor: Float, *, to_a: bool) -> Float:
        self.n_sums += 1
        result = np.empty(self.mass_a.size if to_a else self.mass_b.size)
        for part, cost in self.costs(to_a=to_a):
            exponents = (potential - cost) / self.problem.epsilon
            exponents += log_factor
            top = exponents.max(axis=1)
            exponents -= top[:, None]
            with np.errstate(under="ignore", invalid="ignore"):
                result[part] = top + np.log(np.exp(exponents, out=exponents).sum(axis=1))
        return result

    def costs(self, *, to_a: bool = True) -> Iterator[tuple[slice, Float]]:
        """Slices of the points of one side with their costs (k, m) to all of the other: rows of C, or of C' for b."""
        if self._cost is not None:
            yield slice(None), self._cost if to_a else self._cost.T
            return
        outputs, inputs = (self.positions_a, self.positions_b) if to_a else (self.positions_b, self.positions_a)
        rows = max(1, _CHUNK_ENTRIES // len(inputs))
        for start in range(0, len(outputs), rows):
            part = slice(start, start + rows)
            yield part, cost_matrix(outputs[part], inputs, self.problem.metric)

    def marginal_a(self, f: Float, g: Float) -> Float:
        """(n,): marginal on a of the plan of (f, g): one kernel application."""
        with np.errstate(over="ignore", under="ignore"):
            return np.asarray(np.exp(self.log_u + f / self.problem.epsilon + self.log_sums_a(g)))

    def marginal_b(self, f: Float, g: Float) -> Float:
        """(m,): marginal on b of the plan of (f, g): one kernel application."""
        with np.errstate(over="ignore", under="ignore"):
            return np.asarray(np.exp(self.log_v + g / self.problem.epsilon + self.log_sums_b(f)))

    # --- updates and ends --------------------------------------------------------------------

    def update_a(self, g: Float, shift: float = 0.0) -> tuple[Float, Float]:
        """The best f for g, and the marginal it has then, (n,) each: one kernel application."""
        return self._update(self.problem.penalty_a, self.mass_a, self.log_u, self.log_sums_a(g), shift)

    def update_b(self, f: Float, shift: float = 0.0) -> tuple[Float, Float]:
        """The best g for f, and the marginal it has then, (m,) each: one kernel application."""
        return self._update(self.problem.penalty_b, self.mass_b, self.log_v, self.log_sums_b(f), -shift)

    def _update(
        self, penalty: Penalty, mass: Float, log_factor: Float, log_sums: Float, shift: float
    ) -> tuple[Float, Float]:
        eps = self.problem.epsilon
        s = eps * (np.log(mass) - log_factor - log_sums)
        potential = penalty.update(s, eps, shift)
        with np.errstate(over="ignore", under="ignore"):
            return potential, mass * np.exp((potential - s) / eps)

    def translated(self, potentials: Potentials) -> Potentials:
        """The same plan with the shift that makes the dual largest."""
        problem = self.problem
        step = best_translation(
            problem.penalty_a, potentials.a, self.mass_a, problem.penalty_b, potentials.b, self.mass_b
        )
        return replace(potentials, shift=potentials.shift + step) if math.isfinite(step) else potentials

    def end(self, potentials: Potentials) -> SolveEnd:
        """Best translation, one exact update of the harder side (else of b), marginals and certificate.

        Two kernel applications, and up to four more for the bound of two hard sides. A ``balanced`` side has to be
        updated last; the update only ever raises the dual. Numbers that leave float64 make `SolveEnd.is_finite` false.
        """
        eps = self.problem.epsilon
        with np.errstate(all="ignore"):
            potentials = self.translated(potentials)
            f, g, shift = potentials.f, potentials.g, potentials.shift
            if self.problem.penalty_a.is_hard and not self.problem.penalty_b.is_hard:
                f, p = self.update_a(g, shift)
                q = np.exp(self.log_v + g / eps + self.log_sums_b(f))
            else:
                g, q = self.update_b(f, shift)
                p = np.exp(self.log_u + f / eps + self.log_sums_a(g))
            potentials = Potentials(f, g, shift)
            return SolveEnd(potentials, p, q, self._certificate(potentials, p, q))

    def _certificate(self, potentials: Potentials, p: Float, q: Float) -> Certificate:
        on_a, on_b = self.problem.support_a, self.problem.support_b

        marginals = Marginals(
            lambda f, g: on_grid(self.marginal_a(f[on_a], g[on_b]), on_a),
            lambda f, g: on_grid(self.marginal_b(f[on_a], g[on_b]), on_b),
        )

        return certificate(
            self.problem,
            on_grid(potentials.f, on_a),
            on_grid(potentials.g, on_b),
            on_grid(p, on_a),
            on_grid(q, on_b),
            marginals,
            potentials.shift,
        )


def final_solution(
    problem: TransportProblem,
    options: SolveOptions,
    potentials: Potentials,
    *,
    engine: str,
    iterations: int,
    failed: bool = False,
    device: str = "cpu",
    trace: tuple[TraceRecord, ...] = (),
    points: Points | None = None,
) -> Solution:
    """A certified `Solution` from any potentials that a library found; nothing of it is taken on trust.

    Parameters
    ----------
    potentials : Potentials
        In any dtype, of the plan u_i v_j exp((f_i + g_j - C_ij)/eps).
    failed : bool
        See `Orientation.solution`. Potentials that are not finite count as failed, and zeros take their place.
    points : Points, optional
        Of this problem, if they exist already.
    """
    points = Points(problem) if points is None else points
    f, g = np.asarray(potentials.f, dtype=np.float64), np.asarray(potentials.g, dtype=np.float64)
    start = Potentials(f, g, potentials.shift)
    if not start.is_finite:
        start, failed = Potentials(np.zeros(f.shape), np.zeros(g.shape)), True
    return Orientation(problem, swap=False).solution(
        points.end(start), options, engine=engine, iterations=iterations, failed=failed, device=device, trace=trace
    )

"""What engines that work on points share: the support points, their costs, a memory limit, and a certified end.

Everything here is float64, in work pixels, and goes through log-sum-exps in chunks: no dense matrix unless asked for.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairframe.engines.base import Solution, SolveOptions, Status, TraceRecord
from pairframe.problem import Certificate, Penalty, TransportProblem, certificate
from pairframe.problem.translation import best_translation

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]

_CHUNK_ENTRIES = 2_000_000  # pixel pairs looked at together: 16 MB an array
_GB = 1e9


# --- memory ----------------------------------------------------------------------------------


def memory_limit_bytes() -> int:
    """Half of the memory that is available now, or that the container allows when that is less."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(_meminfo_available(pages), _cgroup_limit(pages)) // 2


def dense_bytes(problem: TransportProblem, *, dtype: str, copies: int) -> int:
    """Bytes of `copies` dense matrices between the two supports."""
    entries = int(problem.support_a.sum()) * int(problem.support_b.sum())
    return entries * np.dtype(dtype).itemsize * copies


def refuse_past_memory(problem: TransportProblem, *, dtype: str, copies: int) -> str | None:
    """None when that many dense matrices fit into `memory_limit_bytes`, else the reason, with the ways out."""
    needed, limit = dense_bytes(problem, dtype=dtype, copies=copies), memory_limit_bytes()
    if needed <= limit:
        return None
    n, m = int(problem.support_a.sum()), int(problem.support_b.sum())
    return (
        f"{n} x {m} support pixels need an estimated {needed / _GB:.3g} GB ({copies} dense {dtype} matrices), more "
        f"than the limit of {limit / _GB:.3g} GB (half of the available memory); raise downsample_factor, set "
        f'max_support_points, or use backend="grid"'
    )


def _meminfo_available(otherwise: int) -> int:
    """Linux counts what page caches would give back as available; sysconf's free pages do not."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return otherwise
    kilobytes = [int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    return kilobytes[0] * 1024 if kilobytes else otherwise


def _cgroup_limit(otherwise: int) -> int:
    try:
        text = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        return otherwise
    return int(text) if text.isdigit() else otherwise


# --- points ----------------------------------------------------------------------------------


def cost_matrix(yx_a: Float, yx_b: Float, metric: str, dtype: str = "float64") -> NDArray[Any]:
    """(n, m): |x_i - x_j|^2 or |x_i - x_j| between points (n, 2) and (m, 2); no coordinate scaling, no offset."""
    cost = (yx_a[:, None, 0] - yx_b[None, :, 0]).astype(dtype)
    np.square(cost, out=cost)
    across = (yx_a[:, None, 1] - yx_b[None, :, 1]).astype(dtype)
    np.square(across, out=across)
    cost += across
    if metric == "euclidean":
        np.sqrt(cost, out=cost)
    return cost


@dataclass(frozen=True, eq=False)
class Ended:
    """Potentials f + t on a (n,) and g - t on b (m,), the marginals of their plan, and what they are worth."""

    f: Float
    g: Float
    t: float
    marginal_a: Float
    marginal_b: Float
    certificate: Certificate

    @property
    def error(self) -> float:
        """What `tol` bounds."""
        return self.certificate.error

    @property
    def is_sound(self) -> bool:
        """Whether all of it are finite numbers."""
        arrays = (self.f, self.g, self.marginal_a, self.marginal_b)
        return math.isfinite(self.t) and all(bool(np.isfinite(array).all()) for array in arrays)

    def swapped(self) -> Ended:
        """The same for the problem with source and target exchanged."""
        return Ended(self.g, self.f, -self.t, self.marginal_b, self.marginal_a, self.certificate)


class Points:
    """The two supports of a problem as points, and exact float64 updates between them.

    Potentials are 1-D over the supports and come as (f, g, t), meaning f + t on a and g - t on b. The plan depends on
    f_i + g_j only; with unequal masses t is of the order of lam, and kept apart it takes no digits from the exponents.

    Attributes
    ----------
    yx_a, yx_b : (n, 2), (m, 2)
        Pixel indices (y, x), float64, in row-major order: ``array[support]`` gives values in the same order.
    mass_a, mass_b : (n,), (m,)
    log_u, log_v : (n,), (m,)
        Logs of the factors of the reference; all finite.
    n_sums : int
        Kernel applications so far.
    """

    def __init__(self, problem: TransportProblem) -> None:
        self.problem, self.n_sums = problem, 0
        on_a, on_b = problem.support_a, problem.support_b
        self.yx_a, self.yx_b = np.argwhere(on_a).astype(np.float64), np.argwhere(on_b).astype(np.float64)
        self.mass_a, self.mass_b = problem.mass_a[on_a], problem.mass_b[on_b]
        self.log_u, self.log_v = problem.log_u[on_a], problem.log_v[on_b]

    @cached_property
    def _cost(self) -> Float | None:
        """(n, m), kept where it is small."""
        small = self.mass_a.size * self.mass_b.size <= _CHUNK_ENTRIES
        return cost_matrix(self.yx_a, self.yx_b, self.problem.metric) if small else None

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
        outputs, inputs = (self.yx_a, self.yx_b) if to_a else (self.yx_b, self.yx_a)
        rows = max(1, _CHUNK_ENTRIES // len(inputs))
        for start in range(0, len(outputs), rows):
            part = slice(start, start + rows)
            yield part, cost_matrix(outputs[part], inputs, self.problem.metric)

    def marginals(self, f: Float, g: Float) -> tuple[Float, Float]:
        """(n,), (m,): both marginals of the plan of (f, g): two kernel applications."""
        eps = self.problem.epsilon
        with np.errstate(over="ignore", under="ignore"):
            p = np.exp(self.log_u + f / eps + self.log_sums_a(g))
            q = np.exp(self.log_v + g / eps + self.log_sums_b(f))
        return p, q

    # --- updates and ends --------------------------------------------------------------------

    def update_a(self, g: Float, t: float = 0.0) -> tuple[Float, Float]:
        """The best f for g, and the marginal it has then, (n,) each: one kernel application."""
        return self._update(self.problem.penalty_a, self.mass_a, self.log_u, self.log_sums_a(g), t)

    def update_b(self, f: Float, t: float = 0.0) -> tuple[Float, Float]:
        """The best g for f, and the marginal it has then, (m,) each: one kernel application."""
        return self._update(self.problem.penalty_b, self.mass_b, self.log_v, self.log_sums_b(f), -t)

    def _update(
        self, penalty: Penalty, mass: Float, log_factor: Float, log_sums: Float, shift: float
    ) -> tuple[Float, Float]:
        eps = self.problem.epsilon
        s = eps * (np.log(mass) - log_factor - log_sums)
        potential = penalty.update(s, eps, shift)
        with np.errstate(over="ignore", under="ignore"):
            return potential, mass * np.exp((potential - s) / eps)

    def translation(self, f: Float, g: Float, t: float) -> float:
        """The t that makes the dual at (f + t, g - t) largest; the plan is the same."""
        problem = self.problem
        step = best_translation(problem.penalty_a, f + t, self.mass_a, problem.penalty_b, g - t, self.mass_b)
        return t + step if math.isfinite(step) else t

    def end(self, f: Float, g: Float, t: float = 0.0) -> Ended:
        """Best translation, one exact update of the harder side (else of b), marginals and certificate.

        Two kernel applications, and up to four more for the bound of two hard sides. A ``balanced`` side has to be
        ended on; the update only ever raises the dual. What leaves float64 is found out by `Ended.is_sound`.
        """
        eps = self.problem.epsilon
        with np.errstate(all="ignore"):
            t = self.translation(f, g, t)
            if self.problem.penalty_a.is_hard and not self.problem.penalty_b.is_hard:
                f, p = self.update_a(g, t)
                q = np.exp(self.log_v + g / eps + self.log_sums_b(f))
            else:
                g, q = self.update_b(f, t)
                p = np.exp(self.log_u + f / eps + self.log_sums_a(g))
            return Ended(f, g, t, p, q, self._certificate(f, g, t, p, q))

    def _certificate(self, f: Float, g: Float, t: float, p: Float, q: Float) -> Certificate:
        on_a, on_b = self.problem.support_a, self.problem.support_b

        def marginals(whole_f: Float, whole_g: Float) -> tuple[Float, Float]:
            now_p, now_q = self.marginals(whole_f[on_a] - t, whole_g[on_b] + t)
            return on_grid(now_p, on_a), on_grid(now_q, on_b)

        return certificate(
            self.problem,
            on_grid(f + t, on_a),
            on_grid(g - t, on_b),
            on_grid(p, on_a),
            on_grid(q, on_b),
            marginals,
        )


def on_grid(values: Float, support: Bool, outside: float = 0.0) -> Float:
    """(H, W) from values on its support (n,)."""
    grid = np.full(support.shape, outside)
    grid[support] = values
    return grid


def final_solution(
    problem: TransportProblem,
    options: SolveOptions,
    f: Float,
    g: Float,
    *,
    engine: str,
    iterations: int,
    shift: float = 0.0,
    failed: bool = False,
    device: str = "cpu",
    trace: tuple[TraceRecord, ...] = (),
    points: Points | None = None,
) -> Solution:
    """A certified `Solution` from whatever potentials a library found; nothing of it is taken on trust.

    Parameters
    ----------
    f, g : (n,), (m,)
        Potentials on the supports, in cost units, in any dtype, of the plan u_i v_j exp((f_i + g_j - C_ij)/eps).
    shift : float
        They mean f + shift and g - shift.
    failed : bool
        The numbers left the dtype: without convergence the status is then ``impossible`` instead of
        ``max_iterations``. Potentials that are no numbers say so themselves, and zeros take their place.
    points : Points, optional
        Of this problem, when there are some already.
    """
    points = Points(problem) if points is None else points
    f, g = np.asarray(f, dtype=np.float64), np.asarray(g, dtype=np.float64)
    if not (np.isfinite(f).all() and np.isfinite(g).all() and math.isfinite(shift)):
        f, g, shift, failed = np.zeros(f.shape), np.zeros(g.shape), 0.0, True
    ended = points.end(f, g, shift)
    return solution_of(
        ended, problem, options, engine=engine, iterations=iterations, failed=failed, device=device, trace=trace
    )


def solution_of(
    ended: Ended,
    problem: TransportProblem,
    options: SolveOptions,
    *,
    engine: str,
    iterations: int,
    failed: bool = False,
    device: str = "cpu",
    trace: tuple[TraceRecord, ...] = (),
) -> Solution:
    """The `Solution` of a finished solve; its status follows from the certificate. See `final_solution`."""
    if not ended.is_sound:
        ended, failed = _nothing_known(problem), True
    if ended.certificate.meets(options.tol):
        status = Status.converged
    elif failed or not math.isfinite(ended.certificate.marginal_error):
        status = Status.impossible
    else:
        status = Status.max_iterations
    return Solution(
        problem=problem,
        potential_a=on_grid(ended.f + ended.t, problem.support_a, np.nan),
        potential_b=on_grid(ended.g - ended.t, problem.support_b, np.nan),
        marginal_a=on_grid(ended.marginal_a, problem.support_a),
        marginal_b=on_grid(ended.marginal_b, problem.support_b),
        certificate=ended.certificate,
        status=status,
        iterations=iterations,
        engine=engine,
        dtype=options.dtype,
        device=device,
        trace=trace,
    )


def _nothing_known(problem: TransportProblem) -> Ended:
    """What is left when numbers left float64: zeros, and bounds that promise nothing."""
    n, m = int(problem.support_a.sum()), int(problem.support_b.sum())
    return Ended(np.zeros(n), np.zeros(m), 0.0, np.zeros(n), np.zeros(m), Certificate.of_nothing())

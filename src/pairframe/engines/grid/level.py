"""One resolution of a problem as vectors over the supports, with the two kernels between them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pairframe.engines.grid.cuda import CudaKernel
from pairframe.engines.grid.kernel import SupportKernel
from pairframe.problem import TransportProblem
from pairframe.problem.translation import best_translation

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]
_SMALL_SHIFT = 1e-2  # translations below this many eps are skipped where potentials are pinned


@dataclass
class Point:
    """Where a solve stands, over the supports.

    The potentials are ``f + shift`` and ``g - shift``. With unequal masses the shift is of the order of lam, which may be
    1e7 times the cost; kept apart it takes no digits from the exponents, which depend on f + g only.
    """

    f: Float  # (n_a,)
    g: Float  # (n_b,), the best answer to f
    shift: float
    update_b: Float  # (n_b,), the g that would make b's marginal exact
    marginal_b: Float
    dual: float
    asked_a: Float  # the marginal that a's potential asks for
    residual_b: float = np.inf
    update_a: Float | None = None  # these three are filled by the second half of a round
    marginal_a: Float | None = None
    residual: float = np.inf

    @property
    def potential_a(self) -> Float:
        return self.f + self.shift

    @property
    def potential_b(self) -> Float:
        return self.g - self.shift


class Level:
    """A problem at one resolution.

    Parameters
    ----------
    problem : TransportProblem
        Squared Euclidean.
    dtype : {"float64", "float32"}
        Of the kernel's inner products.
    """

    def __init__(self, problem: TransportProblem, dtype: str = "float64", device: str | None = None) -> None:
        self.problem = problem
        on_a, on_b = problem.support_a, problem.support_b
        self.epsilon = problem.epsilon
        self.mass_a, self.mass_b = problem.mass_a[on_a], problem.mass_b[on_b]
        self._log_u, self._log_v = problem.log_u[on_a], problem.log_v[on_b]
        self._log_a_over_u, self._log_b_over_v = problem.log_a_over_u[on_a], problem.log_b_over_v[on_b]
        self._sum_at_b = _kernel(on_a, on_b, problem.epsilon, dtype, device)
        self._sum_at_a = _kernel(on_b, on_a, problem.epsilon, dtype, device)
        self._pins = any(side.kind in ("tv", "partial") for side in (problem.penalty_a, problem.penalty_b))
        self._both_kl = problem.penalty_a.kind == problem.penalty_b.kind == "kl"
        self.n_sums = 0

    def update_b(self, f: Float) -> Float:
        """The potential on b that would make its marginal exact, given `f`: one kernel application."""
        self.n_sums += 1
        return self.epsilon * (self._log_b_over_v - self._sum_at_b.log_sum(self._log_u + f / self.epsilon))

    def update_a(self, g: Float) -> Float:
        """The same on a, given `g`."""
        self.n_sums += 1
        return self.epsilon * (self._log_a_over_u - self._sum_at_a.log_sum(self._log_v + g / self.epsilon))

    def mean_at_a(self, g: Float, values_b: Float) -> Float:
        """Conditional mean of `values_b` (n_b,) given x under the plan of `g`: (n_a,), one kernel application."""
        self.n_sums += 1
        _, (mean,) = self._sum_at_a.log_sum_and_means(self._log_v + g / self.epsilon, values_b[None])
        return np.asarray(mean)

    def spread_at_a(self, f: Float, g: Float) -> Float:
        """How far apart sources of one target pixel lie, seen from each source pixel: (n_a,) in px^2.

        ``E[Var(X | Y) / 2 | x]``, half the trace of the covariance: about ``eps/2`` where the plan moves mass rigidly, less
        where it spreads out. Two kernel applications.
        """
        self.n_sums += 2
        ys, xs = (index - index.mean() for index in np.nonzero(self.problem.support_a))
        channels = np.stack([ys, xs, ys**2 + xs**2])
        log_weight = self._log_u + f / self.epsilon
        mean_y, mean_x, mean_square = self._sum_at_b.log_sum_and_means(log_weight, channels)[1]
        spread_b = np.maximum(0.5 * (mean_square - mean_y**2 - mean_x**2), 0.0)
        _, (spread,) = self._sum_at_a.log_sum_and_means(self._log_v + g / self.epsilon, spread_b[None])
        return np.asarray(spread)

    def answer(self, f: Float, shift: float) -> Point:
        """First half of a round: the best g for `f`, the optimal translation of both, and the dual there."""
        problem, eps = self.problem, self.epsilon
        s = self.update_b(f)
        g = problem.penalty_b.update(s, eps, shift=-shift)
        point = self._answer_kl(f, g, shift, s) if self._both_kl else None
        if point is not None:
            return point
        q = self.mass_b * np.exp(np.minimum((g - s) / eps, 700.0))
        t = best_translation(problem.penalty_a, f + shift, self.mass_a, problem.penalty_b, g - shift, self.mass_b)
        # A small one would only push pinned potentials off their bounds.
        shift = shift if self._pins and abs(t) < _SMALL_SHIFT * eps else shift + t
        dual = (
            problem.penalty_a.dual_value(f + shift, self.mass_a)
            + problem.penalty_b.dual_value(g - shift, self.mass_b)
            - eps * (float(q.sum()) - problem.total_reference)
        )
        point = Point(f, g, shift, s, q, dual, problem.penalty_a.optimal_marginal(f + shift, self.mass_a))
        off = problem.penalty_b.residual(q, point.potential_b, self.mass_b)
        point.residual_b = relative(off, problem.total_b, float(q.sum()))
        return point

    def _answer_kl(self, f: Float, g: Float, shift: float, s: Float) -> Point | None:
        """The same for ``kl`` on both sides, where two exponentials give marginals, translation and dual at once.

        None where they leave float64: far apart and far beyond the reach, before the first translation.
        """
        problem = self.problem
        lam_a, lam_b = problem.penalty_a.strength, problem.penalty_b.strength
        with np.errstate(over="ignore"):
            asked_a = self.mass_a * np.exp((f + shift) / -lam_a)
            q = self.mass_b * np.exp((g - shift) / -lam_b)  # g answers f, so b has what g asks for
        total_a, total_b = float(asked_a.sum()), float(q.sum())
        if not (0.0 < total_a < math.inf and 0.0 < total_b < math.inf):
            return None
        t = lam_a * (lam_b / (lam_a + lam_b)) * math.log(total_a / total_b)
        factor_a, factor_b = math.exp(-t / lam_a), math.exp(t / lam_b)
        dual = (
            lam_a * (problem.total_a - factor_a * total_a)
            + lam_b * (problem.total_b - factor_b * total_b)
            - self.epsilon * (total_b - problem.total_reference)
        )
        point = Point(f, g, shift + t, s, q, dual, factor_a * asked_a)
        point.residual_b = relative(abs(factor_b - 1.0) * total_b, problem.total_b, total_b)
        return point

    def complete(self, point: Point) -> Float:
        """Second half: the marginal on a and the residual; returns the plain next f."""
        penalty = self.problem.penalty_a
        s = self.update_a(point.g)
        with np.errstate(over="ignore"):
            p = self.mass_a * np.exp((point.f - s) / self.epsilon)
        point.update_a, point.marginal_a = s, p
        if penalty.kind in ("kl", "balanced"):
            off = float(np.abs(p - point.asked_a).sum())
        else:
            off = penalty.residual(p, point.potential_a, self.mass_a)
        carried = float(point.marginal_b.sum())
        point.residual = max(relative(off, self.problem.total_a, carried), point.residual_b)
        return penalty.update(s, self.epsilon, shift=point.shift)


def relative(off: float, total: float, carried: float) -> float:
    """A marginal's misfit over the mass it concerns: the side's own, or the plan's where that is less.

    A plan between a huge and a tiny mass carries the tiny one: an error small beside the huge one may be all of it.
    """
    scale = min(total, carried)
    return off / scale if scale > 0 else (0.0 if off == 0 else math.inf)


def _kernel(
    support_in: Bool, support_out: Bool, epsilon: float, dtype: str, device: str | None
) -> SupportKernel | CudaKernel:
    """The sums of one direction, on the CPU or on a GPU."""
    if device in (None, "cpu"):
        return SupportKernel(support_in, support_out, epsilon, dtype)
    return CudaKernel(support_in, support_out, epsilon, dtype, device)

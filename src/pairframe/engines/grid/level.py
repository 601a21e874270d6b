"""One resolution of a problem as vectors over the supports, with the two kernels between them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from pairframe.engines.grid.cuda import CudaKernel
from pairframe.engines.grid.kernel import SupportKernel
from pairframe.engines.grid.stored import StoredKernel, StoredSide, plain_rounds, stored_kernel
from pairframe.problem import KL, Penalty, Potentials, TransportProblem
from pairframe.problem.translation import best_answered_translation, best_translation
from pairframe.types import Bool, Float

# Translations are not made for a smaller imbalance of both marginals: relative to the mass, and to the last residual.
_SMALLEST_IMBALANCE, _IMBALANCE = 1e-12, 0.02
_ROUNDING = 8 * 2.0**-52  # of a sum of many terms


@dataclass(frozen=True, eq=False)
class HalfRound:
    """Potentials of which g is the best answer to f and the shift is optimal, and the dual there.

    Attributes
    ----------
    potentials : Potentials
    update_b : (n_b,)
        The g that would make b's marginal exact.
    marginal_b : (n_b,)
    dual : float
    dual_noise : float
        Rounding error of the dual, whose terms may be far larger than itself.
    optimal_a : (n_a,)
        The marginal that is optimal for a's potential.
    residual_b : float
        Relative misfit of b's marginal.
    """

    potentials: Potentials
    update_b: Float
    marginal_b: Float
    dual: float
    dual_noise: float
    optimal_a: Float
    residual_b: float


@dataclass(frozen=True, eq=False)
class Round(HalfRound):
    """The same after the second half.

    Attributes
    ----------
    update_a : (n_a,)
        The f that would make a's marginal exact.
    marginal_a : (n_a,)
    residual : float
        The larger relative misfit of both marginals.
    next_f : (n_a,)
        The plain next f: the best answer to g.
    next_shift : float
        The shift that is best for `next_f`.
    """

    update_a: Float
    marginal_a: Float
    residual: float
    next_f: Float
    next_shift: float


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
        is_one = problem.mass_a is problem.mass_b  # a measure against itself
        self._log_u, self._log_v = problem.log_factors()
        self._log_a_over_u = np.log(self.mass_a) - self._log_u
        self._log_b_over_v = self._log_a_over_u if is_one else np.log(self.mass_b) - self._log_v
        self._sum_at_b = _kernel(on_a, on_b, problem, dtype, device)
        self._sum_at_a = self._sum_at_b if is_one else _kernel(on_b, on_a, problem, dtype, device)
        self._pins = problem.penalty_a.pins or problem.penalty_b.pins
        self._both_kl = type(problem.penalty_a) is type(problem.penalty_b) is KL
        self.n_sums = 0
        self._residual = 0.0  # of the last round: translations need not be better

    def forget_round(self) -> None:
        """Make the next round independent of those before."""
        self._residual = 0.0
        for kernel in (self._sum_at_a, self._sum_at_b):
            kernel.forget()

    def plain_start(self, goal: float, most: int) -> Float | None:
        """The potential on a, (n_a,), from plain rounds to a residual of about `goal`; None if they fail or the kernels are not stored."""
        if not (isinstance(self._sum_at_a, StoredKernel) and isinstance(self._sum_at_b, StoredKernel)) or most < 2:
            return None
        problem = self.problem
        a = b = StoredSide(self.mass_a, self._log_u, self._log_a_over_u, problem.penalty_a)
        if not problem.is_symmetric:
            b = StoredSide(self.mass_b, self._log_v, self._log_b_over_v, problem.penalty_b)
        f, n_sums = plain_rounds(a, b, self._sum_at_a, self._sum_at_b, self.epsilon, goal, most)
        self.n_sums += n_sums
        return f

    def update_b(self, f: Float) -> Float:
        """The potential on b that would make its marginal exact, given `f`: one kernel application."""
        self.n_sums += 1
        return self.epsilon * (self._log_b_over_v - self._sum_at_b.log_sum(self._log_u + f / self.epsilon))

    def update_a(self, g: Float) -> Float:
        """The potential on a that would make its marginal exact, given `g`: one kernel application."""
        self.n_sums += 1
        return self.epsilon * (self._log_a_over_u - self._sum_at_a.log_sum(self._log_v + g / self.epsilon))

    def spread_at_a(self, f: Float, g: Float) -> Float:
        """Spread of the sources that share a target pixel, as a mean at each source pixel: (n_a,) in px^2.

        ``E[Var(X | Y) | x]`` as a mean over the axes: about ``eps/2`` where the plan moves mass rigidly, less where it
        spreads out. Two kernel applications.
        """
        self.n_sums += 2
        positions = self.problem.positions(self.problem.support_a).T
        centred = positions - positions.mean(axis=1, keepdims=True)
        channels = np.stack([*centred, (centred**2).sum(axis=0)])
        log_weight = self._log_u + f / self.epsilon
        *means, mean_square = self._sum_at_b.log_sum_and_means(log_weight, channels)[1]
        variance = mean_square
        for mean in means:
            variance = variance - mean**2
        spread_b = np.maximum(variance / len(self.problem.long_axes), 0.0)
        _, (spread,) = self._sum_at_a.log_sum_and_means(self._log_v + g / self.epsilon, spread_b[None])
        return np.asarray(spread)

    def answer(self, f: Float, shift: float) -> HalfRound:
        """First half of a round: the best g for `f`, the optimal translation of both, and the dual there."""
        problem, eps = self.problem, self.epsilon
        s = self.update_b(f)
        start = Potentials(f, problem.penalty_b.update(s, eps, shift=-shift), shift)
        half = self._answer_kl(start, s) if self._both_kl else None
        if half is not None:
            return half
        if self._pins:
            t = self._translation(problem.penalty_a, start.a, self.mass_a, problem.penalty_b, s - shift, self.mass_b)
            potentials = Potentials(f, problem.penalty_b.update(s, eps, shift=-shift - t), shift + t) if t else start
        else:
            t = best_translation(problem.penalty_a, start.a, self.mass_a, problem.penalty_b, start.b, self.mass_b)
            potentials = replace(start, shift=shift + t)
        q = self.mass_b * np.exp(np.minimum((potentials.g - s) / eps, 700.0))
        dual_a = problem.penalty_a.dual_value(potentials.a, self.mass_a)
        dual_b = problem.penalty_b.dual_value(potentials.b, self.mass_b)
        off = problem.penalty_b.residual(q, potentials.b, self.mass_b)
        return HalfRound(
            potentials=potentials,
            update_b=s,
            marginal_b=q,
            dual=dual_a + dual_b - eps * (float(q.sum()) - problem.total_reference),
            dual_noise=_ROUNDING * (abs(dual_a) + abs(dual_b)),
            optimal_a=problem.penalty_a.optimal_marginal(potentials.a, self.mass_a),
            residual_b=relative(off, problem.total_b, float(q.sum())),
        )

    def _answer_kl(self, start: Potentials, s: Float) -> HalfRound | None:
        """The same for ``kl`` on both sides, where two exponentials give marginals, translation and dual at once.

        None if they overflow or underflow: masses far beyond the reach, before the first translation.
        """
        problem = self.problem
        lam_a, lam_b = problem.penalty_a.marginal_relaxation, problem.penalty_b.marginal_relaxation
        with np.errstate(over="ignore"):
            optimal_a = self.mass_a * np.exp(start.a / -lam_a)
            q = self.mass_b * np.exp(start.b / -lam_b)  # g is the best answer to f, so q is optimal for g
        total_a, total_b = float(optimal_a.sum()), float(q.sum())
        if not (0.0 < total_a < math.inf and 0.0 < total_b < math.inf):
            return None
        t = lam_a * (lam_b / (lam_a + lam_b)) * math.log(total_a / total_b)
        factor_a, factor_b = math.exp(-t / lam_a), math.exp(t / lam_b)
        dual = (
            lam_a * (problem.total_a - factor_a * total_a)
            + lam_b * (problem.total_b - factor_b * total_b)
            - self.epsilon * (total_b - problem.total_reference)
        )
        return HalfRound(
            potentials=replace(start, shift=start.shift + t),
            update_b=s,
            marginal_b=q,
            dual=dual,
            dual_noise=_ROUNDING
            * (lam_a * (problem.total_a + factor_a * total_a) + lam_b * (problem.total_b + factor_b * total_b)),
            optimal_a=factor_a * optimal_a,
            residual_b=relative(abs(factor_b - 1.0) * total_b, problem.total_b, total_b),
        )

    def _translation(
        self, penalty_a: Penalty, f: Float, mass_a: Float, penalty_b: Penalty, s: Float, mass_b: Float
    ) -> float:
        """The best t for potentials f + t and the best answer to it, from the `s` that answers f exactly."""
        tolerance = max(_SMALLEST_IMBALANCE, _IMBALANCE * min(self._residual, 1.0)) * min(
            self.problem.total_a, self.problem.total_b
        )
        return best_answered_translation(penalty_a, f, mass_a, penalty_b, s, mass_b, self.epsilon, tolerance)

    def complete(self, half: HalfRound) -> Round:
        """Second half: the marginal on a, the residual, and the plain next f."""
        penalty, potentials = self.problem.penalty_a, half.potentials
        s = self.update_a(potentials.g)
        with np.errstate(over="ignore"):
            p = self.mass_a * np.exp((potentials.f - s) / self.epsilon)
        if penalty.pins:  # several marginals are optimal at a bound
            off = penalty.residual(p, potentials.a, self.mass_a)
        else:
            off = float(np.abs(p - half.optimal_a).sum())
        carried = float(half.marginal_b.sum())
        residual = max(relative(off, self.problem.total_a, carried), half.residual_b)
        self._residual = residual if math.isfinite(residual) else 0.0
        next_shift = potentials.shift
        if self._pins:
            next_shift -= self._translation(
                self.problem.penalty_b, potentials.b, self.mass_b, penalty, s + potentials.shift, self.mass_a
            )
        return Round(
            **vars(half),
            update_a=s,
            marginal_a=p,
            residual=residual,
            next_f=penalty.update(s, self.epsilon, shift=next_shift),
            next_shift=next_shift,
        )

    def means_at_b(self, half: HalfRound, channels: Float) -> Float:
        """Means of `channels` (c, n_a) over the sources of each target, (c, n_b): one kernel application."""
        self.n_sums += 1
        return self._sum_at_b.log_sum_and_means(self._log_u + half.potentials.f / self.epsilon, channels)[1]

    def means_at_a(self, half: HalfRound, channels: Float) -> Float:
        """Means of `channels` (c, n_b) over the targets of each source, (c, n_a): one kernel application."""
        self.n_sums += 1
        return self._sum_at_a.log_sum_and_means(self._log_v + half.potentials.g / self.epsilon, channels)[1]

    def release_large_buffers(self) -> None:
        """Free what the kernels of a large level keep between calls; the next call makes it again."""
        for kernel in (self._sum_at_a, self._sum_at_b):
            kernel.release_large_buffers()

    def log_scales(self, potentials: Potentials) -> tuple[Float, Float]:
        """(n_a,), (n_b,): the plan is ``exp(one_i + other_j - C_ij / eps)``."""
        return self._log_u + potentials.f / self.epsilon, self._log_v + potentials.g / self.epsilon


def relative(off: float, total: float, carried: float) -> float:
    """A marginal's error relative to the mass of its side, or to the plan's if that is less.

    A plan between a huge and a tiny mass carries the tiny one: an error small beside the huge one may be all of it.
    """
    scale = min(total, carried)
    return off / scale if scale > 0 else (0.0 if off == 0 else math.inf)


def _kernel(
    support_in: Bool, support_out: Bool, problem: TransportProblem, dtype: str, device: str | None
) -> SupportKernel | StoredKernel | CudaKernel:
    """The sums of one direction, on the CPU or on a GPU."""
    if device in (None, "cpu"):
        stored = (
            stored_kernel(support_in, support_out, problem.epsilon, problem.spacing) if dtype == "float64" else None
        )
        if stored is not None:
            return stored
        return SupportKernel(support_in, support_out, problem.epsilon, dtype, problem.spacing)
    return CudaKernel(support_in, support_out, problem.epsilon, dtype, device)

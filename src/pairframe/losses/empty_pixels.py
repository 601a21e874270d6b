"""Derivatives at empty pixels: those of a little mass m there, one pixel at a time.

With K = sum_j v_j e^((g_j - C_ij)/eps) over the mass of the other side, a pixel of mass m has the potential f that its penalty makes
of ``eps log(m/u) - eps log K``. In a self-problem m is on the other side too and can stay where it is: with x = f/eps, K becomes
K + sqrt(m/z) e^x. A few blurs away that is nearly all of it, however small m is, and f is the same everywhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pairframe.problem import KL, Penalty
from pairframe.types import Float

# Near the image the derivative at this share of the mean mass is the limit at no mass for `balanced` and `partial`. Far away, and
# for `kl`, no mass that a number can hold is close to the limit: see `docs/image_loss.md`.
NEARLY_EMPTY = 1e-6
_ALONE = 37.0  # terms farther apart than that factor of e add up to the larger one


@dataclass(frozen=True)
class LittleMass:
    """A little mass in one empty pixel.

    Parameters
    ----------
    log_mass, log_z : float
        Logarithms of m and of the lattice sum z of the reference.
    penalty : Penalty
    epsilon : float
        In px^2.
    """

    log_mass: float
    log_z: float
    penalty: Penalty
    epsilon: float

    @property
    def _log_ratio(self) -> float:
        """log(m/u)."""
        return 0.5 * (self.log_mass + self.log_z)

    @property
    def _log_own(self) -> float:
        """log sqrt(m/z)."""
        return 0.5 * (self.log_mass - self.log_z)

    @property
    def _slope(self) -> float:
        """Of the exponent that the penalty asks for, by x."""
        return 1.0 + self.epsilon / self.penalty.marginal_relaxation if isinstance(self.penalty, KL) else 1.0

    @property
    def _far_exponent(self) -> float:
        """The x of a self-problem where K is nothing."""
        return (self._log_ratio - self._log_own) / (self._slope + 1.0)

    def against_another(self, log_sum: Float) -> tuple[Float, Float | None]:
        """Potentials (n,) where log K is `log_sum`, and if they have bounds the shares of the mass that are moved."""
        f = self.penalty.update(self.epsilon * (self._log_ratio - log_sum), self.epsilon)
        return f, self._share(f, log_sum)

    def against_itself(self, log_sum: Float) -> tuple[Float, Float | None]:
        """The same in a self-problem; -inf is far from all other mass."""
        x = self._own_exponent(log_sum)
        f = self.penalty.admissible(self.epsilon * x)
        return f, self._share(
            f, np.logaddexp(log_sum, self._log_own + f / self.epsilon) if self.penalty.pins else log_sum
        )

    def far_px(self, log_v: Float) -> float:
        """How far from mass with scalings e^`log_v`, (n,), a self-problem does not see it: at most that share of a sum."""
        top = float(log_v.max())
        log_most = top + math.log(float(np.exp(log_v - top).sum()))
        return math.sqrt(max(self.epsilon * (log_most - self._log_own - self._far_exponent + _ALONE), 0.0))

    def _share(self, f: Float, log_sum: Float) -> Float | None:
        """The marginal of the plan over the mass: of no use but at a bound."""
        if not self.penalty.pins:
            return None
        return np.asarray(np.exp(np.minimum(f / self.epsilon + log_sum - self._log_ratio, 0.0)))

    def _own_exponent(self, log_sum: Float) -> Float:
        """The roots x, (n,), of ``slope x + log(e^log_sum + e^(log_own + x)) = log_ratio``.

        Near and far pixels see one term of the sum only, and the others take a few steps of Newton's method: from the left of a
        convex function the first step goes to the right of the root, and all others come down to it.
        """
        slope, log_own, log_ratio = self._slope, self._log_own, self._log_ratio
        x = np.minimum((log_ratio - log_sum) / slope, self._far_exponent)
        between = np.flatnonzero(np.abs(log_own + x - log_sum) < _ALONE)
        k, y = log_sum[between], x[between]
        for _ in range(50 if between.size else 0):
            own = np.exp(log_own + y - k)  # relative to e^log_sum
            step = (log_ratio - slope * y - k - np.log1p(own)) / (slope + own / (1.0 + own))
            y += step
            if np.abs(step).max() <= 1e-14 * (1.0 + np.abs(y).max()):
                break
        x[between] = y
        return x

"""The update that every gradient mode differentiates, on vectors: from log sums to potentials, and the translation.

One iteration is f = factor_a eps (log a - S), S_i = log sum_j exp((g_j - C_ij)/eps), then the same for g, then the optimal
translation (f + t, g - t) unless both sides are balanced. At its fixed point t = 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Rule:
    """What the potentials obey.

    Attributes
    ----------
    epsilon : float
        Cost units.
    tau_a, tau_b : float or None
        Strength of the KL penalty of each side, cost units; None is a hard marginal.
    """

    epsilon: float
    tau_a: float | None = None
    tau_b: float | None = None

    @property
    def factor_a(self) -> float:
        return 1.0 if self.tau_a is None else self.tau_a / (self.tau_a + self.epsilon)

    @property
    def factor_b(self) -> float:
        return 1.0 if self.tau_b is None else self.tau_b / (self.tau_b + self.epsilon)

    @property
    def is_balanced(self) -> bool:
        """Both marginals are hard: the potentials have a gauge."""
        return self.tau_a is None and self.tau_b is None

    def f_of(self, log_a: Tensor, row_log_sum: Tensor) -> Tensor:
        """The row potentials (B, N) of the rows' log sums; 0 where there is no mass or nothing to reach."""
        return _update(self.factor_a * self.epsilon, log_a, row_log_sum)

    def g_of(self, log_b: Tensor, col_log_sum: Tensor) -> Tensor:
        """The column potentials (B, M) of the columns' log sums."""
        return _update(self.factor_b * self.epsilon, log_b, col_log_sum)

    def exponent(self, log_mass: Tensor, potential: Tensor) -> Tensor:
        """potential/epsilon, -inf where there is no mass."""
        return torch.where(log_mass > -torch.inf, potential / self.epsilon, -torch.inf)

    def asked(self, log_mass: Tensor, potential: Tensor, tau: float | None) -> Tensor:
        """The marginal that a potential of a side asks for: a e^(-f/tau), or a itself."""
        return torch.exp(log_mass if tau is None else log_mass - potential / tau)

    def translation(self, f: Tensor, g: Tensor, log_a: Tensor, log_b: Tensor) -> Tensor:
        """The t (B,) for which (f + t, g - t) has the largest dual; 0 if both sides are balanced."""
        if self.is_balanced:
            return torch.zeros_like(f[:, 0])
        side_a = log_sum(log_a if self.tau_a is None else log_a - f / self.tau_a)
        side_b = log_sum(log_b if self.tau_b is None else log_b - g / self.tau_b)
        return self.translation_scale * (side_a - side_b)

    @property
    def translation_scale(self) -> float:
        """ta tb/(ta + tb), or the one tau there is."""
        if self.tau_a is None or self.tau_b is None:
            return self.tau_a or self.tau_b or 0.0
        return self.tau_a * self.tau_b / (self.tau_a + self.tau_b)


def log_sum(log_mass: Tensor) -> Tensor:
    """log sum exp over the last axis; -inf entries get gradient 0."""
    return torch.logsumexp(log_mass, -1)


def shifted(potential: Tensor, shift: Tensor, log_mass: Tensor) -> Tensor:
    """potential + shift (B,) where there is mass, 0 elsewhere."""
    return torch.where(log_mass > -torch.inf, potential + shift.unsqueeze(-1), 0.0)


def _update(scale: float, log_mass: Tensor, sums: Tensor) -> Tensor:
    on = (log_mass > -torch.inf) & (sums > -torch.inf)
    # The inner where keeps -inf out of the difference: its derivative would be NaN times 0.
    return torch.where(on, scale * (torch.where(on, log_mass, 0.0) - torch.where(on, sums, 0.0)), 0.0)

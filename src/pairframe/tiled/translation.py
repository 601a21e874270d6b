"""The optimal translation (f + t, g - t), and sums whose rounding does not depend on trailing padding."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

_CHUNK = 512
_RESTING = 8 * torch.finfo(torch.float64).eps


def padded_sum(values: Tensor) -> Tensor:
    """Sum of (B, n) over n, (B,), in float64: chunks of fixed length, one after the other.

    Trailing zeros change no bit of it, however many.
    """
    values = values.double()
    missing = -values.shape[1] % _CHUNK
    if missing:
        values = torch.nn.functional.pad(values, (0, missing))
    return values.view(values.shape[0], -1, _CHUNK).sum(2).cumsum(1)[:, -1]


def padded_log_sum(exponents: Tensor) -> Tensor:
    """log sum exp of (B, n) over n, (B,), in float64; -inf where all are -inf."""
    exponents = exponents.double()
    top = exponents.amax(1)
    top = torch.where(torch.isfinite(top), top, 0.0)
    return top + padded_sum(torch.exp(exponents - top.unsqueeze(1))).log()


@dataclass(frozen=True, eq=False)
class Side:
    """What one side of the problem asks for; everything in units of epsilon.

    A potential is f = f0 + shift: the plan depends on f0 alone, and with unequal masses the shift is of the order of
    tau, which may be a million times the cost. Kept apart it takes no digits from the exponents.

    Attributes
    ----------
    log_mass : (B, n)
        -inf where there is no mass.
    log_reference : (B, n)
        log u; finite.
    tau : float or None
        Penalty strength over epsilon; None for a hard marginal.
    """

    log_mass: Tensor
    log_reference: Tensor
    tau: float | None

    @property
    def damping(self) -> float:
        """tau/(tau + eps); 1 for a hard marginal."""
        return 1.0 if self.tau is None else self.tau / (self.tau + 1.0)

    @property
    def undamped(self) -> float:
        """eps/(tau + eps), without the cancellation of 1 - damping."""
        return 0.0 if self.tau is None else 1.0 / (self.tau + 1.0)

    @cached_property
    def mass(self) -> Tensor:
        """(B, n), float64."""
        return torch.exp(self.log_mass.double())

    @cached_property
    def total(self) -> Tensor:
        """(B,), float64."""
        return padded_sum(self.mass)

    @cached_property
    def empty(self) -> Tensor:
        """(B, n), bool: where there is no mass."""
        return torch.isneginf(self.log_mass)

    def exponents(self, f0: Tensor) -> Tensor:
        """f0 + log u where there is mass, else -inf (B, n)."""
        return (f0 + self.log_reference).masked_fill_(self.empty, -math.inf)

    def potential(self, exponents: Tensor) -> Tensor:
        """f0 of these exponents (B, n); 0 where there is no mass."""
        return (exponents - self.log_reference).masked_fill_(torch.isneginf(exponents), 0.0)

    def update_base(self, shift: Tensor) -> Tensor:
        """The part of the updated exponents that does not depend on the log sums, (B, n).

        f = damping (log(a/u) - log_sum), with f0 = f - shift: exponents = base - damping log_sum.
        """
        if self.tau is None:
            return self._update_base
        return self._update_base - (self.undamped * shift).unsqueeze(1).to(self.log_mass.dtype)

    @cached_property
    def _update_base(self) -> Tensor:
        return self.damping * (self.log_mass - self.log_reference) + self.log_reference

    def log_asked(self, f0: Tensor, shift: Tensor) -> Tensor:
        """log of the marginal that the potential asks for: a e^(-f/tau), or a itself (B, n), float64."""
        log_mass = self.log_mass.double()
        return log_mass if self.tau is None else log_mass - (f0.double() + shift.unsqueeze(1)) / self.tau

    def log_asked_total(self, f0: Tensor, shift: Tensor) -> Tensor:
        """log of the sum of that marginal (B,), float64."""
        return torch.log(self.total) if self.tau is None else padded_log_sum(self.log_asked(f0, shift))

    def residual(self, log_marginal: Tensor, f0: Tensor, shift: Tensor) -> Tensor:
        """L1 distance of the marginal to what is asked for, relative to the side's mass (B,), float64."""
        asked = self.mass if self.tau is None else torch.exp(self.log_asked(f0, shift))
        return padded_sum((torch.exp(log_marginal.double()) - asked).abs_()) / self.total

    def dual_term(self, f0: Tensor, shift: Tensor) -> Tensor:
        """-D*(-f) over epsilon (B,), float64: <a, f>, or -tau sum a (e^(-f/tau) - 1)."""
        f = f0.double() + shift.unsqueeze(1)
        return padded_sum(self.mass * (f if self.tau is None else -self.tau * torch.expm1(-f / self.tau)))

    def select(self, kept: Tensor) -> Side:
        """The batch elements `kept` (k,)."""
        return replace(self, log_mass=self.log_mass[kept], log_reference=self.log_reference[kept])


def optimal_translation(a: Side, f0: Tensor, b: Side, g0: Tensor, shift: Tensor) -> Tensor:
    """The step t (B,) that maximises the dual over (f + t, g - t), for f = f0 + shift and g = g0 - shift."""
    if a.tau is None and b.tau is None:
        return torch.zeros_like(shift)
    asked_a, asked_b = a.log_asked_total(f0, shift), b.log_asked_total(g0, -shift)
    # The derivative of the dual is sum a e^(-(f+t)/tau_a) - sum b e^(-(g-t)/tau_b).
    rate = (0.0 if a.tau is None else 1.0 / a.tau) + (0.0 if b.tau is None else 1.0 / b.tau)
    step = (asked_a - asked_b) / rate
    # A shift of a million epsilons rounds at 1e-10: below that there is nothing to gain, and a loop would never rest.
    return torch.where(step.abs() <= _RESTING * shift.abs(), 0.0, step)

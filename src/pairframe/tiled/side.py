"""The update rule of one side of a problem, and the optimal translation between the two sides.

Everything is in units of epsilon, and autograd can differentiate all of it: entries without mass have gradient 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from pairframe.tiled.errors import TiledError
from pairframe.tiled.sums import padded_log_sum, padded_sum

PENALTIES = ("kl", "tv", "partial")
_AT_BOUND = 1e-9  # relative: a potential this close to its bound is on it
_RESTING = 8 * torch.finfo(torch.float64).eps
_BALANCED = 1e-14  # logarithms of two totals that are as good as equal


@dataclass(frozen=True, eq=False)
class Side:
    """Masses, reference and penalty of one side, in units of epsilon.

    A potential is f = f0 + shift. The plan depends on f0 alone. With unequal masses the shift is of the order of tau,
    which may be a million times the cost: kept apart, it takes no digits from the exponents.

    Attributes
    ----------
    log_mass : (B, n)
        -inf where there is no mass.
    log_reference : (B, n)
        log u; finite.
    tau : float or None
        tau/epsilon of the marginal penalty; None for a hard marginal.
    penalty : {"kl", "tv", "partial"}
        Of a soft marginal. The sharp ones, tau |p - a|_1 and the same with p <= a, bound the potential: f <= tau, and for ``tv``
        f >= -tau. Within the bounds the marginal is exact. They are not translated: the shift is 0.
    """

    log_mass: Tensor
    log_reference: Tensor
    tau: float | None
    penalty: str = "kl"

    @classmethod
    def of(
        cls, log_mass: Tensor, log_reference: Tensor | None, tau: float | None, epsilon: float, penalty: str = "kl"
    ) -> Side:
        """Build a side from tau in cost units; without a reference, u = 1 (``counting``)."""
        log_reference = torch.zeros_like(log_mass) if log_reference is None else log_reference
        return cls(log_mass, log_reference, None if tau is None else tau / epsilon, penalty)

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Of the potential, if the penalty is sharp."""
        if self.tau is None or self.penalty == "kl":
            return None
        return (-self.tau if self.penalty == "tv" else -math.inf), self.tau

    @property
    def damping(self) -> float:
        """tau/(tau + eps); 1 for a hard or sharp marginal."""
        return 1.0 if self.tau is None or self.bounds is not None else self.tau / (self.tau + 1.0)

    @property
    def undamped(self) -> float:
        """eps/(tau + eps), without the cancellation of 1 - damping."""
        return 0.0 if self.tau is None or self.bounds is not None else 1.0 / (self.tau + 1.0)

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
        """(B, n), bool: True where there is no mass."""
        return torch.isneginf(self.log_mass)

    @property
    def reference_total(self) -> Tensor:
        """Sum of u over the entries with mass, (B,) float64."""
        return padded_sum(torch.where(self.empty, 0.0, torch.exp(self.log_reference.double())))

    def exponents(self, f0: Tensor) -> Tensor:
        """f0 + log u where there is mass, else -inf (B, n)."""
        return (f0 + self.log_reference).masked_fill_(self.empty, -math.inf)

    def potential(self, exponents: Tensor) -> Tensor:
        """f0 of these exponents (B, n); 0 where there is no mass."""
        return (exponents - self.log_reference).masked_fill_(torch.isneginf(exponents), 0.0)

    def in_cost_units(self, f0: Tensor, shift: Tensor, epsilon: float) -> Tensor:
        """epsilon (f0 + shift), (B, n) in the dtype of f0; 0 where there is no mass."""
        f = epsilon * (f0.double() + shift.unsqueeze(1))
        return torch.where(self.empty, 0.0, f).to(f0.dtype)

    def update_base(self, shift: Tensor) -> Tensor:
        """The part of the updated exponents that does not depend on the log sums, (B, n).

        f = damping (log(a/u) - log_sum), with f0 = f - shift: exponents = base - damping log_sum.
        """
        if self.undamped == 0.0:
            return self._update_base
        return self._update_base - (self.undamped * shift).unsqueeze(1).to(self.log_mass.dtype)

    @cached_property
    def _update_base(self) -> Tensor:
        return self.damping * (self.log_mass - self.log_reference) + self.log_reference

    def updated(self, log_sums: Tensor, shift: Tensor) -> Tensor:
        """The update: new exponents (B, n) from this side's log sums (B, n) and shift (B,)."""
        return self.clipped(self.update(self.update_base(shift), log_sums), self.log_reference)

    def clipped(self, exponents: Tensor, log_reference: Tensor) -> Tensor:
        """Exponents of any part of the side with its potential within `bounds`; -inf stays."""
        if self.bounds is None:
            return exponents
        low, high = self.bounds
        inside = torch.clamp(exponents - log_reference, low, high) + log_reference
        return torch.where(torch.isneginf(exponents), exponents, inside)

    def update(self, base: Tensor, log_sums: Tensor) -> Tensor:
        """base - damping log_sums, for any part of the side; -inf where the sum is empty."""
        return torch.sub(base, log_sums, alpha=self.damping).masked_fill_(torch.isneginf(log_sums), -math.inf)

    def log_implied(self, f0: Tensor, shift: Tensor) -> Tensor:
        """Log of the marginal that the potential implies: a e^(-f/tau), or a if hard (B, n), float64."""
        log_mass = self.log_mass.double()
        return log_mass if self.tau is None else log_mass - (f0.double() + shift.unsqueeze(1)) / self.tau

    def log_implied_total(self, f0: Tensor, shift: Tensor) -> Tensor:
        """Log of the total of the implied marginal (B,), float64."""
        return torch.log(self.total) if self.tau is None else padded_log_sum(self.log_implied(f0, shift))

    def residual(self, log_marginal: Tensor, f0: Tensor, shift: Tensor) -> Tensor:
        """L1 distance between a marginal and the implied one, relative to the side's mass (B,), float64."""
        if self.bounds is not None:
            return self._sharp_residual(torch.exp(log_marginal.double()), f0.double() + shift.unsqueeze(1))
        implied = self.mass if self.tau is None else torch.exp(self.log_implied(f0, shift))
        return padded_sum((torch.exp(log_marginal.double()) - implied).abs_()) / self.total

    def _sharp_residual(self, marginal: Tensor, f: Tensor) -> Tensor:
        """The same for a sharp penalty: on its upper bound any p <= a is optimal, on the lower one any p >= a."""
        assert self.tau is not None
        near = (1.0 - _AT_BOUND) * self.tau
        off = marginal - self.mass
        off = torch.where(f >= near, off.clamp(min=0.0), off)
        off = torch.where(f <= -near, off.clamp(max=0.0), off) if self.penalty == "tv" else off
        return padded_sum(off.abs()) / self.total

    def dual_term(self, f0: Tensor, shift: Tensor) -> Tensor:
        """-D*(-f) over epsilon (B,), float64: <a, f> (within bounds), or -tau sum a (e^(-f/tau) - 1)."""
        f = f0.double() + shift.unsqueeze(1)
        if self.bounds is not None:
            return padded_sum(self.mass * f.clamp(*self.bounds))
        return padded_sum(self.mass * (f if self.tau is None else -self.tau * torch.expm1(-f / self.tau)))

    def select(self, kept: Tensor) -> Side:
        """The batch elements `kept` (k,)."""
        return replace(self, log_mass=self.log_mass[kept], log_reference=self.log_reference[kept])


def backend_of_penalty(penalty: Any, taus: tuple[float | None, float | None], backend: str) -> str:
    """Check a penalty; the backend that solves it: sharp ones run on the passes of torch."""
    if penalty not in PENALTIES:
        raise TiledError(f"a penalty: {', '.join(PENALTIES)}", repr(penalty), "use one of these names")
    if penalty == "kl":
        return backend
    if None in taus:
        raise TiledError(
            f'a finite tau_a and tau_b with penalty="{penalty}"', "a hard marginal", "give both, or use penalty='kl'"
        )
    if backend not in ("auto", "torch"):
        raise TiledError(
            f'backend="torch" with penalty="{penalty}"', f'"{backend}"', "leave backend out, or use penalty='kl'"
        )
    return "torch"


def translation_rate(a: Side, b: Side) -> float:
    """1/tau_a + 1/tau_b, without the terms of hard sides; 0 if both are hard."""
    return (0.0 if a.tau is None else 1.0 / a.tau) + (0.0 if b.tau is None else 1.0 / b.tau)


def optimal_translation(a: Side, f0: Tensor, b: Side, g0: Tensor, shift: Tensor) -> Tensor:
    """The step t (B,) that maximises the dual over (f + t, g - t), for f = f0 + shift and g = g0 - shift."""
    if (a.tau is None and b.tau is None) or a.bounds is not None or b.bounds is not None:
        return torch.zeros_like(shift)
    # The derivative of the dual is sum a e^(-(f+t)/tau_a) - sum b e^(-(g-t)/tau_b).
    imbalance = a.log_implied_total(f0, shift) - b.log_implied_total(g0, -shift)
    step = imbalance / translation_rate(a, b)
    # A shift of a million epsilons rounds at 1e-10, and a large tau multiplies the rounding of both totals. A smaller step gains
    # nothing and would keep the loop from coming to rest, so its value is taken out; its derivative stays.
    resting = (step.abs() <= _RESTING * shift.abs()) | (imbalance.abs() <= _BALANCED)
    return step - torch.where(resting, step, 0.0).detach()

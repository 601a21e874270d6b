"""The free constant of balanced problems, fixed in the same way in every mode.

Potentials of a balanced problem are defined up to (f + c, g - c), and its marginals may only move along sum da = sum db.
"""

from __future__ import annotations

import torch
from torch import Tensor


def fix_gauge(f: Tensor, g: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Shift to <f, a>/sum a = <g, b>/sum b, differentiably.

    Parameters
    ----------
    f, a : (B, N)
    g, b : (B, M)
        Potentials are 0 where there is no mass, and stay 0.
    """
    mean_f = (f * a).sum(1) / a.sum(1)
    mean_g = (g * b).sum(1) / b.sum(1)
    half = (0.5 * (mean_f - mean_g)).unsqueeze(1)
    return torch.where(a > 0, f - half, 0.0), torch.where(b > 0, g + half, 0.0)


def project_feasible(log_a: Tensor, log_b: Tensor, bar_a: Tensor, bar_b: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients with respect to masses (B, N), (B, M), projected on sum da = sum db.

    Off that subspace no plan has both marginals, and the derivative does not exist. The result is the shortest
    representative: its sum over the support of a equals its sum over the support of b. The gradients must be 0 on entries
    without mass.
    """
    on_a, on_b = log_a > -torch.inf, log_b > -torch.inf
    count = on_a.sum(-1) + on_b.sum(-1)
    excess = ((bar_a.sum(-1) - bar_b.sum(-1)) / count).unsqueeze(-1)
    return torch.where(on_a, bar_a - excess, 0.0), torch.where(on_b, bar_b + excess, 0.0)

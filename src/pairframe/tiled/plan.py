"""`Plan`: the transport plan of a solve as a linear operator, never stored."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from pairframe.tiled.backends import passes_of
from pairframe.tiled.cost import Cost
from pairframe.tiled.entry_point import entry_point
from pairframe.tiled.errors import TiledError
from pairframe.tiled.sums import padded_sum


@dataclass(frozen=True, eq=False)
class Plan:
    """P_ij = exp(log_a_hat_i + log_b_hat_j - C_ij/epsilon), applied tile by tile: ``P @ v``, ``P.T @ u``.

    Attributes
    ----------
    cost : Cost
        (B, N, M).
    epsilon : float
    log_a_hat, log_b_hat : (B, N), (B, M)
        -inf where there is no mass.
    backend : str
    """

    cost: Cost
    epsilon: float
    log_a_hat: Tensor
    log_b_hat: Tensor
    backend: str

    def __repr__(self) -> str:
        return f"Plan{self.shape}"

    @property
    def shape(self) -> tuple[int, int, int]:
        """B, N, M."""
        return self.cost.batch, self.cost.n, self.cost.m

    @property
    @entry_point
    def T(self) -> Plan:
        """The transposed plan (B, M, N)."""
        return replace(self, cost=self.cost.transposed(), log_a_hat=self.log_b_hat, log_b_hat=self.log_a_hat)

    @entry_point
    def __matmul__(self, v: Any) -> Tensor:
        """P v for v (B, M) or (B, M, k), as (B, N) or (B, N, k). It has no gradient."""
        batch, _, m = self.shape
        if not isinstance(v, Tensor) or v.shape[:2] != (batch, m) or v.dim() not in (2, 3):
            got = f"shape {tuple(v.shape)}" if isinstance(v, Tensor) else type(v).__name__
            raise TiledError(
                f"a tensor of shape {(batch, m)} or {(batch, m)} and k columns", got, "use P.T for the other side"
            )
        if v.device != self.cost.device:
            raise TiledError(f"a tensor on {self.cost.device}", str(v.device), "move it with .to(C.device)")
        columns = v.detach().to(self.cost.dtype).reshape(batch, m, -1)
        # What stands beside entries without mass, such as NaN in masked points, is not read.
        columns = columns.masked_fill(torch.isneginf(self.log_b_hat).unsqueeze(2), 0.0)
        passes = passes_of(self.backend)
        out: Tensor = passes.plan_times(self.cost, self.epsilon, self.log_a_hat, self.log_b_hat, columns)
        return out.squeeze(2) if v.dim() == 2 else out

    @entry_point
    def marginals(self) -> tuple[Tensor, Tensor]:
        """P1 (B, N) and P'1 (B, M), float64."""
        passes = passes_of(self.backend)
        rows = passes.log_sum_rows(self.cost, self.epsilon, self.log_b_hat)
        cols = passes.log_sum_cols(self.cost, self.epsilon, self.log_a_hat)
        return _marginal(self.log_a_hat, rows), _marginal(self.log_b_hat, cols)

    @entry_point
    def entropy(self) -> Tensor:
        """-sum P log P, (B,) float64; entries without mass add nothing."""
        p, q = self.marginals()
        passes = passes_of(self.backend)
        cost = passes.plan_cost_sum(self.cost, self.epsilon, self.log_a_hat, self.log_b_hat)
        logs = padded_sum(_times(p, self.log_a_hat)) + padded_sum(_times(q, self.log_b_hat))
        result: Tensor = cost / self.epsilon - logs
        return result


def _marginal(log_hat: Tensor, log_sum: Tensor) -> Tensor:
    off = torch.isneginf(log_hat) | torch.isneginf(log_sum)
    return torch.where(off, 0.0, torch.exp(log_hat.double() + log_sum.double()))


def _times(p: Tensor, logs: Tensor) -> Tensor:
    return torch.where(p > 0, p * torch.where(p > 0, logs.double(), 0.0), 0.0)

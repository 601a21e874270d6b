"""The gradient of a cost, summed over many plans in few passes.

The plan of any iteration is a reference plan times a factor per row and a factor per column. The sum over many iterations
is therefore the reference plan times a matrix of low rank: one exponential per entry and a matrix product for all of them.
If the factors would leave the range of the dtype, a term is added by a separate pass.
"""

from __future__ import annotations

from types import ModuleType

import torch
from torch import Tensor

from pairframe.tiled.cost import Cost, DenseCost

_MAX_RANK = 128
_STRIP_ENTRIES = 1 << 19
# A reference entry that underflows would contribute less than exp(this) times the smallest number, which is negligible.
SAFE_EXPONENT = {torch.float64: 300.0, torch.float32: 40.0}


class CostGradient:
    """Sums G_ij = exp(la_i + lb_j - C_ij/eps) (x_i + y_j) over many (la, lb, x, y).

    Parameters
    ----------
    cost : Cost
    reference_a, reference_b : (B, N), (B, M)
        Exponents of the reference plan; -inf where there is no mass.
    out : tuple of tensors
        From `empty_gradient`: (dC,), or (dX, dY); added to in place. Empty if no gradient is needed.
    """

    def __init__(
        self,
        cost: Cost,
        epsilon: float,
        reference_a: Tensor,
        reference_b: Tensor,
        passes: ModuleType,
        out: tuple[Tensor, ...],
    ) -> None:
        self.cost, self.epsilon, self.passes, self.out = cost, epsilon, passes, out
        self.reference_a, self.reference_b = reference_a, reference_b
        self.rows: list[Tensor] = []
        self.cols: list[Tensor] = []

    def add_rows(self, log_a_hat: Tensor, log_b_hat: Tensor, x: Tensor) -> None:
        """Add P_ij x_i."""
        self._add(log_a_hat, log_b_hat, x, None)

    def add_cols(self, log_a_hat: Tensor, log_b_hat: Tensor, y: Tensor) -> None:
        """Add P_ij y_j."""
        self._add(log_a_hat, log_b_hat, None, y)

    def _add(self, log_a_hat: Tensor, log_b_hat: Tensor, x: Tensor | None, y: Tensor | None) -> None:
        if not self.out:
            return
        ratio_a, ratio_b = difference(log_a_hat, self.reference_a), difference(log_b_hat, self.reference_b)
        top_a, top_b = ratio_a.amax(1, keepdim=True), ratio_b.amax(1, keepdim=True)
        if bool((top_a + top_b > SAFE_EXPONENT[self.cost.dtype]).any()):
            self._add_alone(log_a_hat, log_b_hat, x, y)
            return
        shift = torch.where((top_a > -torch.inf) & (top_b > -torch.inf), 0.5 * (top_b - top_a), 0.0)
        left, right = torch.exp(ratio_a + shift), torch.exp(ratio_b - shift)
        self.rows.append(left if x is None else left * x)
        self.cols.append(right if y is None else right * y)
        if len(self.rows) == _MAX_RANK:
            self.flush()

    def _add_alone(self, log_a_hat: Tensor, log_b_hat: Tensor, x: Tensor | None, y: Tensor | None) -> None:
        x = torch.zeros_like(log_a_hat) if x is None else x
        y = torch.zeros_like(log_b_hat) if y is None else y
        add_cost_gradient(self.cost, self.epsilon, log_a_hat, log_b_hat, x, y, self.passes, self.out)

    def flush(self) -> None:
        """Add the pending terms to `out`."""
        if not self.rows:
            return
        rows, cols = torch.stack(self.rows, 2), torch.stack(self.cols, 1)  # (B, N, k), (B, k, M)
        self.rows, self.cols = [], []
        height = max(1, _STRIP_ENTRIES // self.cost.m)
        for b in range(self.cost.batch):
            for i in range(0, self.cost.n, height):
                stop = min(i + height, self.cost.n)
                plan = self.cost.tile(b, i, stop, 0, self.cost.m).mul(-1.0 / self.epsilon)
                plan += self.reference_a[b, i:stop].unsqueeze(1)
                plan += self.reference_b[b]
                self._add_strip(b, slice(i, stop), plan.exp_().mul_(rows[b, i:stop] @ cols[b]))

    def _add_strip(self, b: int, i: slice, strip: Tensor) -> None:
        if isinstance(self.cost, DenseCost):
            self.out[0][b, i] += strip
            return
        x, y = self.cost.x[b, i].to(self.cost.dtype), self.cost.y[b].to(self.cost.dtype)
        centre = x[:1]  # relative to a point of the strip: far from the origin the two terms would cancel
        x, y = x - centre, y - centre
        self.out[0][b, i] += 2.0 * (strip.sum(1, keepdim=True) * x - strip @ y)
        self.out[1][b] -= 2.0 * (strip.T @ x - strip.sum(0).unsqueeze(1) * y)


def add_cost_gradient(
    cost: Cost,
    epsilon: float,
    log_a_hat: Tensor,
    log_b_hat: Tensor,
    x: Tensor,
    y: Tensor,
    passes: ModuleType,
    out: tuple[Tensor, ...],
) -> None:
    """Add P_ij (x_i + y_j), or its gradient with respect to the points, to `out` by one pass."""
    if isinstance(cost, DenseCost):
        passes.accumulate_cost_gradient(cost, epsilon, log_a_hat, log_b_hat, x, y, out=out[0])
        return
    for total, part in zip(
        out, passes.accumulate_cost_gradient(cost, epsilon, log_a_hat, log_b_hat, x, y), strict=True
    ):
        total += part


def empty_gradient(cost: Cost, wanted: bool) -> tuple[Tensor, ...]:
    """Zeros for dC (B, N, M), or for dX (B, N, d) and dY (B, M, d); empty if it is not needed."""
    if not wanted:
        return ()
    inputs = (cost.matrix,) if isinstance(cost, DenseCost) else (cost.x, cost.y)
    return tuple(torch.zeros(one.shape, dtype=cost.dtype, device=cost.device) for one in inputs)


def difference(exponents: Tensor, others: Tensor) -> Tensor:
    """exponents - others; -inf where either is."""
    on = (exponents > -torch.inf) & (others > -torch.inf)
    return torch.where(on, exponents - torch.where(on, others, 0.0), -torch.inf)

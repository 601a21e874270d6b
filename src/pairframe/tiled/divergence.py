"""The debiased Sinkhorn divergence between two measures: zero if they are equal."""

from __future__ import annotations

import torch
from torch import Tensor

from pairframe.tiled.differentiable import problem_value
from pairframe.tiled.entry_point import entry_point
from pairframe.tiled.errors import TiledError, warn_not_converged
from pairframe.tiled.inputs import check_stopping, check_storage, check_tau
from pairframe.tiled.side import backend_of_penalty
from pairframe.tiled.sinkhorn import prepared
from pairframe.tiled.transforms import refuse_mapped, refuse_tangents

Costs = tuple[Tensor, Tensor] | tuple[Tensor, Tensor, Tensor]


@entry_point
def divergence(
    C: Costs,
    a: Tensor | None = None,
    b: Tensor | None = None,
    epsilon: float = 0.1,
    tau_a: float | None = None,
    tau_b: float | None = None,
    mask_a: Tensor | None = None,
    mask_b: Tensor | None = None,
    backend: str = "auto",
    max_iters: int = 1000,
    threshold: float = 1e-6,
    reference: str = "counting",
    renormalize: bool = False,
    penalty: str = "kl",
) -> Tensor:
    """Compute S = U(a,b) - U(a,a)/2 - U(b,b)/2 + (eps/2)(sum u_a - sum u_b)^2, (B,) float64, from three solves.

    U is the optimal value of `sinkhorn`, and u_a (u_b) the side's own factor of the reference: ones for ``counting``,
    a/sqrt(M_a) for ``product``. The last term cancels what the mass of the reference adds to U. For any cost whose
    exp(-C/eps) is positive definite (squared distances are),
    ``S >= (eps/2) |u_a e^(f_aa/eps) - u_b e^(f_bb/eps)|_K^2 >= 0``. S is zero for equal measures with equal penalties, and
    below zero only by the error of the solves.

    Parameters
    ----------
    C : (x, y) or (C_ab, C_aa, C_bb)
        Points (B, N, d), (B, M, d), or the costs (B, N, M), (B, N, N), (B, M, M). The self-costs must be symmetric.
    a, b, epsilon, tau_a, tau_b, mask_a, mask_b, backend, max_iters, threshold, reference, renormalize, penalty
        As in `sinkhorn`. The self-problem of a has tau_a on both sides, that of b has tau_b.

    Notes
    -----
    S has gradients, by the envelope theorem, if an input requires them. A solve that stops early raises a
    `NotConvergedWarning`.
    """
    refuse_tangents("divergence", "use reverse mode: backward, torch.func.grad, jacrev", C, a, b)
    between, self_a, self_b = _three_costs(C, mask_a, mask_b)
    problems = (
        (between, (a, b), (mask_a, mask_b), (tau_a, tau_b)),
        (self_a, (a, a), (mask_a, mask_a), (tau_a, tau_a)),
        (self_b, (b, b), (mask_b, mask_b), (tau_b, tau_b)),
    )
    stopping = check_stopping(max_iters, threshold, 1)
    tensors = [one for one in (*C, a, b) if isinstance(one, Tensor)]
    # Each value leaves out eps sum u sum v, which the last term of S would cancel.
    if torch.is_grad_enabled() and any(one.requires_grad for one in tensors):
        values = [
            problem_value(
                cost,
                masses,
                masks,
                epsilon,
                taus,
                reference,
                backend,
                renormalize,
                stopping,
                with_reference=False,
                symmetric=k > 0,
                penalty=penalty,
            )
            for k, (cost, masses, masks, taus) in enumerate(problems)
        ]
        return values[0] - 0.5 * (values[1] + values[2])
    outputs = []
    with torch.no_grad():
        for k, (cost, masses, masks, taus) in enumerate(problems):
            backend = backend_of_penalty(penalty, (check_tau("tau_a", taus[0]), check_tau("tau_b", taus[1])), backend)
            problem = prepared(
                cost, masses, (None, None), masks, epsilon, taus, reference, backend, renormalize, penalty
            )
            loop = problem.loop
            outputs.append(problem.output(loop.run(stopping) if k == 0 else loop.run_symmetric(stopping)))
    failed = sum(int((~one.converged).sum()) for one in outputs)
    if failed:
        worst = max(float(one.marginal_error.max()) for one in outputs)
        warn_not_converged(
            f"{failed} of {3 * len(outputs[0].f)} solves stopped after {max_iters} iterations at a marginal error of up "
            f"to {worst:.1g}. To fix: raise max_iters or epsilon, or loosen threshold",
        )
    ab, aa, bb = (one.dual(with_reference=False) for one in outputs)
    return ab - 0.5 * (aa + bb)


def _three_costs(
    C: Costs, mask_a: Tensor | None, mask_b: Tensor | None
) -> tuple[Tensor | tuple[Tensor, Tensor], Tensor | tuple[Tensor, Tensor], Tensor | tuple[Tensor, Tensor]]:
    if not isinstance(C, tuple | list) or len(C) not in (2, 3) or not all(isinstance(one, Tensor) for one in C):
        raise TiledError(
            "points (x, y) or costs (C_ab, C_aa, C_bb)",
            f"a sequence of {len(C)}" if isinstance(C, tuple | list) else type(C).__name__,
            "pass the points, or all three costs: a divergence needs the self-costs too",
        )
    for one in C:
        check_storage("C", one)
    if len(C) == 2:
        return (C[0], C[1]), (C[0], C[0]), (C[1], C[1])
    for name, cost, mask in (("C_aa", C[1], mask_a), ("C_bb", C[2], mask_b)):
        refuse_mapped("divergence of stored costs", cost, mask)
        if cost.dim() != 3 or cost.shape[1] != cost.shape[2]:
            raise TiledError(
                f"{name} of shape (B, n, n)", f"shape {tuple(cost.shape)}", "pass the cost of this side to itself"
            )
        if not _is_symmetric(cost.detach(), mask):
            raise TiledError(f"a symmetric {name}", "entries C_ij that differ from C_ji", "use 0.5 * (C + C.mT)")
    return C[0], C[1], C[2]


def _is_symmetric(cost: Tensor, mask: Tensor | None, strip: int = 256) -> bool:
    """Whether a cost is symmetric up to rounding, ignoring masked entries; compares strip by strip."""
    known = mask is None or (isinstance(mask, Tensor) and mask.shape == cost.shape[:2] and mask.dtype == torch.bool)
    for i in range(0, cost.shape[1], strip):
        rows, cols = cost[:, i : i + strip], cost[:, :, i : i + strip].transpose(1, 2)
        if mask is not None and known:
            on = mask[:, i : i + strip].unsqueeze(2) & mask.unsqueeze(1)
            rows, cols = torch.where(on, rows, 0.0), torch.where(on, cols, 0.0)
        if not torch.allclose(rows, cols, rtol=1e-5, atol=1e-6, equal_nan=True):
            return False
    return True

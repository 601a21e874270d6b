"""The debiased value: how far two measures are apart, zero when they are equal."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from pairframe.tiled.differentiable import NotConvergedWarning, sinkhorn_value
from pairframe.tiled.errors import TiledError
from pairframe.tiled.inputs import check_positive, check_stopping, refuse_mapped
from pairframe.tiled.sinkhorn import prepared

Costs = tuple[Tensor, Tensor] | tuple[Tensor, Tensor, Tensor]


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
) -> Tensor:
    """S = U(a,b) - U(a,a)/2 - U(b,b)/2 + (eps/2)(sum u_a - sum u_b)^2, (B,) float64, from three solves.

    U is the optimal value of `sinkhorn`, and u_a (u_b) the side's own factor of the reference: ones for ``counting``,
    a/sqrt(M_a) for ``product``. The last term undoes what the mass of the reference adds to U, so that for any cost
    whose exp(-C/eps) is positive definite (squared distances are)
    ``S >= (eps/2) |u_a e^(f_aa/eps) - u_b e^(f_bb/eps)|_K^2 >= 0``: zero for equal measures with equal penalties, and only the error of the solves can bring it below.

    Parameters
    ----------
    C : (x, y) or (C_ab, C_aa, C_bb)
        Points (B, N, d), (B, M, d), or the costs (B, N, M), (B, N, N), (B, M, M). The self-costs must be symmetric.
    a, b, epsilon, tau_a, tau_b, mask_a, mask_b, backend, max_iters, threshold, reference
        As in `sinkhorn`. The self-problem of a has tau_a on both sides, that of b has tau_b.

    Notes
    -----
    Where an input requires a gradient, S has it, by the envelope theorem. Warns with `NotConvergedWarning` when a solve
    stopped early.
    """
    between, self_a, self_b = _three_costs(C, mask_a, mask_b)
    problems = (
        (between, (a, b), (mask_a, mask_b), (tau_a, tau_b)),
        (self_a, (a, a), (mask_a, mask_a), (tau_a, tau_a)),
        (self_b, (b, b), (mask_b, mask_b), (tau_b, tau_b)),
    )
    epsilon = check_positive("epsilon", epsilon)
    tensors = [one for one in (*C, a, b) if one is not None]
    # Without eps sum u sum v in each value, which the last term of S would have to take out again.
    if torch.is_grad_enabled() and any(one.requires_grad for one in tensors):
        values = [
            sinkhorn_value(
                cost,
                *masses,
                epsilon,
                tau_a=taus[0],
                tau_b=taus[1],
                mask_a=masks[0],
                mask_b=masks[1],
                max_iters=max_iters,
                threshold=threshold,
                reference=reference,
                backend=backend,
                symmetric=k > 0,
                with_reference=False,
            )
            for k, (cost, masses, masks, taus) in enumerate(problems)
        ]
        return values[0] - 0.5 * (values[1] + values[2])
    outputs = []
    stopping = check_stopping(max_iters, threshold, 1)
    with torch.no_grad():
        for k, (cost, masses, masks, taus) in enumerate(problems):
            problem = prepared(cost, masses, (None, None), masks, epsilon, taus, reference, backend)
            loop = problem.loop
            outputs.append(problem.output(loop.run(stopping) if k == 0 else loop.run_symmetric(stopping)))
    failed = sum(int((~one.converged).sum()) for one in outputs)
    if failed:
        worst = max(float(one.marginal_error.max()) for one in outputs)
        warnings.warn(
            f"{failed} of {3 * len(outputs[0].f)} solves stopped after {max_iters} iterations at a marginal error of up "
            f"to {worst:.1g}; raise max_iters or epsilon, or loosen threshold",
            NotConvergedWarning,
            stacklevel=2,
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
            "a divergence needs the self-costs too",
        )
    if len(C) == 2:
        return (C[0], C[1]), (C[0], C[0]), (C[1], C[1])
    for name, cost, mask in (("C_aa", C[1], mask_a), ("C_bb", C[2], mask_b)):
        refuse_mapped("divergence of stored costs", cost, mask)
        if cost.dim() != 3 or cost.shape[1] != cost.shape[2]:
            raise TiledError(f"{name} of shape (B, n, n)", f"shape {tuple(cost.shape)}", "give the cost to itself")
        if not _is_symmetric(cost.detach(), mask):
            raise TiledError(f"a symmetric {name}", "C_ij that differ from C_ji", "use 0.5 * (C + C.mT)")
    return C[0], C[1], C[2]


def _is_symmetric(cost: Tensor, mask: Tensor | None, strip: int = 256) -> bool:
    """Up to rounding, looked at strip by strip; masked entries may be anything."""
    known = mask is None or (isinstance(mask, Tensor) and mask.shape == cost.shape[:2] and mask.dtype == torch.bool)
    for i in range(0, cost.shape[1], strip):
        rows, cols = cost[:, i : i + strip], cost[:, :, i : i + strip].transpose(1, 2)
        if mask is not None and known:
            on = mask[:, i : i + strip].unsqueeze(2) & mask.unsqueeze(1)
            rows, cols = torch.where(on, rows, 0.0), torch.where(on, cols, 0.0)
        if not torch.allclose(rows, cols, rtol=1e-5, atol=1e-6, equal_nan=True):
            return False
    return True

"""The debiased value: how far two measures are apart, zero when they are equal."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from pairframe.tiled.differentiable import NotConvergedWarning, sinkhorn_value
from pairframe.tiled.errors import TiledError
from pairframe.tiled.inputs import check_positive, check_stopping
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
    between, self_a, self_b = _three_costs(C)
    problems = (
        (between, (a, b), (mask_a, mask_b), (tau_a, tau_b)),
        (self_a, (a, a), (mask_a, mask_a), (tau_a, tau_a)),
        (self_b, (b, b), (mask_b, mask_b), (tau_b, tau_b)),
    )
    epsilon = check_positive("epsilon", epsilon)
    tensors = [one for one in (*C, a, b) if one is not None]
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
            )
            for k, (cost, masses, masks, taus) in enumerate(problems)
        ]
        n, m = C[0].shape[1], C[-1].shape[1]
        totals = _reference_mass(a, mask_a, n, reference), _reference_mass(b, mask_b, m, reference)
        return values[0] - 0.5 * (values[1] + values[2]) + 0.5 * epsilon * (totals[0] - totals[1]) ** 2
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
    # Without eps sum u sum v in each, which the last term of S would have to take out again.
    ab, aa, bb = (one.dual(with_reference=False) for one in outputs)
    return ab - 0.5 * (aa + bb)


def _three_costs(
    C: Costs,
) -> tuple[Tensor | tuple[Tensor, Tensor], Tensor | tuple[Tensor, Tensor], Tensor | tuple[Tensor, Tensor]]:
    if not isinstance(C, tuple | list) or len(C) not in (2, 3) or not all(isinstance(one, Tensor) for one in C):
        raise TiledError(
            "points (x, y) or costs (C_ab, C_aa, C_bb)",
            f"a sequence of {len(C)}" if isinstance(C, tuple | list) else type(C).__name__,
            "a divergence needs the self-costs too",
        )
    if len(C) == 2:
        return (C[0], C[1]), (C[0], C[0]), (C[1], C[1])
    for name, cost in (("C_aa", C[1]), ("C_bb", C[2])):
        if cost.dim() != 3 or cost.shape[1] != cost.shape[2]:
            raise TiledError(f"{name} of shape (B, n, n)", f"shape {tuple(cost.shape)}", "give the cost to itself")
        if not _is_symmetric(cost.detach()):
            raise TiledError(f"a symmetric {name}", "C_ij that differ from C_ji", "use 0.5 * (C + C.mT)")
    return C[0], C[1], C[2]


def _reference_mass(mass: Tensor | None, mask: Tensor | None, n: int, reference: str) -> Tensor:
    """sum u of one side, (B,) or a constant, with its gradient."""
    if mass is None:
        count = torch.tensor(float(n)) if mask is None else mask.sum(1)
        return count.double() if reference == "counting" else torch.ones((), dtype=torch.float64, device=count.device)
    kept = mass.double() if mask is None else torch.where(mask, mass.double(), 0.0)
    return (kept.detach() > 0).sum(1).double() if reference == "counting" else kept.sum(1).sqrt()


def _is_symmetric(cost: Tensor, strip: int = 256) -> bool:
    """Up to rounding, looked at strip by strip."""
    for i in range(0, cost.shape[1], strip):
        rows, cols = cost[:, i : i + strip], cost[:, :, i : i + strip].transpose(1, 2)
        if not torch.allclose(rows, cols, rtol=1e-5, atol=1e-6, equal_nan=True):
            return False
    return True

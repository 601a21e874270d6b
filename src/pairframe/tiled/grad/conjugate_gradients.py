"""The adjoint of the optimality conditions, solved by conjugate gradients with one pass over the cost per step.

At the optimum a e^(-f/tau_a) = P1 and b e^(-g/tau_b) = P'1. Linearised, with D_p = (1 + eps/tau_a) p and D_q alike,

    [[D_p, P], [P', D_q]] (df, dg) = (sum_j P_ij dC_ij + eps p dlog a, sum_i P_ij dC_ij + eps q dlog b).

The matrix is symmetric, so the adjoint solves the same system. Eliminating x and scaling by sqrt(D_q) leaves
(I - K'K) w = r with K = D_p^-1/2 P D_q^-1/2. Balanced: K'K sqrt(q) = sqrt(q), the gauge, and r has no part along it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import ModuleType

import torch
from torch import Tensor

from pairframe.tiled.cost import Cost
from pairframe.tiled.grad.rule import Rule
from pairframe.tiled.strips import short_vectors

_MAX_STEPS = 1000
_FLOOR = {torch.float64: 1e-14, torch.float32: 1e-6}
_LOOSEST = 1e-8


class NotConvergedWarning(UserWarning):
    """A gradient is less exact than its mode promises, because a solve stopped early."""


def solve_adjoint(
    cost: Cost,
    rule: Rule,
    log_a_hat: Tensor,
    log_b_hat: Tensor,
    bar_f: Tensor,
    bar_g: Tensor,
    passes: ModuleType,
    threshold: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """x (B, N), y (B, M) of the system above for the right side (bar_f, bar_g), and the plan's marginals p, q.

    Parameters
    ----------
    log_a_hat, log_b_hat : (B, N), (B, M)
        Exponents of the plan; -inf where there is no mass. There x and y are 0.
    threshold : float
        What the forward solve stopped at; the residual here is 100 times smaller, and at most 1e-8.
    """
    plan = (cost, rule.epsilon, log_a_hat, log_b_hat)
    soft_a = 1.0 if rule.tau_a is None else 1.0 + rule.epsilon / rule.tau_a
    soft_b = 1.0 if rule.tau_b is None else 1.0 + rule.epsilon / rule.tau_b
    p = passes.plan_times(*plan, torch.ones_like(log_b_hat).unsqueeze(2)).squeeze(2)
    over_p = _inverse(soft_a * p)
    both = torch.stack((torch.ones_like(log_a_hat), over_p * bar_f), 2)
    q, sent = passes.plan_transposed_times(*plan, both).unbind(2)
    root = _inverse(soft_b * q).sqrt()
    gauge = torch.nn.functional.normalize(q.sqrt(), dim=1) if rule.is_balanced else torch.zeros_like(q)

    def operator(w: Tensor) -> tuple[Tensor, Tensor]:
        """(I - K'K) w, and P y of the y = w/sqrt(D_q)."""
        seen, back = passes.plan_gram(*plan, (root * w).unsqueeze(2), over_p)
        return _without(gauge, w - root * back.squeeze(2)), seen.squeeze(2)

    right = _without(gauge, root * torch.where(q > 0, bar_g - sent, 0.0))
    tolerance = max(_FLOOR[cost.dtype], min(_LOOSEST, 0.01 * threshold))
    with short_vectors():
        w, seen = _conjugate_gradients(operator, right, log_a_hat, tolerance)
    return over_p * (bar_f - seen), root * w, p, q


def _conjugate_gradients(
    operator: Callable[[Tensor], tuple[Tensor, Tensor]], right: Tensor, like_a: Tensor, tolerance: float
) -> tuple[Tensor, Tensor]:
    """w with operator(w) = right, and the accumulated P y; each element stops by itself."""
    w, seen = torch.zeros_like(right), torch.zeros_like(like_a)
    residual, direction = right.clone(), right.clone()
    square = residual.square().sum(1, keepdim=True)
    goal = tolerance**2 * square
    broken = torch.zeros_like(square, dtype=torch.bool)
    for _ in range(_MAX_STEPS):
        if not bool((square > goal).any()):
            if bool(broken.any()):
                _warn_of_parts()
            return w, seen
        image, image_seen = operator(direction)
        curvature = (direction * image).sum(1, keepdim=True)
        step = torch.where((square > goal) & (curvature > 0), square / curvature, 0.0)
        broken |= (square > goal) & ~(curvature > 0)
        w += step * direction
        seen += step * image_seen
        residual -= step * image
        new = torch.where(step > 0, residual.square().sum(1, keepdim=True), 0.0)
        direction = residual + torch.where(step > 0, new / square, 0.0) * direction
        square = new
    warnings.warn(
        f"the implicit gradient stopped after {_MAX_STEPS} conjugate gradient steps at a relative residual of "
        f"{float((square / right.square().sum(1, keepdim=True)).sqrt().max()):.1g} (wanted {tolerance:.1g}); "
        'raise epsilon, use float64, or use grad="checkpoint"',
        NotConvergedWarning,
        stacklevel=2,
    )
    return w, seen


def _warn_of_parts() -> None:
    warnings.warn(
        "the implicit gradient met a direction in which the potentials are not determined: the plan falls into parts "
        "that hardly exchange mass; losses in the plan are right, losses in f or g are not; raise epsilon, or use "
        'grad="checkpoint"',
        NotConvergedWarning,
        stacklevel=3,
    )


def _without(unit: Tensor, vector: Tensor) -> Tensor:
    return vector - (unit * vector).sum(1, keepdim=True) * unit


def _inverse(diagonal: Tensor) -> Tensor:
    """1/diagonal, 0 where it is 0: an entry without mass takes no part."""
    return torch.where(diagonal > 0, 1.0 / diagonal, 0.0)

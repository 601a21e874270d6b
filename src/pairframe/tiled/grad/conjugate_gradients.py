"""The adjoint of the optimality conditions, by conjugate gradients with one pass over the cost per step.

At the optimum a e^(-f/tau_a) = P1 and b e^(-g/tau_b) = P'1. Linearised, with D_p = (1 + eps/tau_a) p and the analogous D_q,

    [[D_p, P], [P', D_q]] (df, dg) = (sum_j P_ij dC_ij + eps p dlog a, sum_i P_ij dC_ij + eps q dlog b).

The matrix is symmetric, so the adjoint solves the same system. Eliminating x and scaling by sqrt(D_q) leaves
(I - K'K) w = r with K = D_p^-1/2 P D_q^-1/2. For a balanced problem K'K sqrt(q) = sqrt(q), the gauge, and r is orthogonal
to it.

A plan that nearly separates into parts has another eigenvalue near 0, and a small residual then does not mean a small
error. A second right side without any symmetry, the probe, is therefore solved in the same passes: its solution is that
eigenvector, if there is one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import ModuleType

import torch
from torch import Tensor

from pairframe.tiled.cost import Cost
from pairframe.tiled.errors import warn_not_converged
from pairframe.tiled.grad.settings import Settings
from pairframe.tiled.strips import short_vectors

_MAX_STEPS = 1000
_FLOOR = {torch.float64: 1e-14, torch.float32: 1e-6}
_LOOSEST = 1e-8
_GOOD = 1e-4  # relative error of the solution up to which no second round is needed
_WARN_ERROR = 1e-3  # relative error of the solution above which to warn
_WARN_DISTANCE = 1e-2  # distance to the fixed point, in epsilons, above which to warn
_ROUNDS = 3
_PROBE_SHARE = 1e-3


Operator = Callable[[Tensor], tuple[Tensor, Tensor]]
"""(B, M, k) -> (I - K'K) w, and P y (B, N, k) of the y = w/sqrt(D_q)."""


def solve_adjoint(
    cost: Cost,
    exponents: tuple[Tensor, Tensor],
    implied: tuple[Tensor, Tensor],
    bars: tuple[Tensor, Tensor],
    settings: Settings,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """x (B, N), y (B, M) of the system above for the right side `bars`, and the plan's marginals p, q.

    Warns with `NotConvergedWarning` if, along the least determined direction, the error of x, y exceeds 0.1 % or the
    potentials are more than 1 % of epsilon from the fixed point.

    Parameters
    ----------
    exponents : (B, N), (B, M)
        Of the plan; -inf where there is no mass. There x and y are 0.
    implied : (B, N), (B, M)
        The marginals that the potentials imply, equal to the plan's at the fixed point.
    bars : (B, N), (B, M)
        Cotangents of f and g.
    settings : Settings
        The residual here is 100 times smaller than the threshold of the forward solve, and at most 1e-8.
    """
    (log_a_hat, log_b_hat), (bar_f, bar_g), passes = exponents, bars, settings.passes
    plan = (cost, settings.epsilon, log_a_hat, log_b_hat)
    soft_a = 1.0 if settings.tau_a is None else 1.0 + settings.epsilon / settings.tau_a
    soft_b = 1.0 if settings.tau_b is None else 1.0 + settings.epsilon / settings.tau_b
    times, times_transposed, gram = _products(passes, plan)
    p = times(torch.ones_like(log_b_hat).unsqueeze(2)).squeeze(2)
    over_p = _inverse(soft_a * p)
    sent = torch.stack((torch.ones_like(log_a_hat), over_p * bar_f, over_p * (implied[0] - p)), 2)
    q, sent_bar, sent_missing = times_transposed(sent).unbind(2)
    root = _inverse(soft_b * q).sqrt().unsqueeze(2)
    gauge = torch.nn.functional.normalize(q.sqrt(), dim=1) if settings.is_balanced else torch.zeros_like(q)
    gauge = gauge.unsqueeze(2)

    def operator(w: Tensor) -> tuple[Tensor, Tensor]:
        seen, back = gram(root * w, over_p)
        return _without(gauge, w - root * back), seen

    sides = torch.stack((bar_g - sent_bar, implied[1] - q - sent_missing, _probe(q)), 2)
    sides = _without(gauge, root * torch.where((q > 0).unsqueeze(2), sides, 0.0))
    right, missing, probe = (sides[:, :, k : k + 1] for k in range(3))
    tolerance = max(_FLOOR[cost.dtype], min(_LOOSEST, 0.01 * settings.threshold))
    with short_vectors():
        w, seen, slow = _solve(operator, right, probe, log_a_hat.unsqueeze(2), tolerance)
    _check_potentials(slow, w, missing, root)
    return over_p * (bar_f - seen.squeeze(2)), (root * w).squeeze(2), p, q


def _products(
    passes: ModuleType, plan: tuple[Cost, float, Tensor, Tensor]
) -> tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor], Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]]:
    """P v, P' u and the pair (P w, P' (scale P w)); of a stored plan if the passes have one for so small a problem."""
    make_plan: Callable[..., Tensor | None] | None = getattr(passes, "stored_plan", None)
    stored = None if make_plan is None else make_plan(*plan)
    if stored is None:
        return (
            partial(passes.plan_times, *plan),
            partial(passes.plan_transposed_times, *plan),
            partial(passes.plan_gram, *plan),
        )
    matrix: Tensor = stored

    def gram(w: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        seen = torch.bmm(matrix, w)
        return seen, torch.bmm(matrix.mT, scale.unsqueeze(2) * seen)

    return partial(torch.bmm, matrix), partial(torch.bmm, matrix.mT), gram


@dataclass(frozen=True, eq=False)
class _Slow:
    """The unit direction (B, M, 1) of the smallest eigenvalue, and that eigenvalue (B, 1, 1), approximately."""

    direction: Tensor
    value: Tensor

    @property
    def is_null(self) -> Tensor:
        """(B, 1, 1) bool: indistinguishable from 0."""
        return self.value <= 64.0 * torch.finfo(self.value.dtype).eps

    def error(self, residual: Tensor, w: Tensor) -> Tensor:
        """The relative error of w (B, 1, 1) that a residual may stand for."""
        return _ratio(_norm(residual), self.value * _norm(w))


def _solve(
    operator: Operator, right: Tensor, probe: Tensor, like_a: Tensor, tolerance: float
) -> tuple[Tensor, Tensor, _Slow]:
    """w (B, M, 1) with operator(w) = right, P y of it (B, N, 1), and the slow direction."""
    # The component of the probe along any direction is about 1/sqrt(M) of it: a small share of that finds the direction.
    enough = max(tolerance, _PROBE_SHARE / math.sqrt(right.shape[1]))
    run = _conjugate_gradients(operator, torch.cat((right, probe), 2), like_a, tolerance * _norm(right), enough)
    w, seen, z = run.w[:, :, :1], run.seen[:, :, :1], run.w[:, :, 1:]
    slow = _slow_direction(z, probe - run.residual[:, :, 1:])
    # A direction of eigenvalue 0 is left out: its component is not determined.
    kept = _without(torch.where(slow.is_null, slow.direction, 0.0), right)
    undetermined = _norm(right - kept) > _LOOSEST * _norm(right)
    if bool((run.broken | undetermined).any()):
        _warn_of_parts()
    if not bool((slow.error(tolerance * _norm(right), w) > _GOOD).any()):
        _warn_of_steps(run, right, tolerance)
        return w, seen, slow
    image, image_seen = operator(slow.direction)
    for _ in range(_ROUNDS):
        residual = _without(torch.where(slow.is_null, slow.direction, 0.0), kept - operator(w)[0])
        if not bool((slow.error(residual, w) > 0.1 * _GOOD).any()):
            break
        step = torch.where(slow.is_null, 0.0, (slow.direction * residual).sum(1, keepdim=True) / slow.value)
        w, seen, residual = w + step * slow.direction, seen + step * image_seen, residual - step * image
        goal = torch.minimum(tolerance * _norm(right), 0.01 * _GOOD * slow.value * _norm(w))
        more = _conjugate_gradients(operator, residual, like_a, goal)
        w, seen = w + more.w, seen + more.seen
    residual = _without(torch.where(slow.is_null, slow.direction, 0.0), kept - operator(w)[0])
    error = torch.where(slow.is_null, 0.0, slow.error(residual, w))
    if bool((error > _WARN_ERROR).any()):
        _warn_of_error(float(error.max()), float(slow.value.min()))
    return w, seen, slow


def _slow_direction(z: Tensor, image: Tensor) -> _Slow:
    """The direction of z with operator(z) = image, one step of inverse iteration, and its Rayleigh quotient."""
    value = _ratio((z * image).sum(1, keepdim=True), z.square().sum(1, keepdim=True), otherwise=1.0)
    return _Slow(torch.nn.functional.normalize(z, dim=1), value.clamp(min=torch.finfo(z.dtype).eps))


@dataclass(frozen=True, eq=False)
class _Run:
    """The end of conjugate gradients: w (B, M, k), P y (B, N, k), residual (B, M, k), breakdowns (B, 1, 1) bool."""

    w: Tensor
    seen: Tensor
    residual: Tensor
    broken: Tensor
    is_done: bool


def _conjugate_gradients(
    operator: Operator, right: Tensor, like_a: Tensor, goal: Tensor, goal_of_probe: float = 0.0
) -> _Run:
    """Solve the first right side to a residual `goal` (B, 1, 1), and the probe, if there is one, to a share of its norm.

    Each element stops by itself. Rounding can make the curvature along an undetermined direction negative: the solution
    then leaves this direction out, while the probe takes a full step along it.
    """
    w, seen = torch.zeros_like(right), like_a.new_zeros((*like_a.shape[:2], right.shape[2]))
    residual, direction = right.clone(), right.clone()
    square = residual.square().sum(1, keepdim=True)
    goals = torch.cat((goal, goal_of_probe * _norm(right[:, :, 1:])), 2).square()
    broken = torch.zeros_like(square, dtype=torch.bool)
    probes = torch.arange(right.shape[2], device=right.device) > 0
    least = torch.finfo(right.dtype).eps
    for _ in range(_MAX_STEPS):
        if not bool((square > goals).any()):
            return _Run(w, seen, residual, broken[:, :, :1], is_done=True)
        image, image_seen = operator(direction)
        curvature = (direction * image).sum(1, keepdim=True)
        lowest = least * direction.square().sum(1, keepdim=True)
        curvature = torch.where(probes, torch.maximum(curvature, lowest), curvature)
        step = torch.where((square > goals) & (curvature > 0), square / curvature, 0.0)
        broken |= (square > goals) & ~(curvature > 0)
        w += step * direction
        seen += step * image_seen
        residual -= step * image
        new = torch.where(step > 0, residual.square().sum(1, keepdim=True), 0.0)
        direction = residual + torch.where(step > 0, new / square, 0.0) * direction
        square = new
    return _Run(w, seen, residual, broken[:, :, :1], is_done=False)


def _check_potentials(slow: _Slow, w: Tensor, missing: Tensor, root: Tensor) -> None:
    """Warn if the forward solve stopped far from its fixed point in the slow direction, and w has a component along it.

    The distance is Newton's step, the error of the marginals over the eigenvalue: small steps of the solve do not bound it.
    """
    along = (slow.direction * missing).sum(1, keepdim=True) / slow.value
    away = along.abs() * (root * slow.direction).abs().amax(1, keepdim=True)
    share = _ratio((slow.direction * w).sum(1, keepdim=True).abs(), _norm(w))
    if bool((away * share > _WARN_DISTANCE).any()):
        warn_not_converged(
            f"the plan nearly separates into parts (smallest eigenvalue {float(slow.value.min()):.1g}), and their potentials "
            f"are still {float(away.max()):.1g} epsilon from the fixed point; the relative error of the implicit gradient "
            "may be as large. To fix: lower threshold (and raise max_iters), raise epsilon, or use "
            'sinkhorn_differentiable with grad="checkpoint", which is exact for the iterations that were run',
        )


def _warn_of_steps(run: _Run, right: Tensor, tolerance: float) -> None:
    if run.is_done:
        return
    reached = _ratio(_norm(run.residual[:, :, :1]), _norm(right))
    if float(reached.max()) <= tolerance:
        return  # only the probe did not finish
    warn_not_converged(
        f"the implicit gradient stopped after {_MAX_STEPS} conjugate gradient steps at a relative residual of "
        f"{float(reached.max()):.1g}, above the tolerance of {tolerance:.1g}. To fix: raise epsilon, use float64, or use "
        'sinkhorn_differentiable with grad="checkpoint"',
    )


def _warn_of_error(error: float, value: float) -> None:
    warn_not_converged(
        f"the relative error of the implicit gradient may be {error:.1g}: the plan nearly separates into parts (smallest "
        f"eigenvalue {value:.1g}), and rounding limits the residual of the conjugate gradient steps. To fix: raise "
        'epsilon, use float64, or use sinkhorn_differentiable with grad="checkpoint"',
    )


def _warn_of_parts() -> None:
    warn_not_converged(
        "the potentials are not determined along some direction, because the plan separates into parts that hardly "
        "exchange mass; implicit gradients of functions of the plan are right, those of functions of f or g are not. "
        'To fix: raise epsilon, or use sinkhorn_differentiable with grad="checkpoint"',
    )


def _probe(q: Tensor) -> Tensor:
    """Pseudo-random numbers (B, M): a right side with a component along every direction."""
    place = torch.arange(1, q.shape[1] + 1, dtype=torch.float64, device=q.device)
    return (torch.cos(2.4 * place.square()).to(q.dtype) * q.sqrt()).expand_as(q)


def _norm(vectors: Tensor) -> Tensor:
    """Lengths (B, 1, k) of (B, M, k)."""
    return vectors.square().sum(1, keepdim=True).sqrt()


def _ratio(one: Tensor, other: Tensor, otherwise: float = 0.0) -> Tensor:
    return torch.where(other > 0, one / other, otherwise)


def _without(unit: Tensor, vector: Tensor) -> Tensor:
    return vector - (unit * vector).sum(1, keepdim=True) * unit


def _inverse(diagonal: Tensor) -> Tensor:
    """1/diagonal; 0 where it is 0, so that entries without mass take no part."""
    return torch.where(diagonal > 0, 1.0 / diagonal, 0.0)

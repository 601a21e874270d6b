"""The adjoint of the optimality conditions, solved by conjugate gradients with one pass over the cost per step.

At the optimum a e^(-f/tau_a) = P1 and b e^(-g/tau_b) = P'1. Linearised, with D_p = (1 + eps/tau_a) p and D_q alike,

    [[D_p, P], [P', D_q]] (df, dg) = (sum_j P_ij dC_ij + eps p dlog a, sum_i P_ij dC_ij + eps q dlog b).

The matrix is symmetric, so the adjoint solves the same system. Eliminating x and scaling by sqrt(D_q) leaves
(I - K'K) w = r with K = D_p^-1/2 P D_q^-1/2. Balanced: K'K sqrt(q) = sqrt(q), the gauge, and r has no part along it.

A plan that nearly falls into parts has one more eigenvalue near 0, and a small residual then says nothing. So a second
right side, without any symmetry, is solved in the same passes: its solution is that eigenvector, if there is one.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

import torch
from torch import Tensor

from pairframe.tiled.cost import Cost
from pairframe.tiled.grad.rule import Rule
from pairframe.tiled.strips import short_vectors

_MAX_STEPS = 1000
_FLOOR = {torch.float64: 1e-14, torch.float32: 1e-6}
_LOOSEST = 1e-8
_GOOD = 1e-4  # relative error of the solution that needs no second round
_TOLD = 1e-3  # relative error of the solution that is warned of
_TOLD_OF_POTENTIALS = 1e-2  # distance to the fixed point, in epsilons, that is warned of
_ROUNDS = 3
_OF_A_DIRECTION = 1e-3


class NotConvergedWarning(UserWarning):
    """A gradient is less exact than its mode promises, because a solve stopped early."""


Operator = Callable[[Tensor], tuple[Tensor, Tensor]]
"""(B, M, k) -> (I - K'K) w, and P y (B, N, k) of the y = w/sqrt(D_q)."""


def solve_adjoint(
    cost: Cost,
    rule: Rule,
    log_a_hat: Tensor,
    log_b_hat: Tensor,
    asked: tuple[Tensor, Tensor],
    bar_f: Tensor,
    bar_g: Tensor,
    passes: ModuleType,
    threshold: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """x (B, N), y (B, M) of the system above for the right side (bar_f, bar_g), and the plan's marginals p, q.

    Warns with `NotConvergedWarning` when x, y are off by more than 0.1 %, or the potentials by more than 1 % of epsilon,
    along the least determined direction.

    Parameters
    ----------
    log_a_hat, log_b_hat : (B, N), (B, M)
        Exponents of the plan; -inf where there is no mass. There x and y are 0.
    asked : (B, N), (B, M)
        The marginals that the potentials ask for, equal to the plan's at the fixed point.
    threshold : float
        What the forward solve stopped at; the residual here is 100 times smaller, and at most 1e-8.
    """
    plan = (cost, rule.epsilon, log_a_hat, log_b_hat)
    soft_a = 1.0 if rule.tau_a is None else 1.0 + rule.epsilon / rule.tau_a
    soft_b = 1.0 if rule.tau_b is None else 1.0 + rule.epsilon / rule.tau_b
    p = passes.plan_times(*plan, torch.ones_like(log_b_hat).unsqueeze(2)).squeeze(2)
    over_p = _inverse(soft_a * p)
    sent = torch.stack((torch.ones_like(log_a_hat), over_p * bar_f, over_p * (asked[0] - p)), 2)
    q, sent_bar, sent_missing = passes.plan_transposed_times(*plan, sent).unbind(2)
    root = _inverse(soft_b * q).sqrt().unsqueeze(2)
    gauge = torch.nn.functional.normalize(q.sqrt(), dim=1) if rule.is_balanced else torch.zeros_like(q)
    gauge = gauge.unsqueeze(2)

    def operator(w: Tensor) -> tuple[Tensor, Tensor]:
        seen, back = passes.plan_gram(*plan, root * w, over_p)
        return _without(gauge, w - root * back), seen

    sides = torch.stack((bar_g - sent_bar, asked[1] - q - sent_missing, _probe(q)), 2)
    sides = _without(gauge, root * torch.where((q > 0).unsqueeze(2), sides, 0.0))
    right, missing, probe = (sides[:, :, k : k + 1] for k in range(3))
    tolerance = max(_FLOOR[cost.dtype], min(_LOOSEST, 0.01 * threshold))
    with short_vectors():
        w, seen, slow = _solve(operator, right, probe, log_a_hat.unsqueeze(2), tolerance)
    _check_potentials(slow, w, missing, root)
    return over_p * (bar_f - seen.squeeze(2)), (root * w).squeeze(2), p, q


@dataclass(frozen=True, eq=False)
class _Slow:
    """The direction (B, M, 1), of length 1, in which the matrix is smallest, and its eigenvalue (B, 1, 1), about."""

    direction: Tensor
    value: Tensor

    @property
    def is_null(self) -> Tensor:
        """(B, 1, 1) bool: not to be told from 0."""
        return self.value <= 64.0 * torch.finfo(self.value.dtype).eps

    def error(self, residual: Tensor, w: Tensor) -> Tensor:
        """What a residual may mean for w, relative (B, 1, 1)."""
        return _ratio(_norm(residual), self.value * _norm(w))


def _solve(
    operator: Operator, right: Tensor, probe: Tensor, like_a: Tensor, tolerance: float
) -> tuple[Tensor, Tensor, _Slow]:
    """w (B, M, 1) with operator(w) = right, P y of it (B, N, 1), and the slow direction."""
    # The probe's part along any one direction is about 1/sqrt(M) of it: a small share of that finds the direction.
    enough = max(tolerance, _OF_A_DIRECTION / math.sqrt(right.shape[1]))
    run = _conjugate_gradients(operator, torch.cat((right, probe), 2), like_a, tolerance * _norm(right), enough)
    w, seen, z = run.w[:, :, :1], run.seen[:, :, :1], run.w[:, :, 1:]
    slow = _slow_direction(z, probe - run.residual[:, :, 1:])
    # A direction of eigenvalue 0 is left out: what it would add is not determined.
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
    if bool((error > _TOLD).any()):
        _warn_of_error(float(error.max()), float(slow.value.min()))
    return w, seen, slow


def _slow_direction(z: Tensor, image: Tensor) -> _Slow:
    """Of z with operator(z) = image: one step of inverse iteration, and its Rayleigh quotient."""
    value = _ratio((z * image).sum(1, keepdim=True), z.square().sum(1, keepdim=True), otherwise=1.0)
    return _Slow(torch.nn.functional.normalize(z, dim=1), value.clamp(min=torch.finfo(z.dtype).eps))


@dataclass(frozen=True, eq=False)
class _Run:
    """Where conjugate gradients ended: w (B, M, k), P y (B, N, k), residual (B, M, k), and what failed (B, 1, 1)."""

    w: Tensor
    seen: Tensor
    residual: Tensor
    broken: Tensor
    is_done: bool


def _conjugate_gradients(
    operator: Operator, right: Tensor, like_a: Tensor, goal: Tensor, goal_of_probe: float = 0.0
) -> _Run:
    """Solve for the first right side to a residual `goal` (B, 1, 1), and for a probe, if there is one, to a share of it.

    Each element stops by itself. Rounding can make the curvature of an undetermined direction negative: the solution
    does without it, and the probe takes all of it.
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
    """Warn when the forward solve stopped far from its fixed point in the slow direction, and w has a part along it.

    Newton's step there is what is missing in the marginals, over the eigenvalue: small steps are no sign of an end.
    """
    along = (slow.direction * missing).sum(1, keepdim=True) / slow.value
    away = along.abs() * (root * slow.direction).abs().amax(1, keepdim=True)
    share = _ratio((slow.direction * w).sum(1, keepdim=True).abs(), _norm(w))
    if bool((away * share > _TOLD_OF_POTENTIALS).any()):
        warnings.warn(
            f"the plan nearly falls into parts (smallest eigenvalue {float(slow.value.min()):.1g}), and the potentials of "
            f"these are still {float(away.max()):.1g} epsilon from where they would end; the implicit gradient may be off "
            "by as large a share; lower threshold (and raise max_iters), raise epsilon, or use "
            'grad="checkpoint", which is exact for the iterations that were run',
            NotConvergedWarning,
            stacklevel=2,
        )


def _warn_of_steps(run: _Run, right: Tensor, tolerance: float) -> None:
    if run.is_done:
        return
    reached = _ratio(_norm(run.residual[:, :, :1]), _norm(right))
    if float(reached.max()) <= tolerance:
        return  # only the probe would have gone on
    warnings.warn(
        f"the implicit gradient stopped after {_MAX_STEPS} conjugate gradient steps at a relative residual of "
        f"{float(reached.max()):.1g} (wanted {tolerance:.1g}); raise epsilon, use float64, or use "
        'grad="checkpoint"',
        NotConvergedWarning,
        stacklevel=2,
    )


def _warn_of_error(error: float, value: float) -> None:
    warnings.warn(
        f"the implicit gradient may be off by a share of {error:.1g}: the plan nearly falls into parts (smallest "
        f"eigenvalue {value:.1g}), and rounding leaves no smaller residual of the conjugate gradient steps; raise "
        'epsilon, use float64, or use grad="checkpoint"',
        NotConvergedWarning,
        stacklevel=2,
    )


def _warn_of_parts() -> None:
    warnings.warn(
        "the implicit gradient met a direction in which the potentials are not determined: the plan falls into parts "
        "that hardly exchange mass; losses in the plan are right, losses in f or g are not; raise epsilon, or use "
        'grad="checkpoint"',
        NotConvergedWarning,
        stacklevel=3,
    )


def _probe(q: Tensor) -> Tensor:
    """Numbers (B, M) that look like noise: a right side with a part along every direction."""
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
    """1/diagonal, 0 where it is 0: an entry without mass takes no part."""
    return torch.where(diagonal > 0, 1.0 / diagonal, 0.0)

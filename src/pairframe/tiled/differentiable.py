"""`sinkhorn_differentiable` and `sinkhorn_value`: the tiled Sinkhorn inside a training loop."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from pairframe.tiled.backends import backend_name, passes_of
from pairframe.tiled.cost import DenseCost, PointCost, compute_dtype
from pairframe.tiled.errors import TiledError
from pairframe.tiled.grad.checkpoint import checkpoint_potentials
from pairframe.tiled.grad.conjugate_gradients import NotConvergedWarning as NotConvergedWarning
from pairframe.tiled.grad.envelope import envelope_potentials, envelope_value
from pairframe.tiled.grad.gauge import fix_gauge
from pairframe.tiled.grad.implicit import implicit_potentials
from pairframe.tiled.grad.masses import live_log_masses
from pairframe.tiled.grad.rule import Rule
from pairframe.tiled.grad.settings import Settings
from pairframe.tiled.grad.unrolled import squared_distances, unrolled_potentials
from pairframe.tiled.inputs import CostLike, as_cost, check_epsilon, check_stopping, check_tau, without_padding_places

GRAD_MODES = ("checkpoint", "truncated", "implicit", "envelope", "unrolled")


def sinkhorn_differentiable(
    C: CostLike,
    a: Tensor | None,
    b: Tensor | None,
    epsilon: float,
    *,
    tau_a: float | None = None,
    tau_b: float | None = None,
    mask_a: Tensor | None = None,
    mask_b: Tensor | None = None,
    max_iters: int = 100,
    threshold: float = 1e-6,
    grad: str = "checkpoint",
    grad_iters: int = 0,
    backend: str = "auto",
) -> tuple[Tensor, Tensor]:
    """Potentials with gradients for the cost (or points) and both masses; objective and arguments as `sinkhorn`.

    Parameters
    ----------
    C : (B, N, M), or a pair of points ((B, N, d), (B, M, d))
    a, b : (B, N), (B, M), or None for uniform
    grad : {"checkpoint", "truncated", "implicit", "envelope", "unrolled"}
        `checkpoint`: exact for the iterations that were run, (N + M) numbers kept for each. `truncated`: the last
        `grad_iters` of them. `implicit`: exact at the fixed point, by one linear solve; needs convergence. `envelope`:
        for dual values only. `unrolled`: autograd's own graph, N x M numbers kept per iteration; the reference.
    grad_iters : int
        0 for all iterations; n >= 1 for the last n (`checkpoint` is then the same as `truncated`).

    Returns
    -------
    f, g : (B, N), (B, M)
        0 where there is no mass. With two hard marginals the gauge is fixed to <f, a>/sum a = <g, b>/sum b, and the
        gradients of the masses are those along sum da = sum db, the only directions there are: the representative with
        equal sums over both supports.
    """
    first, second = _tensors(without_padding_places(C, mask_a, mask_b))
    grad_iters = _check_mode(grad, grad_iters)
    settings = _settings(first, epsilon, tau_a, tau_b, max_iters, threshold, grad_iters, backend)
    logs = live_log_masses(first, second, (a, b), (mask_a, mask_b), settings)
    log_a, log_b = logs.a, logs.b
    if grad == "unrolled":
        matrix = first if second is None else squared_distances(first, second)
        matrix = matrix.to(compute_dtype(matrix.dtype))
        f, g = unrolled_potentials(matrix, log_a, log_b, settings.rule, settings.max_iters, settings.threshold)
    elif grad == "implicit":
        f, g = implicit_potentials(first, second, log_a, log_b, settings)
    elif grad == "envelope":
        f, g = envelope_potentials(first, second, log_a, log_b, settings)
    else:
        f, g = checkpoint_potentials(first, second, log_a, log_b, settings)
    return fix_gauge(f, g, log_a.exp(), log_b.exp()) if settings.rule.is_balanced else (f, g)


def sinkhorn_value(
    C: CostLike,
    a: Tensor | None,
    b: Tensor | None,
    epsilon: float,
    *,
    tau_a: float | None = None,
    tau_b: float | None = None,
    mask_a: Tensor | None = None,
    mask_b: Tensor | None = None,
    max_iters: int = 100,
    threshold: float = 1e-6,
    reference: str = "counting",
    backend: str = "auto",
    symmetric: bool = False,
    with_reference: bool = True,
) -> Tensor:
    """The optimal value (B,), float64, by its dual, with the gradients of the envelope theorem.

    Equal to `sinkhorn(...).dual()`. The value is off by the square of the marginal error, its gradients by the error
    itself. Arguments as `sinkhorn`; d/da of two hard marginals as in `sinkhorn_differentiable`. `symmetric` says that
    the problem is of a measure with itself (a = b, C = C', equal taus): the solve then keeps f = g, in far fewer passes.
    `with_reference=False` leaves out the constant eps sum u sum v, as in `SinkhornOutput.dual`.
    """
    first, second = _tensors(without_padding_places(C, mask_a, mask_b))
    settings = _settings(first, epsilon, tau_a, tau_b, max_iters, threshold, 0, backend)
    settings = replace(settings, symmetric=symmetric)
    if symmetric and (
        tau_a != tau_b or (first.shape[1] != first.shape[2] if second is None else first.shape != second.shape)
    ):
        raise TiledError(
            "a measure with itself for symmetric=True", "sides of other sizes or taus", "leave symmetric out"
        )
    logs = live_log_masses(first, second, (a, b), (mask_a, mask_b), settings)
    return envelope_value(first, second, logs, *logs.references(reference), settings, with_reference)


def _tensors(C: CostLike) -> tuple[Tensor, Tensor | None]:
    """(C, None) or (x, y), still part of the graph; `as_cost` only checks."""
    as_cost(C)
    if isinstance(C, DenseCost):
        return C.matrix, None
    if isinstance(C, PointCost):
        return C.x, C.y
    return (C, None) if isinstance(C, Tensor) else C


def _settings(
    first: Tensor,
    epsilon: float,
    tau_a: float | None,
    tau_b: float | None,
    max_iters: int,
    threshold: float,
    grad_iters: int,
    backend: str,
) -> Settings:
    rule = Rule(check_epsilon(epsilon, first.dtype), check_tau("tau_a", tau_a), check_tau("tau_b", tau_b))
    stopping = check_stopping(max_iters, threshold, 1)
    passes = passes_of(backend_name(backend, first.device))
    return Settings(rule, passes, stopping.max_iters, stopping.threshold, grad_iters)


def _check_mode(grad: str, grad_iters: int) -> int:
    if grad not in GRAD_MODES:
        raise TiledError(f"a grad mode: {', '.join(GRAD_MODES)}", repr(grad), "use one of these names")
    if isinstance(grad_iters, bool) or not isinstance(grad_iters, int) or grad_iters < 0:
        raise TiledError("grad_iters an integer >= 0", repr(grad_iters), "0 for all iterations, n for the last n")
    if grad == "truncated" and grad_iters == 0:
        raise TiledError('grad_iters >= 1 with grad="truncated"', "0", 'e.g. grad_iters=20, or grad="checkpoint"')
    if grad_iters and grad not in ("truncated", "checkpoint"):
        raise TiledError(f'grad_iters=0 with grad="{grad}"', str(grad_iters), 'use grad="truncated"')
    return grad_iters

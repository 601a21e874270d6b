"""`sinkhorn_differentiable` and `sinkhorn_value`: the tiled Sinkhorn with gradients."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from pairframe.tiled.backends import backend_for, passes_of
from pairframe.tiled.cost import compute_dtype
from pairframe.tiled.entry_point import entry_point
from pairframe.tiled.errors import TiledError
from pairframe.tiled.grad.checkpoint import checkpoint_potentials
from pairframe.tiled.grad.envelope import envelope_potentials, envelope_value
from pairframe.tiled.grad.gauge import fix_gauge
from pairframe.tiled.grad.implicit import implicit_potentials, warn_if_open
from pairframe.tiled.grad.masses import live_log_masses
from pairframe.tiled.grad.once import once_differentiable
from pairframe.tiled.grad.settings import Settings
from pairframe.tiled.grad.unrolled import squared_distances, unrolled_potentials
from pairframe.tiled.inputs import (
    CostLike,
    check_epsilon,
    check_stopping,
    check_storage,
    check_tau,
    cost_tensors,
    without_padding_places,
)
from pairframe.tiled.loop import Stopping
from pairframe.tiled.side import backend_of_penalty
from pairframe.tiled.small.entry import solve as short_way
from pairframe.tiled.small.value import value_of

GRAD_MODES = ("checkpoint", "truncated", "implicit", "envelope", "unrolled")


@entry_point
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
    renormalize: bool = False,
) -> tuple[Tensor, Tensor]:
    """Potentials with gradients for the cost (or points) and both masses; objective and arguments as in `sinkhorn`.

    Parameters
    ----------
    C : (B, N, M), or a pair of points ((B, N, d), (B, M, d))
    a, b : (B, N), (B, M), or None for uniform
    grad : {"checkpoint", "truncated", "implicit", "envelope", "unrolled"}
        `checkpoint`: exact for the iterations that were run; keeps N + M numbers for each. `truncated`: the last
        `grad_iters` of them only. `implicit`: exact at the fixed point, by one linear solve; needs convergence.
        `envelope`: for dual values only. `unrolled`: autograd through the loop, for reference; keeps N x M numbers per
        iteration.
    grad_iters : int
        0 for all iterations; n >= 1 for the last n (`checkpoint` is then the same as `truncated`).
    renormalize : bool
        Scale the masses of both sides, after masking, to a sum of 1. The scaling is differentiated too.

    Returns
    -------
    f, g : (B, N), (B, M)
        0 where there is no mass. With two hard marginals the gauge is fixed to <f, a>/sum a = <g, b>/sum b. The masses
        can then only move along sum da = sum db, and their gradients are the representative with equal sums over both
        supports.
    """
    first, second = cost_tensors(without_padding_places(C, mask_a, mask_b))
    grad_iters = _check_mode(grad, grad_iters)
    settings = _settings(first, second, epsilon, (tau_a, tau_b), check_stopping(max_iters, threshold, 1), backend)
    settings = replace(settings, grad_iters=grad_iters, renormalize=renormalize)
    if grad != "unrolled":
        first, second = once_differentiable(first), once_differentiable(second)
        a, b = _once_differentiable_mass("a", a), _once_differentiable_mass("b", b)
    logs = live_log_masses(first, second, (a, b), (mask_a, mask_b), settings)
    log_a, log_b = logs.a, logs.b
    if grad == "unrolled":
        matrix = first if second is None else squared_distances(first, second)
        matrix = matrix.to(compute_dtype(matrix.dtype))
        f, g = unrolled_potentials(matrix, log_a, log_b, settings)
    elif grad == "implicit":
        f, g = implicit_potentials(first, second, log_a, log_b, settings)
    elif grad == "envelope":
        f, g = envelope_potentials(first, second, log_a, log_b, settings)
    else:
        f, g = checkpoint_potentials(first, second, log_a, log_b, settings)
    return fix_gauge(f, g, log_a.exp(), log_b.exp()) if settings.is_balanced else (f, g)


@entry_point
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
    with_reference: bool = True,
    renormalize: bool = False,
    penalty: str = "kl",
) -> Tensor:
    """The optimal value (B,), float64, by its dual, with the gradients of the envelope theorem.

    Equal to `sinkhorn(...).dual()`. The error of the value is the square of the marginal error; the error of its gradients
    is the marginal error itself. Arguments as in `sinkhorn`; for d/da with two hard marginals see
    `sinkhorn_differentiable`. `with_reference=False` leaves out the constant eps sum u sum v, as in `SinkhornOutput.dual`.
    """
    return problem_value(
        C,
        (a, b),
        (mask_a, mask_b),
        epsilon,
        (tau_a, tau_b),
        reference,
        backend,
        renormalize,
        check_stopping(max_iters, threshold, 1),
        with_reference=with_reference,
        symmetric=False,
        penalty=penalty,
    )


def problem_value(
    C: CostLike,
    masses: tuple[Tensor | None, Tensor | None],
    masks: tuple[Tensor | None, Tensor | None],
    epsilon: float,
    taus: tuple[float | None, float | None],
    reference: str,
    backend: str,
    renormalize: bool,
    stopping: Stopping,
    *,
    with_reference: bool,
    symmetric: bool,
    penalty: str = "kl",
) -> Tensor:
    """`sinkhorn_value`, with the arguments of the two sides as pairs.

    `symmetric` is for a measure with itself, whose cost the caller has checked to be symmetric: the solve then keeps
    f = g and takes far fewer passes.
    """
    hard_or_soft = check_tau("tau_a", taus[0]), check_tau("tau_b", taus[1])
    backend = backend_of_penalty(penalty, hard_or_soft, backend)
    if reference == "counting" and not renormalize and penalty == "kl":
        solved = short_way(
            C,
            masses,
            masks,
            epsilon,
            hard_or_soft,
            reference,
            backend,
            stopping,
            symmetric=symmetric,
            has_gradients=True,
        )
        if solved is not None:
            if not solved.is_converged:
                warn_if_open(solved.state(), stopping)
            pair = C if isinstance(C, tuple) else (C, None)
            return value_of(solved, (*pair, *masses), with_reference)
    first, second = cost_tensors(without_padding_places(C, *masks))
    settings = _settings(first, second, epsilon, taus, stopping, backend)
    settings = replace(settings, symmetric=symmetric, renormalize=renormalize, penalty=penalty)
    first, second = once_differentiable(first), once_differentiable(second)
    masses = _once_differentiable_mass("a", masses[0]), _once_differentiable_mass("b", masses[1])
    logs = live_log_masses(first, second, masses, masks, settings)
    return envelope_value(first, second, logs, *logs.references(reference), settings, with_reference)


def _once_differentiable_mass(name: str, mass: Tensor | None) -> Tensor | None:
    check_storage(name, mass)  # the other checks are inside `live_log_masses`, where vmap shows values
    return once_differentiable(mass)


def _settings(
    first: Tensor,
    second: Tensor | None,
    epsilon: float,
    taus: tuple[float | None, float | None],
    stopping: Stopping,
    backend: str,
) -> Settings:
    epsilon = check_epsilon(epsilon, first.dtype)
    tau_a, tau_b = check_tau("tau_a", taus[0]), check_tau("tau_b", taus[1])
    batch, n, m = (*first.shape[:2], (first if second is None else second).shape[2 if second is None else 1])
    passes = passes_of(backend_for(backend, first.device, batch, n, m))
    return Settings(epsilon, tau_a, tau_b, passes, stopping.max_iters, stopping.threshold)


def _check_mode(grad: str, grad_iters: int) -> int:
    if grad not in GRAD_MODES:
        raise TiledError(f"a grad mode: {', '.join(GRAD_MODES)}", repr(grad), "use one of these names")
    if isinstance(grad_iters, bool) or not isinstance(grad_iters, int) or grad_iters < 0:
        raise TiledError("grad_iters to be an integer >= 0", repr(grad_iters), "0 for all iterations, n for the last n")
    if grad == "truncated" and grad_iters == 0:
        raise TiledError('grad_iters >= 1 with grad="truncated"', "0", 'e.g. grad_iters=20, or grad="checkpoint"')
    if grad_iters and grad not in ("truncated", "checkpoint"):
        raise TiledError(f'grad_iters=0 with grad="{grad}"', str(grad_iters), 'use grad="truncated"')
    return grad_iters

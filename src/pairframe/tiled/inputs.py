"""Checks of the arguments, and their conversion to a cost, log masses and a reference."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import index
from types import ModuleType
from typing import Any, TypeGuard

import torch
from torch import Tensor

from pairframe.tiled.cost import FLOATS, Cost, DenseCost, PointCost, compute_dtype
from pairframe.tiled.errors import TiledError
from pairframe.tiled.loop import Stopping
from pairframe.tiled.sums import padded_log_sum, padded_sum
from pairframe.tiled.transforms import is_mapped, tensors_of

REFERENCES = ("counting", "product")
TOTALS_AGREE = 1e-5  # relative rounding of float32 sums; hard marginals that agree to it are scaled to their mean
_CHECK_ENTRIES = 1 << 22
_LARGEST_LOG_TOTAL = 300.0  # beyond it, products of totals leave the range of float64

CostLike = Tensor | tuple[Tensor, Tensor] | DenseCost | PointCost


def as_cost(cost: CostLike) -> Cost:
    """C (B, N, M), or points (x, y) of shapes (B, N, d), (B, M, d), as a cost; detached."""
    if isinstance(cost, DenseCost | PointCost):
        return cost
    if isinstance(cost, tuple | list):
        if len(cost) != 2 or not all(isinstance(points, Tensor) for points in cost):
            raise TiledError(
                "C to be a tensor or a pair of tensors (x, y)", f"a sequence of {len(cost)}", "pass (x, y)"
            )
        return PointCost(cost[0].detach(), cost[1].detach())
    if not isinstance(cost, Tensor):
        raise TiledError(
            "C to be a tensor (B, N, M) or a pair of points (x, y)", type(cost).__name__, "use torch.as_tensor"
        )
    return DenseCost(cost.detach())


def cost_tensors(cost: CostLike) -> tuple[Tensor, Tensor | None]:
    """(C, None) or (x, y), still part of the graph; `as_cost` only checks."""
    as_cost(cost)
    if isinstance(cost, DenseCost):
        return cost.matrix, None
    if isinstance(cost, PointCost):
        return cost.x, cost.y
    return (cost, None) if isinstance(cost, Tensor) else cost


def without_padding_places(cost: CostLike, mask_a: Tensor | None, mask_b: Tensor | None) -> CostLike:
    """The cost with its masked entries made harmless, whatever they hold (NaN and inf included).

    Masked points are moved to a real point of their side, so that distant padding costs no digits. A stored cost is
    copied, with zeros in place of masked entries, only if some masked entry would do harm. The result is still part of
    the graph; masked entries have gradient 0.
    """
    for name, tensor in (("C", cost), ("mask_a", mask_a), ("mask_b", mask_b)):
        for part in tensors_of(tensor):
            check_storage(name, part)
    if isinstance(cost, PointCost):
        return _moved(cost.x, mask_a), _moved(cost.y, mask_b)
    if isinstance(cost, tuple | list) and len(cost) == 2 and all(isinstance(one, Tensor) for one in cost):
        return _moved(cost[0], mask_a), _moved(cost[1], mask_b)
    matrix = cost.matrix if isinstance(cost, DenseCost) else cost
    if isinstance(matrix, Tensor) and matrix.ndim == 3 and matrix.dtype in FLOATS:
        return _zeroed(matrix, mask_a, mask_b)
    return cost


def check_storage(name: str, tensor: Any) -> None:
    """Check that a tensor holds its numbers one after the other; anything but a tensor passes."""
    if not isinstance(tensor, Tensor):
        return
    if tensor.is_nested:
        fix = "pad it with torch.nested.to_padded_tensor(tensor, 0.0), and mask the padding"
        raise TiledError(f"{name} to be a dense tensor", "a nested tensor", fix)
    if tensor.layout != torch.strided:
        raise TiledError(f"{name} to be a dense tensor", str(tensor.layout), "use .to_dense()")
    if tensor.is_meta:
        raise TiledError(f"{name} to hold numbers", "a meta tensor", "make it on a real device, e.g. device='cpu'")


def _moved(points: Tensor, mask: Tensor | None) -> Tensor:
    if points.ndim != 3 or points.dtype not in FLOATS or not _is_mask(mask, points.shape[:2]):
        return points  # nothing to do, or an error in the checks that follow
    first = mask.to(torch.int64).argmax(1, keepdim=True).unsqueeze(2).expand(-1, -1, points.shape[2])
    # If all are masked, the first is not a real point either.
    place = torch.gather(points.detach(), 1, first).nan_to_num(0.0, 0.0, 0.0)
    return torch.where(mask.unsqueeze(2), points, place)


def _zeroed(matrix: Tensor, mask_a: Tensor | None, mask_b: Tensor | None) -> Tensor:
    if not (mask_a is None or _is_mask(mask_a, matrix.shape[:2])):
        return matrix
    if not (mask_b is None or _is_mask(mask_b, (matrix.shape[0], matrix.shape[2]))):
        return matrix
    if (mask_a is None and mask_b is None) or min(matrix.shape) < 1:
        return matrix
    if not is_mapped(matrix, mask_a, mask_b) and _lowest(matrix.detach()) >= lowest_cost(matrix.dtype):
        return matrix
    on = torch.ones((), dtype=torch.bool, device=matrix.device)
    on = on if mask_a is None else on & mask_a.unsqueeze(2)
    return torch.where(on if mask_b is None else on & mask_b.unsqueeze(1), matrix, 0.0)


def _is_mask(mask: Any, shape: Sequence[int]) -> TypeGuard[Tensor]:
    return isinstance(mask, Tensor) and mask.dtype == torch.bool and tuple(mask.shape) == tuple(shape)


def lowest_cost(dtype: torch.dtype) -> float:
    """The lowest cost that, divided by a moderate epsilon, stays in the range of the compute dtype."""
    return -math.sqrt(torch.finfo(compute_dtype(dtype)).max)


def _lowest(matrix: Tensor) -> float:
    """The smallest entry of (B, N, M), strip by strip; -inf if any is NaN."""
    rows = max(1, _CHECK_ENTRIES // matrix.shape[2])
    strips = [matrix[b, i : i + rows] for b in range(matrix.shape[0]) for i in range(0, matrix.shape[1], rows)]
    lows = [float(strip.amin()) for strip in strips]
    return -math.inf if any(math.isnan(low) for low in lows) else min(lows)


def check_cost(cost: Cost) -> bool:
    """Check for NaN, -inf and empty sides; return whether some pairs are forbidden (+inf). Reads once, copies nothing."""
    if min(cost.batch, cost.n, cost.m) < 1:
        raise TiledError(
            "at least one problem with at least one entry on each side",
            f"B, N, M = {cost.batch}, {cost.n}, {cost.m}",
            "leave empty problems out of the batch",
        )
    if isinstance(cost, PointCost):
        for name, points in (("x", cost.x), ("y", cost.y)):
            if not bool(torch.isfinite(points).all()):
                raise TiledError(f"finite points {name}", "NaN or inf", "mask the points that do not exist")
        return False
    rows = max(1, _CHECK_ENTRIES // cost.m)
    forbids = False
    for b in range(cost.batch):
        for i in range(0, cost.n, rows):
            low, high = (float(one) for one in torch.aminmax(cost.matrix[b, i : i + rows]))  # propagates NaN
            if math.isnan(low) or low == -math.inf:
                raise TiledError(
                    "a cost without NaN or -inf",
                    "NaN or -inf",
                    "mask the entries that do not exist, and use +inf to forbid a pair",
                )
            if low < lowest_cost(cost.dtype):
                raise TiledError(
                    f"costs above {lowest_cost(cost.dtype):.1g}", f"{low:.3g}", "mask the entries that do not exist"
                )
            forbids = forbids or high == math.inf
    return forbids


def without_stranded(
    cost: Cost, log_a: Tensor, log_b: Tensor, taus: tuple[float | None, float | None], passes: ModuleType
) -> tuple[Tensor, Tensor, Tensor]:
    """Log masses without stranded mass, and the penalty (B,) for leaving it in place.

    Mass is stranded if no finite cost leads from it to mass of the other side. On a hard side that is an error.
    """
    here_a, here_b = (torch.where(torch.isneginf(logs), logs, 0.0) for logs in (log_a, log_b))
    penalty = torch.zeros(cost.batch, dtype=torch.float64, device=cost.device)
    kept = []
    for name, logs, sums, tau in (
        ("a", log_a, passes.log_sum_rows(cost, 1.0, here_b), taus[0]),
        ("b", log_b, passes.log_sum_cols(cost, 1.0, here_a), taus[1]),
    ):
        lost = torch.isneginf(sums) & ~torch.isneginf(logs)
        if tau is None and bool(lost.any()):
            raise TiledError(
                f"every entry of {name} with mass to reach mass of the other side at a finite cost",
                f"{int(lost.sum())} that reach none",
                f"mask these entries, lower their costs, or pass tau_{name} so that their mass may stay",
            )
        penalty += (tau or 0.0) * padded_sum(torch.where(lost, logs.double().exp(), 0.0))
        kept.append(torch.where(lost, -math.inf, logs))
    if any(bool(torch.isneginf(logs).all(1).any()) for logs in kept):
        raise TiledError(
            "a pair of finite cost with mass at both ends in every batch element",
            "an element without such a pair",
            "leave it out of the batch: its plan is zero",
        )
    return kept[0], kept[1], penalty


def check_positive(name: str, value: Any) -> float:
    """Check for a positive finite number, with no gradient to lose."""
    if isinstance(value, Tensor) and value.requires_grad:
        raise TiledError(
            f"{name} without a gradient",
            "a tensor that requires one",
            f"pass {name}.item(): gradients are with respect to costs, points and masses only",
        )
    try:
        number = math.nan if isinstance(value, bool | str) else float(value)
    except (TypeError, ValueError, RuntimeError):  # RuntimeError: a tensor of several numbers
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        fix = "use e.g. 0.1" if name == "epsilon" else "use a positive number, or None for a hard marginal"
        raise TiledError(f"{name} to be positive and finite", repr(value), fix)
    return number


def check_epsilon(value: Any, dtype: torch.dtype) -> float:
    """Check for a positive number whose inverse times the costs stays in the range of the compute dtype."""
    epsilon, least = check_positive("epsilon", value), math.sqrt(torch.finfo(compute_dtype(dtype)).tiny)
    if epsilon < least:
        raise TiledError(
            f"epsilon to be at least {least:.1g} in {compute_dtype(dtype)}",
            repr(value),
            "multiply costs, taus and epsilon by the same large number, or use float64",
        )
    return epsilon


def check_tau(name: str, tau: Any) -> float | None:
    """Check for a positive number, or None. An infinite penalty is a hard marginal, None."""
    return None if tau is None or (isinstance(tau, float) and tau == math.inf) else check_positive(name, tau)


def check_stopping(max_iters: Any, threshold: Any, check_every: Any) -> Stopping:
    """Check for integers >= 1 and a threshold >= 0."""
    numbers = []
    for name, value, example in (("max_iters", max_iters, 100), ("check_every", check_every, 1)):
        try:
            number = 0 if isinstance(value, bool) else index(value)
        except TypeError:
            number = 0
        if number < 1:
            raise TiledError(f"{name} to be an integer >= 1", repr(value), f"use e.g. {example}")
        numbers.append(number)
    if isinstance(threshold, bool) or not (isinstance(threshold, int | float) and 0 <= threshold < math.inf):
        raise TiledError(
            "threshold to be a number >= 0", repr(threshold), "use e.g. 1e-6, or 0 to run all of max_iters"
        )
    return Stopping(numbers[0], float(threshold), numbers[1])


def log_masses(
    name: str, mass: Tensor | None, log_mass: Tensor | None, mask: Tensor | None, cost: Cost, renormalize: bool
) -> Tensor:
    """Checked log a (B, n) in the dtype of the cost; -inf where masked or empty. Default: uniform over the unmasked."""
    shape = (cost.batch, cost.n if name == "a" else cost.m)
    _check_mask(name, mask, shape, cost.device)
    if mass is not None and log_mass is not None:
        raise TiledError(f"only one of {name} and log_{name}", "both", "leave one out")
    if mass is not None:
        _check_tensor(name, mass, shape, cost.device)
        mass = mass.detach() if mask is None else torch.where(mask, mass.detach(), 0)
        if not bool(torch.isfinite(mass).all()) or bool((mass < 0).any()):
            raise TiledError(
                f"{name} to be finite and >= 0",
                "NaN, inf or negative entries",
                "clean the masses, or mask these entries",
            )
        logs = torch.log(mass.to(cost.dtype))
    elif log_mass is not None:
        _check_tensor(f"log_{name}", log_mass, shape, cost.device)
        logs = log_mass.detach().to(cost.dtype)
        logs = logs if mask is None else torch.where(mask, logs, -math.inf)
        if bool(torch.isnan(logs).any()) or bool((logs == math.inf).any()):
            raise TiledError(f"log_{name} without NaN or +inf", "NaN or +inf", "use -inf for entries without mass")
    else:
        on = torch.ones(shape, dtype=torch.bool, device=cost.device) if mask is None else mask
        count = on.sum(1, keepdim=True).to(torch.float64)
        logs = (-torch.log(count)).expand(shape).to(cost.dtype)
    if mask is not None:
        logs = torch.where(mask, logs, -math.inf)
    if bool(torch.isneginf(logs).all(1).any()):
        raise TiledError(
            f"some mass in every batch element of {name}",
            "an element whose total is zero" + ("" if mask is None else f" under mask_{name}"),
            "leave empty problems out of the batch",
        )
    if renormalize:
        logs = (logs.double() - padded_log_sum(logs).unsqueeze(1)).to(logs.dtype)
    if not bool((padded_log_sum(logs).abs() < _LARGEST_LOG_TOTAL).all()):
        raise TiledError(
            f"a total of {name} between exp(-{_LARGEST_LOG_TOTAL:.0f}) and exp({_LARGEST_LOG_TOTAL:.0f})",
            "a batch element outside of that range",
            "use renormalize=True, or divide both sides by the same number",
        )
    return logs


def total_mass(log_mass: Tensor) -> Tensor:
    """Sum of the masses (B,), float64."""
    return padded_sum(torch.exp(log_mass.double()))


def equal_totals(log_a: Tensor, log_b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Both sides scaled to the mean of their totals, and the relative difference (B,) between these."""
    total_a, total_b = total_mass(log_a), total_mass(log_b)
    mean = 0.5 * (total_a + total_b)
    mismatch = (total_a - total_b).abs() / mean
    worst = int(mismatch.argmax())
    if float(mismatch[worst]) > TOTALS_AGREE:
        raise TiledError(
            f"hard marginals (tau_a = tau_b = None) with equal totals to {TOTALS_AGREE:g}",
            f"{float(total_a[worst]):.7g} against {float(total_b[worst]):.7g} in batch element {worst}",
            "use renormalize=True, or pass tau_a or tau_b",
        )
    log_a = log_a + torch.log(mean / total_a).unsqueeze(1).to(log_a.dtype)
    log_b = log_b + torch.log(mean / total_b).unsqueeze(1).to(log_b.dtype)
    return log_a, log_b, mismatch


def log_references(reference: str, log_a: Tensor, log_b: Tensor) -> tuple[Tensor, Tensor]:
    """log u and log v: 0 for ``counting``; u = a/sqrt(M_a), v = b/sqrt(M_b) for ``product``. 0 where there is no mass."""
    if reference not in REFERENCES:
        raise TiledError(f"a reference: {', '.join(REFERENCES)}", repr(reference), "use one of these names")
    if reference == "counting":
        return torch.zeros_like(log_a), torch.zeros_like(log_b)
    return _log_share(log_a), _log_share(log_b)


def _log_share(log_mass: Tensor) -> Tensor:
    root = 0.5 * torch.log(total_mass(log_mass)).unsqueeze(1).to(log_mass.dtype)
    return torch.where(torch.isneginf(log_mass), 0.0, log_mass - root)


def _check_mask(name: str, mask: Tensor | None, shape: tuple[int, int], device: torch.device) -> None:
    if mask is None:
        return
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        got = str(mask.dtype) if isinstance(mask, Tensor) else type(mask).__name__
        raise TiledError(f"mask_{name} of dtype torch.bool", got, "use mask.bool(), with True for a real entry")
    _check_tensor(f"mask_{name}", mask, shape, device)


def _check_tensor(name: str, tensor: Any, shape: tuple[int, int], device: torch.device) -> None:
    if not isinstance(tensor, Tensor):
        raise TiledError(f"{name} to be a tensor", type(tensor).__name__, "use torch.as_tensor")
    check_storage(name, tensor)
    if tuple(tensor.shape) != shape:
        raise TiledError(
            f"{name} of shape {shape}", f"shape {tuple(tensor.shape)}", "pass one row of masses per batch element"
        )
    if tensor.is_complex():
        raise TiledError(f"{name} of real numbers", str(tensor.dtype), "use its .real or .abs()")
    if tensor.device != device:
        raise TiledError(f"{name} on {device}, where the cost is", str(tensor.device), f"use {name}.to(C.device)")

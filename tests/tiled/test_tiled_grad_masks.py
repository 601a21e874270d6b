"""Entries that do not exist have gradient exactly 0 and change nothing; nothing is ever NaN."""

from __future__ import annotations

import math

import pytest
import torch
from helpers.tiled_grad_problems import SIDES, largest_difference, problem
from torch import Tensor
from torch.func import grad, vmap

from pairframe.tiled.differentiable import sinkhorn_differentiable, sinkhorn_value
from pairframe.tiled.errors import TiledError
from pairframe.tiled.sinkhorn import sinkhorn

MODES = ["checkpoint", "truncated", "implicit", "envelope", "unrolled"]


def options_of(mode: str, sides: str) -> dict:
    tau_a, tau_b = SIDES[sides]
    iterations = {"grad_iters": 30} if mode == "truncated" else {}
    return {"tau_a": tau_a, "tau_b": tau_b, "grad": mode, "max_iters": 2000, "threshold": 1e-11, **iterations}


@pytest.mark.parametrize("points", [False, True], ids=["stored", "points"])
@pytest.mark.parametrize("sides", ["balanced", "unbalanced"])
@pytest.mark.parametrize("mode", MODES)
def test_padding_changes_nothing_and_gets_no_gradient(mode: str, sides: str, points: bool) -> None:
    data = problem(seed=1, shape=(2, 6, 5))
    n, m = 4, 3
    mask_a, mask_b = torch.zeros(2, 6, dtype=torch.bool), torch.zeros(2, 5, dtype=torch.bool)
    mask_a[:, :n], mask_b[:, :m] = True, True
    options = options_of(mode, sides)

    def mass(padded: Tensor, to: int) -> Tensor:
        return padded / padded[:, :to].sum(1, keepdim=True)

    # The same problem twice: padded and masked, and cut to its real entries.
    outcomes = []
    for cut in (False, True):
        leaves = [one.detach().clone().requires_grad_() for one in (data.x, data.y, data.C, data.a, data.b)]
        x, y, C, a, b = (leaves[0], leaves[1], leaves[2], mass(leaves[3], n), mass(leaves[4], m))
        masks = {"mask_a": mask_a, "mask_b": mask_b}
        if cut:
            x, y, C, a, b, masks = x[:, :n], y[:, :m], C[:, :n, :m], a[:, :n], b[:, :m], {}
        f, g = sinkhorn_differentiable((x, y) if points else C, a, b, 0.2, **options, **masks)
        loss = (data.weight_f[:, :n] * f[:, :n]).sum() + (data.weight_g[:, :m] * g[:, :m]).sum()
        used = leaves[:2] + leaves[3:] if points else leaves[2:]
        outcomes.append(((f[:, :n].detach(), g[:, :m].detach()), torch.autograd.grad(loss, used)))
        if not cut:
            assert (f[:, n:] == 0).all()
            assert (g[:, m:] == 0).all()
    (values, bars), (cut_values, cut_bars) = outcomes
    assert largest_difference(values, cut_values) < 1e-13
    assert largest_difference(bars, cut_bars) < 1e-9
    rows, cols = (bars[0][:, n:], bars[1][:, m:]) if points else (bars[0][:, n:], bars[0][:, :, m:])
    assert (rows == 0).all()
    assert (cols == 0).all()
    assert (bars[-2][:, n:] == 0).all()
    assert (bars[-1][:, m:] == 0).all()


@pytest.mark.parametrize("sides", ["balanced", "unbalanced"])
@pytest.mark.parametrize("mode", MODES)
def test_empty_entries_have_gradient_zero_never_nan(mode: str, sides: str) -> None:
    data = problem(seed=2, shape=(2, 6, 5))
    with torch.no_grad():
        data.a[0, 1], data.b[1, :2] = 0.0, 0.0
        data.a.div_(data.a.sum(1, keepdim=True))
        data.b.div_(data.b.sum(1, keepdim=True))
    f, g = sinkhorn_differentiable(data.C, data.a, data.b, 0.2, **options_of(mode, sides))
    bar_C, bar_a, bar_b = torch.autograd.grad(f.sum() + g.square().sum(), (data.C, data.a, data.b))
    assert f[0, 1] == 0
    assert bar_a[0, 1] == 0
    assert (bar_C[0, 1] == 0).all()
    assert (bar_C[1, :, :2] == 0).all()
    assert (bar_b[1, :2] == 0).all()
    assert all(torch.isfinite(one).all() for one in (bar_C, bar_a, bar_b))


def test_modes_agree_with_masks_and_empty_entries() -> None:
    data = problem(seed=3, shape=(2, 7, 6))
    mask = torch.ones(2, 7, dtype=torch.bool)
    mask[0, 2:4] = False
    with torch.no_grad():
        data.b[0, 0] = 0.0
        data.a.div_(torch.where(mask, data.a, 0.0).sum(1, keepdim=True))
        data.b.div_(data.b.sum(1, keepdim=True))
    for sides in SIDES:
        got = {}
        for mode in ("implicit", "checkpoint", "unrolled"):
            f, g = sinkhorn_differentiable(data.C, data.a, data.b, 0.2, mask_a=mask, **options_of(mode, sides))
            got[mode] = torch.autograd.grad(data.loss(f, g), (data.C, data.a, data.b))
        assert largest_difference(got["implicit"], got["unrolled"]) < 1e-8
        assert largest_difference(got["checkpoint"], got["unrolled"]) < 1e-10


def test_uniform_masses_by_default() -> None:
    data = problem(seed=4, shape=(1, 6, 5))
    mask = torch.tensor([[True, True, False, True, True, True]])
    default = sinkhorn_differentiable(data.C, None, None, 0.1, mask_a=mask)
    a, b = mask.double() / 5, torch.full((1, 5), 0.2, dtype=torch.float64)
    given = sinkhorn_differentiable(data.C, a, b, 0.1, mask_a=mask)
    assert all(torch.allclose(one, other, atol=1e-13) for one, other in zip(default, given, strict=True))


@pytest.mark.parametrize("sides", ["balanced", "unbalanced"])
@pytest.mark.parametrize("mode", MODES)
def test_a_forbidden_pair_has_no_gradient(mode: str, sides: str) -> None:
    data = problem(seed=5, shape=(2, 6, 5))
    with torch.no_grad():
        data.C[0, 1, :3] = torch.inf
    f, g = sinkhorn_differentiable(data.C, data.a, data.b, 0.2, **options_of(mode, sides))
    bar_C, bar_a, _ = torch.autograd.grad(f.sum() + g.square().sum(), (data.C, data.a, data.b))
    assert (bar_C[0, 1, :3] == 0).all()
    assert torch.isfinite(bar_C).all()
    assert torch.isfinite(bar_a).all()


@pytest.mark.parametrize("mode", MODES)
def test_mass_that_reaches_nothing_stays_where_it_is(mode: str) -> None:
    data = problem(seed=6, shape=(1, 6, 5))
    with torch.no_grad():
        data.C[0, 2] = torch.inf
    f, g = sinkhorn_differentiable(data.C, data.a, data.b, 0.2, **options_of(mode, "unbalanced"))
    plain = sinkhorn(data.C, data.a, data.b, 0.2, *SIDES["unbalanced"], max_iters=3000, threshold=1e-12)
    kept = [0, 1, 3, 4, 5]
    assert torch.allclose(f[:, kept], plain.f[:, kept], atol=1e-10)
    assert f[0, 2] == 0
    bars = torch.autograd.grad(data.loss(f, g), (data.C, data.a, data.b))
    assert all(torch.isfinite(one).all() for one in bars)
    assert bars[1][0, 2] == 0
    with pytest.raises(TiledError, match="reach mass of the other side"):
        sinkhorn_differentiable(data.C, data.a, data.b, 0.1, grad=mode, grad_iters=int(mode == "truncated"))


def kl(one: Tensor, other: Tensor) -> Tensor:
    return (torch.xlogy(one, one / other) - one + other).sum()


@pytest.mark.parametrize("reference", ["counting", "product"])
def test_the_value_counts_stranded_mass(reference: str) -> None:
    data = problem(seed=7, shape=(1, 6, 5))
    with torch.no_grad():
        data.C[0, 2] = torch.inf
    tau_a, tau_b = SIDES["unbalanced"]
    options = {"max_iters": 3000, "threshold": 1e-13, "reference": reference}
    plan = sinkhorn(data.C, data.a, data.b, 0.1, tau_a, tau_b, **options).transport_plan(data.C)
    value = sinkhorn_value(data.C, data.a, data.b, 0.1, tau_a=tau_a, tau_b=tau_b, **options)
    kept = [0, 1, 3, 4, 5]
    C, plan, a, stranded = data.C[:, kept], plan[:, kept], data.a[:, kept], data.a[:, 2]
    outer = a.unsqueeze(2) * data.b.unsqueeze(1) / a.sum().sqrt()
    objective = (C * plan).sum() + 0.1 * kl(plan, torch.ones_like(plan) if reference == "counting" else outer)
    objective = objective + tau_a * (kl(plan.sum(2), a) + stranded) + tau_b * kl(plan.sum(1), data.b)
    assert torch.allclose(value, objective, atol=1e-11)

    def at(a: Tensor) -> Tensor:
        return sinkhorn_value(data.C.detach(), a, data.b.detach(), 0.1, tau_a=tau_a, tau_b=tau_b, **options)

    assert torch.autograd.gradcheck(at, [data.a], atol=1e-6, rtol=1e-4, fast_mode=True)


@pytest.mark.parametrize("held", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("points", [False, True], ids=["stored", "points"])
@pytest.mark.parametrize("mode", [*MODES, "value"])
def test_masked_entries_may_hold_anything_and_get_no_gradient(mode: str, points: bool, held: float) -> None:
    data = problem(seed=2, shape=(2, 6, 5))
    mask_a, mask_b = torch.ones(2, 6, dtype=torch.bool), torch.ones(2, 5, dtype=torch.bool)
    mask_a[0, 0], mask_b[1, 3] = False, False
    outcomes = []
    for fill in (0.5, held):
        leaves = [one.detach().clone() for one in (data.x, data.y, data.C, data.a, data.b)]
        x, y, C, a, b = leaves
        x[0, 0], y[1, 3], C[0, 0], C[1, :, 3], a[0, 0], b[1, 3] = fill, fill, fill, fill, fill, fill
        used = [one.requires_grad_() for one in ([x, y, a, b] if points else [C, a, b])]
        cost = (x, y) if points else C
        if mode == "value":
            loss = sinkhorn_value(cost, a, b, 0.2, tau_a=1.0, tau_b=1.0, mask_a=mask_a, mask_b=mask_b).sum()
        else:
            options = options_of(mode, "unbalanced")
            f, g = sinkhorn_differentiable(cost, a, b, 0.2, mask_a=mask_a, mask_b=mask_b, **options)
            loss = (data.weight_f * f).sum() + (data.weight_g * g).sum()
        outcomes.append((loss.detach(), *torch.autograd.grad(loss, used)))
    for one, other in zip(*outcomes, strict=True):
        assert torch.equal(one, other)
    bars = outcomes[1][1:]
    assert (bars[-2][0, 0] == 0).all()
    assert (bars[-1][1, 3] == 0).all()
    assert (bars[0][0, 0] == 0).all()
    assert ((bars[1][1, 3] if points else bars[0][1, :, 3]) == 0).all()
    assert bool((bars[0] != 0).any())


def test_masked_entries_may_hold_anything_under_vmap() -> None:
    data = problem(seed=3, shape=(2, 6, 5))
    mask_a = torch.ones(2, 6, dtype=torch.bool)
    mask_a[0, 0] = False
    C = torch.stack((data.C.detach(), 2.0 * data.C.detach()))

    def loss(C: Tensor) -> Tensor:
        f, _ = sinkhorn_differentiable(C, None, None, 0.2, mask_a=mask_a, **options_of("implicit", "unbalanced"))
        return f.square().sum()

    plain = vmap(grad(loss))(C)
    C[:, 0, 0] = math.nan
    padded = vmap(grad(loss))(C)
    assert torch.equal(plain, padded)
    assert (padded[:, 0, 0] == 0).all()

"""Padding changes nothing, empty entries are empty, and what cannot be reached stays."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pairframe.tiled import DenseCost, TiledError, sinkhorn

TAUS = [(None, None), (1.0, 1.0), (0.5, None), (None, 2.0)]


def batch(n: int, m: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(n * 1000 + m)
    draw = lambda *shape: torch.rand(*shape, generator=generator, dtype=torch.float64).to(dtype)  # noqa: E731
    return draw(2, n, 2), draw(2, m, 2), draw(2, n) + 0.01, draw(2, m) + 0.01


@settings(max_examples=15, deadline=None)
@given(
    n=st.integers(1, 100),
    m=st.integers(1, 150),
    extra_n=st.integers(0, 90),
    extra_m=st.integers(0, 150),
    taus=st.sampled_from(TAUS),
    dense=st.booleans(),
    reference=st.sampled_from(["counting", "product"]),
    single=st.booleans(),
)
def test_trailing_padding_changes_no_bit_of_the_solution(
    n: int,
    m: int,
    extra_n: int,
    extra_m: int,
    taus: tuple[float | None, float | None],
    dense: bool,
    reference: str,
    single: bool,
) -> None:
    x, y, a, b = batch(n + extra_n, m + extra_m, torch.float32 if single else torch.float64)
    mask_a = torch.zeros(2, n + extra_n, dtype=torch.bool)
    mask_b = torch.zeros(2, m + extra_m, dtype=torch.bool)
    mask_a[:, :n], mask_b[:, :m] = True, True
    matrix = ((x[:, :, None] - y[:, None]) ** 2).sum(3)
    more = {"renormalize": True, "reference": reference, "max_iters": 12}
    whole = matrix if dense else (x, y)
    part = matrix[:, :n, :m].contiguous() if dense else (x[:, :n], y[:, :m])
    padded = sinkhorn(whole, a, b, 0.05, *taus, mask_a, mask_b, **more)
    alone = sinkhorn(part, a[:, :n], b[:, :m], 0.05, *taus, **more)
    for name in ("f", "g", "n_iters", "converged", "marginal_error", "potential_change", "plan_mass"):
        one, other = getattr(alone, name), getattr(padded, name)
        assert torch.equal(one, other[:, : one.shape[1]] if one.dim() == 2 else other), name
    assert torch.equal(alone.dual(), padded.dual())
    assert (padded.f[:, n:] == 0).all()
    plan = padded.transport_plan(whole)
    assert (plan[:, n:] == 0).all()
    assert (plan[:, :, m:] == 0).all()


@pytest.mark.parametrize("taus", TAUS, ids=str)
def test_masks_anywhere_equal_the_smaller_problem(taus: tuple[float | None, float | None]) -> None:
    x, y, a, b = batch(90, 130)
    mask_a = torch.rand(2, 90, generator=torch.Generator().manual_seed(1)) < 0.6
    mask_b = torch.rand(2, 130, generator=torch.Generator().manual_seed(2)) < 0.6
    out = sinkhorn((x, y), a, b, 0.05, *taus, mask_a, mask_b, renormalize=True, max_iters=60, threshold=0)
    for k in range(2):
        part = (x[k][mask_a[k]][None], y[k][mask_b[k]][None])
        alone = sinkhorn(
            part, a[k][mask_a[k]][None], b[k][mask_b[k]][None], 0.05, *taus, renormalize=True, max_iters=60, threshold=0
        )
        assert torch.allclose(out.f[k][mask_a[k]], alone.f[0], rtol=0, atol=1e-14)
        assert torch.allclose(out.g[k][mask_b[k]], alone.g[0], rtol=0, atol=1e-14)
        assert (out.f[k][~mask_a[k]] == 0).all()


def test_what_masked_entries_hold_does_not_matter() -> None:
    x, y, a, b = batch(30, 40)
    mask_a, mask_b = torch.ones(2, 30, dtype=torch.bool), torch.ones(2, 40, dtype=torch.bool)
    mask_a[0, 5], mask_b[1, 7] = False, False
    matrix = ((x[:, :, None] - y[:, None]) ** 2).sum(3)
    one = sinkhorn(matrix, a, b, 0.1, 1.0, 1.0, mask_a, mask_b)
    matrix[0, 5], matrix[1, :, 7], a[0, 5] = -1e9, math.inf, 1e9
    other = sinkhorn(matrix, a, b, 0.1, 1.0, 1.0, mask_a, mask_b)
    assert torch.equal(one.f, other.f)
    assert torch.equal(one.g, other.g)


def test_zero_mass_is_no_mass_not_a_little() -> None:
    x, y, a, b = batch(30, 40)
    a[:, 4], b[:, 9] = 0.0, 0.0
    for taus in ((1.0, 1.0), (None, 1.0)):
        out = sinkhorn((x, y), a, b, 0.1, *taus)
        plan = out.transport_plan((x, y))
        assert (plan[:, 4] == 0).all()
        assert (plan[:, :, 9] == 0).all()
        assert (out.f[:, 4] == 0).all()
        assert torch.isfinite(out.dual()).all()
        mask = a > 0
        masked = sinkhorn((x, y), a, b, 0.1, *taus, mask)
        assert torch.equal(masked.f, out.f)


def test_masses_below_the_smallest_float_are_given_as_logarithms() -> None:
    x, y, a, b = batch(20, 30)
    log_a = a.log()
    log_a[:, 3] = -900.0  # e^-900 is 0 in float64
    out = sinkhorn((x, y), None, None, 0.1, 1.0, 1.0, log_a=log_a, log_b=b.log())
    assert torch.isfinite(out.f).all()
    assert (out.f[:, 3] < -80.0).all()
    assert torch.isfinite(out.dual()).all()


def test_mass_that_reaches_nothing_stays_and_is_paid_for() -> None:
    """One row whose costs are all infinite: under a soft marginal it sends nothing, and that costs tau a."""
    x, y, a, b = batch(20, 30)
    matrix = ((x[:, :, None] - y[:, None]) ** 2).sum(3)
    kept = torch.ones(2, 20, dtype=torch.bool)
    kept[:, 6] = False
    without = sinkhorn(matrix, a, b, 0.1, 0.7, 1.0, kept, max_iters=500, threshold=1e-11)
    matrix[:, 6] = math.inf
    out = sinkhorn(matrix, a, b, 0.1, 0.7, 1.0, max_iters=500, threshold=1e-11)
    assert out.converged.all()
    assert torch.allclose(out.f[kept], without.f[kept], atol=1e-12)
    assert (out.transport_plan(matrix)[:, 6] == 0).all()
    assert torch.allclose(out.objective(matrix), out.dual(), rtol=1e-10)
    assert torch.allclose(out.dual(), without.dual() + 0.7 * a[:, 6], rtol=1e-10)
    with pytest.raises(TiledError, match=r"reach none.*pass tau_a"):
        sinkhorn(matrix, a, b, 0.1, None, 1.0)


def test_forbidden_pairs_carry_nothing() -> None:
    x, y, a, b = batch(20, 30)
    matrix = ((x[:, :, None] - y[:, None]) ** 2).sum(3)
    matrix[:, ::3, ::3] = math.inf
    out = sinkhorn(matrix, a, b, 0.1, renormalize=True, max_iters=500)
    assert out.converged.all()
    plan = out.transport_plan(matrix)
    assert (plan[:, ::3, ::3] == 0).all()
    assert torch.isfinite(out.cost(matrix)).all()


@pytest.mark.parametrize("dimension", [2, 4, 7])
@pytest.mark.parametrize("far", [1e4, 1e8, 1e12])
def test_padded_points_may_lie_anywhere(dimension: int, far: float) -> None:
    generator = torch.Generator().manual_seed(dimension)
    x, y = (torch.rand(1, n, dimension, generator=generator, dtype=torch.float64) for n in (6, 5))
    away = torch.full((1, 1, dimension), far, dtype=torch.float64)
    settings = {"epsilon": 0.1, "tau_a": 1.0, "tau_b": 1.0, "max_iters": 1000}
    plain = sinkhorn((x, y), **settings)
    masks = [torch.arange(n + 1)[None] > 0 for n in (6, 5)]
    padded = (torch.cat((away, x), 1), torch.cat((away, y), 1))
    found = sinkhorn(padded, mask_a=masks[0], mask_b=masks[1], **settings)
    assert torch.allclose(found.f[:, 1:], plain.f, rtol=0, atol=1e-13)
    assert torch.allclose(found.cost(padded), plain.cost((x, y)), rtol=1e-12)


def test_totals_that_floats_cannot_hold_are_refused_or_renormalised() -> None:
    cost, logs = torch.rand(1, 3, 3, dtype=torch.float64), torch.tensor([[-800.0, -801.0, -802.0]], dtype=torch.float64)
    with pytest.raises(TiledError, match=r"a total of a between.*renormalize=True"):
        sinkhorn(cost, log_a=logs, log_b=logs)
    found = sinkhorn(cost, log_a=logs, log_b=logs, renormalize=True, max_iters=2000)
    assert bool(found.converged.all())
    assert torch.isfinite(found.f).all()


def test_a_cost_that_would_overflow_is_refused_unless_it_is_masked() -> None:
    cost = torch.rand(1, 4, 4)
    cost[:, 3] = torch.finfo(torch.float32).min
    with pytest.raises(TiledError, match=r"costs above .* mask the entries"):
        sinkhorn(cost)
    mask = torch.tensor([[True, True, True, False]])
    alone = sinkhorn(cost[:, :3].contiguous())
    assert torch.equal(sinkhorn(cost, mask_a=mask).f[:, :3], alone.f)


ANYTHING = [math.nan, math.inf, -math.inf, -1e308, 1e308]


@pytest.mark.parametrize("held", ANYTHING)
@pytest.mark.parametrize("kind", ["stored", "wrapped", "points", "logs"])
def test_masked_entries_may_hold_anything(held: float, kind: str) -> None:
    x, y, a, b = batch(9, 11)
    mask_a, mask_b = torch.ones(2, 9, dtype=torch.bool), torch.ones(2, 11, dtype=torch.bool)
    mask_a[0, 5], mask_b[1, 7], mask_b[1, 0] = False, False, False
    matrix = ((x[:, :, None] - y[:, None]) ** 2).sum(3)

    def solved() -> tuple[Tensor, ...]:
        C = {"points": (x, y), "wrapped": DenseCost(matrix)}.get(kind, matrix)
        logs = {"log_a": a.log(), "log_b": b.log()} if kind == "logs" else {"a": a, "b": b}
        out = sinkhorn(C, epsilon=0.1, tau_a=1.0, tau_b=1.0, mask_a=mask_a, mask_b=mask_b, **logs)
        return out.f, out.g, out.dual(), out.cost(C), out.objective(C), out.transport_plan(C)

    wanted = solved()
    matrix[0, 5], matrix[1, :, 7], matrix[1, :, 0] = held, held, held
    x[0, 5], y[1, 7], y[1, 0] = held, held, held
    a[0, 5], b[1, 7], b[1, 0] = abs(held) if kind == "logs" else held, held, math.nan
    for one, other in zip(wanted, solved(), strict=True):
        assert torch.equal(one, other)


def test_nan_outside_of_the_mask_is_still_refused() -> None:
    x, y, a, b = batch(9, 11)
    mask_a = torch.ones(2, 9, dtype=torch.bool)
    mask_a[0, 5] = False
    matrix = ((x[:, :, None] - y[:, None]) ** 2).sum(3)
    matrix[1, 5, 0] = math.nan
    with pytest.raises(TiledError, match="without NaN"):
        sinkhorn(matrix, a, b, 0.1, 1.0, 1.0, mask_a)
    a[1, 5], x[1, 5] = math.nan, math.nan
    with pytest.raises(TiledError, match="a to be finite and >= 0"):
        sinkhorn(matrix[:1].expand(2, -1, -1), a, b, 0.1, 1.0, 1.0, mask_a)
    with pytest.raises(TiledError, match="finite points x"):
        sinkhorn((x, y), None, b, 0.1, 1.0, 1.0, mask_a)

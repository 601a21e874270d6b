"""Every pass equals the plain formula, in one piece or in strips, fused or not."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from pairframe.tiled import passes
from pairframe.tiled.cost import Cost, DenseCost, PointCost

SHAPES = [(1, 1, 1, 2), (3, 70, 131, 2), (2, 300, 129, 3), (1, 65, 300, 5), (5, 7, 9, 1), (1, 600, 500, 2)]
INF = math.inf


def points(shape: tuple[int, int, int, int], dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    b, n, m, d = shape
    generator = torch.Generator().manual_seed(n + 7 * m)
    x = torch.rand(b, n, d, generator=generator, dtype=torch.float64)
    y = torch.rand(b, m, d, generator=generator, dtype=torch.float64)
    return x.to(dtype), y.to(dtype)


def squared(x: Tensor, y: Tensor) -> Tensor:
    return ((x[:, :, None] - y[:, None]) ** 2).sum(3)


def exponents(batch: int, n: int, seed: int, every: int) -> Tensor:
    values = 3.0 * torch.randn(batch, n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    values[:, every - 1 :: every] = -INF
    return values


def close(found: Tensor, wanted: Tensor, tol: float) -> None:
    assert not torch.isnan(found).any()
    assert torch.equal(torch.isneginf(found), torch.isneginf(wanted))
    on = torch.isfinite(wanted)
    assert ((found - wanted)[on].abs() <= tol * (1.0 + wanted[on].abs())).all()


def both_costs(shape: tuple[int, int, int, int]) -> list[tuple[Cost, Tensor]]:
    x, y = points(shape)
    matrix = squared(x, y)
    forbidden = matrix.clone()
    forbidden[:, :: max(1, shape[1] // 3), :: max(2, shape[2] // 5)] = INF
    if shape[1:3] == (1, 1):
        forbidden = matrix
    transposed = matrix.transpose(1, 2).contiguous()
    return [
        (DenseCost(matrix), matrix),
        (DenseCost(forbidden), forbidden),
        (PointCost(x, y), matrix),
        (DenseCost(transposed).transposed(), matrix),
        (PointCost(y, x).transposed(), matrix),
    ]


@pytest.mark.parametrize("epsilon", [1.0, 0.01, 1e-4])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_log_sums_equal_the_formula(shape: tuple[int, int, int, int], epsilon: float) -> None:
    for cost, matrix in both_costs(shape):
        log_a, log_b = exponents(shape[0], shape[1], 1, 5), exponents(shape[0], shape[2], 2, 4)
        rows = torch.logsumexp(log_b[:, None] - matrix / epsilon, 2)
        cols = torch.logsumexp(log_a[:, :, None] - matrix / epsilon, 1)
        close(passes.log_sum_rows(cost, epsilon, log_b), rows, 1e-12)
        close(passes.log_sum_cols(cost, epsilon, log_a), cols, 1e-12)


@pytest.mark.parametrize("epsilon", [1.0, 0.01, 1e-4])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_fused_iteration_equals_two_passes(shape: tuple[int, int, int, int], epsilon: float) -> None:
    log_b, base = exponents(shape[0], shape[2], 3, 4), exponents(shape[0], shape[1], 4, 6)

    def update(rows: tuple[slice, slice], sums: Tensor) -> Tensor:
        return torch.where(torch.isneginf(sums), -INF, base[rows] - 0.7 * sums)

    for cost, _ in both_costs(shape):
        rows = passes.log_sum_rows(cost, epsilon, log_b)
        log_a = update((slice(None), slice(None)), rows)
        cols = passes.log_sum_cols(cost, epsilon, log_a)
        for found, wanted in zip(passes.rows_then_cols(cost, epsilon, log_b, update), (rows, log_a, cols), strict=True):
            close(found, wanted, 1e-12)
        skipped = passes.full_iteration(cost, epsilon, log_b, update)[2]
        close(skipped, torch.where(torch.isneginf(log_b), -INF, cols), 1e-12)


def test_columns_that_underflow_are_summed_again() -> None:
    """A column 10^5 epsilons from everything gets nothing of the fused sums, but has an exact log sum."""
    x = torch.linspace(0.0, 1.0, 90, dtype=torch.float64).reshape(1, -1, 1)
    y = torch.cat([x[:, ::2], torch.tensor([[[40.0], [-33.0]]], dtype=torch.float64)], 1)
    for cost in (PointCost(x, y), DenseCost(squared(x, y)), DenseCost(squared(x, y).float())):
        zero = torch.zeros(1, 47, dtype=cost.dtype)
        _, log_a, cols = passes.rows_then_cols(cost, 0.01, zero, lambda _, sums: -sums)
        wanted = torch.logsumexp(log_a[:, :, None] - squared(x, y) / 0.01, 1)
        assert wanted.min() < -1e4
        close(cols.double(), wanted, 1e-6 if cost.dtype == torch.float32 else 1e-13)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_plan_products_equal_the_dense_plan(shape: tuple[int, int, int, int]) -> None:
    b, n, m, _ = shape
    generator = torch.Generator().manual_seed(5)
    values_m = torch.randn(b, m, 3, generator=generator, dtype=torch.float64)
    values_n = torch.randn(b, n, 3, generator=generator, dtype=torch.float64)
    scale = torch.rand(b, n, generator=generator, dtype=torch.float64)
    log_a, log_b = exponents(b, n, 6, 5) - 3.0, exponents(b, m, 7, 4) - 3.0
    for cost, matrix in both_costs(shape):
        plan = torch.exp(log_a[:, :, None] + log_b[:, None] - matrix / 0.3)
        close(passes.plan_times(cost, 0.3, log_a, log_b, values_m), plan @ values_m, 1e-11)
        close(passes.plan_transposed_times(cost, 0.3, log_a, log_b, values_n), plan.mT @ values_n, 1e-11)
        y, z = passes.plan_gram(cost, 0.3, log_a, log_b, values_m, scale)
        close(y, plan @ values_m, 1e-11)
        close(z, plan.mT @ (scale[:, :, None] * (plan @ values_m)), 1e-10)
        wanted = torch.where(plan > 0, plan * matrix, 0.0).sum((1, 2))
        close(passes.plan_cost_sum(cost, 0.3, log_a, log_b), wanted, 1e-12)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_cost_gradients_equal_autograd(shape: tuple[int, int, int, int]) -> None:
    b, n, m, _ = shape
    left, right = exponents(b, n, 8, n + 1), exponents(b, m, 9, m + 1)
    log_a, log_b = exponents(b, n, 6, 5) - 3.0, exponents(b, m, 7, 4) - 3.0
    x, y = (one.requires_grad_() for one in points(shape))
    matrix = squared(x, y)
    with torch.no_grad():
        weights = torch.exp(log_a[:, :, None] + log_b[:, None] - matrix / 0.3) * (left[:, :, None] + right[:, None])
    (weights * matrix).sum().backward()
    dense = DenseCost(matrix.detach())
    whole = passes.accumulate_cost_gradient(dense, 0.3, log_a, log_b, left, right)
    assert isinstance(whole, Tensor)
    close(whole, weights, 1e-12)
    into = torch.ones_like(weights)
    passes.accumulate_cost_gradient(dense, 0.3, log_a, log_b, left, right, out=into)
    close(into, weights + 1.0, 1e-12)
    far = torch.tensor([1e3] * shape[3], dtype=torch.float64)  # the same points, far from the origin
    for shift, tol in ((torch.zeros_like(far), 1e-11), (far, 1e-8)):
        cost = PointCost(x.detach() + shift, y.detach() + shift)
        d_x, d_y = passes.accumulate_cost_gradient(cost, 0.3, log_a, log_b, left, right)
        close(d_x, x.grad, tol)
        close(d_y, y.grad, tol)


def test_float32_points_far_from_the_origin_keep_their_small_distances() -> None:
    x, y = points((1, 40, 50, 2), torch.float32)
    x, y = x + 1000.0, y + 1000.0
    exact = squared(x.double(), y.double())
    assert ((PointCost(x, y).tile(0, 0, 40, 0, 50) - exact[0]).abs() <= 3e-7 * exact[0]).all()
    x, y = (one.repeat(1, 1, 4) for one in (x, y))  # eight dimensions: by products, in float64
    assert ((PointCost(x, y).tile(0, 0, 40, 0, 50) - 4.0 * exact[0]).abs() <= 1e-6 * exact[0] + 1e-9).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_read_but_not_accumulated_in(dtype: torch.dtype) -> None:
    x, y = points((2, 80, 90, 2))
    matrix = squared(x, y).to(dtype)
    log_b = exponents(2, 90, 2, 4).float()
    found = passes.log_sum_rows(DenseCost(matrix), 0.1, log_b)
    assert found.dtype == torch.float32
    close(found.double(), torch.logsumexp(log_b.double()[:, None] - matrix.double() / 0.1, 2), 1e-5)


def test_no_mass_anywhere_is_minus_infinity_not_nan() -> None:
    x, y = points((2, 70, 90, 2))
    nothing_a, nothing_b = torch.full((2, 70), -INF), torch.full((2, 90), -INF)
    for cost in (PointCost(x, y), DenseCost(squared(x, y)), DenseCost(torch.full((2, 70, 90), INF))):
        assert (passes.log_sum_rows(cost, 0.1, nothing_b) == -INF).all()
        assert (passes.log_sum_cols(cost, 0.1, nothing_a) == -INF).all()
        assert (passes.plan_cost_sum(cost, 0.1, nothing_a, nothing_b) == 0.0).all()
        sums = passes.rows_then_cols(cost, 0.1, nothing_b, lambda _, rows: rows)
        assert all((one == -INF).all() for one in sums)


@settings(max_examples=30, deadline=None)
@example(n=1, m=98, extra_n=1, extra_m=266, single=True)
@example(n=66, m=1, extra_n=9, extra_m=12, single=True)
@example(n=3, m=1, extra_n=5, extra_m=1, single=True)
@given(
    n=st.integers(1, 150),
    m=st.integers(1, 300),
    extra_n=st.integers(0, 200),
    extra_m=st.integers(0, 300),
    single=st.booleans(),
)
def test_trailing_padding_changes_no_bit(n: int, m: int, extra_n: int, extra_m: int, single: bool) -> None:
    dtype = torch.float32 if single else torch.float64
    x, y = points((2, n + extra_n, m + extra_m, 2), dtype)
    log_b, base = exponents(2, m + extra_m, 3, 4).to(dtype), exponents(2, n + extra_n, 4, 6).to(dtype)
    padded_b, padded_base = log_b.clone(), base.clone()
    padded_b[:, m:], padded_base[:, n:] = -INF, -INF

    def iterate(cost: Cost, log_b: Tensor, base: Tensor) -> tuple[Tensor, ...]:
        update = lambda rows, sums: torch.where(torch.isneginf(sums), -INF, base[rows] - 0.7 * sums)  # noqa: E731
        rows, log_a, cols = passes.full_iteration(cost, 0.02, log_b, update)
        return rows, log_a, cols, passes.log_sum_rows(cost, 0.02, log_b), passes.log_sum_cols(cost, 0.02, base)

    for whole in (PointCost(x, y), DenseCost(squared(x, y))):
        if isinstance(whole, PointCost):
            part: Cost = PointCost(x[:, :n], y[:, :m])
        else:
            part = DenseCost(whole.matrix[:, :n, :m].contiguous())
        alone = iterate(part, log_b[:, :m], base[:, :n])
        padded = iterate(whole, padded_b, padded_base)
        for one, other in zip(alone, padded, strict=True):
            assert torch.equal(one, other[:, : one.shape[1]])


def test_threads_and_batch_change_no_bit() -> None:
    x, y = points((6, 400, 300, 2))
    log_b = exponents(6, 300, 3, 400)
    many = passes.rows_then_cols(PointCost(x, y), 0.02, log_b, lambda _, sums: -sums)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = passes.rows_then_cols(PointCost(x, y), 0.02, log_b, lambda _, sums: -sums)
    finally:
        torch.set_num_threads(threads)
    single = passes.rows_then_cols(PointCost(x[3:4], y[3:4]), 0.02, log_b[3:4], lambda _, sums: -sums)
    for one, other, third in zip(many, alone, single, strict=True):
        assert torch.equal(one, other)
        assert torch.equal(one[3:4], third)


def test_the_threads_of_the_caller_are_left_as_they_were() -> None:
    before = torch.get_num_threads()
    x, y = points((1, 600, 600, 2))
    passes.log_sum_rows(PointCost(x, y), 0.1, torch.zeros(1, 600, dtype=torch.float64))
    assert torch.get_num_threads() == before

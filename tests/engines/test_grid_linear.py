"""Sums as plain convolutions equal the dense ones wherever they are given, and are refused where the range is too large."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pairframe.engines.grid import linear
from pairframe.engines.grid.kernel import SupportKernel
from pairframe.engines.grid.linear import LinearSums
from pairframe.parallel import threads


def dense(on_in: np.ndarray, on_out: np.ndarray, log_weight: np.ndarray, eps: float, spacing: tuple[float, ...]):
    at_in, at_out = (np.argwhere(on) * np.array(spacing) for on in (on_in, on_out))
    exponent = log_weight - ((at_out[:, None] - at_in) ** 2).sum(axis=2) / eps
    top = exponent.max(axis=1)
    return top + np.log(np.exp(exponent - top[:, None]).sum(axis=1))


def linear_of(kernel: SupportKernel) -> LinearSums:
    """The sums of a kernel, however long they take."""
    return LinearSums(kernel._axes, math.inf)


@st.composite
def cases(draw: st.DrawFn):
    n_axes = draw(st.integers(2, 3))
    shape = tuple(draw(st.integers(1, 40 if n_axes == 2 else 12)) for _ in range(n_axes))
    spacing = tuple(draw(st.sampled_from((0.5, 1.0, 3.0))) for _ in range(n_axes))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    share = draw(st.sampled_from((0.02, 0.3, 0.9)))
    supports = [rng.random(shape) < share for _ in range(2)]
    for support in supports:
        support[tuple(rng.integers(n) for n in shape)] = True
    slope = draw(st.sampled_from((0.0, 1.0, 30.0))) * rng.normal(size=n_axes)
    epsilon = 10.0 ** draw(st.floats(-1, 3))
    places = np.argwhere(supports[0])
    log_weight = draw(st.sampled_from((0.0, 1.0, 60.0))) * rng.normal(size=len(places)) + places @ slope
    return supports[0], supports[1], log_weight, epsilon, spacing


ONE_TO_BOTH_ENDS = np.arange(40) == 0, np.isin(np.arange(40), (0, 39))


@given(cases())
@example((*(one[None] for one in ONE_TO_BOTH_ENDS), np.zeros(1), 4.2, (1.0, 1.0)))  # the first sum of all is nothing
@settings(max_examples=200, deadline=None)
def test_sums_equal_the_dense_ones_or_are_refused(case) -> None:
    on_in, on_out, log_weight, epsilon, spacing = case
    kernel = SupportKernel(on_in, on_out, epsilon, spacing=spacing)
    found = linear_of(kernel).log_sum(log_weight)
    expected = dense(on_in, on_out, log_weight, epsilon, spacing)
    # An exponent of size S is known to S * 1e-16.
    sides = (np.array(on_in.shape) * spacing) ** 2
    size = np.abs(log_weight).max() + np.abs(expected).max() + sides.sum() / epsilon
    if found is not None:
        assert np.abs(found - expected).max() <= 1e-15 * (30.0 + size)
    # With hardly any range they have to be given.
    if np.ptp(log_weight) + sides.sum() / epsilon < 400.0:
        assert found is not None
    np.testing.assert_allclose(kernel.log_sum(log_weight), expected, rtol=1e-12, atol=1e-15 * (30.0 + size))


def test_sums_near_one_are_known_to_the_last_digits() -> None:
    rng = np.random.default_rng(1)
    on = rng.random((20, 70)) < 0.4
    log_weight = rng.normal(size=int(on.sum()))
    found = linear_of(SupportKernel(on, on, 3.0)).log_sum(log_weight)
    assert found is not None
    # Products in extended precision, where the platform has it.
    exponent = log_weight - ((np.argwhere(on)[:, None] - np.argwhere(on)) ** 2).sum(axis=2) / np.longdouble(3.0)
    assert np.abs(found - np.log(np.exp(exponent).sum(axis=1))).max() < 3e-15


def disc(shape: tuple[int, int], middle: tuple[int, int], radius: float) -> np.ndarray:
    y, x = np.ogrid[: shape[0], : shape[1]]
    return (y - middle[0]) ** 2 + (x - middle[1]) ** 2 <= radius**2


def test_a_common_shift_is_taken_out_of_the_exponents() -> None:
    """A disc moved by 60 px at a blur of 2: weights span 2 * 60 * 60 / 4 = 1800, and sums as much."""
    on_in, on_out = disc((80, 160), (40, 40), 30.0), disc((80, 160), (40, 100), 30.0)
    log_weight = 2.0 * 60.0 / 4.0 * -np.argwhere(on_in)[:, 1]
    kernel = SupportKernel(on_in, on_out, 4.0)
    found = linear_of(kernel).log_sum(log_weight)
    assert np.ptp(log_weight) > 1700.0
    assert found is not None
    np.testing.assert_allclose(found, dense(on_in, on_out, log_weight, 4.0, (1.0, 1.0)), rtol=1e-14)


def test_a_shift_that_does_not_help_is_left_out() -> None:
    """Mass stays where it is, though the middles of both sides are far apart."""
    on_in = disc((60, 120), (30, 30), 20.0)
    on_out = on_in | disc((60, 120), (30, 60), 25.0)
    on_in |= on_out
    on_out = on_out & (np.arange(120) < 50)
    log_weight = np.zeros(int(on_in.sum()))
    found = linear_of(SupportKernel(on_in, on_out, 1.0)).log_sum(log_weight)
    assert found is not None
    np.testing.assert_allclose(found, dense(on_in, on_out, log_weight, 1.0, (1.0, 1.0)), atol=1e-13)


def test_a_range_that_grows_and_shrinks_is_followed() -> None:
    on = disc((60, 60), (30, 30), 25.0)
    sums = linear_of(SupportKernel(on, on, 4.0))
    unit = np.argwhere(on)[:, 0] / 60.0
    for size in (0.0, 300.0, 3.0, 500.0, 0.0):
        found = sums.log_sum(size * unit)
        assert found is not None, size
        np.testing.assert_allclose(found, dense(on, on, size * unit, 4.0, (1.0, 1.0)), atol=1e-12)


@pytest.mark.parametrize("weights", [1e4, np.nan, np.inf, -np.inf])
def test_too_large_a_range_is_refused_from_then_on(weights: float) -> None:
    on = disc((80, 80), (40, 40), 35.0)
    some = np.zeros(int(on.sum()))
    sums = linear_of(SupportKernel(on, on, 4.0))
    assert sums.log_sum(some) is not None
    other = some.copy()
    other[7] = weights
    assert sums.log_sum(other) is None
    assert sums.log_sum(some) is None


def test_outputs_too_far_away_are_refused() -> None:
    on_in, on_out = disc((20, 300), (10, 10), 5.0), np.ones((20, 300), bool)
    kernel = SupportKernel(on_in, on_out, 4.0)
    log_weight = np.zeros(int(on_in.sum()))
    assert linear_of(kernel).log_sum(log_weight) is None
    np.testing.assert_allclose(
        kernel.log_sum(log_weight), dense(on_in, on_out, log_weight, 4.0, (1.0, 1.0)), rtol=1e-12, atol=1e-12
    )


def test_a_kernel_far_wider_than_the_windows_of_the_passes_is_left_to_them() -> None:
    on = np.ones((1200, 200), bool)
    for size, is_left in ((560.0, True), (5.0, False)):
        kernel = SupportKernel(on, on, 400.0)
        kernel.log_sum(np.linspace(-size, 0.0, kernel.n_in))
        assert (kernel._linear is None) == is_left


def test_no_try_is_made_where_sums_are_expected_to_be_too_small() -> None:
    on = disc((40, 40), (20, 20), 15.0)
    for depth, is_left in ((math.inf, True), (50.0, False)):
        kernel = SupportKernel(on, on, 4.0, expected_depth=depth)
        kernel.log_sum(np.zeros(kernel.n_in))
        assert (kernel._linear is None) == is_left


@pytest.mark.parametrize("shape", [(60, 70), (9, 20, 30)])
def test_threads_change_no_bit(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    on_in, on_out = (rng.random(shape) < 0.5 for _ in range(2))
    log_weight = 20.0 * rng.normal(size=on_in.sum())
    in_one_call = linear_of(SupportKernel(on_in, on_out, 3.0)).log_sum(log_weight)
    assert in_one_call is not None
    monkeypatch.setattr(threads, "_SMALL", 1)
    with threads.at_most(3):
        np.testing.assert_array_equal(linear_of(SupportKernel(on_in, on_out, 3.0)).log_sum(log_weight), in_one_call)


@pytest.mark.parametrize("size", [100.0, 590.0])
@pytest.mark.parametrize("epsilon", [0.05, 0.2, 4.0])
@pytest.mark.parametrize("shape", [(40, 50), (12, 16, 20)])
def test_no_product_is_subnormal_and_nothing_of_use_is_dropped(
    shape: tuple[int, ...], epsilon: float, size: float
) -> None:
    numbers = np.finfo(np.float64)
    on = np.ones(shape, bool)
    sums = linear_of(SupportKernel(on, on, epsilon))
    log_weight = np.linspace(-size, 0.0, on.size)
    sums.log_sum(log_weight)  # finds out how deep the sums are
    found = sums.log_sum(log_weight)
    assert found is not None
    assert sums._sums is not None
    assert sums._sums._grids is not None
    grids = sums._sums._grids
    inputs = [grids.powers, *(out for _, out in grids.stages)]
    for lines, (kernel, _) in zip(inputs, sums._sums._kernels[::-1], strict=False):
        least = lines[lines > 0.0].min() * kernel[kernel > 0.0].min()
        assert least >= numbers.tiny, "the smallest product"
    np.testing.assert_allclose(found, dense(on, on, log_weight, epsilon, (1.0,) * on.ndim), atol=1e-11)
    assert linear._LIFT * np.log(2.0) + np.log(1e10) < np.log(float(numbers.max)), "a sum of 1e10 terms"
    dropped = np.exp(linear._MOST_DEPTH - linear._FLOOR) * 1e4
    assert dropped < float(numbers.eps), "what is dropped, beside the smallest sum"


def test_memory_of_a_large_grid_is_freed_between_solves() -> None:
    on = np.ones((1500, 1500), bool)
    kernel = SupportKernel(on, on, 1.0)
    log_weight = np.zeros(on.size)
    before = kernel.log_sum(log_weight)
    assert kernel._linear is not None
    assert kernel._linear.nbytes > 3 * 8 * on.size - 1
    kernel.release_large_buffers()
    assert kernel._linear.nbytes == 0
    np.testing.assert_array_equal(kernel.log_sum(log_weight), before)

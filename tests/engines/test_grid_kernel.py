"""The grid kernel is exact at any epsilon and for any input, and never builds a dense matrix."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pairframe.engines.grid.kernel import _SCALES, SupportKernel
from pairframe.engines.grid.passes import _DIP
from pairframe.parallel import threads


def dense(support_in: np.ndarray, support_out: np.ndarray, log_weight: np.ndarray, channels: np.ndarray, eps: float):
    """The same sums by brute force."""
    at_in, at_out = np.argwhere(support_in), np.argwhere(support_out)
    exponent = log_weight - ((at_out[:, None] - at_in) ** 2).sum(axis=2) / eps
    top = exponent.max(axis=1, keepdims=True)
    weight = np.exp(exponent - np.where(np.isfinite(top), top, 0.0))
    total = weight.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return top[:, 0] + np.log(total), (weight @ channels.T / total[:, None]).T


@st.composite
def cases(draw: st.DrawFn):
    shape = draw(st.integers(1, 40)), draw(st.integers(1, 150))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    share = draw(st.sampled_from((0.02, 0.3, 0.9)))
    supports = [rng.random(shape) < share for _ in range(2)]
    for support in supports:
        support[rng.integers(shape[0]), rng.integers(shape[1])] = True
    scale = draw(st.sampled_from((0.0, 1.0, 50.0, 1e3, 1e5)))
    log_weight = scale * rng.normal(size=supports[0].sum())
    epsilon = 10.0 ** draw(st.floats(-3, 4))
    return supports[0], supports[1], log_weight, epsilon


@given(cases())
@settings(max_examples=150, deadline=None)
def test_log_sums_and_means_equal_the_dense_ones(case) -> None:
    on_in, on_out, log_weight, epsilon = case
    channels = np.random.default_rng(0).normal(size=(2, log_weight.size))
    kernel = SupportKernel(on_in, on_out, epsilon)
    log_sum, means = kernel.log_sum_and_means(log_weight, channels)
    linear_or_tiles = kernel.log_sum(log_weight)
    kernel._linear = None
    np.testing.assert_array_equal(kernel.log_sum(log_weight), log_sum)  # tiles in one call, without channels
    expected, expected_means = dense(on_in, on_out, log_weight, channels, epsilon)
    size = np.maximum(1.0, np.abs(expected))
    for found in (log_sum, linear_or_tiles):
        assert (np.abs(found - expected) / size).max() <= 1e-13 * max(1.0, 150.0**2 / epsilon / size.max())
    # An exponent of size S is known to S * 1e-16, and a mean inherits that.
    exponents = np.abs(log_weight).max() + 150.0**2 / epsilon
    assert np.abs(means - expected_means).max() <= 1e-13 * max(10.0, exponents)


def test_two_equal_far_spikes_are_both_seen_midway() -> None:
    on_in = np.zeros((1, 401), bool)
    on_in[0, [0, 400]] = True
    everywhere = np.ones((1, 401), bool)
    for epsilon in (1e-3, 1.0, 30.0):
        log_sum = SupportKernel(on_in, everywhere, epsilon).log_sum(np.zeros(2))
        assert np.isfinite(log_sum).all()
        assert log_sum[200] == pytest.approx(-(200**2) / epsilon + np.log(2), rel=1e-14)
        assert log_sum[100] == pytest.approx(-(100**2) / epsilon, rel=1e-14)


def test_an_entry_without_weight_is_as_if_it_were_not_there() -> None:
    rng = np.random.default_rng(1)
    on = rng.random((20, 70)) < 0.4
    log_weight = rng.normal(size=on.sum())
    some = rng.random(on.sum()) < 0.5
    fewer = on.copy()
    fewer[on] = some
    with_holes = SupportKernel(on, on, 3.0).log_sum(np.where(some, log_weight, -np.inf))
    without_them = SupportKernel(fewer, on, 3.0)
    without_them._linear = None  # weights of -inf are summed by tiles
    np.testing.assert_allclose(with_holes, without_them.log_sum(log_weight[some]), rtol=1e-13)
    assert (SupportKernel(on, on, 3.0).log_sum(np.full(on.sum(), -np.inf)) == -np.inf).all()


def test_float32_products_keep_six_digits() -> None:
    rng = np.random.default_rng(2)
    on = rng.random((40, 90)) < 0.6
    log_weight = 30.0 * rng.normal(size=on.sum())
    exact = SupportKernel(on, on, 8.0).log_sum(log_weight)
    single = SupportKernel(on, on, 8.0, "float32").log_sum(log_weight)
    assert 0 < np.abs(single - exact).max() < 3e-6


def test_one_call_for_an_image_equals_passes_in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    on_in, on_out = (rng.random((60, 70)) < 0.5 for _ in range(2))
    log_weight = 100.0 * rng.normal(size=on_in.sum())
    tiles = SupportKernel(on_in, on_out, 3.0)
    in_one_call = tiles.log_sum(log_weight)
    assert tiles._linear is None  # too large a range
    monkeypatch.setattr(threads, "_SMALL", 1)
    with threads.at_most(2):
        np.testing.assert_array_equal(SupportKernel(on_in, on_out, 3.0).log_sum(log_weight), in_one_call)


@pytest.mark.parametrize("weights", [np.zeros(899), np.zeros(901), np.zeros((30, 30)), np.float64(0.0)])
def test_weights_of_another_shape_are_refused(weights: np.ndarray) -> None:
    """The compiled passes would read beyond their end."""
    everywhere = np.ones((30, 30), bool)
    with pytest.raises(ValueError, match="expected 900 weights"):
        SupportKernel(everywhere, everywhere, 4.0).log_sum(weights)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_no_product_is_subnormal_and_nothing_of_use_is_dropped(dtype: str) -> None:
    """What the three numbers of a precision have to satisfy; a subnormal product takes a hundred times as long."""
    depth, floor, lift = _SCALES[dtype]
    numbers = np.finfo(dtype)
    lifted = lift * np.log(2.0)
    assert -2.0 * floor + lifted > np.log(float(numbers.tiny)), "the smallest product"
    assert lifted + np.log(1e4 * 1e6) < np.log(float(numbers.max)), "a sum of 10,000 terms times a channel of a million"
    assert np.exp(depth + _DIP - floor) * 100 < float(numbers.eps), "what is dropped, beside the smallest sum"


def test_memory_is_that_of_a_few_images() -> None:
    on = np.ones((300, 300), bool)
    kernel = SupportKernel(on, on, 4.0)
    log_weight = np.zeros(on.size)
    kernel.log_sum(log_weight)
    tracemalloc.start()
    kernel.log_sum(log_weight)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * on.size * 8  # a dense kernel would be 90 000 images

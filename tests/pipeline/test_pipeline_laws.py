"""What must not change the answer does not change it; and the books balance whatever is asked."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from pairframe.engines import Status
from pairframe.pipeline import compare, divergence
from pairframe.problem import PENALTIES, REFERENCES, TransportConfig
from pairframe.results import TransportResult
from pairframe.testing import disc, growing_embryo

CANVAS = (40, 48)
SOURCE = disc(CANVAS, (18, 20), 7)
TARGET = disc(CANVAS, (20, 24), 9)
TIGHT = TransportConfig(reach_um=10.0, tol=1e-11)
SCALARS = (
    "total_mass_moved",
    "total_transport_cost_um2",
    "objective",
    "divergence",
    "noise_floor",
    "noise_floor_target",
)


def assert_same(one: TransportResult, other: TransportResult, rtol: float = 1e-8, factor: float = 1.0) -> None:
    for name in SCALARS:
        is_bias = name.startswith("noise")  # a share that is nothing but what the tolerance leaves
        scale, nothing = (1.0, 1e-10) if is_bias else (factor, 1e-12)
        assert getattr(other, name) == pytest.approx(scale * getattr(one, name), rel=rtol, abs=nothing), name
    for name in ("mass_created", "mass_destroyed", "cost_source", "cost_target"):
        size = factor * max(getattr(one, name).max(), 1e-3)  # of a pixel's mass: nothing destroyed is no scale
        np.testing.assert_allclose(
            getattr(other, name), factor * getattr(one, name), atol=rtol * 100 * size, err_msg=name
        )
    np.testing.assert_allclose(other.velocity_field, one.velocity_field, atol=1e-6)


@pytest.fixture(scope="module")
def plain() -> TransportResult:
    return compare(SOURCE, TARGET, TIGHT)


def test_coord_scale_is_only_another_unit(plain: TransportResult) -> None:
    scale = 1 / 576
    config = TransportConfig(epsilon=4.0 * scale**2, marginal_relaxation=50.0 * scale**2, coord_scale=scale, tol=1e-11)
    scaled = compare(SOURCE, TARGET, config)
    assert_same(plain, scaled)
    assert scaled.epsilon == pytest.approx(4.0 * scale**2)
    assert scaled.lambda_unbalanced == pytest.approx(50.0 * scale**2)
    assert plain.lambda_unbalanced == pytest.approx(50.0)
    assert scaled.reach_um == pytest.approx(10.0)


def test_the_pixel_size_is_only_another_unit(plain: TransportResult) -> None:
    large = compare(SOURCE, TARGET, TransportConfig(px_size_um=8.0, blur_um=16.0, reach_um=80.0, tol=1e-11))
    np.testing.assert_allclose(large.mass_created, plain.mass_created, atol=1e-9)
    np.testing.assert_allclose(large.velocity_field, 8.0 * plain.velocity_field, atol=1e-6)
    assert large.total_transport_cost_um2 == pytest.approx(64.0 * plain.total_transport_cost_um2, rel=1e-9)


def test_downsampling_keeps_the_physics() -> None:
    a, b = disc((96, 96), (44, 44), 20), disc((96, 96), (48, 50), 24)
    fine, coarse = (compare(a, b, TransportConfig(blur_um=6.0, reach_um=20.0, downsample_factor=s)) for s in (1, 2))
    assert coarse.M_source == fine.M_source
    for name in ("total_mass_moved", "total_mass_created", "total_transport_cost_um2"):
        assert getattr(coarse, name) == pytest.approx(getattr(fine, name), rel=0.02), name
    assert coarse.divergence * 4 == pytest.approx(fine.divergence, rel=0.02)  # work px^2
    inside = disc((96, 96), (44, 44), 15)
    np.testing.assert_allclose(coarse.velocity_field[inside], fine.velocity_field[inside], atol=0.5)


@pytest.mark.parametrize("reference", ["heat", "product"])
def test_more_mass_gives_more_of_the_same(reference: str) -> None:
    config = TransportConfig(reach_um=10.0, tol=1e-11, mass_mode="intensity", reference=reference)
    one = compare(SOURCE * 1.0, TARGET * 1.0, config)
    many = compare(SOURCE * 1e6, TARGET * 1e6, config)
    assert_same(one, many, factor=1e6)


@pytest.mark.parametrize(
    "fields", [{"pad": 0}, {"pad": 40}, {"crop_policy": "bucketed", "bucket_shapes": ((64, 64), (200, 300))}]
)
def test_padding_and_buckets_change_nothing(fields: dict[str, object], plain: TransportResult) -> None:
    padded = compare(SOURCE, TARGET, TransportConfig(reach_um=10.0, tol=1e-11, **fields))  # type: ignore[arg-type]
    assert_same(plain, padded, rtol=1e-9)


def test_translating_the_pair_translates_the_maps(plain: TransportResult) -> None:
    shift = (9, 11)
    moved = compare(np.roll(SOURCE, shift, (0, 1)), np.roll(TARGET, shift, (0, 1)), TIGHT)
    for name in ("mass_created", "mass_destroyed", "velocity_field", "cost_target"):
        np.testing.assert_allclose(
            getattr(moved, name), np.roll(getattr(plain, name), shift, (0, 1)), atol=1e-6, err_msg=name
        )
    assert moved.divergence == pytest.approx(plain.divergence, rel=1e-9)


def test_swapping_swaps_the_maps(plain: TransportResult) -> None:
    swapped = compare(TARGET, SOURCE, TIGHT)
    np.testing.assert_allclose(swapped.mass_created, plain.mass_destroyed, atol=1e-8)
    np.testing.assert_allclose(swapped.mass_destroyed, plain.mass_created, atol=1e-8)
    np.testing.assert_allclose(swapped.cost_source, plain.cost_target, atol=1e-6)
    assert swapped.divergence == pytest.approx(plain.divergence, rel=1e-8)
    assert swapped.noise_floor == pytest.approx(plain.noise_floor_target, rel=1e-6)


@pytest.mark.parametrize("kinds", list(product(PENALTIES, repeat=2)))
def test_the_books_balance_for_every_config(kinds: tuple[str, str]) -> None:
    hard = set(kinds) <= {"balanced", "partial"} and "balanced" in kinds
    for reference, steps in product(REFERENCES, (3, 400)):
        config = TransportConfig(
            penalty=kinds,
            reference=reference,
            reach_um=6.0,
            max_iterations=steps,
            normalization="each" if hard else "joint",
            downsample_factor=2,
        )
        result = compare(SOURCE, TARGET, config)
        assert result.total_mass_moved + result.total_mass_destroyed == pytest.approx(result.M_source, rel=1e-10)
        assert result.total_mass_moved + result.total_mass_created == pytest.approx(result.M_target, rel=1e-10)
        assert result.mass_created.min() >= 0
        assert result.mass_destroyed.min() >= 0
        assert not np.isnan(result.cost_source).any()


def test_each_spreads_growth_evenly() -> None:
    even = compare(SOURCE, TARGET, TransportConfig(normalization="each", penalty="balanced", tol=1e-9))
    assert even.total_mass_moved == pytest.approx(SOURCE.sum(), rel=1e-6)
    inside = even.mass_created[TARGET]
    np.testing.assert_allclose(inside, 1 - SOURCE.sum() / TARGET.sum(), rtol=1e-4)


def test_the_other_engine_says_the_same() -> None:
    grid, oracle = (
        compare(SOURCE, TARGET, TransportConfig(reach_um=10.0, tol=1e-11, downsample_factor=2, backend=backend))
        for backend in ("grid", "oracle")
    )
    assert_same(grid, oracle, rtol=1e-7)
    assert oracle.backend == "oracle"


def test_euclidean_costs_are_lengths() -> None:
    config = TransportConfig(
        metric="euclidean", backend="oracle", reach_um=10.0, blur_um=1.0, px_size_um=2.0, downsample_factor=2, tol=1e-8
    )
    lengths = compare(SOURCE, TARGET, config)
    assert lengths.total_transport_cost_um2 == pytest.approx(4.0 * lengths.total_transport_cost_work_px2)
    assert lengths.blur_um == pytest.approx(1.0)
    assert lengths.divergence > 0
    assert compare(SOURCE, SOURCE, config).divergence == 0


def test_a_warm_start_needs_fewer_iterations_and_gives_the_same_answer() -> None:
    config = TransportConfig(tol=1e-9, reach_um=30.0)
    cold = compare(SOURCE, TARGET, config)
    warm = compare(SOURCE, TARGET, config, init=cold)
    assert warm.iterations < cold.iterations
    np.testing.assert_allclose(warm.mass_created, cold.mass_created, atol=1e-6)
    # from the frame before: other masks, another crop, another resolution
    before = compare(
        SOURCE, disc(CANVAS, (19, 23), 9), TransportConfig(tol=1e-9, reach_um=30.0, downsample_factor=2, pad=3)
    )
    near = compare(SOURCE, TARGET, config, init=before)
    assert near.status is Status.converged
    np.testing.assert_allclose(near.mass_created, cold.mass_created, atol=1e-6)
    assert near.objective == pytest.approx(cold.objective, rel=1e-8)


def test_the_next_pair_of_a_series_needs_no_coarser_grids(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, third = growing_embryo(12, shape_hw=(96, 216))[3:6]
    config = TransportConfig(tol=1e-9)
    cold = compare(second, third, config)
    before = compare(first, second, config)

    def no_pyramid(problem: object) -> list[object]:
        raise AssertionError("a coarser grid")

    monkeypatch.setattr("pairframe.engines.grid.engine.coarse_problems", no_pyramid)
    warm = compare(second, third, config, init=before)
    assert warm.status is Status.converged
    assert_same(cold, warm, rtol=1e-7)
    with pytest.raises(AssertionError, match="a coarser grid"):
        compare(second, third, config)


@pytest.mark.parametrize(
    ("penalty", "more"), [("kl", 15), ("partial", 25)]
)  # full-grid softmins in place of coarser grids
@pytest.mark.parametrize(("reach_um", "tol"), [(1e7, 1e-8), (1e6, 1e-9), (1e5, 1e-9)])
def test_a_start_keeps_its_digits_where_little_mass_may_be_made(
    reach_um: float, tol: float, penalty: str, more: int
) -> None:
    """The potentials are then of the order of the squared reach, and what they say lies in their last digits."""
    first, second, third = growing_embryo(30, shape_hw=(96, 216))[5:8]
    config = TransportConfig(reach_um=reach_um, tol=tol, penalty=penalty)
    cold, before = compare(second, third, config), compare(first, second, config)
    warm = compare(second, third, config, init=before)
    assert warm.status is Status.converged
    assert warm.iterations <= cold.iterations + more
    assert warm.total_mass_created == pytest.approx(cold.total_mass_created, rel=1e-6)


@pytest.mark.parametrize("penalty", ["kl", "tv"])
def test_a_pair_before_that_is_no_good_costs_two_softmins_and_no_more(penalty: str) -> None:
    first, second, third = growing_embryo(4, shape_hw=(64, 144))[:3]
    config = TransportConfig(penalty=penalty)
    cold, before = compare(second, third, config), compare(first, second, config)
    warm = compare(second, third, config, init=before)
    assert warm.status is Status.converged
    assert warm.iterations == cold.iterations + 2
    np.testing.assert_array_equal(warm.mass_created, cold.mass_created)


def test_a_reach_far_beyond_the_image_takes_no_more_softmins() -> None:
    """The dual is then a small difference of large numbers, and steps must not be judged by their rounding."""
    frames = growing_embryo(30, shape_hw=(96, 216))
    for k in (3, 5, 8, 17, 20):
        found = compare(*frames[k : k + 2], TransportConfig(reach_um=1e7, tol=1e-8, penalty="kl"))
        assert found.status is Status.converged
        assert found.iterations <= 60


def test_the_divergence_alone_is_that_of_compare(plain: TransportResult) -> None:
    assert divergence(SOURCE, TARGET, TIGHT) == plain.divergence
    assert plain.divergence_error < 1e-6 * plain.divergence

"""Grid, mean fields, deviations, hot spots and scaling on maps that are given."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pairframe.analysis import classical_scaling
from pairframe.analysis.distances import sample_members
from pairframe.analysis.fields import FieldSum, deviation, deviations, field_sums, residual
from pairframe.analysis.grid import AnalysisGrid
from pairframe.analysis.hotspots import hotspot_map, unit_maps
from pairframe.analysis.maps import PairMaps
from pairframe.analysis.members import Member, Members
from pairframe.analysis.permutation import relabelings
from pairframe.types import Bool, Float

SHAPE = (6, 8)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def maps(dy: float = 0.0, dx: float = 0.0, created: float = 0.0, destroyed: float = 0.0) -> PairMaps:
    return PairMaps(np.full(SHAPE, created), np.full(SHAPE, destroyed), np.tile([dy, dx], (*SHAPE, 1)))


def member(name: str, group: str, unit: str, weight: float = 1.0, number: int = 0) -> Member:
    return Member(name, "x", group, unit, math.nan, number, weight, {})


def members(*found: Member, n_bins: int = 1) -> Members:
    groups = tuple(dict.fromkeys(one.group for one in found))
    edges = tuple(float(edge) for edge in range(n_bins + 1))
    return Members(found, groups, edges, "group", None, "unit", SHAPE, 1.0, ())


# --- grid ------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(h=st.integers(1, 40), w=st.integers(1, 40), most=st.integers(1, 200))
def test_the_grid_is_the_finest_that_fits_and_pooling_keeps_mass_and_means(h: int, w: int, most: int) -> None:
    grid = AnalysisGrid.of((h, w), 2.0, most)
    assert math.prod(grid.shape_hw) <= most
    if grid.block_px > 1:
        assert math.prod(AnalysisGrid((h, w), 2.0, grid.block_px - 1).shape_hw) > most
    mass = rng(h * w).random((h, w))
    assert grid.sums(mass).sum() == pytest.approx(mass.sum())
    assert grid.density(np.full((h, w), 0.7)) == pytest.approx(0.7)  # also in blocks that the canvas cuts
    assert grid.mean_known(np.full((h, w), 0.7)) == pytest.approx(0.7)


def test_a_mean_is_over_what_is_known() -> None:
    field = np.array([[1.0, np.nan, np.nan, np.nan], [3.0, np.nan, np.nan, np.nan]])
    assert AnalysisGrid((2, 4), 1.0, 2).mean_known(field)[0].tolist() == pytest.approx([2.0, math.nan], nan_ok=True)


# --- mean fields and deviations --------------------------------------------------------------


def test_a_mean_field_is_the_mean_of_its_pairs_where_each_is_known() -> None:
    half = maps(dy=4.0, created=0.5)
    half.velocity_um[:, :4] = np.nan
    total = FieldSum.zero(SHAPE)
    total.add(maps(dy=2.0, dx=1.0, created=0.1))
    total.add(half)
    mean = total.mean()
    assert mean.created == pytest.approx(0.3)
    assert mean.velocity_um[0, 0].tolist() == [2.0, 1.0]
    assert mean.velocity_um[0, 5].tolist() == [3.0, 0.5]
    assert mean.n_known[0].tolist() == [1, 1, 1, 1, 2, 2, 2, 2]
    assert np.isnan(FieldSum.zero(SHAPE).mean().velocity_um).all()


def test_a_deviation_is_what_its_definition_says() -> None:
    total = FieldSum.zero(SHAPE)
    total.add(maps(dy=3.0, dx=4.0, created=0.2))
    mean = total.mean()
    same = deviation(maps(dy=3.0, dx=4.0, created=0.2), mean)
    assert (same.velocity_rmse_um, same.created_rmse, same.destroyed_rmse) == (0.0, 0.0, 0.0)
    assert same.velocity_cosine == pytest.approx(1.0)
    turned = deviation(maps(dy=-8.0, dx=6.0, destroyed=0.3), mean)
    assert turned.velocity_cosine == pytest.approx(0.0, abs=1e-12)
    assert turned.velocity_rmse_um == pytest.approx(math.hypot(11.0, 2.0))
    assert (turned.created_rmse, turned.destroyed_rmse) == pytest.approx((0.2, 0.3))
    assert deviation(maps(dy=-3.0, dx=-4.0), mean).velocity_cosine == pytest.approx(-1.0)
    assert residual(maps(dy=-8.0, dx=6.0, destroyed=0.3), mean)[:, 2, 3].tolist() == pytest.approx([-11, 2, -0.2, 0.3])


def test_no_pair_is_compared_with_its_own_unit() -> None:
    values = {"a1": 1.0, "a2": 3.0, "b": 7.0, "c": 10.0}
    chosen = members(
        member("a1", "control", "a", 0.5),
        member("a2", "control", "a", 0.5),
        member("b", "control", "b"),
        member("c", "treated", "c"),
    )

    def read(one: Member) -> PairMaps:
        return maps(dy=values[one.pair_id])

    sums = field_sums(chosen, read, SHAPE)
    found, residuals = deviations(chosen, sums, read, SHAPE)
    assert [found[name].velocity_rmse_um for name in values] == pytest.approx([6.0, 4.0, 5.0, 10 - 11 / 3])
    assert [found[name].n_reference for name in values] == [1, 1, 2, 3]
    assert residuals["b"][0] == pytest.approx(5.0)
    assert list(found) == list(values)


def test_the_only_unit_of_the_reference_has_no_deviation() -> None:
    chosen = members(member("a", "control", "a"), member("b", "treated", "b"))
    found, _ = deviations(chosen, field_sums(chosen, lambda _: maps(1.0), SHAPE), lambda _: maps(1.0), SHAPE)
    assert math.isnan(found["a"].velocity_rmse_um)
    assert found["b"].velocity_rmse_um == 0.0


# --- hot spots -------------------------------------------------------------------------------


def planted(n: int, size: float, seed: int = 0) -> tuple[Float, Bool]:
    """Maps of 2 n units of which the first n have more in one corner."""
    where = np.zeros((20, 20), bool)
    where[:5, :8] = True
    noise = 1.0 + 0.1 * rng(seed).standard_normal((2 * n, 20, 20))
    return noise + size * where * (np.arange(2 * n) < n)[:, None, None], where


def test_a_planted_hot_spot_is_found_and_little_else() -> None:
    values, where = planted(8, 1.0)
    found = hotspot_map("created", values, relabelings(np.arange(16) < 8, 5000, rng()))
    hot = found.hot(0.05)
    assert found.n_tested == 400
    assert hot[where].all()
    assert hot[~where].sum() <= 0.15 * hot.sum()
    assert found.difference[where].mean() == pytest.approx(1.0, abs=0.05)


def test_without_a_difference_there_is_hardly_ever_a_hot_spot() -> None:
    # At a false discovery rate of 0.05 and no effect, one map in twenty has any.
    n_maps = sum(
        hotspot_map("created", planted(6, 0.0, seed)[0], relabelings(np.arange(12) < 6, 2000, rng())).hot(0.05).any()
        for seed in range(20)
    )
    assert n_maps <= 4


def test_what_is_tested_does_not_depend_on_the_labels() -> None:
    values, _ = planted(4, 0.0)
    values[:3, 0] = np.nan  # known in five of eight
    values[:5, 1] = np.nan  # known in three of eight
    first, other = (
        hotspot_map("speed_um", values, relabelings(in_first, 100, rng()))
        for in_first in (np.arange(8) < 4, np.arange(8) >= 4)
    )
    assert np.isfinite(first.p[0]).all()
    assert np.isnan(first.p[1]).all()
    assert (np.isfinite(first.p) == np.isfinite(other.p)).all()
    assert first.p == pytest.approx(other.p, nan_ok=True)
    assert first.difference == pytest.approx(-other.difference, nan_ok=True)


def test_the_map_of_a_unit_weighs_its_time_bins_alike() -> None:
    values = {"a1": 1.0, "a2": 3.0, "a3": 8.0}
    chosen = members(
        member("a1", "g", "a", 0.25, 0), member("a2", "g", "a", 0.25, 0), member("a3", "g", "a", 0.5, 1), n_bins=2
    )

    def read(one: Member) -> PairMaps:
        found = maps(dx=values[one.pair_id], created=values[one.pair_id])
        if one.pair_id == "a3":
            found.velocity_um[0] = np.nan
        return found

    found = unit_maps(chosen, read, SHAPE)
    assert found.maps["created"][0] == pytest.approx(5.0)
    assert found.maps["speed_um"][0, 1] == pytest.approx(5.0)
    assert found.maps["speed_um"][0, 0] == pytest.approx(2.0)


# --- distances -------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(n=st.integers(2, 9), seed=st.integers(0, 99))
def test_scaling_gives_points_of_a_plane_back(n: int, seed: int) -> None:
    points = rng(seed).standard_normal((n, 2)) * 10
    distance = np.hypot(*(points[:, None] - points[None]).transpose(2, 0, 1))
    found = classical_scaling(distance)
    again = np.hypot(*(found.coordinates[:, None] - found.coordinates[None]).transpose(2, 0, 1))
    assert again == pytest.approx(distance, abs=1e-6)
    assert found.explained == pytest.approx(1.0)
    assert found.coordinates.mean(axis=0) == pytest.approx(0.0, abs=1e-9)


def test_distances_that_no_points_have_are_told_by_negative_eigenvalues() -> None:
    # A centre at distance 1 from three points that are 2 apart, as in a star: no Euclidean space has that.
    distance = np.array([[0, 2, 2, 1], [2, 0, 2, 1], [2, 2, 0, 1], [1, 1, 1, 0]], float)
    found = classical_scaling(distance)
    assert found.eigenvalues[-1] < -0.1
    assert found.explained < 1


def test_a_sample_keeps_every_group_the_order_and_the_seed() -> None:
    everyone = [member(f"a{k}", "a", f"a{k}") for k in range(40)] + [member("b", "b", "b")]
    drawn, again = (sample_members(everyone, 10, rng(4)) for _ in range(2))
    assert [one.pair_id for one in drawn] == [one.pair_id for one in again]
    assert len(drawn) == 10
    assert drawn[-1].pair_id == "b"
    assert [everyone.index(one) for one in drawn] == sorted(everyone.index(one) for one in drawn)
    assert sample_members(everyone, 100, rng()) == everyone

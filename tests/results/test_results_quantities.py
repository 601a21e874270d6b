"""Costs and speeds mean the same at every resolution, and a mask at rest costs nothing."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import pairframe as pf
from pairframe.results.rows import failed_row, result_row
from pairframe.results.schema import RATES
from pairframe.testing import disc

HERE, THERE = disc((40, 70), (20, 20), 8), disc((40, 70), (20, 29), 8)
GROWN = disc((40, 70), (20, 22), 10)


def test_a_mask_at_rest_costs_nothing_although_the_blur_spreads_it() -> None:
    still = pf.compare(HERE, HERE)
    per_mass = still.total_transport_cost_um2 / still.M_source
    assert per_mass == pytest.approx(still.blur_um**2, rel=0.3)  # what it was before
    assert (still.debiased_transport_cost_um2, still.transport_length_um, still.divergence_length_um) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("px_size_um", [None, 0.5])
def test_a_shift_by_k_costs_k_squared_per_unit_of_mass(px_size_um: float | None) -> None:
    moved = pf.compare(HERE, THERE, pf.TransportConfig(px_size_um=px_size_um))
    k_um = 9 * (px_size_um or 1.0)
    assert moved.transport_length_um == pytest.approx(k_um, rel=1e-3)
    assert moved.divergence_length_um == pytest.approx(k_um, rel=1e-3)
    assert moved.divergence_um2 == pytest.approx(moved.M_source * k_um**2, rel=2e-3)


def test_a_coarser_work_grid_changes_work_px_but_not_um() -> None:
    source, target = (np.kron(mask, np.ones((2, 2), bool)) for mask in (HERE, GROWN))
    config = {"px_size_um": 0.5, "blur_um": 2.0, "reach_um": 12.0}
    fine = pf.compare(source, target, pf.TransportConfig(**config))
    coarse = pf.compare(source, target, pf.TransportConfig(**config, downsample_factor=2))
    assert coarse.divergence < 0.3 * fine.divergence
    assert coarse.divergence_um2 == pytest.approx(fine.divergence_um2, rel=0.01)
    assert coarse.objective_um2 == pytest.approx(fine.objective_um2, rel=0.05)
    # A camera with pixels of twice the size counts a quarter of the mass; a length per unit of mass stays.
    other = pf.compare(HERE, GROWN, pf.TransportConfig(**config | {"px_size_um": 1.0}))
    assert other.divergence_length_um == pytest.approx(fine.divergence_length_um, rel=0.01)
    assert other.transport_length_um == pytest.approx(fine.transport_length_um, rel=0.1)  # 0.3 um, and pixels of 1


def test_the_debiased_cost_is_the_same_in_both_directions() -> None:
    there, back = pf.compare(HERE, GROWN), pf.compare(GROWN, HERE)
    assert there.debiased_transport_cost_um2 == pytest.approx(back.debiased_transport_cost_um2, rel=1e-6)
    assert 0 < there.debiased_transport_cost_um2 < there.total_transport_cost_um2


def test_an_empty_mask_has_no_costs_per_mass() -> None:
    empty = pf.compare(HERE, np.zeros_like(HERE))
    assert all(
        math.isnan(value)
        for value in (empty.debiased_transport_cost_um2, empty.transport_length_um, empty.divergence_length_um)
    )


def test_plain_distances_give_lengths_without_a_root() -> None:
    pytest.importorskip("ot")
    config = pf.TransportConfig(metric="euclidean", backend="pot", penalty="balanced", px_size_um=2.0, tol=1e-4)
    moved = pf.compare(HERE, THERE, config)
    assert moved.divergence_length_um == pytest.approx(moved.divergence_um2 / moved.M_source)
    assert moved.divergence_um2 == pytest.approx(2.0 * moved.divergence)


def test_speeds_are_in_the_table_when_the_minutes_are_known() -> None:
    moved = pf.compare(HERE, THERE, pf.TransportConfig(px_size_um=0.5))
    row = result_row(moved, "p", extra={"frame_interval_min": 3})
    assert row["mean_speed_um_per_min"] == pytest.approx(row["mean_displacement_um"] / 3)
    assert row["p90_speed_um_per_min"] == pytest.approx(1.5, rel=1e-3)
    grown = result_row(pf.compare(HERE, GROWN), "p", extra={"frame_interval_min": 30.0})
    assert grown["growth_rate_per_h"] == pytest.approx(2 * math.log(GROWN.sum() / HERE.sum()))


@pytest.mark.parametrize("minutes", [None, "soon", 0, -1.0, math.nan, True])
def test_without_a_time_there_is_no_speed(minutes: object) -> None:
    row = result_row(pf.compare(HERE, HERE), "p", extra={"frame_interval_min": minutes})
    assert all(row[column.name] is None for column in RATES)
    assert all(failed_row("p", "no", extra={"frame_interval_min": 5})[column.name] is None for column in RATES)


def test_the_debiased_cost_survives_a_store(tmp_path: Path) -> None:
    moved = pf.compare(HERE, GROWN)
    moved.save(tmp_path)
    assert pf.load(tmp_path).debiased_transport_cost_um2 == moved.debiased_transport_cost_um2


def test_the_divergence_of_even_growth_is_the_root_mean_square_displacement() -> None:
    """Each mask counts as one unit of mass, so a disc that doubled its radius is as far away as its mass moved."""
    small, large = disc((90, 90), (45, 45), 15), disc((90, 90), (45, 45), 30)
    config = pf.TransportConfig(penalty="balanced", normalization="each", blur_um=1.0)
    for source, target in ((small, large), (large, small)):
        found = pf.compare(source, target, config)
        # From r to 2r every point moves by its distance from the centre (or half of it): root mean square 15 / sqrt(2).
        assert found.divergence_length_um == pytest.approx(15 / math.sqrt(2), rel=0.02)

"""Every unit conversion goes both ways, and the peers' parameters mean what ours mean."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pairframe.errors import DownsampleFactorError, MetricError, PixelSizeError, ScalesError
from pairframe.problem import Scales
from pairframe.problem.scales import (
    from_pot_parameters,
    ott_tau,
    pot_parameters,
    strength_from_ott_tau,
)

EVERY = [
    Scales(),
    Scales(0.65, 4, 1 / 576, "sqeuclidean"),
    Scales(8.0, 3, 2.0, "euclidean"),
]
PAIRS = [
    ("canonical_px_from_um", "um_from_canonical_px"),
    ("work_px_from_um", "um_from_work_px"),
    ("work_px_from_canonical_px", "canonical_px_from_work_px"),
    ("cost_work_from_length_um", "length_um_from_cost_work"),
    ("cost_work_from_cost_units", "cost_units_from_cost_work"),
    ("cost_um_from_cost_work", "cost_work_from_cost_um"),
]


@pytest.mark.parametrize("scales", EVERY, ids=str)
@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_every_conversion_goes_both_ways(scales: Scales, pair: tuple[str, str]) -> None:
    there, back = (getattr(scales, name) for name in pair)
    assert back(there(3.7)) == pytest.approx(3.7, rel=1e-14)
    assert there(back(3.7)) == pytest.approx(3.7, rel=1e-14)


def test_lengths_by_hand() -> None:
    scales = Scales(px_size_um=0.5, downsample_factor=4)
    assert scales.work_px_size_um == 2.0
    assert scales.canonical_px_from_um(3.0) == 6.0
    assert scales.work_px_from_um(3.0) == 1.5
    assert scales.cost_work_from_length_um(3.0) == 2.25
    assert scales.cost_um_from_cost_work(2.25) == 9.0


def test_euclidean_costs_are_lengths() -> None:
    scales = Scales(px_size_um=0.5, downsample_factor=4, metric="euclidean")
    assert scales.cost_work_from_length_um(3.0) == 1.5
    assert scales.epsilon_work(blur_um=3.0) == 1.5


def test_seed_units_are_costs_after_coord_scale() -> None:
    scales = Scales(coord_scale=1 / 576)
    assert scales.epsilon_work(epsilon=1e-4) == pytest.approx(1e-4 * 576**2)
    assert scales.strength_work(marginal_relaxation=10.0) == pytest.approx(10 * 576**2)


@pytest.mark.parametrize("px_size_um", [1.0, 0.65])
@pytest.mark.parametrize("s", [1, 2, 4])
def test_the_defaults_are_canonical_pixels_at_any_downsample_factor(px_size_um: float, s: int) -> None:
    scales = Scales(px_size_um, s)
    assert scales.epsilon_work() == pytest.approx((2 / s) ** 2)
    assert scales.strength_work() == pytest.approx((50 / s) ** 2)
    assert scales.length_um_from_cost_work(scales.epsilon_work()) == pytest.approx(2 * px_size_um)


def test_ott_tau_both_ways() -> None:
    assert ott_tau(3.0, 1.0) == 0.75
    assert strength_from_ott_tau(0.75, 1.0) == pytest.approx(3.0)
    assert ott_tau(math.inf, 1.0) == 1.0
    assert strength_from_ott_tau(1.0, 2.0) == math.inf


def test_pot_parameters_both_ways() -> None:
    reg, reg_m, offset = pot_parameters(2.0, 50.0, cost_divisor=4.0)
    assert (reg, reg_m, offset) == (0.5, 12.5, 0.0)
    assert from_pot_parameters(reg, reg_m, cost_divisor=4.0) == (2.0, 50.0)
    assert pot_parameters(2.0, 50.0, raw_totals=(math.e, 1.0)).cost_offset == pytest.approx(1.0)


def test_pot_gives_one_plan_for_raw_and_normalised_masses() -> None:
    ot = pytest.importorskip("ot")
    rng = np.random.default_rng(0)
    a, b, cost = rng.uniform(0.5, 1, 6), rng.uniform(5, 9, 7), rng.uniform(0, 4, (6, 7))
    scale = math.sqrt(a.sum() * b.sum())

    def plan(a: np.ndarray, b: np.ndarray, raw_totals: tuple[float, float] | None) -> np.ndarray:
        reg, reg_m, offset = pot_parameters(1.5, 6.0, raw_totals=raw_totals, cost_divisor=2.0)
        found = ot.unbalanced.sinkhorn_unbalanced(
            a, b, cost / 2.0 + offset, reg, reg_m, reg_type="kl", stopThr=1e-15, numItermax=5000
        )
        return np.asarray(found)

    raw = plan(a, b, (a.sum(), b.sum()))
    np.testing.assert_allclose(scale * plan(a / scale, b / scale, None), raw, rtol=1e-10)


def test_bad_scales_are_refused() -> None:
    with pytest.raises(PixelSizeError, match=r"positive pixel size in um, got 0\.0"):
        Scales(px_size_um=0.0)
    with pytest.raises(DownsampleFactorError, match="got 0"):
        Scales(downsample_factor=0)
    with pytest.raises(ScalesError, match=r"a positive, finite coord_scale, got -1\.0"):
        Scales(coord_scale=-1.0)
    with pytest.raises(MetricError, match="got 'cosine'"):
        Scales(metric="cosine")
    with pytest.raises(ScalesError, match=r"0 < tau <= 1, got 1\.5"):
        strength_from_ott_tau(1.5, 1.0)
    with pytest.raises(ScalesError, match="finite reg_m, got 0"):
        from_pot_parameters(1.0, 0)
    with pytest.raises(ScalesError, match="finite epsilon, got 'x'"):
        pot_parameters("x", 1.0)  # type: ignore[arg-type]

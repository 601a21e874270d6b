"""Unit conversions go both ways and agree with a calculation by hand."""

from __future__ import annotations

import pytest

from pairframe.errors import ConfigError, FrameError, PixelSizeError, ProblemError
from pairframe.problem import Scales

EVERY = [
    Scales(),
    Scales(0.65, 4, 1 / 576, "sqeuclidean"),
    Scales(8.0, 3, 2.0, "euclidean"),
]
PAIRS = [
    ("cost_work_from_length_um", "length_um_from_cost_work"),
    ("cost_work_from_cost_units", "cost_units_from_cost_work"),
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
    assert scales.cost_work_from_length_um(3.0) == 2.25
    assert scales.cost_um_from_cost_work(2.25) == 9.0


def test_euclidean_costs_are_lengths() -> None:
    scales = Scales(px_size_um=0.5, downsample_factor=4, metric="euclidean")
    assert scales.cost_work_from_length_um(3.0) == 1.5
    assert scales.epsilon_work(blur_um=3.0) == 1.5


def test_seed_units_are_costs_after_coord_scale() -> None:
    scales = Scales(coord_scale=1 / 576)
    assert scales.epsilon_work(epsilon=1e-4) == pytest.approx(1e-4 * 576**2)
    assert scales.relaxation_work(0.5, marginal_relaxation=10.0) == pytest.approx(10 * 576**2)


@pytest.mark.parametrize("px_size_um", [1.0, 0.65])
@pytest.mark.parametrize("s", [1, 2, 4])
def test_the_defaults_are_canonical_pixels_at_any_downsample_factor(px_size_um: float, s: int) -> None:
    scales = Scales(px_size_um, s)
    assert scales.epsilon_work() == pytest.approx((2 / s) ** 2)
    with pytest.raises(ConfigError, match="a reach_um, as this is no pair of masks"):
        scales.relaxation_work(1.0)
    assert scales.length_um_from_cost_work(scales.epsilon_work()) == pytest.approx(2 * px_size_um)


def test_bad_scales_are_refused() -> None:
    with pytest.raises(PixelSizeError, match=r"positive pixel size in um, got 0\.0"):
        Scales(px_size_um=0.0)
    with pytest.raises(FrameError, match="got 0"):
        Scales(downsample_factor=0)
    with pytest.raises(ProblemError, match=r"a positive, finite coord_scale, got -1\.0"):
        Scales(coord_scale=-1.0)
    with pytest.raises(ProblemError, match="got 'cosine'"):
        Scales(metric="cosine")
    with pytest.raises(ProblemError, match=r"coord_scale from .* got 1e\+300"):
        Scales(coord_scale=1e300)


@pytest.mark.parametrize(
    ("scales", "values"),
    [
        (Scales(px_size_um=1e-90), {"blur_um": 1e80}),
        (Scales(px_size_um=1e90), {"blur_um": 1e-80}),
        (Scales(coord_scale=1e-100), {"epsilon": 1e300}),
        (Scales(coord_scale=1e100), {"epsilon": 1e-300}),
        (Scales(px_size_um=1e-30, coord_scale=1e90), {"blur_um": 1e60}),
    ],
)
def test_a_cost_outside_float64_is_refused_by_the_name_of_its_field(scales: Scales, values: dict[str, float]) -> None:
    ((field, value),) = values.items()
    with pytest.raises(ConfigError, match=f"{field} to be a cost within the range of float64") as found:
        scales.epsilon_work(**values)
    assert found.value.field == field
    assert f"{value:g} for work pixels of {scales.px_size_um:g}" in found.value.got

"""A sweep says what each comparison alone would say, costs little, and recommends a reach for a reason."""

from __future__ import annotations

import numpy as np
import pytest

import pairframe as pf
from pairframe.errors import ArgumentError, ConfigError
from pairframe.pipeline import self_problem, solve
from pairframe.pipeline.self_problem import clear_self_cache
from pairframe.pipeline.sweep import default_reaches_um
from pairframe.testing import growing_embryo

REACHES_PX = (20.0, 40.0, 80.0, 160.0)


def disc(centre_yx: tuple[float, float], radius: float, shape: tuple[int, int] = (96, 128)) -> np.ndarray:
    y, x = np.indices(shape)
    return np.hypot(y - centre_yx[0], x - centre_yx[1]) < radius


SHIFTED = disc((48, 50), 24), disc((48, 60), 24)


@pytest.mark.parametrize("penalty", ["partial", "kl"])
def test_a_sweep_equals_its_comparisons_one_by_one(penalty: str) -> None:
    config = pf.TransportConfig(penalty=penalty, tol=1e-8)
    found = pf.sweep(*SHIFTED, config, reach_um=REACHES_PX, blur_um=(2.0, 3.0))
    assert [(p.blur_um, p.reach_um) for p in found.points] == [(b, r) for b in (2.0, 3.0) for r in REACHES_PX]
    for point in found.points:
        alone = pf.compare(
            *SHIFTED,
            pf.TransportConfig(penalty=penalty, tol=1e-8, reach_um=point.reach_um, blur_um=point.blur_um),
        )
        expected = (
            100 * alone.total_mass_created / alone.M_target,
            100 * alone.total_mass_destroyed / alone.M_source,
            alone.mean_displacement_um,
            alone.divergence,
        )
        seen = (point.percent_created, point.percent_destroyed, point.mean_displacement_um, point.divergence)
        assert seen == pytest.approx(expected, rel=1e-4, abs=1e-4)
        assert point.status == "converged"


def test_nine_reaches_cost_less_than_four_comparisons(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []
    for module in (solve, self_problem):
        plain = module.solve

        def counting(*args: object, plain: object = plain, **named: object) -> object:
            found = plain(*args, **named)  # type: ignore[operator]
            counted.append(found.iterations)
            return found

        monkeypatch.setattr(module, "solve", counting)
    masks = [mask[::2, ::2] for mask in growing_embryo(6)[1:4:2]]
    clear_self_cache()
    pf.compare(*masks)
    single = sum(counted)
    counted.clear()
    clear_self_cache()
    found = pf.sweep(*masks)
    assert len(found.points) == 9
    assert sum(counted) <= 4 * single


def test_a_shift_is_recommended_a_reach_beyond_which_nothing_changes() -> None:
    found = pf.sweep(*SHIFTED)
    advice = found.advice
    assert advice.plateau_um is not None
    assert advice.reach_um is not None
    # A rigid shift by k of an object of length L is seen as one if (L + k)^2 - L^2 <= reach^2.
    assert advice.plateau_um[0] == pytest.approx(np.sqrt((47 + 10) ** 2 - 47**2), rel=0.45)
    chosen = next(point for point in found.points if point.reach_um == advice.reach_um)
    assert chosen.mean_displacement_um == pytest.approx(10.0, abs=1e-3)
    assert chosen.percent_created < 1e-3
    assert f"Take a reach of {advice.reach_um:g} px: from " in found.recommendation
    assert "on nothing changes" in found.recommendation


def test_objects_that_vanish_are_kept_apart_from_those_that_appear() -> None:
    small, shape = disc((150, 150), 12, (200, 200)), (200, 200)
    source, target = disc((80, 80), 30, shape) | small, disc((85, 85), 30, shape) | disc((40, 160), 12, shape)
    found = pf.sweep(source, target)
    advice = found.advice
    assert advice.reach_um is not None
    assert advice.reach_um < 80
    assert "separate objects exchange mass" in advice.sentence
    assert "vanished" in advice.sentence
    chosen = next(point for point in found.points if point.reach_um == advice.reach_um)
    assert chosen.percent_destroyed == pytest.approx(100 * small.sum() / source.sum(), abs=0.1)


def test_without_a_plateau_it_says_so() -> None:
    found = pf.sweep(disc((48, 40), 24), disc((48, 62), 24), reach_um=(10, 15, 22, 33))
    assert found.advice.reach_um is None
    assert found.recommendation.startswith("No recommendation")
    assert "align first" in found.recommendation.lower()


def test_the_shortest_blur_is_recommended_while_blurs_agree() -> None:
    found = pf.sweep(*SHIFTED, blur_um=(1.0, 2.0, 4.0))
    assert found.advice.blur_um == 1.0
    assert found.advice.reach_um is None
    assert "all blurs up to 4 px give the same answer" in found.recommendation


def test_the_table_has_one_line_per_point() -> None:
    table = pf.sweep(*SHIFTED, pf.TransportConfig(px_size_um=2.0), reach_um=(40, 80)).table
    assert list(table["reach_um"]) == [40, 80]
    assert {"percent_created", "percent_destroyed", "percent_moved", "mean_displacement_um", "growth_percent"} <= set(
        table
    )


def test_default_reaches_are_around_the_length_of_the_object() -> None:
    values = default_reaches_um(100.0)
    assert len(values) == 9
    assert values[0] == 12.5
    assert values[-1] == 200.0
    assert np.allclose(np.diff(np.log(values)), np.log(2) / 2, rtol=0.02)


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ({"reach_um": (50.0,)}, "at least two values of reach_um"),
        ({"blur_um": (2.0,)}, "at least two values of blur_um"),
        ({"reach_um": ()}, "at least two values of reach_um"),
        ({"reach_um": (50.0, 20.0)}, "increasing values of reach_um, got 20 after 50"),
        ({"reach_um": (50.0, 50.0)}, "increasing"),
        ({"reach_um": (-5.0, 20.0)}, "positive, finite reach_um, got -5"),
        ({"reach_um": (5.0, float("nan"))}, "positive, finite"),
        ({"reach_um": 50.0}, "reach_um as a list of lengths"),
        ({"reach_um": "50,100"}, "reach_um as a list of lengths"),
    ],
)
def test_bad_lengths_are_refused(lengths: dict[str, object], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        pf.sweep(*SHIFTED, **lengths)  # type: ignore[arg-type]


def test_pairs_without_a_reach_are_refused() -> None:
    with pytest.raises(ConfigError, match="no moved_share in a sweep"):
        pf.sweep(*SHIFTED, pf.TransportConfig(moved_share=0.5))
    with pytest.raises(ConfigError, match="a penalty with a reach"):
        pf.sweep(*SHIFTED, pf.TransportConfig(penalty="balanced"))
    with pytest.raises(ArgumentError, match="two masks with mass"):
        pf.sweep(SHIFTED[0], np.zeros((96, 128), bool))

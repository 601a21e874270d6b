"""Error bars hold the numbers of the true outlines, and say what they cannot do."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest
from helpers.results_equal import differences

import pairframe as pf
from pairframe.errors import ConfigError, MaskError
from pairframe.masks.rim import UncertainRim
from pairframe.pipeline import self_problem, solve
from pairframe.pipeline.intervals import Draws, interval, interval_of_replicates
from pairframe.pipeline.self_problem import clear_self_cache
from pairframe.results.error_bars import QUANTITIES, ErrorBars
from pairframe.testing import disc, growing_embryo

SHAPE = (96, 128)
PAIR = disc(SHAPE, (46, 50), 26), disc(SHAPE, (50, 56), 28)


@pytest.fixture(scope="module")
def result() -> pf.TransportResult:
    return pf.compare(*PAIR, pf.TransportConfig(rim_um=0.5))


def test_every_main_number_lies_in_its_interval(result: pf.TransportResult) -> None:
    bars = result.error_bars
    assert isinstance(bars, ErrorBars)
    assert [name for name, _ in bars.items()] == list(QUANTITIES)
    assert (bars.rim_um, bars.correlation_um, bars.n_draws) == (0.5, 5.0, 16)
    for _, bar in bars.items():
        assert 0 <= bar.low <= bar.value <= bar.high
        assert bar.se >= 0
    assert bars.percent_created.value == 100 * result.total_mass_created / result.M_target


def test_the_standard_error_is_that_of_the_areas(result: pf.TransportResult) -> None:
    """At a long reach what is created is net growth, whose error follows from the circumferences."""
    assert result.error_bars is not None
    # Even part: half the rim's deviation; smooth part: averages out over the circumference.
    even = 0.25 * 2 * np.pi * np.hypot(26, 28)
    smooth = np.sqrt(0.75) * 0.5 * np.sqrt(2 * np.pi * (26 + 28) * 5.0 * np.sqrt(np.pi))
    expected = 100 * np.hypot(even, smooth) / PAIR[1].sum()
    assert result.error_bars.percent_created.se == pytest.approx(expected, rel=0.4)


def test_they_grow_with_the_rim() -> None:
    bars = [pf.compare(*PAIR, pf.TransportConfig(rim_um=rim)).error_bars for rim in (0.25, 0.5, 1.0)]
    widths = [bar.percent_created.se for bar in bars if bar is not None]
    assert widths[0] < widths[1] < widths[2]
    assert widths[1] == pytest.approx(2 * widths[0], rel=0.1)


def test_they_are_off_unless_asked_for_and_repeatable(result: pf.TransportResult) -> None:
    assert pf.compare(*PAIR).error_bars is None
    assert pf.compare(*PAIR, pf.TransportConfig(rim_um=0.5)).error_bars == result.error_bars
    default = pf.compare(*PAIR, pf.TransportConfig(error_bars=True, px_size_um=3.0)).error_bars
    assert default is not None
    assert default.rim_um == 3.0  # a pixel


def test_units_do_not_change_them(result: pf.TransportResult) -> None:
    scaled = pf.compare(*PAIR, pf.TransportConfig(rim_um=5.0, px_size_um=10.0)).error_bars
    assert scaled is not None
    assert result.error_bars is not None
    assert scaled.percent_created.low == pytest.approx(result.error_bars.percent_created.low, rel=1e-6)
    assert scaled.mean_displacement_um.high == pytest.approx(10 * result.error_bars.mean_displacement_um.high, rel=1e-6)
    assert scaled.divergence.se == pytest.approx(result.error_bars.divergence.se, rel=1e-6)


def test_they_are_kept_with_the_result(result: pf.TransportResult, tmp_path: Path) -> None:
    result.save(tmp_path / "kept")
    loaded = pf.load(tmp_path / "kept")
    assert loaded.error_bars == result.error_bars
    assert differences(loaded, result) == []


def test_the_table_has_their_columns(result: pf.TransportResult) -> None:
    from pairframe.results.rows import result_row

    row, bars = result_row(result, "pair"), result.error_bars
    assert bars is not None
    assert row["percent_created_low"] == bars.percent_created.low
    assert row["mean_displacement_high_um"] == bars.mean_displacement_um.high
    assert row["divergence_se"] == bars.divergence.se
    assert (row["rim_um"], row["error_bar_draws"]) == (0.5, 16)
    assert result_row(pf.compare(*PAIR), "pair")["percent_created_low"] is None


def test_an_aligned_pair_has_them_too() -> None:
    source = growing_embryo(3)[1][::2, ::2]
    turned = np.pad(source, 30)
    found = pf.compare(source, np.roll(turned, 9, axis=1), pf.TransportConfig(align="shift", rim_um=0.5))
    assert found.error_bars is not None
    assert found.error_bars.mean_displacement_um.low == 0.0


def test_they_cost_at_most_five_comparisons(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[float] = []
    for module in (solve, self_problem):
        plain = module.solve

        def counting(problem: object, *args: object, plain: object = plain, **named: object) -> object:
            found = plain(problem, *args, **named)  # type: ignore[operator]
            counted.append(found.iterations * problem.support_a.sum())  # type: ignore[attr-defined]
            return found

        monkeypatch.setattr(module, "solve", counting)
    masks = growing_embryo(6)[1:4:2]
    clear_self_cache()
    pf.compare(*masks)
    single = sum(counted)
    counted.clear()
    clear_self_cache()
    pf.compare(*masks, pf.TransportConfig(error_bars=True))
    assert sum(counted) - single <= 5 * single


# --- intervals -------------------------------------------------------------------------------


def test_intervals_of_a_linear_number_hold_its_truth_in_95_percent() -> None:
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(2000):
        given = 50.0 + rng.normal()
        errors = rng.normal(size=8)
        bar = interval("divergence", Draws(given, given, given + np.stack([errors, -errors], axis=1)))
        held += bar.low <= 50.0 <= bar.high
    assert 0.93 <= held / 2000 <= 0.97


def test_the_bias_of_a_square_is_taken_out() -> None:
    """A displacement of 0 is never seen as 0 if outlines are uncertain; the interval reaches it all the same."""
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(1000):
        error = rng.normal(size=20)
        draws = rng.normal(size=(8, 1, 20)) * np.array([1, -1])[:, None]
        jittered = np.linalg.norm(error + draws, axis=-1)
        seen = float(np.linalg.norm(error))
        bar = interval("mean_displacement_um", Draws(seen, seen, jittered))
        held += bar.low == 0.0
    assert held / 1000 >= 0.9


# --- several segmentations -------------------------------------------------------------------


def test_several_segmentations_replace_the_rim() -> None:
    rng = np.random.default_rng(0)
    rims = [UncertainRim.of(mask.astype(float), 0.5, 5.0) for mask in PAIR]
    sources, targets = (
        [mask, *(rim.moved(rim.shift_px(rng)) >= 0.5 for _ in range(3))] for mask, rim in zip(PAIR, rims, strict=True)
    )
    found = pf.compare(sources, targets)
    bars, single = found.error_bars, pf.compare(*PAIR)
    assert bars is not None
    assert bars.is_from_replicates
    assert bars.n_draws == 4
    assert found.total_mass_created == single.total_mass_created
    growth = [100 * (1 - a.sum() / b.sum()) for a, b in zip(sources, targets, strict=True)]
    assert bars.percent_created.se == pytest.approx(np.std(growth, ddof=1), rel=1e-3)
    assert bars.percent_created.low < 100 * single.total_mass_created / single.M_target < bars.percent_created.high


def test_one_side_may_have_a_single_segmentation() -> None:
    other = disc(SHAPE, (50, 56), 28.6)
    bars = pf.compare(PAIR[0], [PAIR[1], other], pf.TransportConfig(tol=1e-8)).error_bars
    assert bars is not None
    assert bars.n_draws == 2
    growth = np.array([100 * (1 - PAIR[0].sum() / mask.sum()) for mask in (PAIR[1], other)])
    assert bars.percent_created.se == pytest.approx(interval_of_replicates("percent_created", growth).se)


def test_a_nested_list_of_numbers_is_one_mask() -> None:
    block = [[0, 0, 0, 0], [0, 1, 1, 0], [0, 1, 1, 0], [0, 0, 0, 0]]
    assert pf.compare(block, block).error_bars is None


# --- bad input -------------------------------------------------------------------------------


def test_segmentations_on_different_canvases_are_refused() -> None:
    with pytest.raises(MaskError, match=r"all segmentations of the source on one canvas.*number 2"):
        pf.compare([PAIR[0], PAIR[0][1:]], PAIR[1])


def test_a_rim_beside_several_segmentations_is_refused() -> None:
    with pytest.raises(ConfigError, match="no rim_um with several segmentations"):
        pf.compare([PAIR[0], PAIR[0]], PAIR[1], pf.TransportConfig(rim_um=1.0))


def test_a_rim_wider_than_the_object_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"rim_um below 2\d.*half the thickness of the source"):
        pf.compare(*PAIR, pf.TransportConfig(rim_um=30.0))


@pytest.mark.parametrize("rim", [0.0, -1.0, float("nan")])
def test_a_rim_has_to_be_a_length(rim: float) -> None:
    with pytest.raises(ConfigError, match="rim_um"):
        pf.TransportConfig(rim_um=rim)


def test_a_given_mass_has_no_error_bars() -> None:
    with pytest.raises(ConfigError, match="no moved_mass or moved_share with error_bars"):
        pf.TransportConfig(moved_share=0.5, rim_um=1.0)


# --- coverage --------------------------------------------------------------------------------


@pytest.mark.slow
def test_intervals_hold_the_truth_of_jittered_outlines() -> None:
    """A small edition of benchmarks/error_bars.py, which has 300 truths."""
    script = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "error_bars.py"))
    for name, (inside, of) in script["coverage"](40, 1.0, seed=7).items():
        assert of >= 20, name
        assert inside / of >= 0.85, name

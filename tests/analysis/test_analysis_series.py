"""Series: growth exact to the pixel, flicker that is no growth, real time, flags, and every cohort that is no series."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import ndimage
from typer.testing import CliRunner

import pairframe as pf
from pairframe.analysis.series import SeriesRule
from pairframe.cli.app import app
from pairframe.errors import CohortError
from pairframe.report.figures.series import series_figure, series_overview
from pairframe.report.html import write_report, write_series
from pairframe.report.html.series_page import summaries_of
from pairframe.report.html.series_write import page_name_of
from pairframe.results import ResultStore, failed_row
from pairframe.results.formatting import number
from pairframe.testing import disc

SHAPE = (56, 72)
HOSTILE = "<img src=x onerror=\"document.title='harmed'\">"
Masks = Sequence[np.ndarray[Any, Any]]


def body(tip_px: float = 0.0) -> np.ndarray[Any, Any]:
    """A disc with a snout to the right that grows by `tip_px`; what is once inside stays inside."""
    rows, columns = np.ogrid[: SHAPE[0], : SHAPE[1]]
    neck = (abs(rows - 27) <= 8) & (columns >= 26) & (columns <= 36 + tip_px)
    return disc(SHAPE, (27, 26), 15) | disc(SHAPE, (27, 36 + tip_px), 8) | neck


def rim(mask: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The pixels around a mask."""
    found: np.ndarray[Any, Any] = ndimage.binary_dilation(mask) & ~mask
    return found


def store_of(
    out: Path,
    masks: Masks,
    *,
    series: str = "a",
    config: pf.TransportConfig | None = None,
    numbers: Sequence[int] | None = None,
    **labels: Any,
) -> ResultStore:
    """Consecutive pairs; a label that is a list has the value of every frame. The frames are 0, 1, ... without numbers."""
    frames = range(len(masks)) if numbers is None else numbers
    store = ResultStore(out)
    rows = []
    for t in range(len(masks) - 1):
        extra: dict[str, Any] = {"series": series, "frame": frames[t], "frame_target": frames[t + 1]}
        for name, value in labels.items():
            extra |= {name: value[t], f"{name}_target": value[t + 1]} if isinstance(value, list) else {name: value}
        result = pf.compare(masks[t], masks[t + 1], config or pf.TransportConfig())
        rows.append(store.write_maps(result, f"{series} {t}", extra=extra))
    store.commit(rows)
    return store


def failing(store: ResultStore, *steps: int, error: str = "it broke") -> ResultStore:
    """Replace the pairs from these frames to the next by failed ones."""
    labels = {t: {"series": "a", "frame": t, "frame_target": t + 1} for t in steps}
    store.commit([failed_row(f"a {t}", error, extra=extra) for t, extra in labels.items()])
    return store


@pytest.fixture(scope="module")
def growing(tmp_path_factory: pytest.TempPathFactory) -> ResultStore:
    masks = [body(2.0 * t) for t in range(7)]
    config = pf.TransportConfig(px_size_um=0.5)
    return store_of(tmp_path_factory.mktemp("growing"), masks, config=config, frame_interval_min=15.0)


# --- growth and flicker ----------------------------------------------------------------------


def test_net_growth_is_exact_to_the_pixel(growing: ResultStore) -> None:
    table = pf.series_table(growing)
    truth = np.array([int(body(2.0 * t).sum()) for t in range(7)])
    assert (table["area_um2"] / 0.25).tolist() == truth.tolist()
    assert (table["net_growth_um2"] / 0.25).tolist() == (truth - truth[0]).tolist()
    assert table["lasting_growth_um2"].to_numpy() / 0.25 == pytest.approx(truth - truth[0], abs=1e-3)
    assert table["flicker_total_um2"].iloc[-1] < 1e-3


def test_time_is_in_hours_and_speeds_are_per_hour(growing: ResultStore) -> None:
    table = pf.series_table(growing)
    assert table["time"].tolist() == [0.25 * t for t in range(7)]
    assert set(table["time_unit"]) == {"h"}
    rows = growing.table()
    assert table["displacement_speed_um_per_time"].to_numpy()[1:] == pytest.approx(4 * rows["mean_displacement_um"])
    assert table["divergence_speed_um_per_time"].to_numpy()[1:] == pytest.approx(4 * rows["divergence_length_um"])


def test_outlines_that_flicker_by_one_pixel_are_flicker_and_not_growth(tmp_path: Path) -> None:
    growth = [0, 0, 0, 0, 1, 1, 1, 1, 2]
    masks = [body(tip) | (rim(body(tip)) if t % 2 else False) for t, tip in enumerate(growth)]
    base = np.array([int(body(tip).sum()) for tip in growth])
    planted = sum(int(rim(body(tip)).sum()) for t, tip in enumerate(growth) if t % 2)
    table = pf.series_table(store_of(tmp_path, masks))
    assert table["flicker_total_um2"].iloc[-1] >= 0.9 * planted
    assert table["outline_flicker_total_um2"].iloc[-1] >= 0.9 * planted
    assert table["lasting_growth_um2"].to_numpy()[::2] == pytest.approx((base - base[0])[::2], abs=1e-2)
    # The area itself is off by the rim in every other frame, the curve without flicker is not.
    assert table["lasting_growth_um2"].max() <= base[-1] - base[0] + 1e-2
    assert table["net_growth_um2"].max() > 3 * (base[-1] - base[0])


@pytest.mark.parametrize(
    "base",
    [
        pytest.param([body(1.0 * t) for t in range(13)], id="1 px per frame at the tip"),
        pytest.param([body(3.0 * t) for t in range(9)], id="3 px per frame at the tip"),
        pytest.param([disc(SHAPE, (27, 35), 10 + t) for t in range(13)], id="1 px per frame all round"),
    ],
)
def test_flicker_is_found_however_fast_the_object_grows(tmp_path: Path, base: Masks) -> None:
    masks = [one | (rim(one) if t % 2 else False) for t, one in enumerate(base)]
    planted = sum(int(rim(one).sum()) for t, one in enumerate(base) if t % 2)
    table = pf.series_table(store_of(tmp_path, masks))
    assert table["flicker_total_um2"].iloc[-1] == pytest.approx(planted, rel=0.1)
    grown = np.array([int(one.sum()) for one in base]) - int(base[0].sum())
    assert table["net_growth_um2"].tolist() == [int(one.sum() - masks[0].sum()) for one in masks]
    assert table["lasting_growth_um2"].to_numpy() == pytest.approx(grown, abs=0.2 * rim(base[0]).sum() + 6)
    assert table["lasting_created_total_um2"].iloc[-1] == pytest.approx(grown[-1], abs=1e-2)
    assert table["lasting_destroyed_total_um2"].iloc[-1] == pytest.approx(0, abs=1e-2)


def test_bursts_and_pauses_of_growth_are_no_flicker(tmp_path: Path) -> None:
    tips = [0, 1, 2, 10, 11, 12, 12, 13, 14]  # a burst into frame 3, a pause at frame 6
    table = pf.series_table(store_of(tmp_path, [body(tip) for tip in tips]))
    assert table["flicker_total_um2"].iloc[-1] == pytest.approx(0, abs=1e-2)


def test_a_jittering_stage_is_no_flicker(tmp_path: Path) -> None:
    places = [(0, 0), (1, -1), (0, 2), (-2, 1), (0, 0), (3, 2), (1, 1), (0, -2), (2, 0)]
    still = store_of(tmp_path / "still", [np.roll(body(4), place, (0, 1)) for place in places])
    assert pf.series_table(still)["flicker_total_um2"].iloc[-1] == pytest.approx(0, abs=1e-2)
    swollen = [body(4) | (rim(body(4)) if t % 2 else False) for t in range(9)]
    moving = store_of(
        tmp_path / "moving", [np.roll(one, place, (0, 1)) for one, place in zip(swollen, places, strict=True)]
    )
    flicker = pf.series_table(moving)["flicker_total_um2"].iloc[-1]
    assert flicker == pytest.approx(4 * rim(body(4)).sum(), rel=0.1)


def test_a_ragged_outline_is_no_growth_and_its_pixels_are_counted(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    edge = rim(body())
    noise = [edge & (rng.random(SHAPE) < 0.5) for _ in range(9)]
    table = pf.series_table(store_of(tmp_path, [body() | one for one in noise]), flicker_frames=8)
    switched_on = sum(int((b & ~a).sum()) for a, b in pairwise(noise))
    assert table["outline_flicker_total_um2"].iloc[-1] >= 0.9 * (switched_on - int(edge.sum()) / 2)
    assert table["lasting_created_total_um2"].iloc[-1] < 0.1 * switched_on


def test_a_frame_with_a_missing_part_is_flicker_the_other_way_round(tmp_path: Path) -> None:
    cut = body(8) & ~body(4)
    masks = [body(8), body(8), body(8) & ~cut, body(8), body(8)]
    table = pf.series_table(store_of(tmp_path, masks))
    assert table["flicker_destroyed_um2"].iloc[2] == pytest.approx(cut.sum(), abs=1e-3)
    assert table["flicker_created_um2"].iloc[3] == pytest.approx(cut.sum(), abs=1e-3)
    assert table["lasting_growth_um2"].to_numpy() == pytest.approx(0, abs=1e-3)


def test_what_comes_back_later_than_k_frames_is_no_flicker(tmp_path: Path) -> None:
    masks = [body(), body(6), body(6), body(6), body()]
    store = store_of(tmp_path, masks)
    late, soon = (pf.series_table(store, flicker_frames=k)["flicker_total_um2"].iloc[-1] for k in (2, 3))
    assert late == pytest.approx(0, abs=1e-3)
    assert soon == pytest.approx(float(body(6).sum() - body().sum()), abs=1e-3)


def test_what_comes_and_goes_far_apart_is_no_flicker(tmp_path: Path) -> None:
    left, right = disc(SHAPE, (28, 10), 4), disc(SHAPE, (28, 60), 4)
    middle = disc(SHAPE, (28, 35), 6)
    masks = [middle | right, middle | right | left, middle | left, middle | left]
    table = pf.series_table(store_of(tmp_path, masks, config=pf.TransportConfig(reach_um=12.0)))
    assert table["created_total_um2"].iloc[-1] == pytest.approx(left.sum(), abs=0.1)
    assert table["destroyed_total_um2"].iloc[-1] == pytest.approx(right.sum(), abs=0.1)
    assert table["flicker_total_um2"].iloc[-1] < 0.1


# --- frames that break the series ------------------------------------------------------------


def test_a_frame_with_another_area_is_flagged_and_can_be_left_out(tmp_path: Path) -> None:
    masks: list[np.ndarray[Any, Any]] = [body(1.0 * t) for t in range(8)]
    masks[4] = disc(SHAPE, (27, 26), 9)
    store = store_of(tmp_path, masks)
    table = pf.series_table(store)
    assert table["flags"].notna().tolist() == [t == 4 for t in range(8)]
    assert table["flags"][4] == "area_outlier"
    assert not table["left_out"].any()
    without = pf.series_table(store, leave_out=["area_outlier"])
    assert without["left_out"].tolist() == [t == 4 for t in range(8)]
    assert without["lasting_growth_um2"].iloc[-1] == pytest.approx(float(body(7).sum() - body(0).sum()), abs=1e-3)
    assert without["destroyed_total_um2"].iloc[-1] == pytest.approx(0, abs=1e-3)
    assert math.isnan(without["created_um2"][4])
    assert without.attrs["leave_out"] == ["area_outlier"]


def test_a_lasting_jump_in_area_or_place_is_flagged_once(tmp_path: Path) -> None:
    masks = [body(0.5 * t) for t in range(4)] + [disc(SHAPE, (27, 30), 24)] * 4
    flags = pf.series_table(store_of(tmp_path / "area", masks))["flags"].fillna("")
    assert [t for t in range(8) if "area" in flags[t]] == [4]
    moving = [np.roll(disc(SHAPE, (20, 14), 8), t + (22 if t >= 4 else 0), axis=1) for t in range(8)]
    flags = pf.series_table(store_of(tmp_path / "place", moving))["flags"].fillna("")
    assert [(t, flags[t]) for t in range(8) if flags[t]] == [(4, "pose_jump")]


def test_a_failed_pair_is_flagged_and_net_growth_stays_exact(tmp_path: Path) -> None:
    store = store_of(tmp_path, [body(t) for t in range(5)])
    labels = {"series": "a", "frame": 1, "frame_target": 2}
    store.commit([failed_row("a 1", "it broke", extra=labels)])
    table = pf.series_table(store)
    assert table["flags"].fillna("").tolist() == ["", "", "failed", "", ""]
    assert table["net_growth_um2"].tolist() == [int(body(t).sum() - body().sum()) for t in range(5)]
    assert math.isnan(table["created_um2"][2])


def test_growth_without_flicker_follows_the_area_over_failed_steps(tmp_path: Path) -> None:
    masks = [body(2.0 * t) | (rim(body(2.0 * t)) if t % 2 else False) for t in range(14)]
    table = pf.series_table(failing(store_of(tmp_path, masks), 7, 8))
    assert np.isnan(table["area_um2"]).tolist() == [t == 8 for t in range(14)]
    assert np.isnan(table["lasting_growth_um2"]).tolist() == [t == 8 for t in range(14)]
    switched = table["flicker_created_um2"] - table["flicker_destroyed_um2"]
    is_open = switched.fillna(0).cumsum()  # of the flicker
    close = pytest.approx((table["net_growth_um2"] - is_open).dropna().to_numpy(), abs=1e-2)
    assert table["lasting_growth_um2"].dropna().to_numpy() == close
    assert table["flicker_total_um2"].iloc[-1] > 3 * rim(body()).sum()  # found on both sides


def test_no_curve_goes_on_where_no_area_is_known(tmp_path: Path) -> None:
    table = pf.series_table(failing(store_of(tmp_path, [body(t) for t in range(8)]), 0, 5, 6), smooth_frames=1.0)
    unknown = [t in (0, 6, 7) for t in range(8)]
    for name in ("area_um2", "net_growth_um2", "lasting_growth_um2", "area_um2_smooth", "lasting_growth_um2_smooth"):
        assert np.isnan(table[name]).tolist() == unknown, name
    assert table["net_growth_um2"].dropna().tolist() == [int(body(t).sum() - body(1).sum()) for t in range(1, 6)]


def test_the_flag_of_a_failed_pair_names_its_cause(tmp_path: Path) -> None:
    table = pf.series_table(
        failing(store_of(tmp_path, [body(t) for t in range(4)]), 1, error="corrupted\n" + 999 * "x")
    )
    assert table["reason"][2].startswith("the comparison from frame 1 to frame 2 failed: corrupted xxx")
    assert len(table["reason"][2]) < 320


# --- time, smoothing, error bars -------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "options", "times", "unit"),
    [
        ({}, {}, [0, 1, 2], "frame"),
        ({"hpf": [24.0, 26.0, 29.0]}, {}, [24, 26, 29], "h"),
        ({"time_min": [0.0, 30.0, 90.0]}, {}, [0, 0.5, 1.5], "h"),
        ({"time": [0.0, 1.0, 3.0]}, {"time_unit": "d"}, [0, 24, 72], "h"),
        ({"age": [1.0, 2.0, 4.0]}, {"time": "age", "time_unit": "somites"}, [1, 2, 4], "somites"),
        ({}, {"frame_interval_min": 30}, [0, 0.5, 1], "h"),
    ],
)
def test_time_comes_from_a_column_an_interval_or_the_frames(
    tmp_path: Path, labels: dict[str, Any], options: dict[str, Any], times: list[float], unit: str
) -> None:
    table = pf.series_table(store_of(tmp_path, [body(t) for t in range(3)], **labels), **options)
    assert table["time"].tolist() == pytest.approx(times)
    assert set(table["time_unit"]) == {unit}


def test_frame_numbers_count_without_a_time_and_the_words_say_so(tmp_path: Path) -> None:
    numbers = [24, 26, 28, 34]
    store = store_of(tmp_path, [np.roll(body(), t - 24, axis=1) for t in numbers], numbers=numbers)
    (one,) = summaries_of(pf.series_table(store))
    assert one["duration"] == 10
    assert one["mean_displacement_speed_um_per_time"] == pytest.approx(1.0, rel=1e-3)
    done = CliRunner().invoke(app, ["series", str(tmp_path), "--movies", "0"])
    assert "4 frames over 10 frame numbers, net growth" in done.output
    assert "speeds are per frame number;" in done.output
    page = (tmp_path / "series" / f"{page_name_of('a')}.html").read_text()
    assert "px per frame number" in page
    assert "px/frame" not in page + (tmp_path / "series.html").read_text()
    figure = series_figure(pf.series_table(store))
    assert figure.axes[2].get_ylabel() == "px per frame number"
    assert figure.axes[2].get_xlabel() == "frame number"


def test_with_an_interval_the_smallest_step_of_any_series_is_one_frame(tmp_path: Path) -> None:
    store_of(tmp_path, [body(t) for t in range(3)], numbers=[0, 30, 60])
    store = store_of(tmp_path, [body(t) for t in range(3)], series="b", numbers=[0, 15, 45])
    table = pf.series_table(store, frame_interval_min=30)
    assert table["time"].tolist() == pytest.approx([0, 1, 2, 0, 0.5, 1.5])
    assert pf.series_table(store, series="a", frame_interval_min=30)["time"].tolist() == pytest.approx([0, 1, 2])


def test_smoothing_keeps_a_straight_line_and_names_its_kernel(growing: ResultStore) -> None:
    table = pf.series_table(growing, smooth_frames=1.5)
    assert "1.5 frames" in table.attrs["kernel"]
    noisy, smooth = table["area_um2"], table["area_um2_smooth"]
    assert np.abs(np.diff(smooth, 2)).max() < np.abs(np.diff(noisy, 2)).max()
    assert smooth.mean() == pytest.approx(noisy.mean(), rel=0.01)
    assert SeriesRule().kernel == "none"


def test_error_bars_of_the_pairs_reach_the_series(tmp_path: Path) -> None:
    config = pf.TransportConfig(rim_um=1.0)
    table = pf.series_table(store_of(tmp_path, [body(3 * t) for t in range(3)], config=config))
    known = table.iloc[1:]
    assert (known["created_low_um2"] <= known["created_um2"] + 1e-6).all()
    assert (known["created_high_um2"] > known["created_um2"]).all()
    speed = known["displacement_speed_um_per_time"]
    assert (known["displacement_speed_high_um_per_time"] >= speed - 1e-9).all()
    assert table["created_total_se_um2"].is_monotonic_increasing
    plain = pf.series_table(store_of(tmp_path / "plain", [body(3 * t) for t in range(3)]))
    assert not [name for name in plain.columns if "_low_" in name]


# --- refused ---------------------------------------------------------------------------------


def test_time_that_does_not_increase_is_refused(tmp_path: Path) -> None:
    store = store_of(tmp_path, [body(t) for t in range(4)], hpf=[1.0, 3.0, 2.0, 4.0])
    with pytest.raises(CohortError, match="series 'a': 3 at frame 1 and 2 at frame 2") as caught:
        pf.series_table(store)
    assert "time that increases" in caught.value.expected
    assert caught.value.fix


def test_unknown_series_columns_flags_and_units_are_refused(growing: ResultStore) -> None:
    for options, words in (
        ({"series": ["b"]}, "one of the 1 series.*'b'.*for instance 'a'"),
        ({"time": "hpf"}, "column of the table as the time.*'hpf'"),
        ({"time_unit": "h"}, "column with the time"),
        ({"time_unit": " "}, "unit of time"),
        ({"leave_out": ["gap"]}, "flags of single frames.*'gap'"),
        ({"flicker_frames": -1}, "flicker_frames"),
        ({"smooth_frames": 0}, "smooth_frames"),
        ({"frame_interval_min": -5}, "frame_interval_min"),
        ({"frame_interval_min": 5, "time": "frame"}, "time from one place"),
    ):
        with pytest.raises(CohortError, match=re.compile(words, re.DOTALL)):
            pf.series_table(growing, **options)  # type: ignore[arg-type]


def test_a_cohort_that_is_not_consecutive_is_refused(tmp_path: Path) -> None:
    result = pf.compare(body(), body(2))
    for name, pairs, words in (
        ("reference", [(0, 1), (0, 2)], "frame 0 as the source of 2 pairs"),
        ("target", [(0, 2), (1, 2)], "frame 2 as the target of 2 pairs"),
        ("loop", [(0, 1), (1, 0)], "lead back to their first frame"),
        ("itself", [(0, 0)], "a frame with itself"),
        ("backwards", [(2, 1), (1, 0)], "not compared in their order"),
    ):
        store = ResultStore(tmp_path / name)
        labels = [{"series": "a", "frame": one, "frame_target": two} for one, two in pairs]
        store.commit([store.write_maps(result, f"{k}", extra=label) for k, label in enumerate(labels)])
        with pytest.raises(CohortError, match=words) as caught:
            pf.series_table(store)
        assert "--pairing consecutive" in caught.value.fix


def test_pairs_outside_a_series_are_left_alone(tmp_path: Path) -> None:
    store = store_of(tmp_path, [body(t) for t in range(3)])
    store.commit([store.write_maps(pf.compare(body(), body(9)), "alone", extra={"series": None})])
    assert set(pf.series_table(store)["series"]) == {"a"}


def test_masses_that_are_no_areas_are_refused(tmp_path: Path) -> None:
    store = store_of(tmp_path, [body(), body(2)], config=pf.TransportConfig(mass_mode="distance_transform"))
    with pytest.raises(CohortError, match="mass is their area"):
        pf.series_table(store)


# --- pages and the command -------------------------------------------------------------------


def test_pages_show_every_series_and_escape_its_name(tmp_path: Path) -> None:
    masks = [body(3.0 * t) for t in range(4)]
    store = store_of(tmp_path, masks, series=HOSTILE)
    store_of(tmp_path, masks, series="../../up")
    table = pf.series_table(store)
    index = write_series(table, tmp_path, max_movies=1)
    pages = [tmp_path / "series" / f"{page_name_of(name)}.html" for name in (HOSTILE, "../../up")]
    for page in (index, *pages):
        text = page.read_text()
        assert "<img src=x" not in text
        for address in re.findall(r'(?:src|href)="([^"]+)"', text):
            assert (page.parent / address).exists(), address
    assert (pages[0].with_suffix("") / "movie.gif").is_file()
    assert not (pages[1].with_suffix("") / "movie.gif").exists()
    assert 'href="series.html"' in write_report(tmp_path, max_figures=0).read_text()
    write_series(table[table["series"] == HOSTILE], tmp_path)
    assert pages[0].is_file()
    assert not pages[1].exists()


def test_the_command_writes_tables_that_record_the_rule(growing: ResultStore) -> None:
    import pandas as pd

    done = CliRunner().invoke(app, ["series", str(growing.out), "--smooth", "2", "--leave-out", "area_outlier"])
    assert done.exit_code == 0, done.output
    assert "7 frames over 1.5 h, net growth" in done.output
    saved = pd.read_csv(growing.out / "series.csv")
    table = pf.series_table(growing, smooth_frames=2, leave_out=["area_outlier"])
    assert saved["area_um2"].tolist() == table["area_um2"].tolist()
    assert pd.read_parquet(growing.out / "series.parquet").columns.tolist() == table.columns.tolist()
    about = json.loads((growing.out / "series.json").read_text())
    assert about["rule"]["leave_out"] == ["area_outlier"]
    assert "2 frames" in about["rule"]["kernel"]
    assert about["series"][0]["net_growth_um2"] == table["net_growth_um2"].iloc[-1]


def test_the_command_refuses_with_one_line_and_writes_nothing(tmp_path: Path) -> None:
    store_of(tmp_path, [body(t) for t in range(3)], hpf=[3.0, 2.0, 1.0])
    before = {path.name for path in tmp_path.iterdir()}
    done = CliRunner().invoke(app, ["series", str(tmp_path)])
    assert done.exit_code == 2
    assert "time that increases" in done.output
    assert "Traceback" not in done.output
    assert {path.name for path in tmp_path.iterdir()} == before


def test_the_command_exits_with_1_if_a_pair_failed(tmp_path: Path) -> None:
    store = store_of(tmp_path, [body(t) for t in range(4)])
    store.commit([failed_row("a 1", "it broke", extra={"series": "a", "frame": 1, "frame_target": 2})])
    done = CliRunner().invoke(app, ["series", str(tmp_path), "--movies", "0"])
    assert done.exit_code == 1
    assert "1 of 3 steps have no certified comparison" in done.output
    assert (tmp_path / "series.html").is_file()


def test_the_summary_is_of_the_steps_that_have_a_result(tmp_path: Path) -> None:
    store = failing(store_of(tmp_path, [np.roll(body(), 2 * t, axis=1) for t in range(7)]), 2, 5)
    table = pf.series_table(store)
    (one,) = summaries_of(table)
    assert one["mean_displacement_speed_um_per_time"] == pytest.approx(2.0, rel=1e-3)
    assert (one["steps"], one["unknown_steps"], one["duration"]) == (6, 2, 6)
    assert (one["area_last_um2"], one["net_growth_um2"], one["has_last_area"]) == (body().sum(), 0, False)
    write_series(table, tmp_path, max_movies=0)
    page = (tmp_path / "series" / f"{page_name_of('a')}.html").read_text()
    for words in ("created", "destroyed", "mean displacement per frame number"):
        assert f"{words} in 4 of 6 steps</li>" in page
    assert "<b>2</b>steps without a result</li>" in page
    assert "(until frame 5)" in page
    assert "steps without a result" in (tmp_path / "series.html").read_text()


def test_a_series_without_any_result_still_has_a_page(tmp_path: Path) -> None:
    store = failing(store_of(tmp_path, [body(t) for t in range(4)]), 0, 1, 2)
    table = pf.series_table(store, smooth_frames=1.0)
    (one,) = summaries_of(table)
    assert one["unknown_steps"] == 3
    assert math.isnan(one["net_growth_um2"])
    assert math.isnan(one["mean_displacement_speed_um_per_time"])
    assert write_series(table, tmp_path).is_file()


def test_failed_steps_are_gaps_and_every_flagged_frame_is_marked(tmp_path: Path) -> None:
    table = pf.series_table(failing(store_of(tmp_path, [body(t) for t in range(8)]), 3, 4, 6))
    figure = series_figure(table)
    area, books = figure.axes[:2]
    lines = {str(line.get_label()): line for line in area.lines}
    assert np.asarray(lines["flagged"].get_xdata()).tolist() == [5]
    assert np.asarray(lines["flagged, area unknown"].get_xdata()).tolist() == [4, 7]
    created = next(line for line in books.lines if line.get_label() == "created")
    times, values = (np.asarray(data, dtype=float) for data in created.get_data())
    assert times[np.isfinite(values)].tolist() == [0, 1, 2, 3, 5, 6]
    gap = np.flatnonzero(np.isnan(values))
    assert set(times[gap]) >= {4, 7}
    assert "3 of 7 steps have no result" in books.get_title()
    figure.canvas.draw()
    title = books.title.get_window_extent()
    assert title.x0 >= 0
    assert title.x1 <= figure.bbox.x1
    (overview,) = series_overview(table).axes
    marked = [t for line in overview.lines if line.get_marker() == "o" for t in np.asarray(line.get_xdata())]
    assert sorted(marked) == [4, 5, 7]


def test_flicker_is_told_as_area_beside_what_stayed(tmp_path: Path) -> None:
    masks = [body(2 * t) | (rim(body(2 * t)) if t % 2 else False) for t in range(7)]
    planted = sum(int(rim(body(2 * t)).sum()) for t in range(1, 7, 2))
    store = store_of(tmp_path, masks)
    (one,) = summaries_of(pf.series_table(store))
    grown = int(masks[-1].sum() - masks[0].sum())
    assert one["lasting_created_um2"] == pytest.approx(grown, abs=1e-2)
    assert one["flicker_um2"] == pytest.approx(planted, rel=0.1)
    share = one["flicker_um2"] / (one["flicker_um2"] + one["lasting_created_um2"])
    assert one["flicker_percent_of_all_that_came"] == pytest.approx(100 * share)
    assert not [name for name in one if name.endswith("of_created")]
    done = CliRunner().invoke(app, ["series", str(tmp_path), "--movies", "0"])
    stayed, flicker = number(one["lasting_created_um2"]), number(one["flicker_um2"])
    assert f"{stayed} px² came and stayed, {flicker} px² came and went again (flicker)" in done.output
    page = (tmp_path / "series" / f"{page_name_of('a')}.html").read_text()
    assert f"beside {stayed} px² that came and stayed; in aligned series, jitter of pose" in page
    assert "of all new area" not in page


@pytest.mark.parametrize("rim_um", [None, 1.0])
def test_the_highest_speed_lies_inside_its_panel(tmp_path: Path, rim_um: float | None) -> None:
    config = pf.TransportConfig() if rim_um is None else pf.TransportConfig(rim_um=rim_um)
    table = pf.series_table(store_of(tmp_path, [body(2 * t) for t in range(4)], config=config))
    for name, ax in zip(("displacement", "divergence"), series_figure(table).axes[2:], strict=True):
        ends = [table[f"{name}_speed_{part}um_per_time"].max() for part in ("", "high_") if rim_um or not part]
        assert ax.get_ylim()[0] == 0
        assert ax.get_ylim()[1] >= 1.05 * max(ends)


@pytest.mark.skipif("PAIRFRAME_DATA" not in os.environ, reason="PAIRFRAME_DATA names no folder")
def test_real_cells_as_a_series(tmp_path: Path) -> None:
    labels = np.load(Path(os.environ["PAIRFRAME_DATA"]) / "laptrack_cell_segmentation_10f.npz")["labels"]
    table = pf.series_table(store_of(tmp_path, [frame > 0 for frame in labels[:4]]))
    assert table["area_um2"].tolist() == [int((frame > 0).sum()) for frame in labels[:4]]
    growth, net = table["lasting_growth_um2"].iloc[-1], table["net_growth_um2"].iloc[-1]
    assert growth == pytest.approx(net, abs=0.05)

"""Minutes between frames: every row carries those between its own two."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from helpers.cohort_cases import CONFIG, InProcessExecutor, write_frame, write_series, write_table
from hypothesis import given
from hypothesis import strategies as st

from pairframe.cohort import MaskRef, PairTask, run_cohort
from pairframe.cohort.inputs.interval import COLUMN, with_frame_interval
from pairframe.cohort.inputs.pairing import Frame, pair_frames
from pairframe.cohort.inputs.sources import read_tasks
from pairframe.errors import CohortError, ManifestError
from pairframe.results import ResultStore


def frames(*names: str, series: str = "s") -> list[Frame]:
    return [Frame(series, name, MaskRef(f"/{series}/{name}.png", name)) for name in names]


def minutes(tasks: list[PairTask], frame_interval_min: float = 15.0) -> list[object]:
    return [task.carried[COLUMN] for task in with_frame_interval(tasks, frame_interval_min)]


@pytest.mark.parametrize(
    ("names", "rule", "expected"),
    [
        (("0", "1", "2"), "consecutive", [15, 15]),
        (("004", "005", "007"), "consecutive", [15, 30]),  # frame 6 is missing
        (("0", "15", "45"), "consecutive", [15, 30]),  # names that count minutes, not frames
        (("4.5", "5.0", "6.0"), "consecutive", [15, 30]),
        (("0", "1", "2", "3", "4"), "every:2", [30, 30]),
        (("0", "1", "2"), "reference", [15, 30]),
        (("0", "1", "2"), "reference:1", [15, 15]),  # back in time is as long
        (("0", "1", "2"), "all", [15, 30, 15]),
        (("early", "late", "mid"), "consecutive", [15, 15]),  # no numbers: one after the other
    ],
)
def test_a_pair_carries_the_minutes_between_its_own_frames(
    names: tuple[str, ...], rule: str, expected: list[float]
) -> None:
    assert minutes(pair_frames(frames(*names), rule)) == expected


def test_a_series_with_gaps_only_is_held_against_the_others() -> None:
    tasks = pair_frames([*frames("0", "1"), *frames("0", "3", series="gaps")], "consecutive")
    assert minutes(tasks) == [15, 45]


@given(st.sets(st.integers(-1000, 1000), min_size=2, max_size=12), st.integers(1, 50), st.floats(0.1, 100))
def test_the_minutes_of_a_series_add_up(places: set[int], step: int, interval: float) -> None:
    with_neighbours = sorted({*places, max(places) + 1})  # so that a single step is seen
    names = [str(step * place) for place in with_neighbours]
    found = minutes(pair_frames(frames(*names), "consecutive"), interval)
    whole = (max(places) + 1 - min(places)) * interval
    assert math.fsum(found) == pytest.approx(whole, rel=1e-9)  # type: ignore[arg-type]


def test_frames_of_two_series_have_no_interval() -> None:
    both = [Frame("a", "0", MaskRef("/a", "a"), {"group": 1}), Frame("b", "1", MaskRef("/b", "b"), {"group": 1})]
    assert minutes(pair_frames(both, "all")) == [None]


def test_pairs_of_a_table_are_one_interval_apart(tmp_path: Path) -> None:
    rows = [{"source": "a.png", "target": "b.png"}, {"source": "b.png", "target": "c.png"}]
    assert minutes(read_tasks(write_table(tmp_path / "m.csv", rows))) == [15, 15]


def test_uneven_frames_are_refused_rather_than_given_wrong_minutes() -> None:
    tasks = pair_frames(frames("0", "899", "1801"), "consecutive")
    assert with_frame_interval(tasks, None) == tasks
    with pytest.raises(
        ManifestError, match=r"equally spaced frames.* got pair 's_899-1801', whose frames are 1\.003 times"
    ):
        with_frame_interval(tasks, 15)


def test_a_column_and_an_option_for_the_same_thing_are_refused(tmp_path: Path) -> None:
    rows = [{"source": "a.png", "target": "b.png", COLUMN: 5.0}]
    tasks = read_tasks(write_table(tmp_path / "m.csv", rows))
    assert tasks[0].carried == {COLUMN: 5.0}
    with pytest.raises(ManifestError, match=r"frame_interval_min from one place.* remove one of them"):
        with_frame_interval(tasks, 15)


@pytest.mark.parametrize("bad", [0, -1.0, math.nan, math.inf, True, "5"])
def test_only_a_positive_number_of_minutes_is_an_interval(bad: object) -> None:
    with pytest.raises(CohortError, match="a positive, finite frame interval in minutes") as caught:
        with_frame_interval([], bad)  # type: ignore[arg-type]
    assert caught.value.field == "frame_interval_min"


def test_a_run_writes_the_minutes_and_learns_them_later_without_solving(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pairframe.cohort.run.runner.LocalExecutor", InProcessExecutor)
    masks, out = write_series(tmp_path / "masks", n_series=1, n_frames=2), tmp_path / "out"
    write_frame(masks / "s0" / "t4.png", 5, 4)
    first = run_cohort(masks, out, CONFIG)
    assert (first.done, COLUMN in ResultStore(out).table()) == (2, False)
    again = run_cohort(masks, out, CONFIG, frame_interval_min=20)
    table = ResultStore(out).table()
    assert (again.done, again.skipped) == (0, 2)
    assert dict(zip(table.pair_id, table[COLUMN], strict=True)) == {"s0_0-1": 20.0, "s0_1-4": 60.0}
    assert list(table.mean_speed_um_per_min) == pytest.approx(list(table.mean_displacement_um / table[COLUMN]))

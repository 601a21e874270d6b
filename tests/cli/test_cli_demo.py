"""`pairframe demo`, small and whole."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from helpers.cli_masks import content
from matplotlib.axes import Axes
from typer.testing import CliRunner

import pairframe as pf
from pairframe.cli import demo
from pairframe.cli.app import app
from pairframe.cli.demo_series import N_FRAMES
from pairframe.report.figures import frame_overview, write_movie
from pairframe.report.html import write_report
from pairframe.results import ResultStore
from pairframe.testing import planted_cohort

SMALL_HW = (48, 108)


def test_the_demo_keeps_and_draws_eight_pairs_and_a_second_run_replaces_only_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Few pictures: drawing all of them is most of the time, and what the slow test below does.
    monkeypatch.setattr(demo, "write_report", partial(write_report, max_figures=0))
    monkeypatch.setattr(demo, "write_movie", partial(write_movie, n=2))
    drawn: list[pf.GridTransform] = []

    def seen(transform: pf.GridTransform, a: np.ndarray, b: np.ndarray, ax: Axes) -> Axes:
        drawn.append(transform)
        return frame_overview(transform, a, b, ax)

    monkeypatch.setattr(demo, "frame_overview", seen)
    out = tmp_path / "demo"
    demo.run_demo(out, shape_hw=SMALL_HW)
    told = capsys.readouterr().out
    assert "certified to: at most this share of the plan's cost is error (relative gap)" in told
    places = [line.split(maxsplit=1) for line in told.splitlines()[-2:]]
    assert places == [["report", str(out / "report.html")], ["store", str(out / "results.parquet")]]
    for words in ("compared as given: mass moves by", "aligned first (turned back by", "growth is left"):
        assert words in told
    store = ResultStore(out)
    table = store.table()
    given, aligned = table[table.pair_id == demo.AS_GIVEN].iloc[0], table[table.pair_id == demo.ALIGNED].iloc[0]
    assert given.mean_displacement_um > 20 * aligned.mean_displacement_um
    assert aligned.pose_angle_deg == pytest.approx(-40.0, abs=3)
    assert aligned.percent_created == pytest.approx(17.4, abs=2)
    assert list(table.pair_id) == [pair.pair_id for pair in demo.PAIRS]
    assert (table.status == "converged").all()
    assert (table.px_size_um == demo.PX_SIZE_UM).all()
    for name in ("report.html", "pair_frame.png", "alignment.png", "tiny_and_huge.gif", "growing_embryo.gif"):
        assert (out / name).stat().st_size > 1000
    assert len(list((out / "pairs").glob("*.html"))) == len(demo.PAIRS)
    from_table = out / "from_a_table"
    curves = pd.read_csv(from_table / "results" / "series.csv")
    truth = [np.count_nonzero(one.mask) * one.px_size_um**2 for one in planted_cohort(1, N_FRAMES, seed=4)]
    assert curves["area_um2"].tolist() == pytest.approx(truth, rel=1e-9)
    assert curves["time"].tolist() == [24.0 + 2 * t for t in range(N_FRAMES)]
    assert (from_table / "aligned" / "contact_sheet.html").is_file()
    assert len(list((from_table / "results" / "series").glob("*/movie.gif"))) == 1
    assert "the fish grew by" in told

    (out / "masks" / "mine.txt").write_text("mine")
    demo.run_demo(out, quiet=True, shape_hw=SMALL_HW)
    assert capsys.readouterr() == ("", "")
    assert list(store.table().pair_id) == list(table.pair_id)
    assert set(store.table().maps_group).isdisjoint(table.maps_group)
    assert len(list((out / "pairs").glob("*.html"))) == len(demo.PAIRS)
    assert (out / "masks" / "mine.txt").read_text() == "mine"

    # What the demo compared is there to be compared again.
    assert drawn[0] == pf.load(out, pair_id="tiny and huge").transform, "the frame that was used"
    assert table.frame.isna().tolist() == [
        True,
        *5 * [False],
        True,
        True,
    ]  # the odd pairs are no part of the time course
    again = pf.compare(out / table.source[1], out / table.target[1])
    assert again.total_mass_moved == pytest.approx(table.total_mass_moved[1], rel=1e-6)


def test_a_folder_with_other_things_or_results_is_not_touched(tmp_path: Path) -> None:
    things, results = tmp_path / "things", tmp_path / "results"
    things.mkdir()
    (things / "pair_frame.png").write_text("mine")
    (tmp_path / "taken").write_text("a file")
    pf.compare([[0, 1, 0]], [[1, 1, 0]]).save(results, pair_id="mine")
    before = content(tmp_path)
    for place, words in (("things", "other files"), ("results", "other results"), ("taken", "not a folder")):
        done = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / place)])
        assert done.exit_code == 2
        assert words in done.stderr
        assert "choose another one with --out" in done.stderr
    assert content(tmp_path) == before


@pytest.mark.slow
def test_the_whole_demo_ends_with_the_paths_of_the_report_and_the_store(tmp_path: Path) -> None:
    program = Path(sys.executable).parent / "pairframe"
    done = subprocess.run([program, "demo"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report, store = (line.split()[-1] for line in done.stdout.splitlines()[-2:])
    assert (report, store) == ("pairframe-demo/report.html", "pairframe-demo/results.parquet")
    assert (tmp_path / report).is_file()
    assert len(ResultStore(tmp_path / "pairframe-demo").pair_ids()) == 8

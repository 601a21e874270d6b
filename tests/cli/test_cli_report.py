"""`pairframe report`."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from helpers.archives import spoil
from helpers.cli_masks import content, write_pair
from helpers.results_equal import unsolved_result
from typer.testing import CliRunner

import pairframe as pf
from pairframe.cli import report
from pairframe.cli.app import app
from pairframe.report.html import write_report
from pairframe.results import ResultStore, disk


def test_the_pages_of_a_store_are_written_and_the_store_is_not(tmp_path: Path) -> None:
    out = tmp_path / "out"
    pf.compare(*write_pair(tmp_path)).save(out, pair_id="<b>fish</b>")
    before = content(out)
    done = CliRunner().invoke(app, ["report", str(out), "--title", "My & fish"])
    assert (done.exit_code, done.stdout) == (0, f"report: {out / 'report.html'}\n")
    page = (out / "report.html").read_text()
    assert "My &amp; fish" in page
    assert "<b>fish" not in page
    assert before.items() <= content(out).items()


def test_a_place_without_results_is_exit_code_2_says_what_it_is_and_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    places = {
        tmp_path: "which has none. To fix: check the path, or run pairframe compare",
        tmp_path / "nowhere": "which does not exist. To fix: check the path",
        tmp_path / "notes.txt": "which is a file. To fix: give the folder that was --out of a comparison",
    }
    for place, message in places.items():
        for command in ("report", "analyze"):
            done = CliRunner().invoke(app, [command, str(place)])
            assert done.exit_code == 2
            assert "expected a folder with results" in done.stderr
            assert message in done.stderr
    assert content(tmp_path) == {"notes.txt": b"mine"}
    assert not (tmp_path / "nowhere").exists()


def test_a_file_of_a_store_leads_to_its_folder(tmp_path: Path) -> None:
    out = tmp_path / "out"
    unsolved_result().save(out)
    done = CliRunner().invoke(app, ["report", str(out / "results.parquet")])
    assert done.exit_code == 2
    assert f"give its folder: {str(out)!r}" in done.stderr


@pytest.mark.parametrize("is_drawn", [False, True])
def test_damaged_and_missing_maps_are_exit_code_1_and_named(
    tmp_path: Path, is_drawn: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "write_report", partial(write_report, max_figures=0))
    out = tmp_path / "out"
    for name in ("good", "changed", "gone"):
        unsolved_result().save(out, pair_id=name)
    if is_drawn:
        assert CliRunner().invoke(app, ["report", str(out)]).exit_code == 0
    groups = ResultStore(out).table().set_index("pair_id").maps_group
    spoil(disk.group_file(out / "maps.zarr", groups["changed"]), "work_maps/c.0.0.0")
    disk.group_file(out / "maps.zarr", groups["gone"]).unlink()
    for words in ((), ("--quiet",)):
        done = CliRunner().invoke(app, ["report", str(out), *words])
        assert done.exit_code == 1
        assert "the maps of pair 'changed' are damaged or missing" in done.stderr
        assert "the maps of pair 'gone' are damaged or missing" in done.stderr
        assert "'good'" not in done.stderr
        assert "To fix: run these comparisons again" in done.stderr
    assert (out / "report.html").is_file()

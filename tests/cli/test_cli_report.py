"""`pairframe report`."""

from __future__ import annotations

from pathlib import Path

from helpers.cli_masks import content, write_pair
from typer.testing import CliRunner

import pairframe as pf
from pairframe.cli.app import app


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


def test_a_folder_without_results_is_exit_code_2_and_not_touched(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    for place in (tmp_path, tmp_path / "nowhere"):
        done = CliRunner().invoke(app, ["report", str(place)])
        assert done.exit_code == 2
        assert "expected a folder with results" in done.stderr
    assert content(tmp_path) == {"notes.txt": b"mine"}
    assert not (tmp_path / "nowhere").exists()

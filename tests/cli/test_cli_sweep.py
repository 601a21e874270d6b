"""`pairframe sweep` writes a table, a figure and a recommendation."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from helpers.cli_masks import content, write_pair
from PIL import Image
from typer.testing import CliRunner

from pairframe.cli.app import app


def run(*words: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, [str(word) for word in words])
    return done.exit_code, done.stdout, done.stderr


def test_it_writes_a_table_a_figure_and_a_recommendation(tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, text, trouble = run("sweep", *write_pair(tmp_path), "--out", out, "--reach-um", "8,16,32,64,128")
    assert (code, trouble) == (0, "")
    table = pd.read_csv(out / "sweep.csv")
    assert list(table["reach_um"]) == [8, 16, 32, 64, 128]
    found = json.loads((out / "sweep.json").read_text())
    assert found["length_unit"] == "um"
    assert len(found["points"]) == 5
    assert found["reach_um"] in list(table["reach_um"])
    assert f"Take a reach of {found['reach_um']:g} µm" in " ".join(text.split())
    with Image.open(out / "sweep.png") as image:
        assert image.width > 1000


def test_json_is_what_the_file_holds(tmp_path: Path) -> None:
    code, text, _ = run("sweep", *write_pair(tmp_path, None), "--out", tmp_path / "out", "--blur-um", "1,2", "--json")
    assert code == 0
    assert json.loads(text) == json.loads((tmp_path / "out" / "sweep.json").read_text())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--reach-um", "50"), "--reach-um: expected at least two values"),
        (("--reach-um", "50,20"), "--reach-um: expected increasing values"),
        (("--reach-um=-5,20",), "--reach-um: expected a positive, finite reach_um"),
        (("--reach-um", "5,x"), "--reach-um: expected numbers separated by commas"),
        (("--blur-um", "2"), "--blur-um: expected at least two values"),
        (("--moved-share", "0.5"), "--moved-share: expected no moved_share in a sweep"),
    ],
)
def test_bad_input_is_exit_code_2_and_writes_nothing(tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    code, _, trouble = run("sweep", *write_pair(tmp_path), "--out", tmp_path / "out", *words)
    assert code == 2
    assert message in trouble
    assert len(trouble.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_another_sweep_is_not_replaced_unless_asked(tmp_path: Path) -> None:
    words = ("sweep", *write_pair(tmp_path), "--out", tmp_path / "out", "--reach-um", "8,16")
    assert run(*words)[0] == 0
    before = content(tmp_path / "out")
    code, _, trouble = run(*words[:-1], "16,32")
    assert code == 2
    assert "--overwrite" in trouble
    assert content(tmp_path / "out") == before
    assert run(*words[:-1], "16,32", "--overwrite")[0] == 0
    assert content(tmp_path / "out") != before

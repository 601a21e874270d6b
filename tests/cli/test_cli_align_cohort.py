"""`pairframe align TABLE` and `pairframe drift`."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from helpers.planted_table import write_table
from typer.testing import CliRunner

import pairframe as pf
from pairframe.cli.app import app
from pairframe.testing import embryo, planted_cohort

SMALL = embryo((96, 200), growth=0.4)


def run(*words: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, [str(word) for word in words])
    return done.exit_code, done.stdout, done.stderr


def test_a_table_is_aligned_and_resumed(tmp_path: Path) -> None:
    table = write_table(planted_cohort(1, 3), tmp_path / "masks")
    words = ("align", table, "--canvas", "130x300", "--px-size-um", 5, "--landmark", "yolk", "--allow-flip")
    words = (*words, "--out", tmp_path / "out", "--workers", 1)
    code, text, _ = run(*words)
    assert code == 0
    for part in (
        "masks: 3 aligned",
        "0 failed",
        "reference: embryo1_1",
        "aligned.csv",
        "contact_sheet.html",
        "next: pairframe run",
    ):
        assert part in text
    assert (tmp_path / "out" / "contact_sheet.html").exists()
    code, text, _ = run(*words, "--json")
    found = json.loads(text)
    assert (code, found["skipped"], found["written"], len(found["masks"])) == (0, 3, 0, 3)


def test_a_failed_mask_is_exit_code_1(tmp_path: Path) -> None:
    for t, pixels in enumerate((SMALL, SMALL, np.zeros_like(SMALL))):
        pf.write_mask(pf.Mask.from_array(pixels, px_size_um=2.0), tmp_path / f"t{t}.tif")
    code, text, _ = run("align", tmp_path, "--canvas", "110x220", "--out", tmp_path / "out", "--jobs", 1)
    assert code == 1
    assert "failed: " in text
    assert "an empty mask" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--out", "out"), "--canvas for a table"),
        (("--canvas", "96x200"), "--out for a table"),
        (("--canvas", "96", "--out", "out"), "--canvas as HEIGHTxWIDTH"),
        (("--canvas", "96x200", "--out", "out", "--prove", "flip"), "no --prove for a table"),
        (("t0.tif", "--canvas", "96x200"), "no --canvas for a pair"),
        (("--canvas", "96x200", "--out", "out", "--landmark", "yolk"), "a column 'yolk'"),
        (("--canvas", "9x9", "--out", "out"), "to fit on the canvas of 9 x 9 px"),
    ],
)
def test_bad_usage_is_exit_code_2_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    pf.write_mask(pf.Mask.from_array(SMALL), "t0.tif")
    code, _, trouble = run("align", "t*.tif" if words[0] != "t0.tif" else "t0.tif", *words)
    assert code == 2
    assert message in trouble
    assert not Path("out").exists()


def test_drift_is_a_table_and_a_figure(tmp_path: Path) -> None:
    for t in range(4):
        moved = np.roll(SMALL, (t, -2 * t), axis=(0, 1))
        pf.write_mask(pf.Mask.from_array(moved, px_size_um=2.0), tmp_path / f"t{t}.tif")
    code, text, _ = run("drift", tmp_path, "--out", tmp_path / "drift")
    assert code == 0
    assert "over 4 frames" in text
    with (tmp_path / "drift" / "drift.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [(float(row["dy_um"]), float(row["dx_um"])) for row in rows] == [
        pytest.approx((2.0 * t, -4.0 * t)) for t in range(4)
    ]
    assert (tmp_path / "drift" / "drift.png").exists()
    code, _, trouble = run("drift", tmp_path, "--out", tmp_path / "drift")
    assert code == 2
    assert "--overwrite" in trouble
    code, text, _ = run("drift", tmp_path, "--out", tmp_path / "drift", "--overwrite", "--smooth", 1, "--json")
    assert code == 0
    (series,) = json.loads(text).values()
    assert "Gaussian" in series["kernel"]


def test_drift_needs_two_frames(tmp_path: Path) -> None:
    pf.write_mask(pf.Mask.from_array(SMALL), tmp_path / "t0.tif")
    code, _, trouble = run("drift", tmp_path, "--out", tmp_path / "drift")
    assert code == 2
    assert "at least two frames" in trouble

"""`pairframe run` and `pairframe align` with tables of run lengths and columns of any name."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from typer.testing import CliRunner

from pairframe.cli.app import app
from pairframe.masks import CocoRle
from pairframe.report.figures import flow_figure
from pairframe.testing import growing_embryo, planted_cohort

COLUMNS = ("--mask-column", "body", "--series-column", "fish", "--frame-column", "t", "--height-um-column", "tall")


def run(*words: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, [str(word) for word in words])
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "frames.csv"
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["fish", "t", "body", "yolk", "tall", "dose"])
        for t, mask in enumerate(growing_embryo(2, shape_hw=(48, 96))):
            yolk = mask & (np.arange(96) < 48)
            cells = [json.dumps(CocoRle.from_mask(one).to_coco()) for one in (mask, yolk)]
            writer.writerow(["f1", t, *cells, 96.0, 0.5])
    return path


def test_a_table_of_run_lengths_is_compared_with_flows_between_structures(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, text, errors = run("run", table, *COLUMNS, "--region", "yolk", "--out", out, "--jobs", 1, "--no-report")
    assert code == 0, text + errors
    with (out / "flows.csv").open() as stream:
        flows = list(csv.DictReader(stream))
    names = {(row["source_label"], row["source_name"]) for row in flows}
    assert {("1", "yolk"), ("-1", "rest")} <= names  # the yolk, and the body without it
    assert ("0", "created") in names
    assert {row["target_name"] for row in flows} >= {"yolk", "rest"}
    again = run("run", table, *COLUMNS, "--out", out, "--jobs", 1, "--no-report")
    assert "1 skipped" in again[1]


def test_the_page_calls_a_structure_by_its_name(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[list[str]] = []

    def kept(flows: pd.DataFrame, figure: Figure) -> Figure:
        flow_figure(flows, figure)
        drawn.append([tick.get_text() for tick in figure.axes[0].get_yticklabels()])
        drawn.append([text.get_text() for text in figure.axes[1].texts])
        return figure

    monkeypatch.setattr("pairframe.report.html.pictures.flow_figure", kept)
    out = tmp_path / "out"
    assert run("run", table, *COLUMNS, "--region", "yolk", "--out", out, "--jobs", 1)[0] == 0
    assert drawn[0] == ["created", "yolk", "rest"]
    assert {"yolk", "rest"} <= set(drawn[1])
    (page,) = (out / "pairs").glob("*.html")
    # A blur of 2 px, each 2 um wide (48 x 96 px and 96 um high): 0.282 * 4.
    assert "through the blur even if nothing moves: about 1.1 µm² per µm" in page.read_text()


def test_a_structure_says_where_the_head_is_and_later_runs_keep_it(table: Path, tmp_path: Path) -> None:
    out, words = tmp_path / "out", ("--jobs", 1, "--no-report")
    code, text, errors = run("run", table, *COLUMNS, "--axis", "--axis-head", "yolk", "--bins", 5, "--out", out, *words)
    assert code == 0, text + errors
    before = (out / "axis_profile.csv").read_text()
    with (out / "axis_profile.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [row["head"] for row in rows] == ["landmark"] * 5
    assert float(rows[0]["head_x_um"]) < 96.0  # the yolk is in the left half, which ends at 96 um
    assert run("run", table, *COLUMNS, "--out", out, *words)[0] == 0
    assert (out / "axis_profile.csv").read_text() == before


@pytest.mark.parametrize("command", ["run", "align"])
def test_a_column_that_does_not_exist_is_one_line_and_nothing_is_written(
    command: str, table: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    words = ("--canvas", "200x200") if command == "align" else ()
    code, _, errors = run(command, table, "--mask-column", "corpus", "--out", out, *words)
    assert code == 2
    assert "a column 'corpus' in 'frames.csv'" in " ".join(errors.split())
    assert "Traceback" not in errors
    assert not out.exists()


def test_columns_are_for_tables(table: Path, tmp_path: Path) -> None:
    code, _, errors = run("align", "a.tif", "b.tif", "--mask-column", "body")
    assert code == 2
    assert "no --mask-column for a pair" in errors


def test_a_dry_run_reads_the_same_columns(table: Path, tmp_path: Path) -> None:
    code, text, _ = run("run", table, *COLUMNS, "--out", tmp_path / "out", "--dry-run", "--jobs", 1)
    assert code == 0
    assert "f1_0-1: frames.csv, line 2, body -> frames.csv, line 3, body" in text
    assert not (tmp_path / "out").exists()


def test_a_table_is_aligned_by_its_yolk(tmp_path: Path) -> None:
    lines = []
    for one in planted_cohort(1, 2):
        body, yolk = (CocoRle.from_mask(pixels) for pixels in (one.mask, one.yolk))
        height, width = one.mask.shape
        lines.append([one.frame, body.counts, yolk.counts, height, width, one.px_size_um])
    with (tmp_path / "t.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([["frame", "body", "yolk", "high", "wide", "px"], *lines])
    words = ("--mask-column", "body", "--landmark", "yolk", "--height-px-column", "high", "--width-px-column", "wide")
    words = (*words, "--px-size-column", "px", "--canvas", "130x300", "--px-size-um", 5, "--allow-flip", "--jobs", 1)
    code, text, errors = run("align", tmp_path / "t.csv", *words, "--out", tmp_path / "out")
    assert code == 0, text + errors
    with (tmp_path / "out" / "aligned.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [row["align_landmark"] for row in rows] == ["used", "used"]
    assert rows[0]["align_original"] == "t.csv, line 2, body"

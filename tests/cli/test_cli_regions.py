"""`--regions` writes flow tables, `pairframe lineage` follows objects; bad input writes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tifffile
from typer.testing import CliRunner

from pairframe.cli.app import app


def run(*words: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, [str(word) for word in words])
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture
def stack(tmp_path: Path) -> Path:
    """Three frames of two cells: 3 moves down, 8 to the right."""
    frames = np.zeros((3, 40, 60), np.uint16)
    for number, frame in enumerate(frames):
        frame[5 + number : 15 + number, 5:17] = 3
        frame[22:34, 30 + number : 42 + number] = 8
    path = tmp_path / "labels.tif"
    tifffile.imwrite(path, frames, photometric="minisblack")
    return path


def test_compare_writes_the_flows_and_shows_them(stack: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, text, _ = run("compare", f"{stack}@0:all", f"{stack}@1:all", "--out", out, "--regions", "own", "own")
    assert code == 0
    assert "flows.csv" in text
    table = pd.read_parquet(out / "flows.parquet")
    pd.testing.assert_frame_equal(table, pd.read_csv(out / "flows.csv"), check_dtype=False)
    moved = table.set_index(["source_label", "target_label"])
    assert moved.loc[(3, 3), "mass"] == pytest.approx(120, rel=1e-5)
    assert moved.loc[(3, 3), "dy_um"] == pytest.approx(1, abs=0.02)
    assert moved.loc[(8, 8), "dx_um"] == pytest.approx(1, abs=0.02)
    page = next((out / "pairs").glob("*.html")).read_text()
    assert "Flows between labels" in page
    # A second pair keeps the flows of the first.
    words = ("--pair-id", "second", "--overwrite", "--no-report", "--regions", f"{stack}@1", f"{stack}@2")
    assert run("compare", f"{stack}@1:all", f"{stack}@2:all", "--out", out, *words)[0] == 0
    assert pd.read_parquet(out / "flows.parquet")["pair_id"].unique().tolist() == ["pair", "second"]


def test_binary_masks_have_their_pieces_as_labels(stack: Path, tmp_path: Path) -> None:
    names = []
    for frame in (0, 1):
        names.append(tmp_path / f"mask{frame}.npy")
        np.save(names[-1], tifffile.imread(stack)[frame] > 0)
    out = tmp_path / "out"
    assert run("compare", *names, "--out", out, "--no-report", "--regions", "own", "own")[0] == 0
    table = pd.read_parquet(out / "flows.parquet")
    assert set(table["source_label"]) - {0} == {1, 2}


def test_run_writes_the_flows_of_every_pair(stack: Path, tmp_path: Path) -> None:
    manifest = tmp_path / "pairs.csv"
    lines = [f"{k},labels.tif@{k}:all,labels.tif@{k + 1}:all" for k in range(2)]
    manifest.write_text("\n".join(["pair_id,source,target", *lines]))
    out = tmp_path / "out"
    code, _, trouble = run("run", manifest, "--out", out, "--jobs", 1, "--regions", "--quiet", "--no-report")
    assert code == 0, trouble
    table = pd.read_parquet(out / "flows.parquet")
    assert table.groupby("pair_id")["source_label"].agg(lambda labels: set(labels) - {0}).tolist() == [{3, 8}, {3, 8}]


def test_labels_on_another_canvas_are_refused_before_anything_is_solved(stack: Path, tmp_path: Path) -> None:
    small = tmp_path / "small.npy"
    np.save(small, np.ones((10, 10), np.uint8))
    code, _, trouble = run(
        "compare", f"{stack}@0:all", f"{stack}@1:all", "--out", tmp_path / "out", "--regions", small, "own"
    )
    assert code == 2
    assert "the labels of the source on the canvas of its mask, 40 x 60 px" in trouble
    floats = tmp_path / "floats.npy"
    np.save(floats, np.ones((40, 60)))
    code, _, trouble = run(
        "compare", f"{stack}@0:all", f"{stack}@1:all", "--out", tmp_path / "out", "--regions", floats, "own"
    )
    assert code == 2
    assert "an integer label image" in trouble
    assert not (tmp_path / "out").exists()


def test_lineage_writes_tables_a_movie_and_tracks(stack: Path, tmp_path: Path) -> None:
    out = tmp_path / "lineage"
    code, text, _ = run("lineage", stack, "--out", out, "--jobs", 1, "--px-size-um", 2)
    assert code == 0
    assert "3 frames, 6 objects, 2 tracks" in text
    objects = pd.read_csv(out / "objects.csv")
    assert objects["track"].nunique() == 2
    assert objects["area_um2"].iloc[0] == 480
    assert {path.name for path in out.iterdir()} == {
        *("objects.csv", "links.csv", "tracks.csv", "lineage.gif", "lineage.json", "ctc", "lineage.geff")
    }
    found = json.loads((out / "lineage.json").read_text())
    assert found["events"]["continues"] == 4
    code, _, trouble = run("lineage", stack, "--out", out)
    assert (code, "a new or empty folder" in trouble) == (2, True)


def test_lineage_of_files_and_of_bad_files(stack: Path, tmp_path: Path) -> None:
    names = []
    for frame, image in enumerate(tifffile.imread(stack)):
        names.append(tmp_path / f"t{frame}.npy")
        np.save(names[-1], image)
    code, text, _ = run("lineage", *names, "--out", tmp_path / "a", "--json", "--jobs", 1)
    assert code == 0
    assert json.loads(text)["tracks"] == 2
    np.save(tmp_path / "t9.npy", np.ones((40, 60)))
    code, _, trouble = run("lineage", names[0], tmp_path / "t9.npy", "--out", tmp_path / "b")
    assert code == 2
    assert "an integer label image" in trouble
    code, _, trouble = run("lineage", names[0], "--out", tmp_path / "b")
    assert code == 2
    assert "at least two frames" in trouble
    assert not (tmp_path / "b").exists()

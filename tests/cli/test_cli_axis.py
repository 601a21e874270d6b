"""`--axis` and `--strain` on the command line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner, Result

import pairframe as pf
from pairframe.cli.app import app
from pairframe.cli.run import run_run
from pairframe.cli.run_options import RunOptions
from pairframe.testing import disc

BODY = np.pad(np.ones((12, 60), bool), 14)
BODY[14:32, 14:30] = True


@pytest.fixture
def masks(tmp_path: Path) -> Path:
    folder = tmp_path / "masks"
    folder.mkdir()
    for frame in range(3):
        pf.write_mask(pf.Mask.from_array(BODY | np.roll(BODY, 2 * frame, axis=1)), folder / f"t{frame}.tif")
    return folder


def compare(*words: str | Path) -> Result:
    done = CliRunner().invoke(app, ["compare", *map(str, words)])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def test_the_profile_is_written_and_named(masks: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = compare(masks / "t0.tif", masks / "t2.tif", "--out", out, "--axis", "--strain", "--no-report")
    assert done.exit_code == 0, done.output
    assert str(out / "axis_profile.csv") in done.stdout
    table = pd.read_csv(out / "axis_profile.csv")
    result = pf.load(out)
    assert table["mass_created"].sum() == pytest.approx(result.total_mass_created)
    assert (table["head"] == "thickest").all()
    assert table["mass_created"].idxmax() == len(table) - 1  # it grew at the tail
    assert np.isfinite(result.areal_expansion[BODY]).all()


def test_pairs_of_one_folder_share_the_table_and_replace_their_rows(masks: Path, tmp_path: Path) -> None:
    out, pair = tmp_path / "out", (masks / "t0.tif", masks / "t1.tif")
    for name in ("first", "second"):
        compare(*pair, "--out", out, "--pair-id", name, "--axis", "--no-report", "--overwrite")
    table = pd.read_csv(out / "axis_profile.csv")
    assert table["pair_id"].value_counts().to_dict() == {"first": 20, "second": 20}
    compare(*pair, "--out", out, "--pair-id", "first", "--no-report", "--overwrite")
    assert set(pd.read_csv(out / "axis_profile.csv")["pair_id"]) == {"second"}


def test_a_disc_has_no_axis_and_the_comparison_is_still_good(tmp_path: Path) -> None:
    np.save(tmp_path / "disc.npy", disc((60, 60), (30, 30), 15))
    done = compare(tmp_path / "disc.npy", tmp_path / "disc.npy", "--out", tmp_path / "out", "--axis", "--no-report")
    assert done.exit_code == 0
    assert "body axis: expected an elongated mask" in done.stderr
    assert "elongated" in pd.read_csv(tmp_path / "out" / "axis_profile.csv")["note"].iloc[0]


def test_strain_with_another_distance_is_refused_before_anything_is_written(masks: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = compare(masks / "t0.tif", masks / "t1.tif", "--out", out, "--strain", "--metric", "euclidean")
    assert done.exit_code == 2
    assert "metric='sqeuclidean' with strain" in " ".join(done.stderr.split())
    assert not out.exists()


def test_a_run_writes_the_profiles_of_all_pairs_and_keeps_them_complete(
    masks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    run_run(RunOptions([str(masks)], out, jobs=1, axis=True, report=False), pf.TransportConfig())
    assert f"axis: {out / 'axis_profile.csv'}" in capsys.readouterr().out
    assert len(pd.read_csv(out / "axis_profile.csv")) == 40
    pf.write_mask(pf.Mask.from_array(np.roll(BODY, 3, axis=1)), masks / "t3.tif")
    run_run(RunOptions([str(masks)], out, jobs=1, report=False), pf.TransportConfig())
    table = pd.read_csv(out / "axis_profile.csv")
    assert len(table) == 60
    assert table["mass_moved"].sum() == pytest.approx(
        pd.read_parquet(out / "results.parquet")["total_mass_moved"].sum()
    )


# --- landmark, bins, radial profiles ------------------------------------------------------------


def test_a_landmark_turns_the_axis_round_and_bins_are_counted(masks: Path, tmp_path: Path) -> None:
    out, eye = tmp_path / "out", np.zeros_like(BODY)
    eye[16:22, 66:72] = True  # at the thin end
    np.save(tmp_path / "eye.npy", eye)
    words = ("--out", out, "--axis", "--axis-head", tmp_path / "eye.npy", "--bins", "8", "--no-report")
    assert compare(masks / "t0.tif", masks / "t2.tif", *words).exit_code == 0
    table = pd.read_csv(out / "axis_profile.csv")
    assert len(table) == 8
    assert (table["head"] == "landmark").all()
    assert table["mass_created"].idxmax() == 0  # it grew at the end that the landmark calls the head
    assert (table["target_axis_length_um"] > table["axis_length_um"] + 2).all()


def test_a_landmark_that_does_not_fit_is_refused_before_anything_is_solved(masks: Path, tmp_path: Path) -> None:
    beside, out = np.zeros_like(BODY), tmp_path / "out"
    beside[:3, :3] = True
    for name, array, words in (
        ("beside", beside, "to lie on its mask"),
        ("empty", np.zeros_like(BODY), "a landmark with pixels"),
        ("small", beside[1:], "on the canvas of its mask"),
    ):
        np.save(tmp_path / f"{name}.npy", array)
        done = compare(
            masks / "t0.tif", masks / "t1.tif", "--out", out, "--axis", "--axis-head", tmp_path / f"{name}.npy"
        )
        assert done.exit_code == 2
        assert words in " ".join(done.stderr.split())
        assert not out.exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--axis-head", "eye.npy"), "add --axis"),
        (("--bins", "8"), "--axis or --radial with --bins"),
        (("--axis", "--bins", "0"), "--bins"),
        (("--radial", "square"), "centre"),
    ],
)
def test_options_that_do_not_fit_together_are_refused(
    words: tuple[str, ...], message: str, masks: Path, tmp_path: Path
) -> None:
    done = compare(masks / "t0.tif", masks / "t1.tif", "--out", tmp_path / "out", *words)
    assert done.exit_code == 2
    assert message in " ".join(done.stderr.split())
    assert not (tmp_path / "out").exists()


def test_a_radial_profile_is_written_and_named(tmp_path: Path) -> None:
    for name, radius in (("small", 15), ("large", 18)):
        np.save(tmp_path / f"{name}.npy", disc((60, 60), (30, 30), radius))
    out = tmp_path / "out"
    done = compare(
        tmp_path / "small.npy",
        tmp_path / "large.npy",
        "--out",
        out,
        "--radial",
        "outline",
        "--bins",
        "9",
        "--no-report",
    )
    assert done.exit_code == 0, done.output
    assert str(out / "radial_profile.csv") in done.stdout
    table = pd.read_csv(out / "radial_profile.csv")
    outside = table["from_outline_low_um"] > -1e-9
    assert len(table) == 9
    assert table["mass_created"][outside].sum() > 0.8 * table["mass_created"].sum()


@pytest.mark.slow
def test_a_run_in_several_processes_writes_the_same_profiles(tmp_path: Path) -> None:
    folder = tmp_path / "masks"
    folder.mkdir()
    for frame in range(9):
        grown = np.pad(np.ones((12, 60 + frame), bool), 14)
        canvas = np.zeros((40, 100), bool)
        canvas[:, : grown.shape[1]] = grown
        canvas[14:32, 14:30] = True
        pf.write_mask(pf.Mask.from_array(canvas), folder / f"t{frame}.tif")
    tables = []
    for jobs in (1, 2):
        out = tmp_path / f"out{jobs}"
        options = RunOptions(
            [str(folder)], out, jobs=jobs, axis=True, bins=6, radial="centre", regions=True, report=False
        )
        run_run(options, pf.TransportConfig())
        names = ("axis_profile.csv", "radial_profile.csv", "flows.csv")
        tables.append([pd.read_csv(out / name) for name in names])
    for one, other in zip(*tables, strict=True):
        pd.testing.assert_frame_equal(one, other, rtol=1e-6, atol=1e-6)
    assert len(tables[0][0]) == 8 * 6

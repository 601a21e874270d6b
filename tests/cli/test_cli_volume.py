"""Volumes on the command line: compare, run and resume, the demo, and clear errors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import pairframe as pf
from pairframe.cli.app import app
from pairframe.masks import write_mask
from pairframe.results import ResultStore
from pairframe.testing import ball, growing_tube

VOXEL_UM = (2.0, 1.0, 1.0)
SHAPE = (14, 30, 34)


def invoke(*words: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, [str(word) for word in words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture
def masks(tmp_path: Path) -> list[Path]:
    paths = []
    for k in range(3):
        mask = pf.Mask(ball(SHAPE, (6 + k, 13 + k, 14 + 2 * k), 9.0, VOXEL_UM), px_size_um=VOXEL_UM)
        paths.append(tmp_path / f"ball_{k}.ome.tif")
        write_mask(mask, paths[-1])
    return paths


def test_compare_reads_what_the_metadata_say(masks: list[Path], tmp_path: Path) -> None:
    code, text, _ = invoke("compare", masks[0], masks[1], "--out", tmp_path / "out")
    assert code == 0
    assert "µm³" in text
    assert "work voxels of 2 × 1 × 1 µm" in text
    found = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert found["mean_displacement_dz_um"] == pytest.approx(2.0, abs=1e-3)
    assert found["mean_displacement_dx_um"] == pytest.approx(2.0, abs=1e-3)
    assert found["units"]["volume_source_um3"] == "um^3"
    (page,) = (tmp_path / "out" / "pairs").glob("*.html")
    html = page.read_text()
    assert "Plane by plane" in html
    assert "seen along z" in html
    assert (tmp_path / "out" / "movie.gif").is_file()


def test_a_run_of_volumes_resumes(masks: list[Path], tmp_path: Path) -> None:
    lines = ["path,series,frame", *(f"{path.name},a,{k}" for k, path in enumerate(masks))]
    (tmp_path / "table.csv").write_text("\n".join(lines))
    words = ("run", tmp_path / "table.csv", "--out", tmp_path / "out", "--jobs", 1)
    code, text, _ = invoke(*words)
    assert code == 0
    assert "2 done" in text
    table = ResultStore(tmp_path / "out").table()
    np.testing.assert_allclose(table["mean_displacement_dz_um"], 2.0, atol=1e-3)
    assert set(table["canon_depth_px"]) == {14}
    code, text, _ = invoke(*words)
    assert "0 done" in text
    assert "2 skipped" in text
    code, _, errors = invoke("analyze", tmp_path / "out")
    assert code == 2
    assert "expected pairs of images, got volumes" in errors
    code, _, errors = invoke("series", tmp_path / "out")
    assert code == 2
    assert "expected series of images, got volumes" in errors


def test_a_table_may_have_the_sides_of_voxels(tmp_path: Path) -> None:
    for k in range(2):
        np.save(tmp_path / f"{k}.npy", ball(SHAPE, (6 + k, 13, 14), 9.0, VOXEL_UM))
    (tmp_path / "table.csv").write_text('source,target,px_size_um\n0.npy,1.npy,"2,1,1"\n')
    code, _, _ = invoke("run", tmp_path / "table.csv", "--out", tmp_path / "out", "--jobs", 1, "--no-report")
    assert code == 0
    assert ResultStore(tmp_path / "out").table()["mean_displacement_dz_um"][0] == pytest.approx(2.0, abs=1e-3)
    (tmp_path / "bad.csv").write_text('source,target,px_size_um\n0.npy,1.npy,"2,0,1"\n')
    code, _, errors = invoke("run", tmp_path / "bad.csv", "--out", tmp_path / "bad", "--jobs", 1)
    assert code == 2
    assert "Z,Y,X for a voxel" in errors


def test_a_plain_stack_needs_volume_and_a_voxel_size_per_axis(tmp_path: Path) -> None:
    for k in range(2):
        np.save(tmp_path / f"{k}.npy", ball(SHAPE, (6 + k, 13, 14), 9.0, VOXEL_UM))
    words = ("compare", tmp_path / "0.npy", tmp_path / "1.npy", "--out", tmp_path / "out", "--no-report")
    code, _, errors = invoke(*words)
    assert code == 2
    assert "choose one with page=0" in errors
    assert "--volume" in errors
    assert not (tmp_path / "out").exists()
    code, _, errors = invoke(*words, "--volume", "--px-size-um", "2,1")
    assert code == 2
    assert "as one number, or as Z,Y,X" in errors
    code, _, _ = invoke(*words, "--px-size-um", "2,1,1", "--json")
    assert code == 0
    result = pf.load(tmp_path / "out")
    assert result.motion.shift_yx == pytest.approx((2.0, 0.0, 0.0), abs=1e-3)
    assert invoke(*words, "--volume", "--align", "shift")[0] == 2
    assert invoke(*words, "--volume", "--regions", "own", "own", "--overwrite")[0] == 2
    code, _, errors = invoke("sweep", tmp_path / "0.npy", tmp_path / "1.npy", "--out", tmp_path / "s", "--volume")
    assert code == 2
    assert "expected images for pairframe sweep, got volumes. To fix: run pairframe compare at several" in errors


IMAGES_ONLY = (
    ("--axis",),
    ("--radial", "centre"),
    ("--strain",),
    ("--align", "shift"),
    ("--error-bars",),
    ("--min-area-um2", 3),
)


@pytest.mark.parametrize("words", [*IMAGES_ONLY, ("--regions", "own", "own"), ("--sweep",)], ids=lambda words: words[0])
def test_compare_refuses_what_is_for_images_before_any_work(masks: list[Path], tmp_path: Path, words: tuple) -> None:
    code, _, errors = invoke("compare", masks[0], masks[1], "--out", tmp_path / "out", *words)
    assert code == 2
    assert f"{words[0]}: expected " in errors
    assert "volumes" in errors
    assert "leave it out" in errors
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("words", [*IMAGES_ONLY, ("--regions",), ("--region", "yolk")], ids=lambda words: words[0])
def test_run_refuses_what_is_for_images_before_any_work(masks: list[Path], tmp_path: Path, words: tuple) -> None:
    lines = ["path,series,frame,yolk", *(f"{path.name},a,{k},{path.name}" for k, path in enumerate(masks))]
    (tmp_path / "table.csv").write_text("\n".join(lines))
    for more in ((), ("--dry-run",)):
        code, _, errors = invoke("run", tmp_path / "table.csv", "--out", tmp_path / "out", *words, *more)
        assert code == 2
        assert f"{words[0]}: expected " in errors
        assert "leave it out" in errors
        assert not (tmp_path / "out").exists()


def test_what_follows_or_aligns_images_refuses_volumes(masks: list[Path], tmp_path: Path) -> None:
    code, _, errors = invoke("lineage", *masks, "--out", tmp_path / "out")
    assert code == 2
    assert "expected label images, got volumes" in errors
    assert "--no-volume" in errors
    code, _, errors = invoke("align", tmp_path, "--canvas", "40x40", "--out", tmp_path / "out")
    assert code == 2
    assert "expected images, got volumes" in errors
    code, _, errors = invoke("drift", tmp_path, "--out", tmp_path / "out")
    assert code == 2
    assert "expected images, got volumes" in errors
    assert not (tmp_path / "out").exists()


def test_no_volume_means_that_a_stack_is_a_series_of_images(masks: list[Path], tmp_path: Path) -> None:
    words = ("compare", masks[0], masks[1], "--out", tmp_path / "out", "--no-report", "--no-volume")
    code, _, errors = invoke(*words)
    assert code == 2
    assert "the number of one page" in errors
    code, _, errors = invoke(*words, "--px-size-um", "2,1,1")
    assert code == 2
    assert "one pixel size for images" in errors
    with pytest.raises(pf.errors.MaskError, match="two volumes, or two images"):
        pf.compare(pf.read_mask(masks[0]), pf.read_mask(masks[1]), pf.TransportConfig(volume=False))
    code, _, _ = invoke("compare", f"{masks[0]}@6", f"{masks[1]}@7", "--out", tmp_path / "out", "--no-report")
    assert code == 0
    assert pf.load(tmp_path / "out").velocity_field.shape == (30, 34, 2)


@pytest.mark.slow
def test_the_demo_of_volumes_writes_a_report(tmp_path: Path) -> None:
    code, text, _ = invoke("demo", "--volume", "--out", tmp_path / "demo")
    assert code == 0
    assert "tube 0 to 1" in text
    assert (tmp_path / "demo" / "report.html").is_file()
    table = ResultStore(tmp_path / "demo").table()
    assert (table["status"] == "converged").all()
    assert table["reach_um"].nunique() == 1
    first, second = growing_tube(2)
    grown = int(second.sum()) - int(first.sum())
    created = table.set_index("pair_id").loc["tube 0 to 1", "total_mass_created"]
    assert created == pytest.approx(grown, rel=1e-3)
    code, _, errors = invoke("demo", "--out", tmp_path / "demo")
    assert code == 2
    assert "holds other results" in errors

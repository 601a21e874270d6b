"""`pairframe align` prints a pose and writes the moved target."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import pairframe as pf
from pairframe.cli.app import app
from pairframe.testing import disc, embryo
from pairframe.types import Bool

SMALL = embryo((96, 200), growth=0.4)


def run(*words: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, [str(word) for word in words])
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture
def masks(tmp_path: Path) -> tuple[Path, Path]:
    for name, inside in (("a.tif", SMALL), ("b.tif", np.rot90(SMALL, 2))):
        pf.write_mask(pf.Mask.from_array(inside, px_size_um=2.0), tmp_path / name)
    return tmp_path / "a.tif", tmp_path / "b.tif"


def test_it_prints_the_pose_and_writes_the_moved_target(masks: tuple[Path, Path], tmp_path: Path) -> None:
    code, text, _ = run("align", *masks, "--allow-flip", "--prove", "flip", "--out", tmp_path / "moved.tif")
    assert code == 0
    for words in ("aligned: shift", "turn 180 degrees", "IoU", "flip: proven", "moved.tif"):
        assert words in text
    moved = pf.read_mask(tmp_path / "moved.tif")
    np.testing.assert_array_equal(moved.values, SMALL)
    assert moved.px_size_um == 2.0


def test_json_has_every_part_of_the_pose(masks: tuple[Path, Path]) -> None:
    code, text, _ = run("align", *masks, "--json")
    found = json.loads(text)
    assert code == 0
    assert (found["status"], found["angle_deg"], found["flipped"], found["scale"]) == ("aligned", 180.0, False, 1.0)
    assert found["runner_up"]["iou"] < found["iou_after"] == 1.0


def test_a_pose_that_is_not_determined_is_exit_code_1(tmp_path: Path) -> None:
    pf.write_mask(pf.Mask.from_array(disc((80, 80), (40, 40), 25)), tmp_path / "disc.tif")
    code, text, _ = run("align", tmp_path / "disc.tif", tmp_path / "disc.tif")
    assert code == 1
    assert "undetermined" in text


def test_a_canvas_that_is_too_small_is_exit_code_2_unless_it_may_grow(tmp_path: Path) -> None:
    pf.write_mask(pf.Mask.from_array(SMALL[:, 70:]), tmp_path / "cut.tif")
    pf.write_mask(pf.Mask.from_array(SMALL), tmp_path / "whole.tif")
    words = ("align", tmp_path / "cut.tif", tmp_path / "whole.tif", "--out", tmp_path / "moved.tif")
    code, _, trouble = run(*words)
    assert code == 2
    assert "canvas of 96 x 130 px" in trouble
    assert "--extend" in trouble
    assert not (tmp_path / "moved.tif").exists()
    assert run(*words, "--extend")[0] == 0
    assert pf.read_mask(tmp_path / "moved.tif", density=True).values.sum() == pytest.approx(SMALL.sum())


def test_landmarks_are_masks_too(masks: tuple[Path, Path], tmp_path: Path) -> None:
    y, x = np.argwhere(SMALL).mean(axis=0)
    yolk = disc(SMALL.shape, (y, x - 20), 4) & SMALL
    for name, inside in (("yolk_a.tif", yolk), ("yolk_b.tif", np.rot90(yolk, 2))):
        pf.write_mask(pf.Mask.from_array(inside), tmp_path / name)
    marks = ("--source-landmark", tmp_path / "yolk_a.tif", "--target-landmark", tmp_path / "yolk_b.tif")
    code, text, _ = run("align", *masks, *marks, "--json")
    assert code == 0
    assert json.loads(text)["landmark"] == "used"


def test_bad_words_are_explained(masks: tuple[Path, Path]) -> None:
    for words, message in ((("--prove", "all"), "--prove as flip"), (("--kind", "affine"), "one of shift, rigid")):
        code, _, trouble = run("align", *masks, *words)
        assert code == 2
        assert message in trouble


def test_compare_takes_the_options_of_alignment(masks: tuple[Path, Path], tmp_path: Path) -> None:
    code, _, _ = run("compare", *masks, "--align", "rigid", "--out", tmp_path / "out", "--no-report")
    assert code == 0
    result = pf.load(tmp_path / "out")
    assert isinstance(result, pf.TransportResult)
    assert result.pose is not None
    assert result.pose.angle_deg == 180.0


EMPTY, ONE = np.zeros(SMALL.shape, bool), np.zeros(SMALL.shape, bool)
ONE[40, 90] = True


@pytest.mark.parametrize(
    ("source", "target", "px", "message"),
    [
        (SMALL, EMPTY, (None, None), "a target with pixels"),
        (EMPTY, SMALL, (None, None), "a source with pixels"),
        (
            SMALL,
            ONE,
            (None, None),
            'at least 9 pixels, which can be turned, got 1 pixel. To fix: only shift it: kind="shift"',
        ),
        (SMALL, SMALL, (2.0, None), "the pixel sizes of both masks, or of none, got that of the source alone"),
        (SMALL, SMALL, (None, 2.0), "the pixel sizes of both masks, or of none, got that of the target alone"),
    ],
)
def test_masks_that_cannot_be_aligned_are_exit_code_2(
    source: Bool, target: Bool, px: tuple[float | None, float | None], message: str, tmp_path: Path
) -> None:
    names = tmp_path / "a.tif", tmp_path / "b.tif"
    for name, inside, px_size_um in zip(names, (source, target), px, strict=True):
        pf.write_mask(pf.Mask.from_array(inside, px_size_um=px_size_um), name)
    code, _, trouble = run("align", *names, "--out", tmp_path / "moved.tif")
    assert (code, message in trouble, "Traceback" in trouble) == (2, True, False)
    assert not (tmp_path / "moved.tif").exists()
    if "with pixels" not in message:  # an empty mask has an answer: all is destroyed or created
        code, _, trouble = run("compare", *names, "--align", "rigid", "--out", tmp_path / "out", "--no-report")
        assert (code, message in trouble) == (2, True)
        assert not (tmp_path / "out").exists()


def test_an_existing_file_is_kept(masks: tuple[Path, Path]) -> None:
    before = masks[1].read_bytes()
    code, _, trouble = run("align", *masks, "--out", masks[1])
    assert code == 2
    assert "use --overwrite" in trouble
    assert masks[1].read_bytes() == before

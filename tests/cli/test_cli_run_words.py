"""`pairframe run` on a real command line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from helpers.cohort_cases import write_frame

from pairframe.results import ResultStore


def run(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pairframe", "run", *words], capture_output=True, text=True, cwd=cwd, check=False
    )


def test_a_pattern_without_quotes_is_one_clear_line(tmp_path: Path) -> None:
    done = run("masks/t0.png", "masks/t1.png", "--out", "out", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "pairframe: expected one manifest, folder or pattern, got 2 words, 'masks/t0.png' to 'masks/t1.png'. To fix: "
        "if the shell expanded a pattern, put the pattern in single quotes, such as 'masks/*.png', or give the folder, masks\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_no_manifest_is_told_as_such(tmp_path: Path) -> None:
    done = run("--out", "out", cwd=tmp_path)
    assert done.returncode == 2
    assert "missing argument 'MANIFEST'" in done.stderr


def test_the_interval_is_an_option_and_a_column(tmp_path: Path) -> None:
    for frame in (0, 1, 3):
        write_frame(tmp_path / "masks" / f"t{frame}.png", 5, frame)
    done = run("masks", "--out", "out", "--frame-interval", "7.5", "--jobs", "1", "--no-report", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert list(ResultStore(tmp_path / "out").table().frame_interval_min) == [7.5, 15.0]
    refused = run("masks", "--out", "out", "--frame-interval", "0", cwd=tmp_path)
    assert refused.returncode == 2
    assert "--frame-interval: expected a positive, finite frame interval in minutes" in refused.stderr


def test_the_help_says_how_pairs_are_called(tmp_path: Path) -> None:
    words = " ".join(run("--help", cwd=tmp_path).stdout.replace("│", " ").split())
    assert "SERIES_FRAME-FRAME" in words
    assert "embryo1_000-001" in words

"""Every script of the gallery runs anywhere, without a warning, and leaves its picture."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = sorted((Path(__file__).parents[2] / "examples").glob("plot_*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_an_example_runs_and_writes_its_picture(script: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    picture = tmp_path / f"{script.stem.removeprefix('plot_')}.png"
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_gallery_shows_the_pair_frame() -> None:
    assert "plot_pair_frame" in [script.stem for script in SCRIPTS]

"""The first alignment on a machine says what it waits for; all others are quiet."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import pairframe
from pairframe.parallel.processes import QUIET

CODE = """
from pairframe.alignment import Canvas, Similarity, resample
import numpy as np
for _ in range(2):
    resample(np.ones((4, 4)), 1.0, Similarity(30.0), Canvas((20, 20), 1.0, (9, 9)))
"""


@pytest.mark.slow
def test_only_a_real_compilation_prints_a_notice(tmp_path: Path) -> None:
    source = {"PYTHONPATH": str(Path(pairframe.__file__).parents[1])}
    fresh = {**os.environ, **source, "NUMBA_CACHE_DIR": str(tmp_path / "fresh")}
    fresh.pop(QUIET, None)
    quiet = {**fresh, "NUMBA_CACHE_DIR": str(tmp_path / "quiet"), QUIET: "1"}
    runs = [
        subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True, env=env)
        for env in (fresh, fresh, quiet)
    ]
    assert runs[0].stderr == (
        "pairframe: compiling the alignment, once on this machine: about 10 s now, kept for next time\n"
    )
    assert runs[1].stderr == runs[2].stderr == ""

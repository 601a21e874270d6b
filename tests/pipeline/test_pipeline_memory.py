"""A comparison that will not fit into memory is announced before it is solved; one of volumes is refused before it is made."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import pairframe as pf
from pairframe.cli.app import app
from pairframe.errors import FrameError
from pairframe.masks import write_mask
from pairframe.notices import MemoryShortage
from pairframe.pipeline.frame import frame_pair
from pairframe.pipeline.memory import memory_notice
from pairframe.pipeline.memory_rule import BYTES_PER_CANVAS_PX, LARGE_PIXELS, comparison_bytes, factor_that_fits
from pairframe.pipeline.read import read_pair
from pairframe.testing import disc

BODY = disc((100, 100), (50, 50), 45)
N_BODY = 2 * int(BODY.sum())


def set_free(monkeypatch: pytest.MonkeyPatch, n_bytes: float) -> None:
    monkeypatch.setattr("pairframe.pipeline.memory_check.available_bytes", lambda: int(n_bytes))


def needed_by(mask: np.ndarray, factor: int) -> int:
    work = frame_pair(read_pair(mask, mask, pf.TransportConfig(downsample_factor=factor), None), None)
    n_with_mass = 2 * int(np.count_nonzero(work.mass_source))
    return comparison_bytes(mask.size, work.mass_source.size, n_with_mass)


def test_the_factor_that_is_suggested_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    set_free(monkeypatch, (needed_by(BODY, 2) + needed_by(BODY, 3)) / 2)
    with pytest.warns(MemoryShortage, match=r"downsample_factor=3, or crop"):
        (notice,) = pf.compare(BODY, BODY).warnings
    assert notice.code == "memory"
    pf.compare(BODY, BODY, pf.TransportConfig(downsample_factor=3))  # a warning would be an error
    with pytest.warns(MemoryShortage):
        pf.compare(BODY, BODY, pf.TransportConfig(downsample_factor=2))


def test_no_factor_is_suggested_if_none_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    set_free(monkeypatch, 10_000)
    config = pf.TransportConfig(downsample_factor=10)
    notice = memory_notice(frame_pair(read_pair(BODY, BODY, config, None), None))
    assert notice is not None
    assert "downsample_factor" not in notice.fix
    assert factor_that_fits(10_000, 10_000, 10_000, 2, 1, BYTES_PER_CANVAS_PX * 10_000 - 1) is None


def test_the_command_line_says_it_before_the_solve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_free(monkeypatch, needed_by(BODY, 1) - 1)
    np.save(tmp_path / "a.npy", BODY)
    path = str(tmp_path / "a.npy")
    done = CliRunner().invoke(app, ["compare", path, path, "--out", str(tmp_path / "out"), "--no-report"])
    assert done.exit_code == 0
    assert "pairframe: warning: the comparison needs about 0.0134 GB of memory" in done.stderr
    assert "solved exactly, but read this" in done.stdout


BOX = np.zeros((30, 40, 50), bool)
BOX[10:20, 10:30, 10:40] = True
NEEDED = comparison_bytes(BOX.size, 18 * 28 * 38, 12_000)
VOLUME = pf.TransportConfig(volume=True)


def test_a_volume_that_does_not_fit_is_refused_before_the_solve(monkeypatch: pytest.MonkeyPatch) -> None:
    set_free(monkeypatch, NEEDED - 1)
    with pytest.raises(
        FrameError, match=r"fits into memory, got about .* 30 x 40 x 50 voxels, 12000 of them.*factor=2"
    ):
        pf.compare(BOX, BOX, VOLUME)
    set_free(monkeypatch, NEEDED + 1)
    with pytest.warns(MemoryShortage, match="needs about .* GB are free"):
        assert pf.compare(BOX, BOX, VOLUME).status == "converged"
    set_free(monkeypatch, 3 * NEEDED)
    assert not pf.compare(BOX, BOX, VOLUME).warnings


def test_the_factor_suggested_for_a_volume_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    set_free(monkeypatch, 0.65 * NEEDED)
    with pytest.raises(FrameError, match="downsample_factor=2"):
        pf.compare(BOX, BOX, VOLUME)
    assert pf.compare(BOX, BOX, pf.TransportConfig(volume=True, downsample_factor=2)).M_source == BOX.sum()


def test_a_volume_is_refused_before_its_masses_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    set_free(monkeypatch, NEEDED - 1)
    monkeypatch.setattr("pairframe.pipeline.read.mass_density", lambda *_: pytest.fail("masses were made"))
    with pytest.raises(FrameError, match="fits into memory"):
        pf.compare(BOX, BOX, VOLUME)


def test_a_canvas_that_cannot_fit_is_refused_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_mask(pf.Mask(BOX, px_size_um=(2.0, 1.0, 1.0)), tmp_path / "a.ome.tif")
    monkeypatch.setattr("pairframe.pipeline.read.read_mask", lambda *_, **__: pytest.fail("a file was read"))
    set_free(monkeypatch, BYTES_PER_CANVAS_PX * BOX.size - 1)
    with pytest.raises(FrameError, match=r"fits into memory.*30 x 40 x 50 voxels, but only .*crop the volumes"):
        pf.compare(tmp_path / "a.ome.tif", tmp_path / "a.ome.tif")


PEAK = """
import re, sys
from pathlib import Path
import numpy as np
import pairframe as pf
from pairframe.testing import ball
# Not ru_maxrss, which a child inherits from its parent.
peak = lambda: 1024 * int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1])
side, radius = int(sys.argv[1]), float(sys.argv[2])
pair = [ball((side,) * 3, (side // 2 + k,) * 3, radius) for k in range(2)]
config = pf.TransportConfig(volume=True)
pf.compare(ball((24,) * 3, (12,) * 3, 5.0), ball((24,) * 3, (13,) * 3, 5.0), config)
before = peak()
result = pf.compare(*pair, config)
n_with_mass = sum(int(np.count_nonzero(mass)) for mass in (result.work.mass_source, result.work.mass_target))
print(peak() - before, pair[0].size, result.work.mass_source.size, n_with_mass)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="no /proc")
@pytest.mark.parametrize(("side", "radius"), [(160, 15.0), (128, 55.0), (128, 35.0)])
def test_the_rule_is_above_the_peak_and_not_far_above(side: int, radius: float) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(side), str(radius)], capture_output=True, text=True, check=True
    )
    peak, *sizes = (int(word) for word in done.stdout.split())
    assert 0.9 * peak <= comparison_bytes(*sizes) <= 1.8 * peak


def test_the_rule_drops_where_problems_are_solved_in_turns() -> None:
    assert comparison_bytes(10**7, LARGE_PIXELS, 10**6) > comparison_bytes(10**7, LARGE_PIXELS + 1, 10**6)

"""A comparison that will not fit into memory is announced before it is solved."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import pairframe as pf
from pairframe.cli.app import app
from pairframe.errors import FrameError
from pairframe.notices import MemoryShortage
from pairframe.pipeline.frame import frame_pair
from pairframe.pipeline.memory import BYTES_PER_CANVAS_PX, BYTES_PER_WORK_PX, memory_notice
from pairframe.pipeline.read import read_pair
from pairframe.pipeline.volume_memory import volume_bytes
from pairframe.testing import disc

BODY = disc((100, 100), (50, 50), 45)


def set_free(monkeypatch: pytest.MonkeyPatch, n_bytes: float) -> None:
    monkeypatch.setattr("pairframe.pipeline.memory.available_bytes", lambda: int(n_bytes))


def test_the_factor_that_is_suggested_fits_and_the_one_before_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    set_free(monkeypatch, 10_000 * (BYTES_PER_CANVAS_PX + BYTES_PER_WORK_PX / 7))
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


def test_the_command_line_says_it_before_the_solve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_free(monkeypatch, 10_000 * (BYTES_PER_CANVAS_PX + 1))
    np.save(tmp_path / "a.npy", BODY)
    path = str(tmp_path / "a.npy")
    done = CliRunner().invoke(app, ["compare", path, path, "--out", str(tmp_path / "out"), "--no-report"])
    assert done.exit_code == 0
    assert "pairframe: warning: the comparison needs about 0.0025 GB of memory" in done.stderr
    assert "solved exactly, but read this" in done.stdout


BOX = np.zeros((30, 40, 50), bool)
BOX[10:20, 10:30, 10:40] = True


def set_free_for_volumes(monkeypatch: pytest.MonkeyPatch, n_bytes: float) -> None:
    monkeypatch.setattr("pairframe.pipeline.volume_memory.available_bytes", lambda: int(n_bytes))


def test_a_volume_that_does_not_fit_is_refused_before_the_solve(monkeypatch: pytest.MonkeyPatch) -> None:
    needed = volume_bytes((30, 40, 50), (18, 28, 38), 12_000)
    set_free_for_volumes(monkeypatch, needed - 1)
    with pytest.raises(
        FrameError, match=r"fits into memory, got about .* 30 x 40 x 50 voxels, 12000 of them.*factor=2"
    ):
        pf.compare(BOX, BOX, pf.TransportConfig(volume=True))
    set_free_for_volumes(monkeypatch, needed + 1)
    with pytest.warns(MemoryShortage, match="needs about .* GB are free"):
        assert pf.compare(BOX, BOX, pf.TransportConfig(volume=True)).status == "converged"
    set_free_for_volumes(monkeypatch, 3 * needed)
    assert not pf.compare(BOX, BOX, pf.TransportConfig(volume=True)).warnings


def test_the_factor_suggested_for_a_volume_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    set_free_for_volumes(monkeypatch, 30 * BOX.size + 2.5e6)
    with pytest.raises(FrameError, match="downsample_factor=2"):
        pf.compare(BOX, BOX, pf.TransportConfig(volume=True))
    with pytest.warns(MemoryShortage):
        assert pf.compare(BOX, BOX, pf.TransportConfig(volume=True, downsample_factor=2)).M_source == BOX.sum()

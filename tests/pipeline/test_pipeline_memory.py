"""A comparison that will not fit into memory is announced before it is solved."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import pairframe as pf
from pairframe.cli.app import app
from pairframe.notices import MemoryShortage
from pairframe.pipeline.memory import BYTES_PER_CANVAS_PX, BYTES_PER_WORK_PX, memory_notice
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
    notice = memory_notice(
        pf.compare(BODY, BODY, pf.TransportConfig(backend="oracle", downsample_factor=10)).transform,
        pf.TransportConfig(),
    )
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

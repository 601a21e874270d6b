"""Pipes and devices where files belong: an error in time, and never a wait without end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import zarr
from helpers.cli_masks import write_pair

IN_TIME_S = 100  # most of it is starting Python on a busy machine


def pairframe(*words: object, cwd: Path) -> tuple[int, str]:
    """Exit code and output of the command, which is killed if it does not end in time."""
    command = [sys.executable, "-m", "pairframe", *map(str, words)]
    done = subprocess.run(
        command, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=IN_TIME_S, check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("is_device", [False, True])
def test_a_config_file_that_is_a_pipe_or_a_device_is_refused(tmp_path: Path, is_device: bool) -> None:
    source, target = write_pair(tmp_path)
    config = Path("/dev/zero") if is_device else tmp_path / "config.toml"
    if not is_device:
        os.mkfifo(config)
    code, said = pairframe("compare", source, target, "--out", "out", "--config", config, cwd=tmp_path)
    assert code == 2
    assert "a config file that can be read" in said
    assert "not a regular file" in said


@pytest.mark.parametrize("name", ["m.csv", "m.tsv", "m.parquet"])
def test_a_manifest_that_is_a_pipe_is_refused(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    code, said = pairframe("run", name, "--out", "out", cwd=tmp_path)
    assert code == 2
    assert "a manifest that can be read" in said
    assert "not a regular file" in said


@pytest.mark.slow
def test_a_pipe_in_a_zarr_fails_its_pair_and_no_other(tmp_path: Path) -> None:
    mask = np.zeros((24, 32), np.uint8)
    mask[8:16, 8:20] = 1
    for name in ("a", "b", "hostile"):
        zarr.create_array(tmp_path / f"{name}.zarr", data=mask, chunks=(24, 16))
    (tmp_path / "hostile.zarr/c/0/0").unlink()
    os.mkfifo(tmp_path / "hostile.zarr/c/0/0")
    (tmp_path / "m.csv").write_text("pair_id,source,target\ngood,a.zarr,b.zarr\nbad,a.zarr,hostile.zarr\n")
    for _ in range(2):  # the second run hashes the masks before it starts
        code, said = pairframe("run", "m.csv", "--out", "out", "--jobs", 1, "--no-report", cwd=tmp_path)
        assert code == 1, said
        table = pd.read_parquet(tmp_path / "out/results.parquet").set_index("pair_id")
        assert table.status.to_dict() == {"good": "converged", "bad": "failed"}
        assert "regular files in a Zarr" in table.error["bad"]

"""The Triton kernels: their numbers in triton's interpreter, and what happens where they cannot run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from pairframe.tiled import grid_softmin, triton_passes
from pairframe.tiled.cost import DenseCost
from pairframe.tiled.errors import TiledError
from pairframe.tiled.kernels.launch import bucket

CLAIMS = [str(path) for path in sorted((Path(__file__).parent / "interpreted").glob("claims_*.py"))]


def check_in_the_interpreter(*arguments: str) -> None:
    """Run the claims in a process of its own: triton is interpreted from its import on, or never."""
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments, *CLAIMS]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_kernels_keep_their_claims_in_the_interpreter() -> None:
    check_in_the_interpreter()


@pytest.mark.slow
def test_the_kernels_keep_their_claims_in_the_interpreter_in_every_setting() -> None:
    check_in_the_interpreter("-m", "slow")


def test_cpu_tensors_outside_the_interpreter_are_refused_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    cost, zeros = DenseCost(torch.zeros((1, 2, 3))), torch.zeros((1, 3))
    with pytest.raises(TiledError, match="TRITON_INTERPRET=1"):
        triton_passes.log_sum_rows(cost, 0.1, zeros)
    with pytest.raises(TiledError, match="TRITON_INTERPRET=1"):
        grid_softmin.log_sum(torch.zeros((1, 2, 3)), 0.1)


def test_the_modules_load_without_triton_and_say_what_is_missing() -> None:
    code = """
import sys
class NoTriton:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "triton":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, NoTriton())
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name == "triton" else find(name, package)
import torch
from pairframe.tiled import grid_softmin, triton_passes
from pairframe.tiled.cost import DenseCost
from pairframe.tiled.errors import TiledError
assert "triton" not in sys.modules
try:
    triton_passes.log_sum_rows(DenseCost(torch.zeros((1, 2, 3))), 0.1, torch.zeros((1, 3)))
except TiledError as error:
    assert "no triton" in str(error), error
else:
    raise AssertionError("ran without triton")
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(("size", "wanted"), [(1, 1), (2, 2), (3, 4), (64, 64), (65, 128), (10_000, 16_384)])
def test_sizes_fall_into_buckets_of_powers_of_two(size: int, wanted: int) -> None:
    assert bucket(size) == wanted

"""The command line as a person meets it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pairframe


def run(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [Path(sys.executable).parent / "pairframe", *words], capture_output=True, text=True, cwd=cwd, check=False
    )


def test_the_version_is_the_packages(tmp_path: Path) -> None:
    assert run("--version", cwd=tmp_path).stdout.strip() == f"pairframe {pairframe.__version__}"


def test_wrong_usage_is_exit_code_2(tmp_path: Path) -> None:
    assert run("demo", "--no-such-option", cwd=tmp_path).returncode == 2


def test_python_m_pairframe_is_the_command(tmp_path: Path) -> None:
    for words, code in ((["--version"], 0), (["demo", "--no-such-option"], 2)):
        done = subprocess.run(
            [sys.executable, "-m", "pairframe", *words], capture_output=True, text=True, cwd=tmp_path, check=False
        )
        assert (done.returncode, done.stdout) == (code, run(*words, cwd=tmp_path).stdout)

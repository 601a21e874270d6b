"""The command line as a person meets it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import pairframe


def run(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [Path(sys.executable).parent / "pairframe", *words], capture_output=True, text=True, cwd=cwd, check=False
    )


def test_the_version_is_the_packages(tmp_path: Path) -> None:
    assert run("--version", cwd=tmp_path).stdout.strip() == f"pairframe {pairframe.__version__}"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["demo", "--no-such-option"], "no such option: --no-such-option. To fix: see pairframe demo --help"),
        (["--no-such-option"], "no such option: --no-such-option. To fix: see pairframe --help"),
        (["demos"], "no such command 'demos'. Did you mean 'demo'? To fix: see pairframe --help"),
        (["compare", "a.tif"], "missing argument 'TGT'. To fix: see pairframe compare --help"),
        (["demo", "--out", ""], "invalid value for '--out': it is empty"),
        (["compare", "a", "b", "--out", " "], "invalid value for '--out': it is empty"),
        (["report", ""], "invalid value for 'DIR': it is empty"),
    ],
)
def test_wrong_usage_is_exit_code_2_and_one_line(words: list[str], message: str, tmp_path: Path) -> None:
    done = run(*words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"pairframe: {message}")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_no_words_show_the_help(tmp_path: Path) -> None:
    done = run(cwd=tmp_path)
    assert "Usage: pairframe" in done.stdout + done.stderr
    assert "compare" in done.stdout + done.stderr


def test_python_m_pairframe_is_the_command(tmp_path: Path) -> None:
    for words, code in ((["--version"], 0), (["demo", "--no-such-option"], 2)):
        done = subprocess.run(
            [sys.executable, "-m", "pairframe", *words], capture_output=True, text=True, cwd=tmp_path, check=False
        )
        assert (done.returncode, done.stdout) == (code, run(*words, cwd=tmp_path).stdout)

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


def test_the_demo_compares_and_says_where_its_pictures_are(tmp_path: Path) -> None:
    done = run("demo", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("solve      converged by grid") == 2
    pictures = [line.removeprefix("picture: ") for line in done.stdout.splitlines() if line.startswith("picture: ")]
    assert pictures == [f"pairframe-demo/{name}.png" for name in ("pair_frame", "tiny_and_huge", "growing_embryo")]
    for picture in pictures:
        assert (tmp_path / picture).read_bytes().startswith(b"\x89PNG")


def test_an_unusable_folder_is_one_clear_line_and_exit_code_2(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    done = run("demo", "--out", "taken", cwd=tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "choose another one with --out" in done.stderr
    assert (tmp_path / "taken").read_text() == "a file"


def test_the_version_is_the_packages(tmp_path: Path) -> None:
    assert run("--version", cwd=tmp_path).stdout.strip() == f"pairframe {pairframe.__version__}"


def test_wrong_usage_is_exit_code_2(tmp_path: Path) -> None:
    assert run("demo", "--no-such-option", cwd=tmp_path).returncode == 2


def test_a_picture_that_cannot_be_written_is_one_clear_line_and_exit_code_2(tmp_path: Path) -> None:
    (tmp_path / "out/pair_frame.png").mkdir(parents=True)
    done = run("demo", "--out", "out", cwd=tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "out/pair_frame.png: Is a directory. To fix: choose another one with --out" in done.stderr


def test_python_m_pairframe_is_the_command(tmp_path: Path) -> None:
    for words, code in ((["--version"], 0), (["demo", "--no-such-option"], 2)):
        done = subprocess.run(
            [sys.executable, "-m", "pairframe", *words], capture_output=True, text=True, cwd=tmp_path, check=False
        )
        assert (done.returncode, done.stdout) == (code, run(*words, cwd=tmp_path).stdout)

"""The real program: exit codes, a full disk, Ctrl-C, closed pipes."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from helpers.cli_masks import content, write_pair

import pairframe as pf
from pairframe.testing import disc

PROGRAM = str(Path(sys.executable).parent / "pairframe")


@pytest.fixture
def pair(tmp_path: Path) -> tuple[str, str]:
    found = write_pair(tmp_path)
    pf.compare(*found)  # compiled code is on disk now: a full disk has only our files to refuse
    return found


def test_bad_and_uncertified_are_2_and_1(pair: tuple[str, str], tmp_path: Path) -> None:
    words = [PROGRAM, "compare", *pair, "--no-report", "--overwrite", "--out", "out"]
    for more, code in ((["--max-iterations", "1", "--tol", "1e-12"], 1), (["--blur-um", "-1"], 2)):
        done = subprocess.run([*words, *more], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        assert "\x1b" not in done.stdout + done.stderr


@pytest.mark.parametrize(("limit_bytes", "already"), [(1_000, True), (12_000, False), (12_000, True)])
def test_a_full_disk_is_exit_code_2_and_the_previous_result_stays(
    pair: tuple[str, str], tmp_path: Path, limit_bytes: int, already: bool
) -> None:
    out = tmp_path / "out"
    if already:
        pf.compare(*pair).save(out)
    before = content(out)
    words = [PROGRAM, "compare", *pair, "--no-report", "--overwrite", "--blur-um", "5", "--out", str(out)]
    # Limited by a program in between: code between fork and exec is not safe beside other libraries' threads.
    limit = f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit_bytes}, {limit_bytes})); os.execv(sys.argv[1], sys.argv[1:])"
    limited = [sys.executable, "-c", f"import os, resource, sys; {limit}", *map(str, words)]
    done = subprocess.run(limited, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert "File too large. To fix: free some space" in done.stderr
    assert "Traceback" not in done.stderr
    assert content(out) == before
    assert out.exists() == already


def test_ctrl_c_in_a_solve_is_exit_code_130_and_nothing_is_written(tmp_path: Path) -> None:
    for name, centre in (("a", (350, 350)), ("b", (420, 440))):
        np.save(tmp_path / f"{name}.npy", disc((800, 800), centre, 320))
    terminal, inner = pty.openpty()
    words = [PROGRAM, "compare", "a.npy", "b.npy", "--out", "out", "--tol", "1e-12", "--blur-um", "1"]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=inner, text=True) as process:
        os.close(inner)
        shown = _read_until(terminal, "marginal error", 120)
        assert "marginal error" in shown, shown[-500:]
        process.send_signal(signal.SIGINT)
        shown = _read_until(terminal, None, 120)
        assert process.wait(60) == 130
        assert process.stdout is not None
        assert process.stdout.read() == ""
    os.close(terminal)
    assert "pairframe: interrupted" in shown
    assert "Traceback" not in shown
    assert not (tmp_path / "out").exists()


def test_a_reader_that_goes_away_is_no_reason_to_complain(pair: tuple[str, str], tmp_path: Path) -> None:
    words = [PROGRAM, "compare", *pair, "--no-report", "--json", "--out", str(tmp_path / "out")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert pf.load(tmp_path / "out").status == "converged"


def test_an_output_that_knows_no_micro_sign_gets_another_character(pair: tuple[str, str], tmp_path: Path) -> None:
    done = subprocess.run(
        [PROGRAM, "compare", *pair, "--no-report", "--out", str(tmp_path / "out")],
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert " ?m" in done.stdout


def _read_until(terminal: int, word: str | None, seconds: float) -> str:
    """What a terminal shows up to `word`, or until nobody writes to it any more."""
    shown, give_up_at = b"", time.monotonic() + seconds
    while time.monotonic() < give_up_at and (word is None or word.encode() not in shown):
        if not select.select([terminal], [], [], 0.5)[0]:
            continue
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # the other end is closed
            break
        shown += piece
    return shown.decode(errors="replace")


def test_workers_that_read_the_program_again_load_no_command_line() -> None:
    code = f"""
import runpy, sys
runpy.run_path({PROGRAM!r}, run_name="__mp_main__")  # as multiprocessing does in a new process
print([name for name in ("typer", "rich", "pairframe.cli.app", "numpy") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

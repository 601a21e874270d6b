"""Exit codes, Ctrl-C at a bad moment, and what is shown while something runs."""

from __future__ import annotations

import errno
import io
import math
import os
import signal

import pytest
import typer
from rich.console import Console
from rich.progress import Progress, TextColumn

from pairframe.cli.terminal import Activity, activity, exit_codes, output, print_places, uninterrupted, visible
from pairframe.engines import TraceRecord
from pairframe.errors import InputError


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (InputError("a mask", "nothing", "give one"), 2, "expected a mask, got nothing. To fix: give one"),
        (OSError(errno.ENOSPC, "No space left on device", "big.tif"), 2, "'big.tif': No space left on device"),
        (MemoryError(), 2, "not enough memory. To fix: raise --downsample-factor"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_what_goes_wrong_is_one_line_and_its_exit_code(
    error: BaseException, code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as stop, exit_codes():
        raise error
    said = capsys.readouterr()
    assert stop.value.exit_code == code
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert words in said.err


def test_a_closed_pipe_and_a_bug_are_not_explained_away() -> None:
    with pytest.raises(BrokenPipeError), exit_codes():
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")
    with pytest.raises(ZeroDivisionError), exit_codes():
        1 / 0  # noqa: B018


def test_ctrl_c_waits_until_the_writing_is_done() -> None:
    steps = []
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), uninterrupted():  # noqa: PT012
        os.kill(os.getpid(), signal.SIGINT)
        steps.append("written")
    assert steps == ["written"]
    assert signal.getsignal(signal.SIGINT) is handler


def test_an_error_while_writing_is_not_hidden_by_ctrl_c() -> None:
    with pytest.raises(InputError), uninterrupted():  # noqa: PT012
        os.kill(os.getpid(), signal.SIGINT)
        raise InputError("a", "b", "c")


def test_nothing_in_a_name_moves_the_cursor() -> None:
    assert visible("a\x1b[2Jb\nc\u202e é µ") == "a\ufffd[2Jb\ufffdc\ufffd é µ"
    assert visible("\udcff") == "\ufffd"


def test_places_stay_on_one_line_however_long(capsys: pytest.CaptureFixture[str]) -> None:
    long = "/folder" * 60
    print_places(output(), {"report": long, "store": "[b]x"})
    assert capsys.readouterr().out == f"report  {long}\nstore   [b]x\n"


def test_nothing_is_shown_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    with activity() as now:
        now.step("solving")
        now.solving(TraceRecord(1.0, math.nan, 0.1), 1e-6)
    assert capsys.readouterr() == ("", "")


def test_a_terminal_shows_how_far_a_solve_is() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    with Progress(TextColumn("{task.description} {task.fields[detail]}"), console=console) as bar:
        now = Activity(bar)
        now.step("solving")
        fractions, details = [], []
        for error, gap in ((1.0, math.nan), (1e-2, math.nan), (1e-1, math.nan), (1e-4, 3.0), (1e-9, 2.0)):
            now.solving(TraceRecord(7.0, gap, error), 1e-4)
            fractions.append(bar.tasks[0].completed)
            details.append(bar.tasks[0].fields["detail"])
        now.step("writing", 1, 4, "\x1b[2J")
        assert (bar.tasks[0].total, bar.tasks[0].completed) == (4, 1)
        assert "\x1b" not in bar.tasks[0].fields["detail"]
    assert fractions == pytest.approx([0.0, 0.5, 0.5, 1.0, 1.0])  # never backwards, never beyond the end
    assert details[1] == "iteration 7, marginal error 1.0e-02, tolerance 1e-04"
    assert details[3].endswith(", gap 3.0e+00")

"""What a person sees while and after something runs, exit codes, and Ctrl-C at a bad moment."""

from __future__ import annotations

import errno
import math
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

import typer

from pairframe.errors import PairframeError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

    from pairframe.engines import TraceRecord

BAD_INPUT, INTERRUPTED = 2, 130
# typer has a click of its own, and shows only this child of it.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]
PIPE_WIDTH = 160  # columns where nobody's window says how many there are: lines stay lines


# --- exit codes ------------------------------------------------------------------------------


@contextmanager
def exit_codes() -> Iterator[None]:
    """An error, a refusal of the system or Ctrl-C becomes one clear line and its exit code: no traceback, no box."""
    try:
        yield
    except UsageError as error:
        raise _stop(_usage(error), BAD_INPUT) from error
    except PairframeError as error:
        raise _stop(str(error), BAD_INPUT) from error
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise  # nobody reads any more: the program ends without a word
        named = f"{error.filename!r}: " if error.filename else ""
        raise _stop(f"the system refused: {named}{error.strerror or error}", BAD_INPUT) from error
    except MemoryError as error:
        advice = "raise --downsample-factor, or crop the images"
        raise _stop(f"there is not enough memory. To fix: {advice}", BAD_INPUT) from error
    except KeyboardInterrupt as error:
        raise _stop("interrupted", INTERRUPTED) from error


def _usage(error: Any) -> str:
    """What was wrong with the words, and where they are explained."""
    what = " ".join(error.format_message().split()).rstrip(".")
    command = "pairframe" if error.ctx is None else error.ctx.command_path
    return f"{what[:1].lower()}{what[1:]}{'' if what.endswith('?') else '.'} To fix: see {command} --help"


def _stop(message: str, code: int) -> typer.Exit:
    say(f"pairframe: {message}")
    return typer.Exit(code)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C waits until what is in here is done; for writing, which is short."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals reach only the main thread
        return
    asked: list[int] = []

    def remember(number: int, _frame: FrameType | None) -> None:
        asked.append(number)

    before = signal.signal(signal.SIGINT, remember)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if asked:
        raise KeyboardInterrupt


# --- words -----------------------------------------------------------------------------------


def say(line: str) -> None:
    """One line for the person, not for the pipe."""
    typer.echo(visible(line), err=True)


def visible(text: str) -> str:
    """Names come from files: nothing in them moves the cursor or changes colours."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def tolerate_any_name() -> None:
    """A terminal or pipe that cannot show a character shows another one."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def output() -> Console:
    """Standard output: colours on a terminal, plain and unwrapped lines in a pipe."""
    from rich.console import Console

    return Console(
        width=None if sys.stdout.isatty() else PIPE_WIDTH, highlight=False, markup=False, emoji=False, soft_wrap=False
    )


def print_places(console: Console, places: Mapping[str, object]) -> None:
    """Where things were written, one line each, never wrapped: paths are there to be copied."""
    from rich.text import Text

    width = max(map(len, places), default=0) + 2
    for what, path in places.items():
        console.print(Text.assemble((f"{what:<{width}}", "cyan"), visible(str(path))), soft_wrap=True)


# --- progress --------------------------------------------------------------------------------


class Activity:
    """The line that moves while something runs; on standard error, and only when that is a terminal.

    Parameters
    ----------
    bar : rich progress, optional
        None: nothing is shown.
    """

    def __init__(self, bar: Bar | None) -> None:
        self._bar = bar
        self._task: TaskID | None = None
        self._what = ""
        self._first_error = math.nan
        self._best = 0.0

    def step(self, what: str, done: float = 0.0, total: float | None = None, detail: str = "") -> None:
        """Say what goes on now; without a `total` nobody knows how long it takes."""
        if self._bar is None:
            return
        self._first_error, self._best = math.nan, 0.0
        if what != self._what:
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._task = self._bar.add_task(visible(what), total=total, detail="")
            self._what = what
        self._update(completed=done, total=total, detail=visible(detail)[:60])

    def solving(self, record: TraceRecord, tol: float) -> None:
        """Show how far a solve is: the bar is the way of the marginal error down to `tol`, in powers of ten."""
        if self._bar is None:
            return
        error = record.marginal_error
        if math.isnan(self._first_error):
            self._first_error = error
        if 0 < error < math.inf and self._first_error > tol:
            self._best = max(self._best, math.log(self._first_error / error) / math.log(self._first_error / tol))
        detail = f"work {record.work:.0f}, marginal error {error:.1e}, wanted {tol:.0e}"
        if math.isfinite(record.gap):
            detail += f", gap {record.gap:.1e}"
        self._update(completed=min(1.0, self._best), total=1.0, detail=detail)

    def _update(self, **what: object) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, **what)  # type: ignore[arg-type]


@contextmanager
def activity(*, quiet: bool = False) -> Iterator[Activity]:
    """Show what goes on, until the end of the block; it leaves nothing behind."""
    if quiet or not sys.stderr.isatty():
        yield Activity(None)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[detail]}", markup=False, style="dim"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield Activity(bar)

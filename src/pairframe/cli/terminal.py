"""Terminal output, progress, exit codes and Ctrl-C."""

from __future__ import annotations

import errno
import math
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

import typer

from pairframe.errors import PairframeError
from pairframe.notices import MemoryShortage

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

    from pairframe.engines import TraceRecord

BAD_INPUT, INTERRUPTED = 2, 130
# typer bundles click and exports only this subclass of its UsageError.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]
PIPE_WIDTH = 160  # columns if the output is not a terminal, wide enough to keep lines whole


# --- exit codes ------------------------------------------------------------------------------


@contextmanager
def exit_codes(options: Callable[[], Mapping[str, str]] = dict) -> Iterator[None]:
    """Turn errors and Ctrl-C into one line and an exit code, without a traceback or a box.

    Parameters
    ----------
    options : callable, optional
        Returns the options of the command by the fields they set. An error about such a field begins with the option.
    """
    try:
        yield
    except UsageError as error:
        raise _stop(_usage(error), BAD_INPUT) from error
    except PairframeError as error:
        option = options().get(error.field)
        raise _stop(str(error) if option is None else f"{option}: {error}", BAD_INPUT) from error
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise  # the pipe was closed: exit without a message
        named = f"{error.filename!r}: " if error.filename else ""
        raise _stop(f"system error: {named}{error.strerror or error}", BAD_INPUT) from error
    except MemoryError as error:
        advice = "raise --downsample-factor, or crop the images"
        raise _stop(f"not enough memory. To fix: {advice}", BAD_INPUT) from error
    except KeyboardInterrupt as error:
        raise _stop("interrupted", INTERRUPTED) from error


def _usage(error: Any) -> str:
    """A message about wrong usage that points to the help."""
    what = " ".join(error.format_message().split()).rstrip(".")
    command = "pairframe" if error.ctx is None else error.ctx.command_path
    return f"{what[:1].lower()}{what[1:]}{'' if what.endswith('?') else '.'} To fix: see {command} --help"


def _stop(message: str, code: int) -> typer.Exit:
    say(f"pairframe: {message}")
    return typer.Exit(code)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay Ctrl-C until the end of the block; for short writes."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals reach only the main thread
        return
    interrupts: list[int] = []

    def remember(number: int, _frame: FrameType | None) -> None:
        interrupts.append(number)

    before = signal.signal(signal.SIGINT, remember)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if interrupts:
        raise KeyboardInterrupt


# --- words -----------------------------------------------------------------------------------


def say(line: str) -> None:
    """Print one line to standard error."""
    typer.echo(visible(line), err=True)


@contextmanager
def say_warnings() -> Iterator[None]:
    """Print the warnings of Python as one line each."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", MemoryShortage)
        warnings.showwarning = lambda message, *_: say(f"pairframe: warning: {message}")
        yield


def visible(text: str) -> str:
    """Replace control characters, because names come from files and could move the cursor or change colours."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def tolerate_any_name() -> None:
    """Replace characters that the terminal or pipe cannot encode."""
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
    """Print where things were written, one unwrapped line each, so that paths can be copied."""
    from rich.text import Text

    width = max(map(len, places), default=0) + 2
    for what, path in places.items():
        console.print(Text.assemble((f"{what:<{width}}", "cyan"), visible(str(path))), soft_wrap=True)


# --- progress --------------------------------------------------------------------------------


class Activity:
    """A progress line on standard error, shown only on a terminal.

    Parameters
    ----------
    bar : rich progress, optional
        If None, nothing is shown.
    """

    def __init__(self, bar: Bar | None) -> None:
        self._bar = bar
        self._task: TaskID | None = None
        self._what = ""
        self._first_error = math.nan
        self._best = 0.0

    def step(self, what: str, done: float = 0.0, total: float | None = None, detail: str = "") -> None:
        """Show the current step; without a `total` its length is unknown."""
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
        """Show the progress of a solve: how far the marginal error has come down to `tol`, in powers of ten."""
        if self._bar is None:
            return
        error = record.marginal_error
        if math.isnan(self._first_error):
            self._first_error = error
        if 0 < error < math.inf and self._first_error > tol:
            self._best = max(self._best, math.log(self._first_error / error) / math.log(self._first_error / tol))
        detail = f"iteration {record.iterations:.0f}, marginal error {error:.1e}, tolerance {tol:.0e}"
        if math.isfinite(record.gap):
            detail += f", gap {record.gap:.1e}"
        self._update(completed=min(1.0, self._best), total=1.0, detail=detail)

    def _update(self, **what: object) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, **what)  # type: ignore[arg-type]


@contextmanager
def activity(*, quiet: bool = False) -> Iterator[Activity]:
    """Show progress until the end of the block, then remove it."""
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

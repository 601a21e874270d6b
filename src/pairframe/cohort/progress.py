"""How far a run is, as values; and shown: a moving line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TextIO, TypeVar

PLAIN_EVERY_S = 10.0
_LOOK_EVERY_S = 1.0
Thing = TypeVar("Thing")


@dataclass(frozen=True)
class CohortProgress:
    """How far a run is.

    Attributes
    ----------
    phase : str
        ``looking`` (what is there, and how large; told only when it takes a while), ``solving``, ``stopping`` (after Ctrl-C) or
        ``report``.
    done, failed, kept : int
        Pairs solved and failed in this run, and kept from earlier ones.
    total : int
        All pairs of the manifest; in the phases ``looking`` and ``report``, what there is to look at or to draw (`done`
        counts it).
    seconds : float
        Since the phase began.
    """

    phase: str
    done: int
    failed: int
    kept: int
    total: int
    seconds: float

    @property
    def pairs_per_s(self) -> float:
        """Mean rate of this run."""
        return (self.done + self.failed) / self.seconds if self.seconds > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """At that rate; None when nobody knows yet."""
        left = self.total - self.kept - self.done - self.failed
        return left / self.pairs_per_s if self.pairs_per_s > 0 else None

    def line(self) -> str:
        """One line for a person."""
        if self.phase == "looking":
            return f"looking at masks: {self.done} of {self.total}"
        if self.phase == "report":
            return f"report: {self.done} of {self.total} pairs drawn"
        words = [f"{self.kept + self.done + self.failed} of {self.total} pairs", f"{self.failed} failed"]
        if self.kept:
            words.append(f"{self.kept} were there")
        if self.pairs_per_s > 0:
            words.append(f"{self.pairs_per_s:.2g} pairs/s")
        if self.phase == "stopping":
            words.append("finishing the running pairs; Ctrl-C again ends at once")
        elif self.seconds_left:
            words.append(f"{duration(self.seconds_left)} left")
        return ", ".join(words)


ProgressCallback = Callable[[CohortProgress], None]


@dataclass(frozen=True)
class Looking:
    """Goes through many things before the first pair is solved: tells how far it is, and gives up when the run is stopping."""

    progress: ProgressCallback | None = None
    is_stopping: Callable[[], bool] = lambda: False

    def over(self, things: Iterable[Thing], total: int) -> Iterator[Thing]:
        """The things, one by one; fewer than `total` when it is stopping."""
        began = told_at = time.monotonic()
        for done, thing in enumerate(things, 1):
            if self.is_stopping():
                return
            yield thing
            now = time.monotonic()
            if self.progress is not None and now - told_at > _LOOK_EVERY_S:
                told_at = now
                self.progress(CohortProgress("looking", done, 0, 0, total, now - began))


QUIETLY = Looking()


def duration(seconds: float) -> str:
    """``2 h 05 min``, ``3 min 20 s``, ``14 s``."""
    whole = round(seconds)
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 60} min {whole % 60:02d} s" if whole >= 60 else f"{whole} s"


@contextmanager
def shown_progress(stream: TextIO | None = None, *, quiet: bool = False) -> Iterator[ProgressCallback]:
    """A callback that shows what it is told, on standard error, until the end of the block."""
    stream = sys.stderr if stream is None else stream
    if quiet:
        yield lambda progress: None
    elif stream.isatty():
        with _moving_line(stream) as show:
            yield show
    else:
        yield PlainLines(stream)


class PlainLines:
    """A line now and then, and when the phase changes or ends; for log files."""

    def __init__(self, stream: TextIO, every_s: float = PLAIN_EVERY_S) -> None:
        self._stream, self._every_s = stream, every_s
        self._said_at, self._said = -math.inf, ("", False)

    def __call__(self, progress: CohortProgress) -> None:
        now = time.monotonic()
        is_end = progress.kept + progress.done + progress.failed == progress.total
        is_due = not is_end and now - self._said_at >= self._every_s  # of an end there is one line
        if is_due or self._said != (progress.phase, is_end):
            self._said_at, self._said = now, (progress.phase, is_end)
            print(progress.line(), file=self._stream, flush=True)


@contextmanager
def _moving_line(stream: TextIO) -> Iterator[ProgressCallback]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

    columns = (SpinnerColumn(), BarColumn(bar_width=24), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=Console(file=stream), transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def show(progress: CohortProgress) -> None:
            completed = progress.kept + progress.done + progress.failed
            bar.update(task, description=progress.line(), completed=completed, total=progress.total)

        yield show

"""Progress of a run: as values, and on the screen as a moving line on a terminal or plain lines elsewhere."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TextIO, TypeVar

from pairframe.progress import is_watched, progress_bar

PLAIN_EVERY_S = 10.0
_SCAN_EVERY_S = 1.0
Item = TypeVar("Item")


@dataclass(frozen=True)
class CohortProgress:
    """Progress of a run.

    Attributes
    ----------
    phase : str
        ``scanning`` (of masks before the first pair, if it takes more than a second), ``solving``, ``stopping`` (after
        Ctrl-C), ``body axis`` or ``report``.
    done, failed, skipped : int
        Pairs solved and failed in this run, and pairs left as they were because they are unchanged.
    total : int
        All pairs of the manifest; in the phases ``scanning``, ``body axis`` and ``report``, all items to read or to draw (counted by `done`).
    seconds : float
        Since the phase began.
    unit : str
        What is counted.
    """

    phase: str
    done: int
    failed: int
    skipped: int
    total: int
    seconds: float
    unit: str = "pairs"

    @property
    def pairs_per_s(self) -> float:
        """Mean rate of this run."""
        return (self.done + self.failed) / self.seconds if self.seconds > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """At that rate; None if it is not known yet."""
        left = self.total - self.skipped - self.done - self.failed
        return left / self.pairs_per_s if self.pairs_per_s > 0 else None

    def line(self) -> str:
        """One line for a person."""
        if self.phase == "scanning":
            return f"reading masks: {self.done} of {self.total}"
        if self.phase == "body axis":
            return f"body axis: {self.done} of {self.total} pairs"
        if self.phase == "report":
            return f"report: {self.done} of {self.total} {self.unit} drawn"
        words = [f"{self.skipped + self.done + self.failed} of {self.total} {self.unit}", f"{self.failed} failed"]
        if self.skipped:
            words.append(f"{self.skipped} skipped")
        if self.pairs_per_s > 0:
            words.append(f"{self.pairs_per_s:.2g} {self.unit}/s")
        if self.phase == "stopping":
            words.append(f"finishing the running {self.unit}; Ctrl-C again ends at once")
        elif self.seconds_left:
            words.append(f"{duration(self.seconds_left)} left")
        return ", ".join(words)


ProgressCallback = Callable[[CohortProgress], None]


@dataclass(frozen=True)
class MaskScan:
    """A pass over many masks before the first pair is solved: it shows progress, and ends early if the run is stopping."""

    progress: ProgressCallback | None = None
    is_stopping: Callable[[], bool] = lambda: False

    def over(self, items: Iterable[Item], total: int) -> Iterator[Item]:
        """Yield the items; fewer than `total` if the run is stopping."""
        began = shown_at = time.monotonic()
        for done, item in enumerate(items, 1):
            if self.is_stopping():
                return
            yield item
            now = time.monotonic()
            if self.progress is not None and now - shown_at > _SCAN_EVERY_S:
                shown_at = now
                self.progress(CohortProgress("scanning", done, 0, 0, total, now - began))


SILENT_SCAN = MaskScan()


def duration(seconds: float) -> str:
    """``2 h 05 min``, ``3 min 20 s``, ``14 s``."""
    whole = round(seconds)
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 60} min {whole % 60:02d} s" if whole >= 60 else f"{whole} s"


@contextmanager
def shown_progress(stream: TextIO | None = None, *, quiet: bool = False) -> Iterator[ProgressCallback]:
    """A callback that shows progress on standard error until the end of the block."""
    stream = sys.stderr if stream is None else stream
    if quiet:
        yield lambda progress: None
    elif is_watched(stream):
        with _moving_line(stream) as show:
            yield show
    else:
        yield PlainLines(stream)


@contextmanager
def progress_if_watched(progress: ProgressCallback | bool | None) -> Iterator[ProgressCallback | None]:
    """The callback itself; or a bar, if True, or if None and a person is watching; or None."""
    if callable(progress):
        yield progress
    elif is_watched() if progress is None else progress:
        with shown_progress() as show:
            yield show
    else:
        yield None


class PlainLines:
    """A line every few seconds, and when the phase changes or ends; for log files."""

    def __init__(self, stream: TextIO, every_s: float = PLAIN_EVERY_S) -> None:
        self._stream, self._every_s = stream, every_s
        self._printed_at, self._printed = -math.inf, ("", False)

    def __call__(self, progress: CohortProgress) -> None:
        now = time.monotonic()
        is_end = progress.skipped + progress.done + progress.failed == progress.total
        is_due = not is_end and now - self._printed_at >= self._every_s  # the end is printed once
        if is_due or self._printed != (progress.phase, is_end):
            self._printed_at, self._printed = now, (progress.phase, is_end)
            print(progress.line(), file=self._stream, flush=True)


@contextmanager
def _moving_line(stream: TextIO) -> Iterator[ProgressCallback]:
    with progress_bar(stream) as show:
        yield lambda now: show(now.line(), now.skipped + now.done + now.failed, now.total)

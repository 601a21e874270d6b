"""Ctrl-C in a run: the first one stops it after the tasks that are running, the second one at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stop_on_interrupt(stop: Callable[[], None]) -> Iterator[Callable[[], bool]]:
    """Call `stop` on the first Ctrl-C, and raise on the second; yields whether there was one."""
    signals: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False  # signals reach only the main thread
        return

    def handle(number: int, _frame: FrameType | None) -> None:
        if signals:
            raise KeyboardInterrupt
        signals.append(number)
        stop()

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield lambda: bool(signals)
    finally:
        signal.signal(signal.SIGINT, before)

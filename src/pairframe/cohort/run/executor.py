"""`Executor`: the interface between a run and its workers, on this machine or on a cluster."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from types import TracebackType
from typing import Self

from pairframe.cohort.run.events import Event
from pairframe.cohort.run.work_queue import WorkQueue


class Executor(ABC):
    """Workers for the time of a ``with`` block.

    Another kind of cluster is one more subclass. It hands chunks to workers, which call `Job.compare_chunk`, and reports events;
    the `WorkQueue` decides what is repeated, and the runner writes the table.
    """

    @abstractmethod
    def __enter__(self) -> Self:
        """Start the workers, or connect to them; do not wait until they are ready."""

    @abstractmethod
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the workers that were started here, and disconnect."""

    @property
    @abstractmethod
    def n_workers(self) -> int:
        """Chunks that are compared at a time; decides how large chunks are."""

    @abstractmethod
    def events(self, queue: WorkQueue, is_stopping: Callable[[], bool]) -> Generator[Event]:
        """Yield events until `queue` is empty and all workers are idle.

        Each event is resolved before the next is produced, and may put chunks back into `queue`. A `Heartbeat` comes at least
        every second. Once `is_stopping` returns True, hand out no chunk, and end when the workers have finished their pairs.
        """

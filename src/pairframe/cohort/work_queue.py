"""Portions that wait for a worker, and what becomes of those that a worker did not finish."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence

from pairframe.cohort.plan import Chunk
from pairframe.cohort.tasks import PairTask
from pairframe.results import failed_row
from pairframe.results.schema import FAILED, Row

MAX_ATTEMPTS = 2
_ADVICE = "use fewer jobs or a larger downsample_factor if memory ran out; the next run tries this pair again"


class WorkQueue:
    """Hands out portions. A pair that failed for a reason outside of it gets a second attempt, alone, at the end.

    Parameters
    ----------
    chunks : iterable of tuples of tasks
    """

    def __init__(self, chunks: Iterable[Chunk]) -> None:
        self._waiting: deque[Chunk] = deque()
        self._tasks: dict[str, PairTask] = {}
        self._attempts: Counter[str] = Counter()
        self.fill(chunks)

    def fill(self, chunks: Iterable[Chunk]) -> None:
        """More portions, at the end."""
        for chunk in chunks:
            self._waiting.append(chunk)
            self._tasks.update({task.pair_id: task for task in chunk})

    def take(self) -> Chunk | None:
        """The next portion."""
        return self._waiting.popleft() if self._waiting else None

    def settle(self, row: Row) -> Row | None:
        """The row to keep; None when its pair is tried again."""
        if row["status"] == FAILED and row["work_key"] is None and not self._is_last(row["pair_id"]):
            self._waiting.append((self._tasks[row["pair_id"]],))
            return None
        return row

    def put_back(self, tasks: Sequence[PairTask]) -> None:
        """Tasks that nobody began."""
        if tasks:
            self._waiting.appendleft(tuple(tasks))

    def try_alone(self, tasks: Sequence[PairTask]) -> None:
        """One of these ended its worker, and nobody knows which: none of them is charged with it."""
        self._waiting.extend((task,) for task in tasks)

    def lost(self, task: PairTask, reason: str, *, for_good: bool = False) -> Row | None:
        """Its worker ended while it did this task: the row of a failure, or None when it is tried again."""
        if not (self._is_last(task.pair_id) or for_good):
            self._waiting.append((task,))
            return None
        return failed_row(
            task.pair_id,
            f"WorkerDiedError: {reason}",
            _ADVICE,
            source=task.source.named,
            target=task.target.named,
            extra=task.carried,
        )

    def given_back(self, tasks: Sequence[PairTask]) -> list[Row]:
        """Tasks that a worker left undone though the run goes on: it no longer saw the folder of results."""
        rows = [self.lost(task, "its worker did not see the folder of results") for task in tasks]
        return [row for row in rows if row is not None]

    def _is_last(self, pair_id: str) -> bool:
        self._attempts[pair_id] += 1
        return self._attempts[pair_id] >= MAX_ATTEMPTS

"""Chunks that wait for a worker, and the rule by which an unfinished pair is tried again."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence

from pairframe.cohort.inputs.tasks import PairTask
from pairframe.cohort.run.events import Chunk, ChunkLost, ChunkReturned, Event, Heartbeat, PairFinished
from pairframe.results import failed_row
from pairframe.results.schema import Row

MAX_ATTEMPTS = 2
_ADVICE = "use fewer jobs or a larger downsample_factor if memory ran out; the next run tries this pair again"


class WorkQueue:
    """Hands out chunks. A pair that failed for a reason outside of it gets a second attempt, alone, at the end.

    Parameters
    ----------
    chunks : iterable of tuples of tasks
    is_wanted : callable
        Whether the run goes on; otherwise pairs that workers return are dropped.
    """

    def __init__(self, chunks: Iterable[Chunk] = (), is_wanted: Callable[[], bool] = lambda: True) -> None:
        self._waiting: deque[Chunk] = deque()
        self._tasks: dict[str, PairTask] = {}
        self._attempts: Counter[str] = Counter()
        self._is_wanted = is_wanted
        self.add(chunks)

    def add(self, chunks: Iterable[Chunk]) -> None:
        """Append chunks at the end."""
        for chunk in chunks:
            self._waiting.append(chunk)
            self._tasks.update({task.pair_id: task for task in chunk})

    def take(self) -> Chunk | None:
        """Remove and return the next chunk; None if there is none."""
        return self._waiting.popleft() if self._waiting else None

    def resolve(self, event: Event) -> list[Row]:
        """Rows that are final with this event; pairs to try again are put back."""
        match event:
            case PairFinished(row, is_transient):
                if not is_transient or self._count_attempt(row["pair_id"]):
                    return [row]
                self._waiting.append((self._tasks[row["pair_id"]],))
                return []
            case ChunkReturned(tasks):
                reason = "its worker did not see the folder of results"
                return [row for task in tasks for row in self._retry(task, reason)] if self._is_wanted() else []
            case ChunkLost(suspects, untouched, reason, is_final):
                self.put_back(untouched)
                if len(suspects) == 1:
                    return self._retry(suspects[0], reason, is_final=is_final)
                # Either of them may have ended the worker: alone, each shows whether it does.
                self._waiting.extend((task,) for task in suspects)
                return []
            case Heartbeat():
                return []

    def put_back(self, tasks: Sequence[PairTask]) -> None:
        """Put tasks that no worker has begun at the front."""
        if tasks:
            self._waiting.appendleft(tuple(tasks))

    def _retry(self, task: PairTask, reason: str, *, is_final: bool = False) -> list[Row]:
        """Put the task back, or return its row as a failure after the last attempt."""
        if not (self._count_attempt(task.pair_id) or is_final):
            self._waiting.append((task,))
            return []
        row = failed_row(
            task.pair_id,
            f"WorkerError: {reason}",
            _ADVICE,
            source=task.source.named,
            target=task.target.named,
            extra=task.carried,
        )
        return [row]

    def _count_attempt(self, pair_id: str) -> bool:
        """Count one attempt; whether it was the last."""
        self._attempts[pair_id] += 1
        return self._attempts[pair_id] >= MAX_ATTEMPTS

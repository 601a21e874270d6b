"""`Tally`: how many pairs are done, failed and skipped."""

from __future__ import annotations

import time
from collections.abc import Callable

from pairframe.cohort.run.plan import Plan
from pairframe.cohort.run.progress import CohortProgress, ProgressCallback
from pairframe.engines import Status
from pairframe.errors import StoreError
from pairframe.results.schema import FAILED, Row

_SHOW_EVERY_S = 0.4
_UNCERTIFIED = {str(Status.max_iterations), str(Status.impossible)}


class Tally:
    """Counts the pairs of a run and reports its progress.

    Parameters
    ----------
    plan : Plan
    total : int
        All pairs of the manifest.
    unit : str
        What is counted.
    """

    def __init__(
        self,
        plan: Plan,
        total: int,
        is_stopping: Callable[[], bool],
        progress: ProgressCallback | None,
        unit: str = "pairs",
    ) -> None:
        self._total, self._is_stopping, self._progress, self._unit = total, is_stopping, progress, unit
        self._began, self._shown_at = time.monotonic(), 0.0
        self.failed_before = sum(status == FAILED for status in plan.kept.values())
        self.skipped = len(plan.kept) - self.failed_before
        self.uncertified = sum(status in _UNCERTIFIED for status in plan.kept.values())
        self.done = self.failed_now = self.warned = 0

    @property
    def failed(self) -> int:
        return self.failed_before + self.failed_now

    def count(self, row: Row) -> None:
        is_failed = row["status"] == FAILED
        self.failed_now += is_failed
        self.done += not is_failed
        self.uncertified += row["status"] in _UNCERTIFIED
        self.warned += bool(row.get("warnings"))  # masks of an alignment have none

    def show_progress(self) -> None:
        """Call the progress callback about twice a second, and once all pairs are finished."""
        now = time.monotonic()
        is_end = self.done + self.failed + self.skipped == self._total
        if self._progress is not None and (is_end or now - self._shown_at > _SHOW_EVERY_S):
            self._shown_at = now
            phase = "stopping" if self._is_stopping() else "solving"
            skipped = self.skipped + self.failed_before
            seconds = now - self._began
            self._progress(CohortProgress(phase, self.done, self.failed_now, skipped, self._total, seconds, self._unit))

    def check_complete(self) -> None:
        """Raise `StoreError` if pairs are missing: workers stop when the mark of their run is gone."""
        missing = self._total - self.done - self.failed - self.skipped
        if missing:
            raise StoreError(
                "the mark of this run to stay in the folder of results",
                f"a mark that was removed, with {missing} {self._unit} not compared",
                "run the same command again",
            )

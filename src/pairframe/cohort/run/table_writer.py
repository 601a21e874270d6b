"""`TableWriter`: rows of finished pairs, written to the table in batches."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor

from pairframe.errors import StoreLockedError, StoreWriteError
from pairframe.results import ResultStore
from pairframe.results.schema import Row

COMMIT_SHARE = 0.02  # of the time may go into writing the table: the disk is busy then, and workers wait for it
_MIN_INTERVAL_S, _MAX_INTERVAL_S = 1.0, 30.0


class TableWriter:
    """Commits rows in batches: every commit writes the whole table, so the larger it is, the rarer they are.

    Commits run in a thread, because workers that have finished a chunk wait for the next one. Rows are kept until they are
    known to be written.

    Parameters
    ----------
    store : ResultStore
    order : list of str
        Pair ids in the order of the manifest. Rows arrive as pairs are finished, large pairs first; the table has them in
        this order.
    """

    def __init__(self, store: ResultStore, order: list[str]) -> None:
        self._store, self._order = store, order
        self._rows: list[Row] = []
        self._commit: Future[float] | None = None  # in progress
        self._n_in_commit = 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="pairframe-commit")
        self._next_at = time.monotonic() + _MIN_INTERVAL_S

    def add(self, *rows: Row) -> None:
        self._rows.extend(rows)

    def flush_when_due(self) -> None:
        """Start a commit in the thread if the last one is long enough ago."""
        if self._commit is not None and self._commit.done():
            self._finish_commit()
        if self._commit is None and self._rows and time.monotonic() >= self._next_at:
            self._n_in_commit = len(self._rows)
            self._commit = self._thread.submit(self._write, self._rows[:])

    def flush(self) -> None:
        """Write all rows, in this thread, so that Ctrl-C can interrupt it. An error is raised."""
        try:
            if self._commit is not None:
                self._finish_commit()
        finally:
            self._thread.shutdown(wait=False)
            self._write(self._rows)  # with rows of a commit that failed halfway: a row may be written twice

    def _write(self, rows: list[Row]) -> float:
        began = time.monotonic()
        self._store.commit(rows, order=self._order)
        return time.monotonic() - began

    def _finish_commit(self) -> None:
        """Wait for the commit in progress. If it could not write, its rows stay for the next one, and the last one raises."""
        assert self._commit is not None
        commit, self._commit = self._commit, None
        try:
            wait_s = min(max(_MIN_INTERVAL_S, commit.result() / COMMIT_SHARE), _MAX_INTERVAL_S)
            del self._rows[: self._n_in_commit]
        except (StoreWriteError, StoreLockedError):
            wait_s = _MAX_INTERVAL_S
        self._next_at = time.monotonic() + wait_s

"""The work queue: which events end a pair, and which give it another attempt."""

from __future__ import annotations

import pytest

from pairframe import errors
from pairframe.cohort import MaskRef, PairTask
from pairframe.cohort.run.events import Chunk, ChunkLost, ChunkReturned, Heartbeat, PairFinished
from pairframe.cohort.run.work_queue import WorkQueue
from pairframe.errors import is_transient
from pairframe.results import failed_row


def chunk_of(*names: str) -> Chunk:
    return tuple(PairTask(name, MaskRef(f"/{name}a", "a"), MaskRef(f"/{name}b", "b"), {"dose": 2}) for name in names)


def waiting(queue: WorkQueue) -> list[list[str]]:
    chunks = []
    while (chunk := queue.take()) is not None:
        chunks.append([task.pair_id for task in chunk])
    return chunks


def queue_with_first_chunk_taken(*chunks: Chunk) -> WorkQueue:
    queue = WorkQueue(chunks)
    assert queue.take() == chunks[0]
    return queue


def test_a_failure_of_the_pair_itself_is_final() -> None:
    queue = queue_with_first_chunk_taken(chunk_of("x"))
    row = failed_row("x", "broken", work_key="k")
    assert queue.resolve(PairFinished(row)) == [row]
    assert waiting(queue) == []


def test_a_transient_failure_is_repeated_once_alone_and_last() -> None:
    queue = queue_with_first_chunk_taken(chunk_of("x", "y"), chunk_of("z"))
    row = failed_row("x", "disk full")
    assert queue.resolve(PairFinished(row, is_transient=True)) == []
    assert waiting(queue) == [["z"], ["x"]]
    assert queue.resolve(PairFinished(row, is_transient=True)) == [row]
    assert waiting(queue) == []


def test_returned_pairs_are_repeated_and_fail_the_second_time() -> None:
    (task,) = chunk_of("x")
    queue = queue_with_first_chunk_taken((task,))
    assert queue.resolve(ChunkReturned((task,))) == []
    assert waiting(queue) == [["x"]]
    (row,) = queue.resolve(ChunkReturned((task,)))
    assert (row["status"], row["source"], row["dose"], row["work_key"]) == ("failed", "a", 2, None)
    assert "did not see the folder of results" in row["error"]


def test_two_suspects_are_repeated_alone_and_neither_is_blamed() -> None:
    chunk = chunk_of("w", "x", "y", "z")
    queue = queue_with_first_chunk_taken(chunk, chunk_of("later"))
    assert queue.resolve(ChunkLost(chunk[:2], chunk[2:], "killed")) == []
    assert waiting(queue) == [["y", "z"], ["later"], ["w"], ["x"]]
    assert queue.resolve(ChunkLost(chunk[:1], (), "killed")) == [], "its first attempt alone"
    (row,) = queue.resolve(ChunkLost(chunk[:1], (), "killed"))
    assert row["error"] == "WorkerError: killed"


def test_a_single_pair_that_the_cluster_gave_up_is_not_repeated() -> None:
    chunk = chunk_of("x", "y")
    queue = queue_with_first_chunk_taken(chunk)
    assert queue.resolve(ChunkLost(chunk, (), "gave up", is_final=True)) == []
    assert waiting(queue) == [["x"], ["y"]]
    assert len(queue.resolve(ChunkLost(chunk[:1], (), "gave up", is_final=True))) == 1


def test_a_heartbeat_changes_nothing() -> None:
    queue = WorkQueue([chunk_of("x")])
    assert queue.resolve(Heartbeat()) == []
    assert waiting(queue) == [["x"]]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("MaskError", False),
        ("FileError", False),
        ("FrameError", False),
        ("OutputError", False),
        ("UnsupportedProblemError", False),
        ("EngineError", True),
        ("MissingExtraError", True),
        ("StoreWriteError", True),
        ("StoreLockedError", True),
        ("WorkerError", True),
        ("SolveFailedError", True),
    ],
)
def test_an_error_says_whether_it_may_pass(kind: str, expected: bool) -> None:
    assert is_transient(getattr(errors, kind)("a", "b", "c")) is expected


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), MemoryError(), RuntimeError("bug")])
def test_errors_that_are_not_ours_may_pass(error: Exception) -> None:
    assert is_transient(error)

"""Events of a run: an executor yields them, the work queue decides what follows from each."""

from __future__ import annotations

from dataclasses import dataclass

from pairframe.cohort.inputs.tasks import PairTask
from pairframe.results.schema import Row

Chunk = tuple[PairTask, ...]  # pairs that one worker compares one after the other


@dataclass(frozen=True)
class PairFinished:
    """A worker has compared a pair, or recorded why it could not.

    Attributes
    ----------
    row : Row
        For the table of results.
    is_transient : bool
        The pair failed for a reason outside of it, such as a full disk: another attempt may succeed.
    """

    row: Row
    is_transient: bool = False


@dataclass(frozen=True)
class ChunkReturned:
    """A worker stopped before it began these pairs, because it no longer saw the mark of the run."""

    tasks: Chunk


@dataclass(frozen=True)
class ChunkLost:
    """A worker died.

    Attributes
    ----------
    suspects : Chunk
        Pairs that it may have been comparing or writing when it died.
    untouched : Chunk
        Pairs that it had not begun.
    reason : str
        How it died, for the error of the pair.
    is_final : bool
        The executor has repeated a single pair often enough: do not repeat it again.
    """

    suspects: Chunk
    untouched: Chunk
    reason: str
    is_final: bool = False


@dataclass(frozen=True)
class Heartbeat:
    """Time has passed: the runner may write the table, show progress and notice Ctrl-C."""


Event = PairFinished | ChunkReturned | ChunkLost | Heartbeat


@dataclass(frozen=True)
class Stopped:
    """The run was interrupted before this step was complete."""

"""`ChunkJob`: what an executor needs to know of the work that its workers do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from pairframe.cohort.run.events import Chunk, PairFinished
from pairframe.cohort.run.mask_cache import MaskCache


class ChunkJob(Protocol):
    """Work on chunks of tasks; small, because it is sent to every worker."""

    @property
    def out(self) -> Path:
        """Folder of the run: an absolute path that every worker sees."""

    @property
    def token(self) -> str:
        """Of the run; see `RunMark`."""

    def is_wanted(self) -> bool:
        """Whether the run goes on, as seen from this machine."""

    def compare_chunk(self, chunk: Chunk, cache: MaskCache) -> Iterator[PairFinished]:
        """Do the tasks one after the other; end early when the run does. A task that fails is a failed row."""

"""Results on their way between processes: the arrays go through shared memory, not through a pipe."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from multiprocessing.shared_memory import SharedMemory
from typing import cast

from pairframe.results.result import TransportResult


@dataclass(frozen=True)
class Parcel:
    """Results of our own worker process; opened once, by the process that asked for them.

    Attributes
    ----------
    message : bytes
        Everything but the arrays' content.
    memory_name : str or None
        The shared memory that holds it.
    sizes : tuple of int
        Bytes of each array, in order.
    """

    message: bytes
    memory_name: str | None
    sizes: tuple[int, ...]

    def open(self) -> list[TransportResult]:
        """The results; the shared memory is given back."""
        if self.memory_name is None:
            return cast("list[TransportResult]", pickle.loads(self.message))  # noqa: S301  (from our own worker)
        memory = SharedMemory(self.memory_name)
        assert memory.buf is not None  # it was opened just now
        try:
            content = memoryview(bytes(memory.buf[: sum(self.sizes)]))
        finally:
            memory.close()
            memory.unlink()
        starts = [sum(self.sizes[:k]) for k in range(len(self.sizes))]
        arrays = [content[start : start + size] for start, size in zip(starts, self.sizes, strict=True)]
        return cast("list[TransportResult]", pickle.loads(self.message, buffers=arrays))  # noqa: S301


def pack(results: list[TransportResult]) -> Parcel:
    """Put results into a parcel; whoever gets it must open it."""
    buffers: list[pickle.PickleBuffer] = []
    message = pickle.dumps(results, protocol=5, buffer_callback=buffers.append)
    views = [buffer.raw() for buffer in buffers]
    sizes = tuple(view.nbytes for view in views)
    if not sum(sizes):
        return Parcel(pickle.dumps(results, protocol=5), None, ())
    memory = SharedMemory(create=True, size=sum(sizes))
    assert memory.buf is not None  # it was opened just now
    start = 0
    for view in views:
        memory.buf[start : start + view.nbytes] = view
        start += view.nbytes
    memory.close()
    return Parcel(message, memory.name, sizes)

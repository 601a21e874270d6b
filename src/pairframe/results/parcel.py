"""Results on their way between processes: the arrays lie in a file in memory, and are read where they lie."""

from __future__ import annotations

import mmap
import os
import pickle
import tempfile
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import cast

from pairframe.results.result import TransportResult

_IN_MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class Parcel:
    """Results of our own worker process; opened once, by the process that asked for them.

    Attributes
    ----------
    message : bytes
        Everything but the arrays' content.
    file : str
        Holds that content; gone after `open`.
    sizes : tuple of int
        Bytes of each array, in order.
    """

    message: bytes
    file: str
    sizes: tuple[int, ...]

    def open(self) -> list[TransportResult]:
        """The results. Their arrays lie in the mapped file, whose memory is given back with the last of them."""
        with Path(self.file).open("rb") as stream:
            content = memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))
        Path(self.file).unlink()
        ends = accumulate(self.sizes)
        arrays = [content[end - size : end] for size, end in zip(self.sizes, ends, strict=True)]
        return cast("list[TransportResult]", pickle.loads(self.message, buffers=arrays))  # noqa: S301  (our own worker's)


def pack(results: list[TransportResult]) -> Parcel:
    """Put results into a parcel; whoever gets it must open it."""
    buffers: list[pickle.PickleBuffer] = []
    message = pickle.dumps(results, protocol=5, buffer_callback=buffers.append)
    handle, file = tempfile.mkstemp(prefix="pairframe-", dir=_IN_MEMORY if _IN_MEMORY.is_dir() else None)
    with os.fdopen(handle, "wb") as stream:
        views = [buffer.raw() for buffer in buffers]
        for view in views:
            stream.write(view)
        if not views:
            stream.write(b"\0")  # an empty file cannot be mapped
    return Parcel(message, file, tuple(view.nbytes for view in views))

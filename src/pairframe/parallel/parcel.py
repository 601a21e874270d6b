"""Send results between processes: arrays are written to a file in shared memory and mapped, not copied."""

from __future__ import annotations

import mmap
import os
import pickle
import tempfile
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, cast

from pairframe import system

_IN_MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class Parcel:
    """Results from a worker process, to be opened once by the receiving process.

    Attributes
    ----------
    message : bytes
        The pickled results without the content of their arrays.
    file : str
        File with the content of the arrays; removed by `open`.
    sizes : tuple of int
        Size of each array in bytes, in order.
    """

    message: bytes
    file: str
    sizes: tuple[int, ...]

    def open(self) -> list[Any]:
        """Return the results. Their arrays use the mapped file, whose memory is freed with the last array."""
        with Path(self.file).open("rb") as stream:
            if system.IS_UNIX:
                content = memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))
            else:  # a mapped file cannot be removed
                content = memoryview(stream.read())
        Path(self.file).unlink()
        ends = accumulate(self.sizes)
        arrays = [content[end - size : end] for size, end in zip(self.sizes, ends, strict=True)]
        return cast("list[Any]", pickle.loads(self.message, buffers=arrays))  # noqa: S301  (from our own worker)


def pack(results: list[Any]) -> Parcel:
    """Pack results; the receiver must open the parcel to free its file."""
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

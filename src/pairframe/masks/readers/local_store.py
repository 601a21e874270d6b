"""A Zarr store in a folder of which nothing but regular files of a limited size are read.

zarr reads any file that has the right name: a pipe would block it, and a link to a device would fill the memory. Importing this module loads zarr.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from zarr.storage import LocalStore

from pairframe import files
from pairframe.errors import FileError

METADATA_BYTES = 2**24


class RegularFiles(LocalStore):
    """A read-only store.

    Attributes
    ----------
    most_bytes : int
        Size of the largest file it reads; at first that of metadata.
    """

    def __init__(self, root: Path, *, read_only: bool = True) -> None:
        super().__init__(root, read_only=read_only)
        self.most_bytes = METADATA_BYTES

    async def get(self, key: str, *args: Any, **options: Any) -> Any:
        check_file(self.root / key, self.most_bytes)
        return await super().get(key, *args, **options)

    def get_sync(self, key: str, **options: Any) -> Any:
        check_file(self.root / key, self.most_bytes)
        return super().get_sync(key, **options)

    async def get_partial_values(self, prototype: Any, key_ranges: Any) -> Any:
        asked = list(key_ranges)
        for key, _ in asked:
            check_file(self.root / key, self.most_bytes)
        return await super().get_partial_values(prototype, asked)


def check_file(path: Path, most_bytes: int) -> None:
    """Refuse a file that is not regular, links followed, or too large. A missing one is left to zarr."""
    try:
        about = path.stat()
        files.require_regular(about.st_mode, path)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return
    except OSError as error:
        raise FileError(
            "regular files in a Zarr", f"{os.fspath(path)!r}: {error.strerror}", "write the Zarr again"
        ) from error
    if about.st_size > most_bytes:
        raise FileError(
            f"files of at most {most_bytes} bytes in a Zarr, as its chunks are declared",
            f"{about.st_size} bytes in {os.fspath(path)!r}",
            "write the Zarr again, because it is damaged or manipulated",
        )

"""The files of a Zarr group in one zip file: written in one piece, read by name, every content with its checksum.

Chunks are compressed already, so the entries are stored as they are. `zarr.storage.ZipStore` reads the same file.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZIP_STORED, ZipFile, ZipInfo

from pairframe.results.arrays import METADATA

CHECKSUM = "files_sha256"  # attribute of the group: see `_checksum`


def archive_bytes(files: Mapping[str, bytes], metadata: Callable[[str], str]) -> bytes:
    """A zip file of `files` and, as ``zarr.json``, ``metadata(checksum)`` with the checksum of all the others."""
    stream = io.BytesIO()
    with ZipFile(stream, "w", ZIP_STORED) as archive:
        for name, content in files.items():
            archive.writestr(ZipInfo(name), content)
        archive.writestr(ZipInfo(METADATA), metadata(_checksum(archive.infolist())))
    return stream.getvalue()


@dataclass(frozen=True)
class GroupFiles:
    """The open files of a group.

    Attributes
    ----------
    read : callable
        Name to content; an error if the file is missing or its content changed.
    checksum : str or None
        Of all files but ``zarr.json``, which holds it as attribute `CHECKSUM`; None for a group that is a folder.
    """

    read: Callable[[str], bytes]
    checksum: str | None


@contextmanager
def open_files(path: Path) -> Iterator[GroupFiles]:
    """The files of a group: a zip file, or a folder as schema versions 3 and 4 wrote it."""
    if path.is_dir():
        yield GroupFiles(lambda name: (path / name).read_bytes(), None)
        return
    with ZipFile(path) as archive:
        entries = archive.infolist()
        if any(entry.compress_type != ZIP_STORED for entry in entries):
            raise ValueError("compressed entries, which pairframe does not write")
        yield GroupFiles(archive.read, _checksum(entries))


def _checksum(entries: Iterable[ZipInfo]) -> str:
    """Ties every content to its name: the zip file has a CRC-32 of each, which is compared when it is read."""
    listed = sorted((entry.filename, entry.file_size, entry.CRC) for entry in entries if entry.filename != METADATA)
    return hashlib.sha256(repr(listed).encode()).hexdigest()

"""Writing files so that a crash at any moment leaves the old content or the new one: temporary names, fsync, rename."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from pairframe import system
from pairframe.errors import PairframeError

TEMPORARY = ".tmp-"
_FLUSHED_ONE_BY_ONE = 4
# Opening a pipe does not wait for its other end; Windows knows neither flag but O_BINARY.
_AT_ONCE = sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))


def checked_path(path: str | os.PathLike[str], error: type[PairframeError]) -> Path:
    """The path; an error if it holds a character that no file name of this system can have."""
    try:
        possible = b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        possible = False
    if not possible:
        raise error(
            "a path that the system allows",
            ascii(os.fspath(path))[:80],
            "remove the characters written with a backslash",
        )
    return Path(path)


def open_regular(path: str | os.PathLike[str]) -> IO[bytes]:
    """Open a file for reading. Anything but a regular file is an OSError: a pipe could block, a device may never end."""
    handle = os.open(path, os.O_RDONLY | _AT_ONCE)
    try:
        require_regular(os.fstat(handle).st_mode, path)
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def require_regular(mode: int, path: str | os.PathLike[str]) -> None:
    """Raise OSError unless the `st_mode` of `path`, links followed, is that of a regular file."""
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "not a regular file, but a pipe, socket or device", os.fspath(path))


@contextmanager
def new_file(path: Path, *, flush: bool = True) -> Iterator[IO[bytes]]:
    """A stream whose content appears at `path` in one step at the end of the block, or not at all after an error.

    Parameters
    ----------
    flush : bool
        Wait until the content is on the disk. Without it a power failure may leave an empty file.
    """
    beside = path.with_name(f"{TEMPORARY}{uuid.uuid4().hex}")
    try:
        with beside.open("xb") as stream:
            system.lock(stream.fileno())  # in use: see remove_dead_temporaries
            yield stream
            stream.flush()
            if flush:
                os.fsync(stream.fileno())
            if system.IS_UNIX:
                beside.replace(path)  # still locked
        if not system.IS_UNIX:
            beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    if flush:
        system.flush_to_disk(path.parent)


def replace_file(path: Path, content: bytes, *, flush: bool = True) -> None:
    """Put `content` at `path` in one step; see `new_file`."""
    with new_file(path, flush=flush) as stream:
        stream.write(content)


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """A temporary folder in `out`, locked while it is filled and removed at the end unless it was renamed."""
    folder = out / f"{TEMPORARY}{uuid.uuid4().hex}"
    lock = _lock_of(folder)
    handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        system.lock(handle)
        folder.mkdir()
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        system.close_and_remove(handle, lock)


def remove_dead_temporaries(out: Path, before_s: float) -> None:
    """Remove the leftovers of crashed writers: temporary names older than `before_s` (Unix time) that no process has locked."""
    for path in out.glob(f"{TEMPORARY}*"):
        with suppress(OSError):  # removed by another process, or not ours to remove
            if path.lstat().st_mtime >= before_s or path.is_symlink():
                continue
            if path.is_dir():
                with suppress(FileNotFoundError):
                    _remove_unlocked(_lock_of(path))
                shutil.rmtree(path, ignore_errors=True)
            else:
                _remove_unlocked(path)


def _lock_of(folder: Path) -> Path:
    """The file that is locked while a temporary folder is in use; not every system can lock a folder."""
    return folder.with_name(f"{folder.name}.lock")


def _remove_unlocked(path: Path) -> None:
    """Remove a file; BlockingIOError if a process has locked it."""
    handle = os.open(path, os.O_RDWR | _AT_ONCE)
    try:
        system.lock(handle)
    except BaseException:
        os.close(handle)
        raise
    system.close_and_remove(handle, path)


def fill_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files (``name`` or ``subfolder/name``) into a folder, without waiting for the disk: see `flush_all`."""
    for subfolder in {name.rpartition("/")[0] for name in files} - {""}:
        (folder / subfolder).mkdir()
    root = os.fspath(folder)
    for name, content in files.items():
        with open(f"{root}/{name}", "xb", buffering=0) as stream:  # noqa: PTH123  (pathlib is slower)
            _write_whole(stream, content)


def flush_all(paths: Collection[Path]) -> None:
    """Wait until files, and folders with everything in them, are on the disk."""
    if len(paths) > _FLUSHED_ONE_BY_ONE and system.flush_everything():  # for thousands of files this is faster
        return
    for path in paths:
        for inner, _, names in os.walk(path):
            for name in names:
                system.flush_to_disk(Path(inner, name))
            system.flush_to_disk(Path(inner))
        if not path.is_dir():
            system.flush_to_disk(path)


def _write_whole(stream: IO[bytes], content: bytes) -> None:
    """Write all of it: a single call may write less, when the disk is nearly full."""
    rest = memoryview(content)
    while rest:
        rest = rest[stream.write(rest) :]

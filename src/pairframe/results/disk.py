"""Writing so that a crash at any moment leaves the old content or the new one: temporary names, fsync, rename, a lock."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import time
import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from pairframe.errors import BrokenStoreError, StoreLockedError, StoreWriteError

TEMPORARY = ".tmp-"
LOCK = ".lock"
_GROUP = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,39}-[0-9a-f]{8}")
_POLL_S = 0.02
_FLUSHED_ONE_BY_ONE = 4


# --- names -----------------------------------------------------------------------------------


def safe_prefix(pair_id: str) -> str:
    """What of a pair's name may be in a file name: ASCII letters, digits, ``-`` and ``_``, at most 40 of them."""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", pair_id).lstrip("-")[:40] or "pair"


def new_group_name(pair_id: str) -> str:
    """A name for the maps of a pair that no other has."""
    return f"{safe_prefix(pair_id)}-{uuid.uuid4().hex[:8]}"


def is_group_name(name: object) -> bool:
    """Whether `name` has the form of `new_group_name`, and so cannot lead anywhere else."""
    return isinstance(name, str) and _GROUP.fullmatch(name) is not None


def group_folder(maps: Path, name: str) -> Path:
    """The folder of a group, which the table names: a direct child of `maps` or nothing."""
    folder = maps / name if is_group_name(name) else None
    if folder is None or folder.is_symlink():
        raise BrokenStoreError(
            "the name of a group directly below maps.zarr",
            ascii(name)[:80],
            "the table was changed by something else: run the comparison again",
        )
    return folder


# --- writing ---------------------------------------------------------------------------------


@contextmanager
def write_errors(out: Path) -> Iterator[None]:
    """What the system refuses becomes an error that says so."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        full = error.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)
        raise StoreWriteError(
            "a folder to write results to",
            f"{str(out)!r}, where it fails with: {reason}",
            "free some space, or choose another folder"
            if full
            else "choose another folder, or change the permissions of this one",
        ) from error


def flush_to_disk(path: Path) -> None:
    """fsync a file, or the list of names in a folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def fill_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files (``name`` or ``subfolder/name``) into a folder; `flush_folders` takes them down to the disk."""
    for subfolder in {name.rpartition("/")[0] for name in files} - {""}:
        (folder / subfolder).mkdir()
    root = os.fspath(folder)
    for name, content in files.items():
        with open(f"{root}/{name}", "xb", buffering=0) as stream:  # noqa: PTH123  (thirty files per pair: the short way)
            _write_whole(stream, content)


def flush_folders(folders: Collection[Path]) -> None:
    """Wait until the folders and all that is in them are on the disk."""
    if len(folders) > _FLUSHED_ONE_BY_ONE:  # thousands of files: the system is quicker with all it has
        os.sync()
        return
    for folder in folders:
        for inner, _, names in os.walk(folder):
            for name in names:
                flush_to_disk(Path(inner, name))
            flush_to_disk(Path(inner))


def _write_whole(stream: IO[bytes], content: bytes) -> None:
    """All of it: a single call may write less, at the end of a full disk."""
    rest = memoryview(content)
    while rest:
        rest = rest[stream.write(rest) :]


def _write_to_disk(stream: IO[bytes], content: bytes) -> None:
    stream.write(content)
    stream.flush()
    os.fsync(stream.fileno())


def replace_file(path: Path, content: bytes) -> None:
    """Put `content` at `path` in one step."""
    beside = path.with_name(f"{TEMPORARY}{uuid.uuid4().hex}")
    try:
        with beside.open("xb") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)  # alive: see remove_dead_temporaries
            _write_to_disk(stream, content)
            beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    flush_to_disk(path.parent)


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """A temporary folder in `out`, held while it is being filled; gone at the end unless it was renamed."""
    folder = out / f"{TEMPORARY}{uuid.uuid4().hex}"
    folder.mkdir()
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)


def remove_dead_temporaries(out: Path, before_s: float) -> None:
    """Remove what crashed writers left: temporary names older than `before_s` (Unix time) that nobody holds."""
    for path in out.glob(f"{TEMPORARY}*"):
        with suppress(OSError):  # gone meanwhile, or not ours to remove: then it stays
            if path.lstat().st_mtime >= before_s or path.is_symlink():
                continue
            handle = os.open(path, os.O_RDONLY)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink()
            finally:
                os.close(handle)


# --- the lock --------------------------------------------------------------------------------


@contextmanager
def writer_lock(out: Path, wait_s: float) -> Iterator[None]:
    """Hold the right to replace the table; the system lets go of it when the process dies."""
    give_up_at = time.monotonic() + wait_s
    while True:
        with write_errors(out):
            handle = os.open(out / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            with write_errors(out):
                _wait_for_lock(handle, out, wait_s, give_up_at)
            if _is_file_at(handle, out / LOCK):  # whoever gave up its folder has removed the file that we waited for
                yield
                return
        finally:
            os.close(handle)


def _is_file_at(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _wait_for_lock(handle: int, out: Path, wait_s: float, give_up_at: float) -> None:
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError as error:
            if time.monotonic() >= give_up_at:
                raise StoreLockedError(
                    f"nobody else writing to {str(out)!r}",
                    f"another writer that still holds its lock after {wait_s:g} s",
                    "wait for the other process, or write to another folder",
                ) from error
        time.sleep(_POLL_S)

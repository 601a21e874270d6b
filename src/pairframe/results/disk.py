"""The names of groups in a store, its write errors and its lock. Files themselves are written by `pairframe.files`."""

from __future__ import annotations

import errno
import os
import re
import stat
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pairframe import system
from pairframe.errors import BrokenStoreError, StoreLockedError, StoreWriteError

LOCK = ".lock"
ZIP = ".zarr.zip"
_GROUP = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,39}-[0-9a-f]{8}")
_POLL_S = 0.02


# --- names -----------------------------------------------------------------------------------


def safe_prefix(pair_id: str) -> str:
    """A pair's name as part of a file name: ASCII letters, digits, ``-`` and ``_``, at most 40 characters."""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", pair_id).lstrip("-")[:40] or "pair"


def new_group_name(pair_id: str) -> str:
    """A unique name for the maps of a pair."""
    return f"{safe_prefix(pair_id)}-{uuid.uuid4().hex[:8]}"


def is_group_name(name: object) -> bool:
    """Whether `name` has the form of `new_group_name`, and so cannot point outside the store."""
    return isinstance(name, str) and _GROUP.fullmatch(name) is not None


def group_file(maps: Path, name: str) -> Path:
    """The zip file of a group that is written now."""
    return maps / f"{name}{ZIP}"


def group_path(maps: Path, name: str) -> Path:
    """Where a group is that the table names: a zip file directly below `maps`, or a folder of an earlier version."""
    if is_group_name(name):
        for path in (group_file(maps, name), maps / name):
            kind = _kind(path)
            if kind == stat.S_IFREG or (kind == stat.S_IFDIR and path.name == name):
                return path
            if kind is not None:
                break
        else:
            return group_file(maps, name)  # reading it says that it is missing
    raise BrokenStoreError(
        "the name of a group directly below maps.zarr",
        ascii(name)[:80],
        "another program changed the store; run the comparison again",
    )


def group_of_entry(name: str) -> str | None:
    """The group of a file or folder in ``maps.zarr``; None if it has none."""
    group = name.removesuffix(ZIP)
    return group if is_group_name(group) else None


def _kind(path: Path) -> int | None:
    """Of a file system entry itself, links not followed; None if there is none."""
    try:
        return stat.S_IFMT(path.lstat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return None


# --- writing ---------------------------------------------------------------------------------


@contextmanager
def write_errors(out: Path) -> Iterator[None]:
    """Turn errors of the file system into `StoreWriteError`."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        full = error.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)
        raise StoreWriteError(
            "a folder to write results to",
            f"{str(out)!r}, which fails with: {reason}",
            "free some space, or choose another folder"
            if full
            else "choose another folder, or change the permissions of this one",
        ) from error


# --- the lock --------------------------------------------------------------------------------


@contextmanager
def writer_lock(out: Path, wait_s: float) -> Iterator[None]:
    """Hold the lock for replacing the table; the system releases it when the process dies."""
    give_up_at = time.monotonic() + wait_s
    while True:
        with write_errors(out):
            handle = os.open(out / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            with write_errors(out):
                _wait_for_lock(handle, out, wait_s, give_up_at)
            if _is_file_at(handle, out / LOCK):  # another writer may have removed the lock file that we waited for
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
            system.lock(handle)
            return
        except BlockingIOError as error:
            if time.monotonic() >= give_up_at:
                raise StoreLockedError(
                    f"no other writer of {str(out)!r}",
                    f"one that still held its lock after {wait_s:g} s",
                    "wait for the other process, or write to another folder",
                ) from error
        time.sleep(_POLL_S)

"""What differs between operating systems: file locks, open files, flushing, interrupts and memory.

Unix has `fcntl` and `resource`; Windows has neither. There files cannot be renamed or removed while they are open, and
folders cannot be opened. Locks belong to an open file, so the system releases those of a process that dies.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any


def _module(name: str) -> Any:
    """A module of the standard library, or None where the system has none."""
    try:
        return import_module(name)
    except ImportError:
        return None


_fcntl, _msvcrt, _resource = _module("fcntl"), _module("msvcrt"), _module("resource")
IS_UNIX = _fcntl is not None  # open files may be renamed and removed, folders opened
_LOCKED_BYTE = 2**30  # on Windows: beyond the content, because no other process can read the bytes that are locked
_LOCK_IS_HELD = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)


# --- files -----------------------------------------------------------------------------------


def lock(handle: int) -> None:
    """Lock an open file for this process, until it is closed; BlockingIOError if another one has locked it."""
    if _fcntl is not None:
        _fcntl.flock(handle, _fcntl.LOCK_EX | _fcntl.LOCK_NB)
        return
    place = os.lseek(handle, 0, os.SEEK_CUR)
    try:
        os.lseek(handle, _LOCKED_BYTE, os.SEEK_SET)
        _msvcrt.locking(handle, _msvcrt.LK_NBLCK, 1)
    except OSError as error:
        if error.errno in _LOCK_IS_HELD:
            raise BlockingIOError(errno.EAGAIN, "another process has locked it") from error
        raise
    finally:
        os.lseek(handle, place, os.SEEK_SET)


def close_and_remove(handle: int, path: Path) -> None:
    """Close a locked file and remove it; on Unix in the other order, so that no process locks a file that is about to go.

    Windows removes no open file, and so none that another process has locked in the meantime.
    """
    try:
        if IS_UNIX:
            path.unlink(missing_ok=True)
    finally:
        os.close(handle)
    if not IS_UNIX:
        with suppress(OSError):
            path.unlink()


def flush_to_disk(path: Path) -> None:
    """Wait until a file, or the list of names in a folder, is on the disk. Windows keeps such lists itself."""
    if not IS_UNIX and path.is_dir():
        return
    handle = os.open(path, os.O_RDONLY if IS_UNIX else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def flush_everything() -> bool:
    """Wait until all files of this machine are on the disk; False where the system cannot do that."""
    if not hasattr(os, "sync"):
        return False
    os.sync()
    return True


# --- processes -------------------------------------------------------------------------------


@contextmanager
def blocked_interrupts() -> Iterator[None]:
    """Ctrl-C reaches neither this thread nor the processes that it starts; the latter only on Unix."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # first, because starting it would unblock the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# --- memory ----------------------------------------------------------------------------------


class _MemoryStatus(ctypes.Structure):
    """MEMORYSTATUSEX of Windows."""

    _fields_ = (
        ("length", ctypes.c_uint32),
        ("load", ctypes.c_uint32),
        *(
            (name, ctypes.c_uint64)
            for name in ("total", "free", "page", "free_page", "virtual", "free_virtual", "more")
        ),
    )


def physical_memory_bytes() -> int | None:
    """The memory of this machine; None if the system does not say."""
    if hasattr(os, "sysconf"):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    windows: Any = getattr(ctypes, "windll", None)
    status = _MemoryStatus(length=ctypes.sizeof(_MemoryStatus))
    if windows is None or not windows.kernel32.GlobalMemoryStatusEx(ctypes.byref(status)):
        return None
    return int(status.total)


def peak_memory_bytes() -> float | None:
    """The most memory that this process has used; None if the system does not say."""
    if _resource is None:
        return None
    unit = 1 if os.uname().sysname == "Darwin" else 1024
    return float(_resource.getrusage(_resource.RUSAGE_SELF).ru_maxrss * unit)

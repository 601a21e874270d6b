"""Make this process, and those it starts, like one on Windows in all that `pairframe.system` is about.

Python runs this file first if its folder is on ``PYTHONPATH``. `fcntl` and `resource` cannot be imported; open files cannot be
renamed or removed, folders not opened; `msvcrt` has file locks that no other process can read through. It is a stand-in, not
Windows: paths, processes and libraries are those of this system.
"""

import builtins
import errno
import os
import shutil
import signal
import stat
import subprocess  # noqa: F401  (before the stand-in: it would take it for Windows)
import sys
import threading
import types

_lockf, _open, _fstat = os.lockf, os.open, os.fstat
_locked: dict[tuple[int, int], int] = {}  # file to the handle that has locked it in this process
_one_at_a_time = threading.Lock()  # Windows itself lets one handle lock a file, whichever thread asks


def _locking(handle: int, mode: int, n_bytes: int) -> None:
    """Lock from the present position. Locks of `lockf` are per process; Windows has them per handle."""
    about = _fstat(handle)
    file = (about.st_dev, about.st_ino)
    with _one_at_a_time:
        holder = _locked.get(file)
        if holder not in (None, handle) and _is_open(holder, file):
            raise PermissionError(errno.EACCES, "locked by this process")
        try:
            _lockf(handle, os.F_TLOCK, n_bytes)
        except OSError as error:
            raise PermissionError(errno.EACCES, "locked by another process") from error
        _locked[file] = handle


def _is_open(handle: int, file: tuple[int, int]) -> bool:
    try:
        about = _fstat(handle)
    except OSError:
        return False
    return (about.st_dev, about.st_ino) == file


def _refuse_open_files(name: str) -> None:
    """Let a function of `os` fail for a file that this process has open, as Windows does."""
    function = getattr(os, name)

    def checked(path, *args, **options):
        try:
            about = os.lstat(path)
        except (OSError, TypeError):
            about = None
        if about is not None and stat.S_ISREG(about.st_mode):
            for handle in os.listdir("/proc/self/fd"):  # noqa: PTH208
                if _is_open(int(handle), (about.st_dev, about.st_ino)):
                    raise PermissionError(errno.EACCES, "used by another process", os.fspath(path))
        return function(path, *args, **options)

    setattr(os, name, checked)


def _open_no_folder(path, flags, *args, **options):
    if isinstance(path, str | bytes | os.PathLike) and os.path.isdir(path) and not flags & os.O_DIRECTORY:  # noqa: PTH112
        raise PermissionError(errno.EACCES, "Permission denied", os.fspath(path))
    return _open(path, flags, *args, **options)


for name in ("fcntl", "resource"):
    sys.modules[name] = None
sys.modules["msvcrt"] = types.ModuleType("msvcrt")
sys.modules["msvcrt"].__dict__.update(locking=_locking, LK_NBLCK=2)
for name in ("unlink", "remove", "rename", "replace"):
    _refuse_open_files(name)
os.open = _open_no_folder
for name in ("sysconf", "sync", "pwrite", "O_NONBLOCK", "O_CLOEXEC", "geteuid", "sched_getaffinity"):
    delattr(os, name)
del signal.pthread_sigmask
shutil._use_fd_functions = False  # as on Windows
builtins.LIKE_WINDOWS = True

"""`compiled`: numba's compiler, which keeps the machine code on disk in a folder that this process may write to."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from numba import njit
from numba.core import config

Function = Callable[..., Any]
_settings: Any = config


def compiled(**options: Any) -> Callable[[Function], Any]:
    """Compile a function on its first call, with these options of `numba.njit`.

    Numba keeps the code beside the package or in the user's home. Containers often make both read-only: then the
    temporary folder holds it, and if that is not safe to use, every process compiles for itself.
    """

    def compile_function(function: Function) -> Any:
        try:
            return njit(cache=True, **options)(function)
        except RuntimeError:  # numba found no folder to write to
            pass
        folder = _temporary_cache()
        if folder is None:
            return njit(**options)(function)
        with _cache_folder(folder):
            return njit(cache=True, **options)(function)

    return compile_function


@cache
def _temporary_cache() -> Path | None:
    """A folder that only this user can write to, since numba runs what it finds there; None if there is none."""
    if not hasattr(os, "geteuid"):  # on Windows the rights of a folder are not in its mode
        return None
    try:
        folder = Path(tempfile.gettempdir()) / f"pairframe-compiled-{os.geteuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return None
    is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077
    return folder if is_ours and os.access(folder, os.W_OK | os.X_OK) else None


@contextmanager
def _cache_folder(folder: Path) -> Iterator[None]:
    """Numba decides on the folder of a function when it is decorated; other packages keep theirs."""
    before = _settings.CACHE_DIR
    _settings.CACHE_DIR = str(folder)
    try:
        yield
    finally:
        _settings.CACHE_DIR = before

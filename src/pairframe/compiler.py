"""`compiled`: numba's compiler, which keeps the machine code on disk in a folder that this process may write to.

Code is compiled once on a machine; `CompileNotice` explains the wait.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from numba import njit
from numba.core import config
from numba.core.event import Event, Listener

Function = Callable[..., Any]
_settings: Any = config


def compiled(**options: Any) -> Callable[[Function], Any]:
    """Compile a function on its first call, with these options of `numba.njit`.

    Numba keeps the code beside the package or in the user's home. Containers often make both read-only: then the
    temporary folder holds it, and if that is not safe to use, every process compiles for itself.

    Division by zero gives inf or NaN, as in numpy. An error would need a check, and a loop with a check is no vector code.
    """
    options = {"error_model": "numpy"} | options

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


class CompileNotice(Listener):
    """Prints a line when numba starts to compile; loading code from disk is no such event.

    Use it as ``install_listener("numba:compile", notice)``.

    Parameters
    ----------
    what : str
        What is compiled, such as ``"the grid engine"``.
    numbers : str
        For which numbers, such as ``" for float64 numbers"``; may be empty.
    seconds : int
        About how long it takes.
    modules : str
        Name of the module whose functions are meant, or of their package with a dot at the end.
    is_quiet : bool
        Print nothing.
    """

    def __init__(self, what: str, numbers: str, seconds: int, modules: str, *, is_quiet: bool) -> None:
        self._words = (what, numbers, seconds)
        self._modules = modules
        self._is_printed = is_quiet

    def on_start(self, event: Event) -> None:
        """Print it once. Other threads may compile other functions meanwhile."""
        dispatcher = event.data["dispatcher"]
        module = dispatcher.py_func.__module__
        is_meant = module.startswith(self._modules) if self._modules.endswith(".") else module == self._modules
        if not is_meant or self._is_printed:
            return
        self._is_printed = True
        what, numbers, seconds = self._words
        line = f"compiling {what}, once on this machine{numbers}: about {seconds} s now, kept for next time"
        if not dispatcher.stats.cache_path:
            line = (
                f"compiling {what}{numbers}: about {seconds} s in every new process, because no folder to keep it in is "
                "writable. To fix: set NUMBA_CACHE_DIR to one"
            )
        print(f"pairframe: {line}", file=sys.stderr, flush=True)

    def on_end(self, event: Event) -> None:
        """Nothing is printed at the end."""


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

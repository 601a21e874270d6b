"""The mark of a run in its folder: it keeps a second run out, and workers read from it whether to go on."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from types import TracebackType

from pairframe import files, system
from pairframe.errors import StoreLockedError
from pairframe.results import disk

NAME = f"{files.TEMPORARY}run"  # that of a dead run is removed like other temporary files


class RunMark:
    """Locked while a run goes on; workers read it between two pairs. The system releases it when the process dies.

    Attributes
    ----------
    token : str
        Its content while the run goes on.
    """

    def __init__(self, out: Path) -> None:
        self.token = uuid.uuid4().hex
        self._path = out / NAME
        self._handle = -1

    def __enter__(self) -> RunMark:
        with disk.write_errors(self._path.parent):
            self._handle = self._locked()
            self._write(self.token)
        return self

    def _locked(self) -> int:
        while True:
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                system.lock(handle)
                if self._path.exists() and os.fstat(handle).st_ino == self._path.stat().st_ino:
                    return handle
            except BlockingIOError as error:
                os.close(handle)
                raise StoreLockedError(
                    f"one run at a time in {str(self._path.parent)!r}",
                    "another run that is still going on",
                    "wait for it, stop it with Ctrl-C, or choose another folder",
                ) from error
            os.close(handle)  # its owner has removed it in the meantime

    def _write(self, text: str) -> None:
        os.ftruncate(self._handle, 0)
        os.lseek(self._handle, 0, os.SEEK_SET)
        os.write(self._handle, text.encode())
        os.fsync(self._handle)  # without it, other machines may see it much later

    def stop(self) -> None:
        """Ask workers to stop after the pair they are comparing."""
        self._write("stop")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        system.close_and_remove(self._handle, self._path)


def is_going_on(out: Path, token: str) -> bool:
    """Whether the run with this `token` goes on."""
    try:
        return (out / NAME).read_text() == token
    except OSError:
        return False

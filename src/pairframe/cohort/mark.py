"""The mark of a run in its folder: keeps a second run out, and tells workers anywhere whether to go on."""

from __future__ import annotations

import fcntl
import os
import uuid
from pathlib import Path
from types import TracebackType

from pairframe.errors import StoreLockedError
from pairframe.results import disk

NAME = f"{disk.TEMPORARY}run"  # a dead one is removed like everything temporary


class RunMark:
    """Held while a run goes on; workers read it between two pairs. The system lets go of it when the process dies.

    Attributes
    ----------
    token : str
        What the workers of this run find in it.
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
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if self._path.exists() and os.fstat(handle).st_ino == self._path.stat().st_ino:
                    return handle
            except BlockingIOError as error:
                os.close(handle)
                raise StoreLockedError(
                    f"nobody else running a cohort into {str(self._path.parent)!r}",
                    "another run that is still going on",
                    "wait for it, stop it with Ctrl-C, or choose another folder",
                ) from error
            os.close(handle)  # its owner removed it meanwhile

    def _write(self, text: str) -> None:
        os.ftruncate(self._handle, 0)
        os.pwrite(self._handle, text.encode(), 0)
        os.fsync(self._handle)  # or other machines see it when the network file system pleases

    def stop(self) -> None:
        """Workers finish the pair they are at."""
        self._write("stop")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._path.unlink(missing_ok=True)
        os.close(self._handle)


def is_going_on(out: Path, token: str) -> bool:
    """Whether the run that gave out `token` wants more."""
    try:
        return (out / NAME).read_text() == token
    except OSError:
        return False

"""The state of an alignment in its folder: poses that are found and masks that are written, so that it can be resumed."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from pairframe import files, plain_json
from pairframe.cohort.align.tasks import MASKS, STRUCTURES
from pairframe.cohort.inputs.sources import ALIGN_STATE, ALIGNED_MANIFEST
from pairframe.errors import StoreError
from pairframe.results import disk

REFERENCE, SHEET, PAGE = "reference.tif", "contact_sheet.png", "contact_sheet.html"
OUR_NAMES = frozenset({ALIGN_STATE, ALIGNED_MANIFEST, MASKS, STRUCTURES, REFERENCE, SHEET, PAGE})
_VERSION = 1
_SAVE_EVERY_S = 5.0


class AlignState:
    """Poses and written masks by id, kept in ``align.json``.

    Attributes
    ----------
    poses : dict
        By mask id: ``key``, a hash of all that the pose depends on, and the row of the worker.
    placed : dict
        By mask id: a hash of the pose and canvas of the file that was written.
    about : dict
        The reference, and what else a reader of the folder wants to know.
    """

    def __init__(self, out: Path) -> None:
        self.out = out
        self.poses: dict[str, dict[str, Any]] = {}
        self.placed: dict[str, str] = {}
        self.about: dict[str, Any] = {}
        self._saved_at = time.monotonic()

    @classmethod
    def read(cls, out: Path) -> AlignState:
        """The state of a folder; an empty one if there is none. Nothing is written."""
        state = cls(out)
        values = read_state(out)
        if values is not None:
            state.poses, state.placed, state.about = values["poses"], values["placed"], values["about"]
        return state

    def create(self, *, overwrite: bool = False) -> None:
        """Create the folder. One that holds other files is refused unless `overwrite` is true; they stay."""
        with disk.write_errors(self.out):
            self.out.mkdir(parents=True, exist_ok=True)
            found = {path.name for path in self.out.iterdir() if not path.name.startswith(files.TEMPORARY)}
            foreign = sorted(found - OUR_NAMES)
            if foreign and ALIGN_STATE not in found and not overwrite:
                raise StoreError(
                    "an empty folder, or one with aligned masks",
                    f"{str(self.out)!r}, which holds {ascii(foreign[0])[:80]}",
                    "choose another folder, or use overwrite to add the masks to this one",
                )
            (self.out / MASKS).mkdir(exist_ok=True)

    def save_when_due(self) -> None:
        """Write the state if the last time is long enough ago."""
        if time.monotonic() - self._saved_at > _SAVE_EVERY_S:
            self.save()

    def save(self) -> None:
        """Write the state, in one step."""
        values = {"version": _VERSION, "about": self.about, "poses": self.poses, "placed": self.placed}
        with disk.write_errors(self.out):
            files.replace_file(self.out / ALIGN_STATE, json.dumps(plain_json.plain(values), allow_nan=False).encode())
        self._saved_at = time.monotonic()


def read_state(out: str | os.PathLike[str]) -> dict[str, Any] | None:
    """The state of a folder of aligned masks; None if there is none that can be read."""
    try:
        with files.open_regular(Path(out) / ALIGN_STATE) as stream:
            values = plain_json.parse(stream.read())
        if values["version"] != _VERSION or not all(isinstance(values[k], dict) for k in ("about", "poses", "placed")):
            return None
        return dict(values)
    except (OSError, ValueError, LookupError, TypeError):
        return None

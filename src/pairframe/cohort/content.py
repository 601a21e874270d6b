"""What a comparison depends on, as one key: the content of both masks, the config, the engine, the version."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections import OrderedDict
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

from pairframe._version import __version__
from pairframe.cohort.tasks import MaskRef, PairTask
from pairframe.errors import InputError
from pairframe.masks import parse_spec
from pairframe.problem import TransportConfig

MISSING, NO_FILE = "missing", "neither a file nor a folder"
_KEY_VERSION = 2
_ENTRIES = 65_536
_BLOCK = 1 << 20

_Signature = tuple[tuple[str, int, int, int], ...]  # relative name, bytes, time of change, inode of every file


class Digests:
    """sha256 of files and of folders (Zarr); each is read once as long as it stays the same."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[_Signature, str]] = OrderedDict()
        self._lock = Lock()

    def of(self, path: Path) -> str:
        """The digest, or ``missing``. What cannot be read raises `OSError`, also where only a part of a folder is missing."""
        try:
            about = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return MISSING
        if not (stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode)):
            return NO_FILE  # reading a pipe would wait for ever
        signature = _signature(path)
        name = str(path)
        with self._lock:
            known = self._known.get(name)
        if known is not None and known[0] == signature:
            return known[1]
        digest = _digest(path, signature)
        with self._lock:
            self._known[name] = (signature, digest)
            while len(self._known) > _ENTRIES:
                self._known.popitem(last=False)
        return digest


def work_key(task: PairTask, config: TransportConfig, digests: Digests) -> str | None:
    """The key of a comparison; None when a file cannot be read just now."""
    try:
        sides = [side_content(mask, digests) for mask in (task.source, task.target)]
    except OSError:
        return None
    content = [_KEY_VERSION, __version__, _settings(config, config.lengths_in_px), sides]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@lru_cache(maxsize=8)
def _settings(config: TransportConfig, _in_px: bool) -> dict[str, Any]:
    """What may change the answer. A pixel of 1 um and one of unknown size make equal configs, hence the second argument."""
    return {name: value for name, value in json.loads(config.to_json()).items() if name != "debug"}


def is_reachable(task: PairTask) -> bool:
    """Whether the files of both masks are there and the system lets us see them."""
    for mask in (task.source, task.target):
        try:
            path = parse_spec(mask.spec).path
        except InputError:  # it never was
            continue
        if not os.access(path, os.R_OK):  # also when it is not there
            return False
    return True


def side_content(mask: MaskRef, digests: Digests) -> tuple[str | int | float | None, ...]:
    """Which pixels: the file's content, what is chosen of it, and how large a pixel is; not where the file lies."""
    try:
        spec = parse_spec(mask.spec)
    except InputError:  # a page or label that cannot be: reading it will say so
        return (mask.spec,)
    return (digests.of(spec.path), spec.path.suffix.lower(), spec.inner, spec.page, spec.label, mask.px_size_um)


def _signature(path: Path) -> _Signature:
    if not path.is_dir():
        about = path.stat()
        return (("", about.st_size, about.st_mtime_ns, about.st_ino),)
    found = []
    for folder, folders, files in os.walk(path, onerror=_raise, followlinks=True):
        folders.sort()
        for name in sorted(files):
            file = Path(folder) / name
            about = file.stat()
            found.append((str(file.relative_to(path)), about.st_size, about.st_mtime_ns, about.st_ino))
    return tuple(found)


def _raise(error: OSError) -> None:
    raise error


def _digest(path: Path, signature: _Signature) -> str:
    whole = hashlib.sha256()
    for name, size, _, _ in signature:
        # Name and length first, so that no two folders run together to the same bytes.
        whole.update(json.dumps([name, size]).encode())
        with (path / name if name else path).open("rb") as stream:
            while block := stream.read(_BLOCK):
                whole.update(block)
    return whole.hexdigest()

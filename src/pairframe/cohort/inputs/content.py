"""`work_key`: a hash of all that a comparison depends on, i.e. the content of both masks, the config and the version."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections import OrderedDict
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

from pairframe import files
from pairframe._version import __version__
from pairframe.cohort.inputs.tasks import FileDigest, MaskRef, PairTask
from pairframe.errors import InputError
from pairframe.masks import parse_spec
from pairframe.problem import TransportConfig
from pairframe.units import PxSize

MISSING, NO_FILE = "missing", "neither a file nor a folder"
_KEY_VERSION = 2
_ENTRIES = 65_536
_BLOCK = 1 << 20

_Signature = tuple[tuple[str, int, int, int], ...]  # relative name, bytes, time of change, inode of every file


class Digests:
    """sha256 of files and of folders (Zarr); each is read once as long as it stays the same."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, FileDigest] = OrderedDict()
        self._lock = Lock()

    def of(self, path: Path, known: FileDigest | None = None) -> str:
        """The digest, or ``missing``. Raises `OSError` if the file, or a part of the folder, cannot be read.

        Parameters
        ----------
        known : FileDigest, optional
            From another process; used if the file has not changed since.
        """
        try:
            about = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return MISSING
        if not (stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode)):
            return NO_FILE  # reading a pipe could block
        signature = _signature(path)
        state = hashlib.sha256(json.dumps(signature).encode()).hexdigest()
        for earlier in (self.known(path), known):
            if earlier is not None and earlier.state == state:
                return earlier.sha256
        digest = FileDigest(state, _digest(path, signature))
        with self._lock:
            self._known[str(path)] = digest
            while len(self._known) > _ENTRIES:
                self._known.popitem(last=False)
        return digest.sha256

    def known(self, path: Path) -> FileDigest | None:
        """The digest of a file that was read before, without looking whether it has changed."""
        with self._lock:
            return self._known.get(str(path))


def with_digests(task: PairTask, digests: Digests) -> PairTask:
    """The task with the digests of its files that are known, so that a worker need not hash them again."""

    def with_digest(mask: MaskRef) -> MaskRef:
        if mask.rle is not None:
            return mask
        try:
            return replace(mask, digest=digests.known(parse_spec(mask.spec).path))
        except InputError:  # a name that is not valid: reading it raises the error
            return mask

    return replace(task, source=with_digest(task.source), target=with_digest(task.target))


def work_key(task: PairTask, config: TransportConfig, digests: Digests) -> str | None:
    """The key of a comparison; None if a file cannot be read now."""
    try:
        sides = [side_content(mask, digests) for mask in (task.source, task.target)]
    except OSError:
        return None
    content = [_KEY_VERSION, __version__, _settings(config), sides]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@lru_cache(maxsize=8)
def _settings(config: TransportConfig) -> dict[str, Any]:
    """The fields that may change the answer."""
    return {name: value for name, value in json.loads(config.to_json()).items() if name != "debug"}


def is_reachable(task: PairTask) -> bool:
    """Whether the files of both masks exist and may be read."""
    for mask in (task.source, task.target):
        if mask.rle is not None:
            continue
        try:
            path = parse_spec(mask.spec).path
        except InputError:  # a name that is not valid
            continue
        if not os.access(path, os.R_OK):  # also if it does not exist
            return False
    return True


def side_content(mask: MaskRef, digests: Digests) -> tuple[str | int | PxSize | None, ...]:
    """The content of a mask: the digest of its file, the page and label, and the pixel size; not the place of the file."""
    if mask.rle is not None:
        return "coco-rle", mask.rle.sha256, mask.px_size_um
    try:
        spec = parse_spec(mask.spec)
    except InputError:  # a name that is not valid: reading it raises the error
        return (mask.spec,)
    stated = (*(mask.shape_hw or ()), *(() if mask.volume is None else (f"volume={mask.volume}",)))
    return (
        digests.of(spec.path, mask.digest),
        spec.path.suffix.lower(),
        spec.inner,
        spec.page,
        spec.label,
        mask.px_size_um,
        *stated,
    )


def _signature(path: Path) -> _Signature:
    if not path.is_dir():
        about = path.stat()
        return (("", about.st_size, about.st_mtime_ns, about.st_ino),)
    found = []
    for folder, folders, names in os.walk(path, onerror=_raise, followlinks=True):
        folders.sort()
        for name in sorted(names):
            file = Path(folder) / name
            about = file.stat()
            found.append((str(file.relative_to(path)), about.st_size, about.st_mtime_ns, about.st_ino))
    return tuple(found)


def _raise(error: OSError) -> None:
    raise error


def _digest(path: Path, signature: _Signature) -> str:
    whole = hashlib.sha256()
    for name, size, _, _ in signature:
        # Name and length first, so that no two folders give the same bytes.
        whole.update(json.dumps([name, size]).encode())
        with files.open_regular(path / name if name else path) as stream:
            while block := stream.read(_BLOCK):
                whole.update(block)
    return whole.hexdigest()

"""Zip files of results, to look into and to damage."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from pairframe.results.disk import ZIP


def group_of(out: Path) -> Path:
    """The zip file of the only result."""
    (path,) = (out / "maps.zarr").glob(f"[!.]*{ZIP}")
    return path


def entries(path: Path) -> dict[str, bytes]:
    with ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rewrite(path: Path, files: dict[str, bytes]) -> None:
    """Put other files into a zip file, whose own checksums are right."""
    with ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)


def edit_metadata(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the metadata of a group, in a zip file whose own checksums are right."""
    files = entries(path)
    node = json.loads(files["zarr.json"])
    change(node)
    rewrite(path, {**files, "zarr.json": json.dumps(node).encode()})


def spoil(path: Path, name: str) -> None:
    """Change one byte of the content of an entry; everything else stays as it is."""
    with ZipFile(path) as archive:
        entry = archive.getinfo(name)
    whole = bytearray(path.read_bytes())
    header_bytes = 30 + len(name)  # before the content, as the zip format has it
    whole[entry.header_offset + header_bytes + entry.file_size // 2] ^= 1
    path.write_bytes(whole)

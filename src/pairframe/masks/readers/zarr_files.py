"""Zarr v2 and v3 arrays, and OME-Zarr (NGFF 0.4 and 0.5) images and labels."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pairframe.errors import MissingPageError, UnreadableFileError, UnsafeFileError
from pairframe.masks.readers.base import ImageSource, broken_file_is_our_error
from pairframe.masks.readers.units import size_yx_um

if TYPE_CHECKING:
    from zarr import Array, Group


@contextmanager
def open_zarr(path: Path, inner: str | None) -> Iterator[ImageSource]:
    """Open an array, or the finest level of an image or label image."""
    import zarr

    # Metadata is JSON of any shape; Blosc answers a damaged chunk with RuntimeError, SystemError or MemoryError.
    errors = (OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError, SystemError, MemoryError)
    with broken_file_is_our_error(path, "Zarr", *errors):
        if not path.is_dir():
            raise UnreadableFileError("a Zarr directory", f"a file, {str(path)!r}", "unpack it to a directory first")
        with warnings.catch_warnings():
            # Zarr warns about every file that is not its own, such as .DS_Store.
            warnings.simplefilter("ignore", UserWarning)
            array, px_size_yx_um = _find_array(zarr.open(path, mode="r"), path, inner)
        shape = tuple(array.shape)

        def read_page(page: int) -> NDArray[Any]:
            index = [int(i) for i in np.unravel_index(page, shape[:-2])] if shape[:-2] else []
            whole: list[int | slice] = [slice(None), slice(None)]
            return np.asarray(array[tuple(index + whole)])

        # A chunk is decoded as a whole, however little of it is needed.
        yield ImageSource(shape, np.dtype(array.dtype), read_page, px_size_yx_um, decoded_px=math.prod(array.chunks))


def _find_array(
    node: Array[Any] | Group, path: Path, inner: str | None
) -> tuple[Array[Any], tuple[float, float] | None]:
    """Walk from the root to the array that is meant, and take the pixel size on the way."""
    import zarr

    size: tuple[float, float] | None = None
    for name in _safe_parts(inner, path):
        if isinstance(node, zarr.Array) or name not in node:
            raise _choose(path, f"{inner!r}", "" if isinstance(node, zarr.Array) else node.path, _members(node))
        size = _level_size(node, name)
        node = node[name]
    while not isinstance(node, zarr.Array):
        name = _default_member(node, path)
        size = _level_size(node, name)
        for part in _safe_parts(name, path):
            child = node[part] if isinstance(node, zarr.Group) else None
            if child is None:
                raise KeyError(name)
            node = child
    return node, size


def _default_member(group: Group, path: Path) -> str:
    """Return the member to open when the user named only ``group``."""
    attributes = _ome_attributes(group)
    is_label_list = isinstance(attributes.get("labels"), list)
    if "labels" in group and not is_label_list:
        return "labels"
    if is_label_list or group.basename == "labels":
        members = [str(name) for name in attributes.get("labels", [])] or sorted(group.group_keys())
    elif attributes.get("multiscales"):
        # NGFF orders the levels from fine to coarse.
        return str(attributes["multiscales"][0]["datasets"][0]["path"])
    else:
        members = sorted(group.array_keys())
    if len(members) != 1:
        raise _choose(path, f"{len(members)} of them", group.path, members or _members(group))
    return members[0]


def _choose(path: Path, got: str, where: str, members: list[str]) -> MissingPageError:
    inner = "/".join(part for part in (where, members[0] if members else "NAME") if part)
    return MissingPageError(
        "the inner path of one image",
        f"{got} in {str(path)!r}, where {where or 'the root'} holds {', '.join(members[:10]) or 'nothing'}",
        f"name one after a slash, such as {path.name}/{inner}",
    )


def _members(node: Array[Any] | Group) -> list[str]:
    import zarr

    return sorted(node.keys()) if isinstance(node, zarr.Group) else []


def _safe_parts(inner: str | None, path: Path) -> list[str]:
    parts = (inner or "").replace("\\", "/").split("/")
    if ".." in parts:
        raise UnsafeFileError("an inner path within the file", f"{inner!r} for {str(path)!r}", "write it without '..'")
    return [part for part in parts if part not in ("", ".")]


def _ome_attributes(group: Group) -> Mapping[str, Any]:
    attributes: Mapping[str, Any] = group.attrs.asdict()
    ome = attributes.get("ome")
    return ome if isinstance(ome, dict) else attributes


def _level_size(group: Array[Any] | Group, name: str) -> tuple[float, float] | None:
    """Return the pixel size of level ``name`` of a multiscale image, (y, x) in micrometres."""
    import zarr

    if isinstance(group, zarr.Array):
        return None
    for image in _ome_attributes(group).get("multiscales", []):
        level = next((level for level in image["datasets"] if level.get("path") == name), None)
        axes = image.get("axes", [])
        # Before NGFF 0.4 axes were bare strings, without a unit.
        if level is None or len(axes) < 2 or not all(isinstance(axis, dict) for axis in axes):
            continue
        scale_yx = np.ones(2)
        scaled = False
        for transform in (*level.get("coordinateTransformations", []), *image.get("coordinateTransformations", [])):
            if transform.get("type") == "scale":
                scale_yx *= np.asarray(transform["scale"][-2:], float)
                scaled = True
        if scaled:
            return size_yx_um(scale_yx[0], axes[-2].get("unit"), scale_yx[1], axes[-1].get("unit"))
    return None

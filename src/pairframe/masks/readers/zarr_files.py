"""Zarr v2 and v3 arrays, and OME-Zarr (NGFF 0.4 and 0.5) images and labels."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pairframe.errors import FileError, MaskError
from pairframe.masks.readers.base import ImageSource, SizeYX, file_errors
from pairframe.masks.readers.units import length_um, size_yx_um

if TYPE_CHECKING:
    from zarr import Array, Group

MAX_CHUNKS = 2**16


@contextmanager
def open_zarr(path: Path, inner: str | None) -> Iterator[ImageSource]:
    """Open an array, or the finest level of an image or label image."""
    import zarr

    from pairframe.masks.readers.local_store import RegularFiles

    # Metadata is arbitrary JSON, and Blosc raises RuntimeError, SystemError or MemoryError for a damaged chunk.
    errors = (OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError, SystemError, MemoryError)
    with file_errors(path, "Zarr", *errors):
        if not path.is_dir():
            raise FileError("a Zarr directory", f"a file, {str(path)!r}", "unpack it to a directory first")
        store = RegularFiles(path)
        with warnings.catch_warnings():
            # Zarr warns about every file that is not its own, such as .DS_Store.
            warnings.simplefilter("ignore", UserWarning)
            array, level, instead_of_labels = _find_array(zarr.open(store, mode="r"), path, inner)
        shape = tuple(array.shape)
        _require_few_chunks(array, path)
        store.most_bytes += _most_chunk_bytes(array)

        def read_page(page: int) -> NDArray[Any]:
            index = [int(i) for i in np.unravel_index(page, shape[:-2])] if shape[:-2] else []
            whole: list[int | slice] = [slice(None), slice(None)]
            return np.asarray(array[tuple(index + whole)])

        def read_volume(which: int) -> NDArray[Any]:
            index = [int(i) for i in np.unravel_index(which, shape[:-3])] if shape[:-3] else []
            whole: list[int | slice] = [slice(None)] * 3
            return np.asarray(array[tuple(index + whole)])

        # All chunks that overlap the page are decoded completely.
        decoded_px = max(math.prod(array.chunks), math.prod(array.chunks[:-2]) * math.prod(shape[-2:]))
        yield ImageSource(
            shape,
            np.dtype(array.dtype),
            read_page,
            px_size_yx_um=lambda page: level.px_size_yx_um,
            decoded_px=decoded_px,
            instead_of_labels=instead_of_labels,
            axes=level.axes if level.axes is not None and len(level.axes) == len(shape) else None,
            is_volume=level.axes is not None and len(level.axes) == len(shape) and level.axes.endswith("ZYX"),
            plane_distance_um=lambda page: level.plane_distance_um,
            sides_without_unit_zyx=level.sides_without_unit_zyx,
            read_volume=read_volume,
        )


@dataclass(frozen=True)
class _Level:
    """What the metadata of a multiscale image say about one of its levels.

    Attributes
    ----------
    axes : str, optional
        Letters of the axes, such as ``TZYX``; None if one of them has a longer name, or none at all.
    """

    px_size_yx_um: SizeYX | None = None
    plane_distance_um: float | None = None
    axes: str | None = None
    sides_without_unit_zyx: tuple[float, float, float] | None = None


def _require_few_chunks(array: Array[Any], path: Path) -> None:
    """Refuse pages in many small chunks: each takes time, even a missing one."""
    sides = zip(array.shape[-2:], array.chunks[-2:], strict=True)
    count = math.prod(-(-side // chunk) for side, chunk in sides)
    if count > MAX_CHUNKS:
        raise FileError(
            f"at most {MAX_CHUNKS} chunks per page",
            f"{count} chunks of shape {tuple(array.chunks)} in {str(path)!r}",
            "store the array in larger chunks, e.g. of 512 x 512 pixels",
        )


def _most_chunk_bytes(array: Array[Any]) -> int:
    """Bytes that a file of chunks may have: compression can make them larger, but not much."""
    decoded_bytes = math.prod(array.shards or array.chunks) * array.dtype.itemsize
    return 2 * decoded_bytes


def _find_array(node: Array[Any] | Group, path: Path, inner: str | None) -> tuple[Array[Any], _Level, str | None]:
    """Walk from the root to the array and read its pixel size on the way.

    The third value is the inner path of the image if labels were opened by default.
    """
    import zarr

    level = _Level()
    instead_of_labels: str | None = None
    for name in _safe_parts(inner, path):
        if isinstance(node, zarr.Array) or name not in node:
            raise _choose(path, f"{inner!r}", "" if isinstance(node, zarr.Array) else node.path, _members(node))
        level = _level(node, name, path)
        node = node[name]
    while not isinstance(node, zarr.Array):
        name = _default_member(node, path)
        if name == "labels":
            image = _finest_level(node) or next(iter(sorted(node.array_keys())), "IMAGE")
            instead_of_labels = "/".join(part for part in (path.name, node.path, image) if part)
        level = _level(node, name, path)
        for part in _safe_parts(name, path):
            child = node[part] if isinstance(node, zarr.Group) else None
            if child is None:
                raise KeyError(name)
            node = child
    return node, level, instead_of_labels


def _default_member(group: Group, path: Path) -> str:
    """Return the member to open if the user named only ``group``."""
    attributes = _ome_attributes(group)
    is_label_list = isinstance(attributes.get("labels"), list)
    if "labels" in group and not is_label_list:
        return "labels"
    if is_label_list or group.basename == "labels":
        members = [str(name) for name in attributes.get("labels", [])] or sorted(group.group_keys())
    elif level := _finest_level(group):
        return level
    else:
        members = sorted(group.array_keys())
    if len(members) != 1:
        raise _choose(path, f"{len(members)} of them", group.path, members or _members(group))
    return members[0]


def _finest_level(group: Group) -> str | None:
    multiscales = _ome_attributes(group).get("multiscales")
    # NGFF orders the levels from fine to coarse.
    return str(multiscales[0]["datasets"][0]["path"]) if multiscales else None


def _choose(path: Path, got: str, where: str, members: list[str]) -> FileError:
    holds = f"{got} in {str(path)!r}, where {where or 'the root'} holds {', '.join(members[:10]) or 'nothing'}"
    if not members:
        return FileError("the inner path of one image", holds, "check the content of this Zarr")
    inner = "/".join(part for part in (where, members[0]) if part)
    return FileError("the inner path of one image", holds, f"name one after a slash, such as {path.name}/{inner}")


def _members(node: Array[Any] | Group) -> list[str]:
    import zarr

    return sorted(node.keys()) if isinstance(node, zarr.Group) else []


def _safe_parts(inner: str | None, path: Path) -> list[str]:
    parts = (inner or "").replace("\\", "/").split("/")
    if ".." in parts:
        raise FileError("an inner path within the file", f"{inner!r} for {str(path)!r}", "write it without '..'")
    return [part for part in parts if part not in ("", ".")]


def _ome_attributes(group: Group) -> Mapping[str, Any]:
    attributes: Mapping[str, Any] = group.attrs.asdict()
    ome = attributes.get("ome")
    return ome if isinstance(ome, dict) else attributes


def _level(group: Array[Any] | Group, name: str, path: Path) -> _Level:
    """Return the axes and the pixel size of level ``name`` of a multiscale image."""
    import zarr

    if isinstance(group, zarr.Array):
        return _Level()
    for image in _ome_attributes(group).get("multiscales", []):
        level = next((level for level in image["datasets"] if level.get("path") == name), None)
        axes = image.get("axes", [])
        if level is None or not axes:
            continue
        _require_rows_and_columns_last(axes, path)
        # Before NGFF 0.4 axes were bare strings, without a unit.
        if not all(isinstance(axis, dict) for axis in axes):
            continue
        letters = "".join(str(axis.get("name")) for axis in axes).upper()
        known = letters if len(letters) == len(axes) else None
        scale = np.ones(len(axes))
        scaled = False
        for transform in (*level.get("coordinateTransformations", []), *image.get("coordinateTransformations", [])):
            if transform.get("type") == "scale":
                scale *= np.asarray(transform["scale"], float)
                scaled = True
        if not scaled:
            return _Level(axes=known)
        size = size_yx_um(scale[-2], axes[-2].get("unit"), scale[-1], axes[-1].get("unit"))
        is_deep = known is not None and known.endswith("ZYX")
        if not is_deep:
            return _Level(size, None, known)
        distance = length_um(scale[-3], axes[-3].get("unit"))
        z, y, x = (float(side) for side in scale[-3:])
        return _Level(size, distance, known, (z, y, x) if size is None and distance is None else None)
    return _Level()


def _require_rows_and_columns_last(axes: list[Any], path: Path) -> None:
    """Require y and x as the last two axes, which form a page; other axes would be transposed or not an image."""
    names = [str(axis.get("name") if isinstance(axis, dict) else axis) for axis in axes]
    if [name.lower() for name in names[-2:]] != ["y", "x"]:
        raise MaskError(
            "OME-Zarr axes that end with y, x",
            f"axes {', '.join(names)} in {str(path)!r}",
            "transpose the array and write it again, with y and x as its last axes",
        )

"""One result as a Zarr v3 group: arrays with dimension names and checksums, attributes that say everything else."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pairframe.errors import BrokenStoreError, PairframeError, StoreVersionError
from pairframe.frame import GridTransform
from pairframe.results.result import TransportResult
from pairframe.results.schema import SCHEMA_VERSION
from pairframe.results.variables import CANON, COORDINATES, WORK, Variable, result_from

if TYPE_CHECKING:
    import zarr
    from zarr.core.buffer import Buffer

_CHUNK_PX = 1024
_DAMAGE = (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError)
_METADATA = "zarr.json"


def group_files(variables: list[Variable], attributes: dict[str, Any]) -> dict[str, bytes]:
    """The files of a group, by name. Bit for bit: empty chunks too, so that a lost one is noticed."""
    import zarr
    from zarr.codecs import BloscCodec, Crc32cCodec
    from zarr.storage import MemoryStore

    files: dict[str, Buffer] = {}
    store = MemoryStore(files)
    group = zarr.create_group(store, zarr_format=3, attributes=attributes)
    for variable in variables:
        values = np.ascontiguousarray(variable.values)
        is_float = values.dtype.kind == "f"
        group.create_array(
            variable.name,
            data=values,
            chunks=tuple(min(max(side, 1), _CHUNK_PX) for side in values.shape),
            compressors=[BloscCodec(cname="zstd", clevel=5, shuffle="shuffle"), Crc32cCodec()],
            fill_value=math.nan if is_float else False,
            dimension_names=list(variable.dims),
            attributes=dict(variable.attributes),
            chunk_key_encoding={"name": "default", "separator": "."},  # fewer folders
            config={"write_empty_chunks": True},
        )
    return _consolidated({name: buffer.to_bytes() for name, buffer in files.items()})


def _consolidated(files: dict[str, bytes]) -> dict[str, bytes]:
    """The same files; the group's metadata repeats that of its arrays: one file to open instead of thirty.

    Readers that do not know it must ignore it, and do. By hand, because zarr warns about it, and warnings cannot be
    silenced in one thread alone.
    """
    nodes = {
        name.removesuffix(f"/{_METADATA}"): json.loads(content)
        for name, content in sorted(files.items())
        if name.endswith(f"/{_METADATA}")
    }
    root = json.loads(files[_METADATA])
    root["consolidated_metadata"] = {"kind": "inline", "must_understand": False, "metadata": nodes}
    return files | {_METADATA: json.dumps(root).encode()}


def read_group(folder: Path, pair_id: str) -> TransportResult:
    """The result in a group; an error when anything is missing, changed or of another pair."""
    import zarr

    with damage_is_our_error(folder):
        group = zarr.open_group(folder, mode="r", zarr_format=3)
        attributes: dict[str, Any] = dict(group.attrs)
        check_version(attributes.get("schema_version"), folder)
        if attributes["pair_id"] != pair_id:
            raise ValueError(f"it holds the pair {ascii(attributes['pair_id'])[:80]}")
        transform = GridTransform.from_json(attributes["transform"])
        variables = {name: _read_array(name, array, transform) for name, array in group.arrays()}
        return result_from(variables, attributes)


def check_version(found: object, where: Path) -> None:
    """Refuse a store whose schema is not the one this version writes."""
    if str(found) != str(SCHEMA_VERSION):
        raise StoreVersionError(
            f"results with schema version {SCHEMA_VERSION}",
            f"{f'version {found}' if found is not None else 'no version'} in {str(where)!r}",
            "install the version of pairframe that wrote them, or run the comparison again",
        )


@contextmanager
def damage_is_our_error(folder: Path) -> Iterator[None]:
    """Whatever zarr stumbles over becomes one error that names the group."""
    try:
        yield
    except (StoreVersionError, BrokenStoreError):
        raise
    except (*_DAMAGE, PairframeError) as error:
        raise BrokenStoreError(
            "the complete maps of a result",
            f"{str(folder)!r}: {str(error) or type(error).__name__}",
            "run this comparison again",
        ) from error


def _read_array(name: str, array: zarr.Array[Any], transform: GridTransform) -> NDArray[Any]:
    dims = tuple(str(dim) for dim in array.metadata.dimension_names or ())  # type: ignore[union-attr]
    sides = dict(zip((*CANON, *WORK), (*transform.canon_shape_hw, *transform.work_shape_hw), strict=True))
    if name in COORDINATES or dims in (CANON, WORK):
        expected = tuple(sides[dim] for dim in dims)
        if array.shape != expected:
            raise ValueError(f"array {name} has the shape {array.shape}, not {expected}")
    if array.nchunks_initialized != array.nchunks:
        raise ValueError(f"array {name} has lost {array.nchunks - array.nchunks_initialized} of its chunks")
    return np.asarray(array[...])

"""Arrays as files of the Zarr v3 format, and back: the layout that this project writes, and no other.

zarr-python reads and writes the same files (tests hold it to that), but asks about 3 ms per array for it; a result has
27 of them, and a small pair is solved in 50 ms. Everybody else's arrays are its business, ours take a tenth of the time.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

METADATA = "zarr.json"
_CHUNK_PX = 1024
# Shuffled lz4 packs our maps as fast as memory allows, within 15 % of what zstd makes of them.
_BLOSC = {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "blocksize": 0}
_CHECKSUM_BYTES = 4


def array_files(
    values: NDArray[Any], dims: Sequence[str], attributes: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Metadata and chunks of an array, by file name. Empty chunks too, so that a lost one is noticed."""
    from numcodecs import Blosc
    from zarr.codecs import BloscCodec  # noqa: F401  (importing it keeps Blosc from starting threads of its own)

    values = np.ascontiguousarray(values)
    values = values.astype(values.dtype.newbyteorder("<"), copy=False)
    chunk_shape = tuple(min(max(side, 1), _CHUNK_PX) for side in values.shape)
    empty: Any = math.nan if values.dtype.kind == "f" else values.dtype.type(0)
    packer = Blosc(_BLOSC["cname"], _BLOSC["clevel"], Blosc.SHUFFLE, _BLOSC["blocksize"])
    chunks = {}
    for key, place in _chunks(values.shape, chunk_shape):
        chunk = values[place]
        if chunk.shape != chunk_shape:  # at the far edges chunks keep their size
            padding = [(0, whole - part) for whole, part in zip(chunk_shape, chunk.shape, strict=True)]
            chunk = np.pad(chunk, padding, constant_values=empty)
        packed = bytes(packer.encode(np.ascontiguousarray(chunk)))
        chunks[key] = packed + _checksum(packed)
    return _metadata(values, chunk_shape, dims, attributes), chunks


def array_from(metadata: Mapping[str, Any], read: Callable[[str], bytes]) -> NDArray[Any]:
    """The array of these metadata; ``read(name)`` gives the content of a chunk's file.

    Raises
    ------
    ValueError, KeyError, OSError, RuntimeError
        When a chunk is missing or damaged, or the metadata are not of our making.
    """
    from numcodecs import Blosc

    dtype = np.dtype(metadata["data_type"]).newbyteorder("<")
    shape = tuple(int(side) for side in metadata["shape"])
    chunk_shape = tuple(int(side) for side in metadata["chunk_grid"]["configuration"]["chunk_shape"])
    steps = [codec["name"] for codec in metadata["codecs"]]
    if steps != ["bytes", "blosc", "crc32c"]:
        raise ValueError(f"codecs {steps}, which this version does not write")
    values = np.empty(shape, dtype)
    for key, place in _chunks(shape, chunk_shape):
        content = read(key)
        packed, checksum = content[:-_CHECKSUM_BYTES], content[-_CHECKSUM_BYTES:]
        if _checksum(packed) != checksum:
            raise ValueError(f"chunk {key} is damaged: its checksum is not that of its content")
        chunk = np.frombuffer(Blosc().decode(packed), dtype).reshape(chunk_shape)
        target = values[place]
        target[...] = chunk[tuple(slice(side) for side in target.shape)]
    return values


def group_metadata(attributes: Mapping[str, Any], arrays: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Metadata of a group, which repeat those of its arrays: one file to open instead of thirty.

    Readers that do not know the repetition must ignore it, and do.
    """
    consolidated = {"kind": "inline", "must_understand": False, "metadata": dict(sorted(arrays.items()))}
    return {
        "attributes": dict(attributes),
        "zarr_format": 3,
        "node_type": "group",
        "consolidated_metadata": consolidated,
    }


def to_file(metadata: Mapping[str, Any]) -> bytes:
    """The content of a ``zarr.json``."""
    return json.dumps(metadata).encode()


def _metadata(
    values: NDArray[Any], chunk_shape: tuple[int, ...], dims: Sequence[str], attributes: Mapping[str, str]
) -> dict[str, Any]:
    kind, size = values.dtype.kind, values.dtype.itemsize
    in_bytes = {"name": "bytes"} | ({"configuration": {"endian": "little"}} if size > 1 else {})
    return {
        "shape": list(values.shape),
        "data_type": values.dtype.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunk_shape)}},
        # Dots instead of folders: fewer of them.
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}},
        "fill_value": "NaN" if kind == "f" else False if kind == "b" else 0,
        "codecs": [in_bytes, {"name": "blosc", "configuration": {"typesize": size, **_BLOSC}}, {"name": "crc32c"}],
        "attributes": dict(attributes),
        "dimension_names": list(dims),
        "zarr_format": 3,
        "node_type": "array",
        "storage_transformers": [],
    }


def _chunks(shape: tuple[int, ...], chunk_shape: tuple[int, ...]) -> Iterator[tuple[str, tuple[slice, ...]]]:
    """File name and place of every chunk."""
    counts = (range(-(-side // chunk)) for side, chunk in zip(shape, chunk_shape, strict=True))
    for index in itertools.product(*counts):
        place = tuple(slice(k * chunk, (k + 1) * chunk) for k, chunk in zip(index, chunk_shape, strict=True))
        yield ".".join(("c", *map(str, index))), place


def _checksum(content: bytes) -> bytes:
    import google_crc32c

    checksum: int = google_crc32c.value(content)
    return checksum.to_bytes(_CHECKSUM_BYTES, "little")

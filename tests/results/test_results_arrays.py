"""Arrays as Zarr files: zarr-python reads what we write and would have written the same; damage is noticed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from zarr.codecs import BloscCodec, Crc32cCodec
from zarr.storage import MemoryStore

from pairframe.results.arrays import METADATA, array_files, array_from, group_metadata

DTYPES = ("float64", "float32", "int64", "bool")
ARRAYS = st.sampled_from(DTYPES).flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=7))
)


def same_bits(a: NDArray[Any], b: NDArray[Any]) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def dims_of(values: NDArray[Any]) -> list[str]:
    return [f"d{axis}" for axis in range(values.ndim)]


@given(ARRAYS)
@settings(max_examples=60, deadline=None)
def test_what_is_written_is_read_bit_for_bit(values: NDArray[Any]) -> None:
    metadata, chunks = array_files(values, dims_of(values), {})
    assert same_bits(array_from(json.loads(metadata), chunks.__getitem__), values)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(5,), (3, 4), (1025, 7), (2, 1030, 1024)])
def test_zarr_reads_the_same_and_would_have_written_the_same(
    tmp_path: Path, dtype: str, shape: tuple[int, ...]
) -> None:
    values = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)
    attributes = {"units": "um", "long_name": "a length"}
    metadata, chunks = array_files(values, dims_of(values), attributes)
    (tmp_path / "x").mkdir()
    (tmp_path / METADATA).write_text(group_metadata({"title": "t"}, {"x": metadata}))
    (tmp_path / "x" / METADATA).write_text(metadata)
    for name, content in chunks.items():
        (tmp_path / "x" / name).write_bytes(content)
    group = zarr.open_group(tmp_path, mode="r", zarr_format=3)
    assert dict(group.attrs) == {"title": "t"}
    array = group["x"]
    assert isinstance(array, zarr.Array)
    assert same_bits(np.asarray(array[...]), values)

    theirs: dict[str, Any] = {}
    zarr.create_array(
        MemoryStore(theirs),
        data=values,
        chunks=tuple(min(side, 1024) for side in shape),
        compressors=[BloscCodec(cname="lz4", clevel=9, shuffle="shuffle", blocksize=1 << 20), Crc32cCodec()],
        fill_value=float("nan") if values.dtype.kind == "f" else values.dtype.type(0),
        dimension_names=dims_of(values),
        attributes=attributes,
        chunk_key_encoding={"name": "default", "separator": "."},
        config={"write_empty_chunks": True},
    )
    assert json.loads(theirs[METADATA].to_bytes()) == json.loads(metadata)
    assert {name for name in theirs if name != METADATA} == set(chunks)
    assert all(theirs[name].to_bytes() == content for name, content in chunks.items())


def test_a_changed_byte_anywhere_is_noticed() -> None:
    text, chunks = array_files(np.arange(50.0), ["x"], {})
    metadata = json.loads(text)
    content = chunks["c.0"]
    for place in range(len(content)):
        damaged = content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
        with pytest.raises(ValueError, match="checksum"):
            array_from(metadata, lambda _name, damaged=damaged: damaged)  # type: ignore[misc]
    for short in (b"", content[:3], content[:-1]):
        with pytest.raises(ValueError, match="checksum"):
            array_from(metadata, lambda _name, short=short: short)  # type: ignore[misc]


def test_another_layout_is_refused() -> None:
    text, chunks = array_files(np.arange(5.0), ["x"], {})
    metadata = json.loads(text)
    metadata["codecs"] = [{"name": "bytes"}]
    with pytest.raises(ValueError, match=r"codecs \['bytes'\]"):
        array_from(metadata, chunks.__getitem__)


@pytest.mark.parametrize("side", [0, -3])
def test_impossible_chunks_are_refused(side: int) -> None:
    text, chunks = array_files(np.arange(5.0), ["x"], {})
    metadata = json.loads(text)
    metadata["chunk_grid"]["configuration"]["chunk_shape"] = [side]
    with pytest.raises(ValueError, match="chunks of the shape"):
        array_from(metadata, chunks.__getitem__)

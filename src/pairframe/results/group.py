"""One result as a Zarr v3 group in a zip file: arrays with dimension names and checksums, everything else as attributes."""

from __future__ import annotations

import lzma
import struct
import zipfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from pairframe import plain_json
from pairframe.errors import BrokenStoreError, PairframeError, StoreVersionError
from pairframe.frame import GridTransform
from pairframe.results.archive import CHECKSUM, GroupFiles, archive_bytes, open_files
from pairframe.results.arrays import METADATA, array_files, array_from, group_metadata
from pairframe.results.disk import ZIP
from pairframe.results.result import TransportResult
from pairframe.results.sums import check_sums
from pairframe.results.variables import DIMS, LABELS, Variable, canon_dims, labels_of, result_from, work_dims
from pairframe.results.versions import with_new_names

# Zip files add their own errors: a flipped bit can name any compression, or sizes that do not fit.
_ZIP_DAMAGE = (zipfile.BadZipFile, EOFError, struct.error, zlib.error, lzma.LZMAError, ArithmeticError, MemoryError)
_DAMAGE = (OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError, *_ZIP_DAMAGE)


def group_bytes(variables: list[Variable], attributes: dict[str, Any]) -> bytes:
    """The zip file of a group; bit for bit what the variables hold."""
    arrays, files = _arrays_and_files(variables)
    return archive_bytes(files, lambda checksum: group_metadata({**attributes, CHECKSUM: checksum}, arrays))


def group_files(variables: list[Variable], attributes: dict[str, Any]) -> dict[str, bytes]:
    """The files of a group that is a folder, by name."""
    arrays, files = _arrays_and_files(variables)
    return {METADATA: group_metadata(attributes, arrays).encode(), **files}


def _arrays_and_files(variables: list[Variable]) -> tuple[dict[str, str], dict[str, bytes]]:
    """Metadata (JSON) of every array, and the files of all of them: metadata and chunks."""
    arrays, files = {}, {}
    for variable in variables:
        arrays[variable.name], chunks = array_files(variable.values, variable.dims, variable.attributes)
        files[f"{variable.name}/{METADATA}"] = arrays[variable.name].encode()
        files |= {f"{variable.name}/{name}": content for name, content in chunks.items()}
    return arrays, files


def read_group(path: Path, pair_id: str) -> TransportResult:
    """The result in a group; an error if anything is missing, changed or of another pair, or the books do not balance."""
    attributes, arrays = read_arrays(path, pair_id)
    with damage_is_our_error(path):
        result = result_from(arrays, attributes)
        check_sums(result)
        return result


def read_arrays(
    path: Path, pair_id: str, names: Collection[str] | None = None
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Attributes and arrays of a group, all or some; an error if they are missing, changed or of another pair."""
    with damage_is_our_error(path), open_files(path) as files:
        attributes, known = _read_metadata(files, path)
        if attributes["pair_id"] != pair_id:
            raise ValueError(f"it holds the pair {ascii(attributes['pair_id'])[:80]}")
        if attributes["maps_group"] != path.name.removesuffix(ZIP):
            raise ValueError(f"it holds the maps {ascii(attributes['maps_group'])[:80]} of this pair")
        transform = GridTransform.from_json(attributes["transform"])
        wanted = known if names is None else names
        return attributes, {name: _read_array(files, name, known[name], transform) for name in wanted}


def read_attributes(path: Path) -> dict[str, Any]:
    """Attributes of a group whose list of files is complete; the arrays themselves are not read."""
    with damage_is_our_error(path), open_files(path) as files:
        return _read_metadata(files, path)[0]


@contextmanager
def damage_is_our_error(path: Path) -> Iterator[None]:
    """Turn every reading error into one `BrokenStoreError` that names the group."""
    try:
        yield
    except (StoreVersionError, BrokenStoreError):
        raise
    except (*_DAMAGE, PairframeError) as error:
        raise BrokenStoreError(
            "the complete maps of a result",
            f"{str(path)!r}: {str(error) or type(error).__name__}",
            "run this comparison again",
        ) from error


def _read_metadata(files: GroupFiles, path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Attributes of a group, and the metadata of its arrays."""
    node = plain_json.parse(files.read(METADATA))
    attributes = with_new_names(node["attributes"], node["attributes"].get("schema_version"), path)
    if files.checksum is not None and files.checksum != attributes.get(CHECKSUM):
        raise ValueError("its files are not those that were written: their checksum does not match")
    return attributes, node["consolidated_metadata"]["metadata"]


def _read_array(files: GroupFiles, name: str, about: dict[str, Any], transform: GridTransform) -> NDArray[Any]:
    if not name.isidentifier():
        raise ValueError(f"an array named {ascii(name)[:80]}")
    dims, shape = tuple(about["dimension_names"]), tuple(about["shape"])
    canon, work = canon_dims(transform), work_dims(transform)
    sides = dict(zip((*canon, *work), (*transform.canon_shape_hw, *transform.work_shape_hw), strict=True))
    expected_dims = (name,) if name in sides else (DIMS[name][0], *work) if name in DIMS else canon
    expected = tuple(sides.get(dim) for dim in expected_dims)
    if name in LABELS:
        expected = (len(labels_of(name, transform.is_volume)), *expected[1:])
    if dims != expected_dims or len(shape) != len(expected):
        raise ValueError(f"array {name} has the dimensions {dims}, not {expected_dims}")
    if any(side not in (found, None) for found, side in zip(shape, expected, strict=True)):
        raise ValueError(f"array {name} has the shape {shape}, not {expected}")

    def read(chunk: str) -> bytes:
        try:
            return files.read(f"{name}/{chunk}")
        except (FileNotFoundError, KeyError) as error:
            raise ValueError(f"chunk {chunk} of array {name} is missing") from error

    return array_from(about, read)

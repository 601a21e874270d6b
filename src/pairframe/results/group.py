"""One result as a Zarr v3 group: arrays with dimension names and checksums, attributes that say everything else."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from pairframe.errors import BrokenStoreError, PairframeError, StoreVersionError
from pairframe.frame import GridTransform
from pairframe.results.arrays import METADATA, array_files, array_from, group_metadata
from pairframe.results.result import TransportResult
from pairframe.results.schema import SCHEMA_VERSION
from pairframe.results.variables import CANON, COORDINATES, DIMS, LABELS, WORK, Variable, result_from

_DAMAGE = (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError)


def group_files(variables: list[Variable], attributes: dict[str, Any]) -> dict[str, bytes]:
    """The files of a group, by name; bit for bit what the variables hold."""
    files, arrays = {}, {}
    for variable in variables:
        arrays[variable.name], chunks = array_files(variable.values, variable.dims, variable.attributes)
        files[f"{variable.name}/{METADATA}"] = arrays[variable.name].encode()
        files |= {f"{variable.name}/{name}": content for name, content in chunks.items()}
    return {METADATA: group_metadata(attributes, arrays).encode(), **files}


def read_group(folder: Path, pair_id: str) -> TransportResult:
    """The result in a group; an error when anything is missing, changed or of another pair."""
    attributes, arrays = read_arrays(folder, pair_id)
    with damage_is_our_error(folder):
        return result_from(arrays, attributes)


def read_arrays(
    folder: Path, pair_id: str, names: Collection[str] | None = None
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Attributes and arrays of a group, all of them or some; an error when these are missing, changed or of another pair."""
    with damage_is_our_error(folder):
        node = json.loads((folder / METADATA).read_bytes())
        attributes: dict[str, Any] = node["attributes"]
        check_version(attributes.get("schema_version"), folder)
        if attributes["pair_id"] != pair_id:
            raise ValueError(f"it holds the pair {ascii(attributes['pair_id'])[:80]}")
        transform = GridTransform.from_json(attributes["transform"])
        known: dict[str, Any] = node["consolidated_metadata"]["metadata"]
        wanted = known if names is None else names
        return attributes, {name: _read_array(folder, name, known[name], transform) for name in wanted}


def check_version(found: object, where: Path) -> None:
    """Refuse a store whose schema is not the one this version writes."""
    if str(found) != str(SCHEMA_VERSION):
        raise StoreVersionError(
            f"results with schema version {SCHEMA_VERSION}",
            f"{f'version {found}' if found is not None else 'no version'} in {str(where)!r}",
            "install the version of pairframe that wrote them, or run the comparison again into another folder",
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


def _read_array(folder: Path, name: str, about: dict[str, Any], transform: GridTransform) -> NDArray[Any]:
    if not name.isidentifier():
        raise ValueError(f"an array named {ascii(name)[:80]}")
    dims, shape = tuple(about["dimension_names"]), tuple(about["shape"])
    sides = dict(zip((*CANON, *WORK), (*transform.canon_shape_hw, *transform.work_shape_hw), strict=True))
    expected_dims = (name,) if name in COORDINATES else DIMS.get(name, CANON)
    expected = tuple(sides.get(dim) for dim in expected_dims)
    if name in LABELS:
        expected = (len(LABELS[name]), *expected[1:])
    if dims != expected_dims or len(shape) != len(expected):
        raise ValueError(f"array {name} has the dimensions {dims}, not {expected_dims}")
    if any(side not in (found, None) for found, side in zip(shape, expected, strict=True)):
        raise ValueError(f"array {name} has the shape {shape}, not {expected}")
    return array_from(about, lambda chunk: (folder / name / chunk).read_bytes())

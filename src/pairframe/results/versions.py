"""Stores of earlier schema versions: which can be read, and what their columns are called now."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pairframe.errors import StoreVersionError
from pairframe.results.schema import RENAMED, SCHEMA_VERSION


def new_names(version: object, where: Path) -> Mapping[str, str]:
    """New names of the columns that a schema version named differently; an error for a version that cannot be read."""
    for known, names in RENAMED.items():
        if str(version) == str(known):
            return names
    raise StoreVersionError(
        f"results with schema version {' or '.join(map(str, sorted(RENAMED, reverse=True)))}",
        f"{f'version {version}' if version is not None else 'no version'} in {str(where)!r}",
        "install the version of pairframe that wrote them, or run the comparison again into another folder",
    )


def with_new_names(attributes: Mapping[Any, Any], version: object, where: Path) -> dict[Any, Any]:
    """Attributes of a group, with the names and the number of the present schema version."""
    names = new_names(version, where)
    return {names.get(name, name): value for name, value in attributes.items()} | {"schema_version": SCHEMA_VERSION}

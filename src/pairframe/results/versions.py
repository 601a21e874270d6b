"""Stores of earlier schema versions: which can be read, what their columns are called now, and what their reach means."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pairframe import plain_json
from pairframe.errors import StoreVersionError
from pairframe.problem import penalty_class
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
    found = {names.get(name, name): value for name, value in attributes.items()} | {"schema_version": SCHEMA_VERSION}
    if has_old_reach(version) and "config" in found:
        found["config"] = with_present_reach(found["config"])[0]
    return found


def has_old_reach(version: object) -> bool:
    """Whether lambda was the cost of a reach for all penalties, and the default reach 50 pixels."""
    return str(version) in {"3", "4", "5"}


def with_present_reach(config_json: str) -> tuple[str, float]:
    """A config of a version with the old reach as one of today, with the same lambda, and the factor on its reach."""
    values = plain_json.parse(config_json)
    names = values.get("penalty", "kl")
    kinds = [penalty_class(name) for name in ([names] if isinstance(names, str) else names)]
    per_reach = min((kind.relaxation_per_reach for kind in kinds if not kind.is_exact), default=1.0)
    factor = 1.0 / per_reach if values.get("metric") == "euclidean" else math.sqrt(1.0 / per_reach)
    if values.get("marginal_relaxation") is None and not all(kind.is_exact for kind in kinds):
        reach = values.get("reach_um") or 50.0 * (values.get("px_size_um") or 1.0)
        values["reach_um"] = reach * factor
    return json.dumps(values), factor

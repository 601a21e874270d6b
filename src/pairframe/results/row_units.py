"""The units of the numbers in a row of the table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pairframe import plain_json
from pairframe.results.schema import BY_NAME
from pairframe.units import Units


def units_of(row: Mapping[str, Any]) -> Units:
    """The unit of the lengths in a row; pixels in a failed one."""
    try:
        config = plain_json.parse(row["config_json"])
        size = config["px_size_um"]
        return Units(tuple(size) if isinstance(size, list) else size, 3 if config.get("volume") else 2)
    except (TypeError, ValueError, KeyError):  # a failed row, or one whose config cannot be read
        return Units()


def shared_units(rows: Iterable[Mapping[str, Any]]) -> Units:
    """Units to label the lengths of several rows with: of the first row with a pixel size, pixels if there is none."""
    return next((units for units in map(units_of, rows) if not units.in_px), Units())


def column_unit(name: str, units: Units, *, is_euclidean: bool = False) -> str:
    """The unit of a column for a given result: ``um`` is ``px`` without a pixel size, and a cost may be a length.

    Parameters
    ----------
    units : Units
        See `units_of` and `TransportResult.units`.
    is_euclidean : bool
        Whether ``metric`` is ``euclidean``: costs are then mass times length.
    """
    unit = BY_NAME[name].unit
    if is_euclidean and "mass" in unit:
        unit = unit.replace("px^2", "px").replace("um^2", "um")
    return units.of(unit)

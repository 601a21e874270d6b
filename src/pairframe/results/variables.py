"""A result as named variables with dimensions and units: what Zarr keeps and xarray shows; and back."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairframe.engines import Status, TraceRecord
from pairframe.frame import GridTransform
from pairframe.problem import TransportConfig
from pairframe.results.result import TransportResult, WorkMaps
from pairframe.results.rows import column_unit
from pairframe.results.schema import FIELDS, SCHEMA_VERSION

CANON = ("y_um", "x_um")
WORK = ("work_y_um", "work_x_um")
COORDINATES = (*CANON, *WORK)
# One array: a file system is slower at making files than we are at solving small pairs.
WORK_MAPS = "work_maps"
DIMS = {WORK_MAPS: ("work_map", *WORK)}
_PLAIN_WORK_MAPS = (
    *("mass_source", "mass_target", "mass_created", "mass_destroyed"),
    *("cost_source", "cost_target", "potential_source", "potential_target"),
)
LABELS = {WORK_MAPS: (*_PLAIN_WORK_MAPS, "velocity_dy", "velocity_dx")}


@dataclass(frozen=True, eq=False)
class Variable:
    """An array with the names of its dimensions; a coordinate has the name of its own.

    One that holds several maps has as many `LABELS` and units along its first dimension.
    """

    name: str
    dims: tuple[str, ...]
    values: NDArray[Any]
    units: str | tuple[str, ...]
    long_name: str

    @property
    def attributes(self) -> dict[str, str]:
        """In the manner of the CF conventions."""
        found = {"long_name": self.long_name}
        if isinstance(self.units, str):
            found = {"units": self.units, **found}
        else:
            found |= {"labels": " ".join(LABELS[self.name]), "units_of_labels": "; ".join(self.units)}
        if self.name in COORDINATES:
            found["axis"] = "Y" if "y_um" in self.name else "X"
        return found


def variables_of(result: TransportResult) -> list[Variable]:
    """Coordinates, the canonical maps, and all maps on the work grid (`WORK_MAPS`)."""
    transform, work, power, unit = result.transform, result.work, result.scales.power, result.length_unit
    cost_um = f"pixel mass {unit}^2" if power == 2 else f"pixel mass {unit}"
    mass, velocity = "pixel mass", result.velocity_field
    found = _coordinates(transform, unit)
    for name, values, units, meaning in (
        ("mass_source", transform.rasterize_to_canon(work.mass_source), mass, "source mass per pixel"),
        ("mass_target", transform.rasterize_to_canon(work.mass_target), mass, "target mass per pixel"),
        ("mass_created", result.mass_created, mass, "created mass per pixel"),
        ("mass_destroyed", result.mass_destroyed, mass, "destroyed mass per pixel"),
        ("velocity_dy", velocity[..., 0], f"{unit}/frame", "displacement down; NaN where unknown"),
        ("velocity_dx", velocity[..., 1], f"{unit}/frame", "displacement to the right; NaN where unknown"),
        ("cost_source", result.cost_source, cost_um, "transport cost by where it started"),
        ("cost_target", result.cost_target, cost_um, "transport cost by where it ended"),
    ):
        found.append(Variable(name, CANON, values, units, meaning))
    return [*found, _work_maps(work, power)]


def attributes_of(result: TransportResult) -> dict[str, Any]:
    """Scalars as they are (`plain_number`), the rest as JSON text, so that every format can hold them."""
    scalars = {column.name: plain_number(getattr(result, column.name)) for column in FIELDS}
    kind = {"in_px": result.length_unit == "px", "is_euclidean": result.config.metric == "euclidean"}
    units = {column.name: column_unit(column.name, **kind) for column in FIELDS if column.unit}
    return {
        "Conventions": "CF-1.11",
        "title": "comparison of two masks by unbalanced optimal transport",
        "schema_version": SCHEMA_VERSION,
        "status": str(result.status),
        **scalars,
        "units": json.dumps(units),
        "length_unit": result.length_unit,
        "config": result.config.to_json(),
        "transform": result.transform.to_json(),
        "versions": json.dumps(dict(result.versions)),
        "notices": json.dumps(list(result.notices)),
    }


def history_of(result: TransportResult) -> dict[str, str]:
    """How the solve went, as further attributes; of a solve that did not converge, more than some formats hold."""
    records = [[plain_number(value) for value in record] for record in result.work.trace]
    return {"trace_fields": " ".join(TraceRecord._fields), "trace": json.dumps(records)}


def result_from(variables: Mapping[str, NDArray[Any]], attributes: Mapping[str, Any]) -> TransportResult:
    """The result whose `variables_of`, `attributes_of` and `history_of` these are."""
    work = dict(zip(LABELS[WORK_MAPS], variables[WORK_MAPS], strict=True))
    scalars: dict[str, Any] = {column.name: _FROM_PLAIN[column.kind](attributes[column.name]) for column in FIELDS}
    arrays = ("mass_created", "mass_destroyed", "cost_source", "cost_target")
    maps: dict[str, Any] = {name: variables[name] for name in arrays}
    return TransportResult(
        **maps,
        velocity_field=_velocity(variables),
        velocity_valid=np.isfinite(variables["velocity_dy"]),
        **scalars,
        status=Status(attributes["status"]),
        config=TransportConfig.from_json(attributes["config"]),
        transform=GridTransform.from_json(attributes["transform"]),
        versions=json.loads(attributes["versions"]),
        notices=tuple(json.loads(attributes["notices"])),
        work=WorkMaps(
            **{name: work[name] for name in _PLAIN_WORK_MAPS},
            velocity_px=_velocity(work),
            velocity_valid=np.isfinite(work["velocity_dy"]),
            trace=tuple(TraceRecord(*map(float, record)) for record in json.loads(attributes["trace"])),
        ),
    )


def plain_number(value: Any) -> Any:
    """JSON has no infinity and no NaN: they become text, as in the Zarr specification."""
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, float) and not math.isfinite(plain):
        return "NaN" if math.isnan(plain) else "Infinity" if plain > 0 else "-Infinity"
    return plain


_FROM_PLAIN: dict[str, Callable[[Any], Any]] = {"float64": float, "int64": int, "string": str}


def _velocity(maps: Mapping[str, NDArray[Any]]) -> NDArray[np.float64]:
    return np.stack([maps["velocity_dy"], maps["velocity_dx"]], axis=-1)


def _work_maps(work: WorkMaps, power: int) -> Variable:
    """(10, Hw, Ww). Where a displacement is known is where it is a number."""
    values = np.stack([getattr(work, name) for name in _PLAIN_WORK_MAPS] + [*np.moveaxis(work.velocity_px, -1, 0)])
    cost = "pixel mass work px^2" if power == 2 else "pixel mass work px"
    units = (*("pixel mass",) * 4, *(cost,) * 2, *("work cost",) * 2, *("work px/frame",) * 2)
    meaning = "maps per work pixel; potentials are NaN off the masks, displacements where unknown"
    return Variable(WORK_MAPS, DIMS[WORK_MAPS], values, units, meaning)


def _coordinates(transform: GridTransform, unit: str) -> list[Variable]:
    """Centres of the pixels, um (or px, as `unit` says) from the canvas's upper left corner."""
    (hc, wc), (hw, ww) = transform.canon_shape_hw, transform.work_shape_hw
    size = transform.px_size_um
    work_y = transform.work_to_canon_yx(np.stack([np.arange(hw) + 0.5, np.zeros(hw)], axis=-1))[:, 0]
    work_x = transform.work_to_canon_yx(np.stack([np.zeros(ww), np.arange(ww) + 0.5], axis=-1))[:, 1]
    centres = ((np.arange(hc) + 0.5) * size, (np.arange(wc) + 0.5) * size, work_y * size, work_x * size)
    meanings = ("down from the top edge", "right from the left edge") * 2
    return [
        Variable(name, (name,), values, unit, f"centres of the {'work ' * (name in WORK)}pixels, {meaning}")
        for name, values, meaning in zip(COORDINATES, centres, meanings, strict=True)
    ]

"""A result as named variables with dimensions and units, as Zarr stores them and xarray shows them, and back."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pairframe import plain_json
from pairframe.engines import Status, TraceRecord
from pairframe.frame import GridTransform
from pairframe.notices import Notice
from pairframe.problem import TransportConfig
from pairframe.results.column import Column
from pairframe.results.error_bars import ErrorBars
from pairframe.results.result import TransportResult
from pairframe.results.row_units import column_unit
from pairframe.results.schema import ADDED, FIELDS, SCHEMA_VERSION
from pairframe.results.work_maps import WorkMaps
from pairframe.types import Float

if TYPE_CHECKING:
    from pairframe.alignment import Pose

CANON = ("y_um", "x_um")
WORK = ("work_y_um", "work_x_um")
# Volumes have a third axis in front.
CANON_3D, WORK_3D = ("z_um", *CANON), ("work_z_um", *WORK)
COORDINATES = (*CANON, *WORK)
ALL_COORDINATES = (*CANON_3D, *WORK_3D)
# One array: creating files takes longer than solving small pairs.
WORK_MAPS = "work_maps"
# Only if the strain was computed.
STRAIN_MAPS = "strain_maps"
DIMS = {WORK_MAPS: ("work_map", *WORK), STRAIN_MAPS: ("strain_map", *WORK)}
_PLAIN_WORK_MAPS = (
    *("mass_source", "mass_target", "mass_created", "mass_destroyed"),
    *("cost_source", "cost_target", "potential_source", "potential_target"),
)
LABELS = {
    WORK_MAPS: (*_PLAIN_WORK_MAPS, "velocity_dy", "velocity_dx"),
    STRAIN_MAPS: ("ddy_dy", "ddy_dx", "ddx_dy", "ddx_dx", "local_growth_rate"),
}


def labels_of(name: str, is_volume: bool) -> tuple[str, ...]:
    """What lies along the first dimension of a variable that holds several maps."""
    if name == WORK_MAPS and is_volume:
        return (*_PLAIN_WORK_MAPS, "velocity_dz", "velocity_dy", "velocity_dx")
    return LABELS[name]


def canon_dims(transform: GridTransform) -> tuple[str, ...]:
    """The dimensions of maps on the canonical image or volume."""
    return CANON_3D if transform.is_volume else CANON


def work_dims(transform: GridTransform) -> tuple[str, ...]:
    """The dimensions of maps on the work grid."""
    return WORK_3D if transform.is_volume else WORK


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
        """Attributes as in the CF conventions."""
        found = {"long_name": self.long_name}
        if isinstance(self.units, str):
            found = {"units": self.units, **found}
        else:
            found |= {
                "labels": " ".join(labels_of(self.name, "work_z_um" in self.dims)),
                "units_of_labels": "; ".join(self.units),
            }
        if self.name in ALL_COORDINATES:
            found["axis"] = self.name.removesuffix("_um")[-1].upper()
        return found


def variables_of(result: TransportResult) -> list[Variable]:
    """Coordinates, the canonical maps, and all maps on the work grid (`WORK_MAPS`)."""
    transform, work, power, unit = result.transform, result.work, result.scales.power, result.units.length
    cost_um = f"pixel mass {unit}^2" if power == 2 else f"pixel mass {unit}"
    mass, velocity = "pixel mass", result.velocity_field
    found = _coordinates(transform)
    components = [("velocity_dz", velocity[..., 0], unit, "displacement towards higher planes; NaN where unknown")]
    for name, values, units, meaning in (
        ("mass_source", transform.rasterize_to_canon(work.mass_source), mass, "source mass per pixel"),
        ("mass_target", transform.rasterize_to_canon(work.mass_target), mass, "target mass per pixel"),
        ("mass_created", result.mass_created, mass, "created mass per pixel"),
        ("mass_destroyed", result.mass_destroyed, mass, "destroyed mass per pixel"),
        *(components if transform.is_volume else []),
        ("velocity_dy", velocity[..., -2], unit, "displacement down; NaN where unknown"),
        ("velocity_dx", velocity[..., -1], unit, "displacement to the right; NaN where unknown"),
        ("cost_source", result.cost_source, cost_um, "transport cost at the source pixel"),
        ("cost_target", result.cost_target, cost_um, "transport cost at the target pixel"),
    ):
        found.append(Variable(name, canon_dims(transform), values, units, meaning))
    found.append(_work_maps(work, power, ("work_map", *work_dims(transform))))
    if work.strain is not None:
        found += _strain_variables(result)
    return found


def attributes_of(result: TransportResult) -> dict[str, Any]:
    """Scalars as they are (`plain_json.exact`), the rest as JSON text, so that every format can hold them."""
    scalars = {column.name: plain_json.exact(getattr(result, column.name)) for column in FIELDS}
    is_euclidean = result.config.metric == "euclidean"
    units = {
        column.name: column_unit(column.name, result.units, is_euclidean=is_euclidean)
        for column in FIELDS
        if column.unit
    }
    return {
        "Conventions": "CF-1.11",
        "title": "comparison of two masks by unbalanced optimal transport",
        "schema_version": SCHEMA_VERSION,
        "status": str(result.status),
        **scalars,
        "units": json.dumps(units),
        "length_unit": result.units.length,
        "config": result.config.to_json(),
        "transform": result.transform.to_json(),
        "versions": json.dumps(dict(result.versions)),
        "notices": json.dumps([notice.to_plain() for notice in result.notices]),
        **({} if result.pose is None else {"pose": json.dumps(result.pose.to_plain())}),
        **({} if result.error_bars is None else {"error_bars": json.dumps(result.error_bars.to_plain())}),
    }


def history_of(result: TransportResult) -> dict[str, str]:
    """The trace of the solve as further attributes; for an unconverged solve, too long for some formats."""
    records = [[plain_json.exact(value) for value in record] for record in result.work.trace]
    return {"trace_fields": " ".join(TraceRecord._fields), "trace": json.dumps(records)}


def result_from(variables: Mapping[str, NDArray[Any]], attributes: Mapping[str, Any]) -> TransportResult:
    """The result whose `variables_of`, `attributes_of` and `history_of` these are."""
    work = dict(zip(labels_of(WORK_MAPS, "velocity_dz" in variables), variables[WORK_MAPS], strict=True))
    scalars: dict[str, Any] = {column.name: _from_plain(column, attributes) for column in FIELDS}
    config = TransportConfig.from_json(attributes["config"])
    arrays = ("mass_created", "mass_destroyed", "cost_source", "cost_target")
    maps: dict[str, Any] = {name: variables[name] for name in arrays}
    return TransportResult(
        **maps,
        velocity_field=_velocity(variables),
        velocity_valid=np.isfinite(variables["velocity_dy"]),
        **scalars,
        status=Status(attributes["status"]),
        config=config,
        # Stores of earlier versions have 1.0 here for an unknown pixel size; the config always had null.
        transform=replace(GridTransform.from_json(attributes["transform"]), px_size_um=config.px_size_um),
        versions=plain_json.parse(attributes["versions"]),
        notices=tuple(map(Notice.from_plain, plain_json.parse(attributes["notices"]))),
        pose=_pose(attributes),
        error_bars=_error_bars(attributes),
        work=WorkMaps(
            **{name: work[name] for name in _PLAIN_WORK_MAPS},
            velocity_px=_velocity(work),
            velocity_valid=np.isfinite(work["velocity_dy"]),
            trace=tuple(TraceRecord(*map(float, record)) for record in plain_json.parse(attributes["trace"])),
            **_strain(variables),
        ),
    )


_FROM_PLAIN: dict[str, Callable[[Any], Any]] = {"float64": float, "int64": int, "string": str}


def _from_plain(column: Column, attributes: Mapping[str, Any]) -> Any:
    if column.name in ADDED and column.name not in attributes:  # a store of an earlier version
        return math.nan
    return _FROM_PLAIN[column.kind](attributes[column.name])


def _pose(attributes: Mapping[str, Any]) -> Pose | None:
    if "pose" not in attributes:
        return None
    from pairframe.alignment import Pose

    return Pose.from_plain(plain_json.parse(attributes["pose"]))


def _error_bars(attributes: Mapping[str, Any]) -> ErrorBars | None:
    if "error_bars" not in attributes:
        return None
    return ErrorBars.from_plain(plain_json.parse(attributes["error_bars"]))


def _velocity(maps: Mapping[str, NDArray[Any]]) -> Float:
    names = ("velocity_dz", "velocity_dy", "velocity_dx")
    return np.stack([maps[name] for name in names if name in maps], axis=-1)


def _work_maps(work: WorkMaps, power: int, dims: tuple[str, ...]) -> Variable:
    """All maps on the work grid, (10, Hw, Ww), or (11, Zw, Yw, Xw); displacements are NaN where unknown."""
    values = np.stack([getattr(work, name) for name in _PLAIN_WORK_MAPS] + [*np.moveaxis(work.velocity_px, -1, 0)])
    cost = "pixel mass work px^2" if power == 2 else "pixel mass work px"
    units = (*("pixel mass",) * 4, *(cost,) * 2, *("work cost",) * 2, *("work px",) * (len(dims) - 1))
    meaning = "maps per work pixel; potentials are NaN off the masks, displacements where unknown"
    return Variable(WORK_MAPS, dims, values, units, meaning)


def _strain_variables(result: TransportResult) -> list[Variable]:
    """The strain on the work grid, from which a result is restored, and the maps of it on the canonical image."""
    strain, growth = result.work.strain, result.work.local_growth_rate
    assert strain is not None
    assert growth is not None
    shape = strain.shape[:2]
    values = np.concatenate([np.moveaxis(strain.reshape(*shape, 4), -1, 0), growth[None]])
    meaning = "gradient of the displacement and local growth rate per work pixel; NaN where unknown"
    return [
        Variable("areal_expansion", CANON, result.areal_expansion, "1", "factor of areas less 1"),
        Variable("anisotropy", CANON, result.anisotropy, "1", "logarithm of the ratio of the principal stretches"),
        Variable(
            "stretch_direction_deg",
            CANON,
            result.stretch_direction_deg,
            "degree",
            "direction of the larger stretch, counter-clockwise from the right",
        ),
        Variable(
            "local_growth_rate",
            CANON,
            result.local_growth_rate,
            "1",
            "logarithm of the mass that descends from a pixel over its own",
        ),
        Variable(STRAIN_MAPS, DIMS[STRAIN_MAPS], values, ("1",) * 5, meaning),
    ]


def _strain(variables: Mapping[str, NDArray[Any]]) -> dict[str, Float]:
    if STRAIN_MAPS not in variables:
        return {}
    *entries, growth = variables[STRAIN_MAPS]
    return {"strain": np.stack(entries, axis=-1).reshape(*growth.shape, 2, 2), "local_growth_rate": growth}


def _coordinates(transform: GridTransform) -> list[Variable]:
    """Centres of the pixels, um (px without a pixel size) from the canvas's upper left corner, in a volume of its first plane."""
    unit, n_axes = transform.units.length, transform.n_axes
    meanings = ("up from the first plane", "down from the top edge", "right from the left edge")[-n_axes:]
    found = []
    for kind, names in (("", canon_dims(transform)), ("work ", work_dims(transform))):
        for axis, (name, meaning) in enumerate(zip(names, meanings, strict=True)):
            n = (transform.work_shape_hw if kind else transform.canon_shape_hw)[axis]
            points = np.zeros((n, n_axes))
            points[:, axis] = np.arange(n) + 0.5
            centres = (transform.work_to_canon_yx(points) if kind else points)[:, axis] * transform.px_sides_um[axis]
            found.append(Variable(name, (name,), centres, unit, f"centres of the {kind}pixels, {meaning}"))
    return found

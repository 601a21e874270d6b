"""The columns of `results.parquet`: name, type, unit, meaning. What is written, checked and documented comes from here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pairframe.errors import StoreRowError

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA_VERSION = 3
VERSION_KEY = "pairframe_schema_version"
FAILED = "failed"  # the status of a pair without a result; all others are those of `pairframe.Status`

Row = dict[str, Any]
_MASS = "pixel mass"
_COST = "pixel mass work px^2"
_KINDS: dict[str, tuple[type, ...]] = {"string": (str,), "float64": (float, int), "int64": (int,)}


@dataclass(frozen=True)
class Column:
    """One column; `kind` is the name of its Arrow type, `required` says that it may not be null."""

    name: str
    kind: str
    unit: str
    meaning: str
    required: bool = False

    @property
    def arrow_type(self) -> pa.DataType:
        """As pyarrow has it."""
        import pyarrow as pa

        return {"string": pa.string(), "float64": pa.float64(), "int64": pa.int64()}[self.kind]


def _text(name: str, meaning: str, required: bool = False) -> Column:
    return Column(name, "string", "", meaning, required)


def _number(name: str, unit: str, meaning: str) -> Column:
    return Column(name, "float64", unit, meaning)


def _count(name: str, unit: str, meaning: str) -> Column:
    return Column(name, "int64", unit, meaning)


ABOUT_THE_PAIR = (
    _text("pair_id", "name of the pair; one row per name", required=True),
    _text("status", "how the solve ended (see `pairframe.Status`), or `failed`: no result", required=True),
    _text("error", "why there is no result; null when there is one"),
    _text("advice", "what to do about the status or the error"),
    _text("maps_group", "group of the maps in `maps.zarr`; null without a result"),
    _text("source", "the source mask, as it was named"),
    _text("target", "the target mask, as it was named"),
    _text("created_at", "when the row was made, UTC, ISO 8601", required=True),
    _number("seconds", "s", "wall time of the comparison, where it was measured"),
    _text("work_key", "hash of the masks, the config and the version: what a resumed run goes by"),
)

# Each of these is a field of `TransportResult`.
FIELDS = (
    _number("M_source", _MASS, "mass of the source inside the frame"),
    _number("M_target", _MASS, "mass of the target inside the frame"),
    _number("total_mass_moved", _MASS, "mass that was transported"),
    _number("total_mass_created", _MASS, "mass of the target that came from nowhere"),
    _number("total_mass_destroyed", _MASS, "mass of the source that went nowhere"),
    _number("total_transport_cost_work_px2", _COST, "cost of the mass that the maps show as moved"),
    _number("total_transport_cost_um2", "pixel mass um^2", "the same in physical units"),
    _number("area_source_um2", "um^2", "area of the source's pixels"),
    _number("area_target_um2", "um^2", "area of the target's pixels"),
    _number("divergence", _COST, "debiased distance of the masks; NaN when one is empty"),
    _number("divergence_error", _COST, "bound on the error of `divergence`"),
    _number("noise_floor", "share", "share of the source that the method itself calls destroyed"),
    _number("noise_floor_target", "share", "share of the target that the method itself calls created"),
    _number("transport_cost", _COST, "transport term of the optimal plan"),
    _number("entropy_term", _COST, "entropy term of the optimal plan"),
    _number("marginal_penalty", _COST, "penalty term of the optimal plan"),
    _number("objective", _COST, "certified upper bound of the optimum"),
    _number("dual_objective", _COST, "certified lower bound of the optimum"),
    _number("gap", _COST, "their distance"),
    _number("relative_gap", "1", "gap over objective; bounded by `tol` when converged"),
    _number("marginal_error", "1", "error of the marginals; bounded by `tol` when converged"),
    _count("iterations", "1", "kernel applications on the work grid"),
    _number("epsilon", "coordinate unit^2", "entropy strength, after `coord_scale`"),
    _number("lambda_unbalanced", "coordinate unit^2", "penalty strength, after `coord_scale`; inf when balanced"),
    _text("backend", "engine that solved it"),
    _text("dtype", "numbers it used"),
    _text("device", "device it used"),
)

DERIVED = (
    _number("blur_um", "um", "below this length nothing is resolved"),
    _number(
        "reach_um",
        "um",
        "soft limit: of mass that has to go d, about exp(-d^2/(2 reach^2)) moves; the rest is destroyed and created",
    ),
    _number("mean_displacement_um", "um/frame", "mean displacement of the moved mass; NaN when none moved"),
    _number("percent_created", "%", "created mass, of the target; NaN when it is empty"),
    _number("percent_destroyed", "%", "destroyed mass, of the source; NaN when it is empty"),
    _number(
        "px_size_um",
        "um",
        "side of a canonical pixel; 1 when nobody said it (null in config_json), and lengths are in pixels",
    ),
    _count("downsample_factor", "px", "canonical pixels along the side of a work pixel"),
    _count("canon_height_px", "px", "height of the canvas"),
    _count("canon_width_px", "px", "width of the canvas"),
    _count("work_height_px", "work px", "height of the work grid"),
    _count("work_width_px", "work px", "width of the work grid"),
    _text("config_json", "the `TransportConfig`, as used"),
    _text("versions_json", "versions of what computed it"),
    _text("notices_json", "what a person should know about the comparison"),
)

# Wavelengths, in units of the blur, between which `features.band_energies` counts: octaves, and what is beyond them.
BAND_EDGES_BLUR = (8, 16, 32, 64, 128)
BAND_NAMES = (
    f"energy_share_over_{BAND_EDGES_BLUR[-1]}_blur",
    *(f"energy_share_{low}_to_{low * 2}_blur" for low in reversed(BAND_EDGES_BLUR[:-1])),
    f"energy_share_under_{BAND_EDGES_BLUR[0]}_blur",
)


def _band(name: str) -> Column:
    span = name.removeprefix("energy_share_").removesuffix("_blur").replace("_", " ")
    return _number(name, "share", f"share of the displacement's energy at wavelengths {span} times `blur_um`")


# Each of these is computed by `features.features_of`.
FEATURES = (
    _number("area_moved_um2", "um^2", "area of the moved mass; NaN unless mass counts pixels"),
    _number("area_created_um2", "um^2", "area of the created mass; NaN unless mass counts pixels"),
    _number("area_destroyed_um2", "um^2", "area of the destroyed mass; NaN unless mass counts pixels"),
    _number("percent_moved", "%", "moved mass, of the source; NaN when it is empty"),
    _number("fraction_moved", "share", "moved mass, of moved + created + destroyed"),
    _number("fraction_created", "share", "created mass, of moved + created + destroyed"),
    _number("fraction_destroyed", "share", "destroyed mass, of moved + created + destroyed"),
    _number("growth_rate", "1/frame", "natural logarithm of target mass over source mass; NaN when one is empty"),
    _number("p50_displacement_um", "um/frame", "half of the moved mass moved at most so far"),
    _number("p90_displacement_um", "um/frame", "nine tenths of the moved mass moved at most so far"),
    _number("max_displacement_um", "um/frame", "longest displacement of any pixel, however little left it"),
    _number("rms_displacement_um", "um/frame", "root mean square displacement of the moved mass"),
    _number("drift_dy_um", "um/frame", "mean displacement vector of the moved mass, down"),
    _number("drift_dx_um", "um/frame", "mean displacement vector of the moved mass, to the right"),
    _number("velocity_divergence_mean", "1/frame", "mean divergence of the displacement field: expansion is positive"),
    _number("velocity_divergence_rms", "1/frame", "its root mean square"),
    _number("velocity_curl_mean", "1/frame", "mean curl of the field: clockwise on the screen is positive"),
    _number("velocity_curl_rms", "1/frame", "its root mean square"),
    *(_band(name) for name in BAND_NAMES),
)

COLUMNS = (*ABOUT_THE_PAIR, *FIELDS, *DERIVED, *FEATURES)
BY_NAME: Mapping[str, Column] = {column.name: column for column in COLUMNS}


def arrow_schema() -> pa.Schema:
    """The fixed columns, in order, and the version in the metadata."""
    import pyarrow as pa

    fields = [pa.field(column.name, column.arrow_type, nullable=not column.required) for column in COLUMNS]
    return pa.schema(fields, metadata={VERSION_KEY: str(SCHEMA_VERSION)})


def columns_markdown() -> str:
    """The table of columns as `docs/results.md` shows it."""
    lines = ["| column | type | unit | meaning |", "|---|---|---|---|"]
    lines += [f"| `{c.name}` | {c.kind} | {c.unit or '–'} | {c.meaning} |" for c in COLUMNS]
    return "\n".join(lines)


def check_row(row: Mapping[str, Any]) -> Row:
    """A row with every fixed column, in order, and plain values; carried columns follow."""
    checked: Row = {column.name: _checked_value(column, row.get(column.name)) for column in COLUMNS}
    check_pair_id(checked["pair_id"])
    return checked | checked_extra({name: value for name, value in row.items() if name not in BY_NAME})


def check_pair_id(pair_id: object) -> str:
    """The name of a pair, or an error that says what is wrong with it."""
    if not isinstance(pair_id, str):
        got = f"{ascii(pair_id)[:80]}, which is {type(pair_id).__name__}"
        raise StoreRowError("a pair_id that is text", got, 'give it in quotes, e.g. pair_id="embryo 3"')
    if not pair_id:
        raise StoreRowError("a pair_id of at least one character", "an empty one", "name the pair")
    if not _is_unicode(pair_id):
        raise StoreRowError(
            "a pair_id that can be written as UTF-8", ascii(pair_id)[:80], "leave out the bytes that are no characters"
        )
    return pair_id


def checked_extra(extra: Mapping[str, Any]) -> Row:
    """Carried columns: any name that is not ours, and text, a number, a boolean or nothing in it."""
    checked: Row = {}
    for name, value in extra.items():
        if not isinstance(name, str) or not name or not _is_unicode(name) or name in BY_NAME:
            raise StoreRowError(
                "carried columns with names of their own",
                ascii(name)[:80],
                "rename the column; the names in docs/results.md are taken",
            )
        plain = value.item() if isinstance(value, np.generic) else value
        is_fine = plain is None or isinstance(plain, float | bool)
        is_fine |= isinstance(plain, str) and _is_unicode(plain)
        is_fine |= isinstance(plain, int) and -(2**63) <= plain < 2**63
        if not is_fine:
            raise StoreRowError(
                f"text, a number or a boolean in column {name!r}", ascii(value)[:80], "convert the value first"
            )
        checked[name] = plain
    return checked


def _checked_value(column: Column, value: Any) -> Any:
    plain: Any = value.item() if isinstance(value, np.generic) else value
    if plain is None and not column.required:
        return None
    if isinstance(plain, bool) or not isinstance(plain, _KINDS[column.kind]):
        raise StoreRowError(
            f"{column.kind} in column {column.name!r}", ascii(value)[:80], "make rows with write_maps or failed_row"
        )
    if isinstance(plain, str):
        # A path may hold bytes that are no text: they are kept visible rather than refused.
        return str(plain).encode("utf-8", "backslashreplace").decode() if column.name != "pair_id" else str(plain)
    return float(value) if column.kind == "float64" else plain


def _is_unicode(text: str) -> bool:
    """Lone surrogates are in Python strings but in no file."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True

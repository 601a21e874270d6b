"""The columns of `results.parquet`: name, type, unit and meaning, for writing, checking and documentation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pairframe.errors import StoreRowError
from pairframe.results.column import Column, count, number, text
from pairframe.results.error_bars import PARTS, QUANTITIES, column_name
from pairframe.results.volume_columns import VOLUME, VOLUME_FIELDS

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA_VERSION = 8  # 3 and 4 had a folder per group; up to 5 the reach was the root of lambda for all penalties
VERSION_KEY = "pairframe_schema_version"
# By schema version that can be read: the columns that had another name then, and their names now.
RENAMED: Mapping[int, Mapping[str, str]] = {
    3: {
        "drift_dy_um": "mean_displacement_dy_um",
        "drift_dx_um": "mean_displacement_dx_um",
        "velocity_divergence_mean": "expansion_mean",
        "velocity_divergence_rms": "expansion_rms",
        "velocity_curl_mean": "rotation_mean",
        "velocity_curl_rms": "rotation_rms",
        "work_height_px": "work_grid_height_px",
        "work_width_px": "work_grid_width_px",
    },
    4: {},
    5: {},
    6: {},
    7: {},
    SCHEMA_VERSION: {},
}
# Columns that were added, and the first schema version that has them; rows of earlier versions have null.
ADDED: Mapping[str, int] = {
    "warnings": 6,
    "shift_response_long": 6,
    "shift_response_short": 6,
    "pose_status": 6,
    "pose_kind": 6,
    "pose_angle_deg": 6,
    "pose_shift_dy_um": 6,
    "pose_shift_dx_um": 6,
    "pose_flipped": 6,
    "pose_scale": 6,
    "pose_iou_before": 6,
    "pose_iou_after": 6,
    "pose_runner_up_iou": 6,
    "debiased_transport_cost_um2": 7,
    "divergence_um2": 7,
    "divergence_error_um2": 7,
    "divergence_length_um": 7,
    "objective_um2": 7,
    "transport_length_um": 7,
    "mean_speed_um_per_min": 7,
    "p50_speed_um_per_min": 7,
    "p90_speed_um_per_min": 7,
    "growth_rate_per_h": 7,
    "areal_expansion_mean": 7,
    "areal_expansion_rms": 7,
    "anisotropy_mean": 7,
    "local_growth_rate_rms": 7,
    "pose_margin": 7,
    "pose_runner_up_angle_deg": 7,
    "pose_runner_up_flipped": 7,
    "motion_rms_um": 7,
    "motion_shift_dy_um": 7,
    "motion_shift_dx_um": 7,
    "motion_turn_deg": 7,
    "motion_scale": 7,
    "motion_shift_share": 7,
    "motion_turn_share": 7,
    "motion_scale_share": 7,
    "motion_deformation_share": 7,
    **{column_name(name, part): 7 for name in QUANTITIES for part in PARTS},
    "rim_um": 7,
    "error_bar_draws": 7,
    **{column.name: 8 for column in (*VOLUME_FIELDS, *VOLUME)},
}
FAILED = "failed"  # the status of a pair without a result; all others are those of `pairframe.Status`

Row = dict[str, Any]
_MASS = "pixel mass"
_COST = "pixel mass work px^2"
_KINDS: dict[str, tuple[type, ...]] = {"string": (str,), "float64": (float, int), "int64": (int,)}


ABOUT_THE_PAIR = (
    text("pair_id", "unique name of the pair", required=True),
    text("status", "how the solve ended (see `pairframe.Status`), or `failed` without a result", required=True),
    text("warnings", "codes of the notices to read before the numbers are used; null without any"),
    text("error", "why there is no result; null when there is one"),
    text("advice", "what to do about the status or the error"),
    text("maps_group", "name of the maps, which are `maps.zarr/<maps_group>.zarr.zip`; null without a result"),
    text("source", "name of the source mask, as given"),
    text("target", "name of the target mask, as given"),
    text("created_at", "time of the comparison, UTC, ISO 8601", required=True),
    number("seconds", "s", "wall time of the comparison, if measured"),
    text("work_key", "hash of the masks, the config and the version, by which a run resumes"),
)

# Each of these is a field of `TransportResult`.
FIELDS = (
    number("M_source", _MASS, "mass of the source inside the frame"),
    number("M_target", _MASS, "mass of the target inside the frame"),
    number("total_mass_moved", _MASS, "mass that was transported"),
    number("total_mass_created", _MASS, "mass of the target that did not come from the source"),
    number("total_mass_destroyed", _MASS, "mass of the source that did not reach the target"),
    number("total_transport_cost_work_px2", _COST, "transport cost of the moved mass"),
    number("total_transport_cost_um2", "pixel mass um^2", "the same in physical units"),
    number(
        "debiased_transport_cost_um2",
        "pixel mass um^2",
        "the same without the cost of mass at rest, which the blur spreads; 0 for a mask against itself",
    ),
    number("area_source_um2", "um^2", "area of the source's pixels; NaN for volumes"),
    number("area_target_um2", "um^2", "area of the target's pixels; NaN for volumes"),
    *VOLUME_FIELDS,
    number("divergence", _COST, "Sinkhorn divergence of the masks (debiased); NaN when one is empty"),
    number("divergence_error", _COST, "bound on the error of `divergence`"),
    number(
        "noise_floor",
        "share",
        "bias of the method: share of the source reported as destroyed when it is compared with itself; not an error of "
        "measurement",
    ),
    number("noise_floor_target", "share", "the same for the target: share reported as created when nothing happens"),
    number("transport_cost", _COST, "transport term of the optimal plan"),
    number("entropy_term", _COST, "entropy term of the optimal plan"),
    number("marginal_penalty", _COST, "penalty term of the optimal plan"),
    number("objective", _COST, "certified upper bound of the optimum"),
    number("dual_objective", _COST, "certified lower bound of the optimum"),
    number("gap", _COST, "upper minus lower bound"),
    number("relative_gap", "1", "gap over the cost that depends on the plan; bounded by `tol` when converged"),
    number("marginal_error", "1", "error of the marginals; bounded by `tol` when converged"),
    count("iterations", "1", "kernel applications on the work grid"),
    number("epsilon", "coordinate unit^2", "entropic regularisation, after `coord_scale`"),
    number(
        "lambda_unbalanced", "coordinate unit^2", "marginal relaxation (lambda), after `coord_scale`; inf when balanced"
    ),
    text("backend", "engine"),
    text("dtype", "floating-point type of the engine"),
    text("device", "device of the engine"),
)

# Costs in units that do not depend on the work grid. Each is a property of `TransportResult`.
COSTS = (
    number("divergence_um2", "pixel mass um^2", "`divergence` in physical units"),
    number("divergence_error_um2", "pixel mass um^2", "bound on the error of `divergence_um2`"),
    number(
        "divergence_length_um",
        "um",
        "divergence per unit of mass (the mean of both masks; the smaller one when each is normalised) as a "
        "length: k for a mask that was shifted by k; no distance if the "
        "masses differ, because it contains their difference at a price that grows with the reach",
    ),
    number("objective_um2", "pixel mass um^2", "`objective` in physical units"),
    number(
        "transport_length_um", "um", "debiased transport cost per unit of moved mass as a length; NaN when none moved"
    ),
)

# How the pair was compared.
SETTINGS = (
    number("blur_um", "um", "smallest length that is resolved"),
    number(
        "reach_um",
        "um",
        "limit of the displacement: mass that would have to go farther is destroyed and created; a soft limit with `kl`",
    ),
    number(
        "px_size_um",
        "um",
        "side of a canonical pixel (shortest side of a voxel); 1 if unknown (null in config_json): lengths are then in pixels",
    ),
    count("downsample_factor", "px", "canonical pixels along the side of a work pixel"),
    count("canon_height_px", "px", "height of the canvas"),
    count("canon_width_px", "px", "width of the canvas"),
    count("work_grid_height_px", "work px", "height of the work grid"),
    count("work_grid_width_px", "work px", "width of the work grid"),
    text("config_json", "the `TransportConfig`, as used"),
    text("versions_json", "versions of the software that computed it"),
    text("notices_json", "notices about the comparison"),
)

# How the target was moved before; null for masks compared as given. Each is an attribute of `result.pose`, by its name
# without ``pose_``, or a part of one.
POSE = (
    text("pose_status", "how sure the pose is: aligned, ambiguous or undetermined"),
    text("pose_kind", "what was fitted: shift, rigid or similarity"),
    number("pose_angle_deg", "degree", "turn of the target, counter-clockwise as the image is shown"),
    number("pose_shift_dy_um", "um", "shift of the target's centroid: down"),
    number("pose_shift_dx_um", "um", "shift of the target's centroid: to the right"),
    count("pose_flipped", "1", "1 if the target was mirrored top to bottom first, else 0"),
    number("pose_scale", "1", "factor of the target's lengths"),
    number("pose_iou_before", "1", "intersection over union of the masks as given"),
    number("pose_iou_after", "1", "intersection over union after the move"),
    number("pose_runner_up_iou", "1", "that of the best other pose"),
    number("pose_margin", "1", "difference of intersections over unions below which two poses count as equally good"),
    number("pose_runner_up_angle_deg", "degree", "turn of the best other pose"),
    count("pose_runner_up_flipped", "1", "1 if that one mirrors the target, else 0"),
)

# The whole displacement of the moved mass, pose included: parts of `result.motion`. Null if no mass moved.
MOTION = (
    number("motion_rms_um", "um", "root mean square of the whole displacement of the moved mass, pose included"),
    number("motion_shift_dy_um", "um", "its mean: down"),
    number("motion_shift_dx_um", "um", "its mean: to the right"),
    number("motion_turn_deg", "degree", "turn of the moved mass about its centroid, counter-clockwise as shown"),
    number("motion_scale", "1", "factor of its lengths"),
    number("motion_shift_share", "share", "part of the mean squared displacement that is a shift of the whole"),
    number("motion_turn_share", "share", "the part that is a turn of the whole"),
    number("motion_scale_share", "share", "the part that is a change of size of the whole"),
    number("motion_deformation_share", "share", "the rest: deformation"),
)

# Wavelengths, in units of the blur, between which `features.band_energies` counts: octaves, and all beyond them.
BAND_EDGES_BLUR = (8, 16, 32, 64, 128)
BAND_NAMES = (
    f"energy_share_over_{BAND_EDGES_BLUR[-1]}_blur",
    *(f"energy_share_{low}_to_{low * 2}_blur" for low in reversed(BAND_EDGES_BLUR[:-1])),
    f"energy_share_under_{BAND_EDGES_BLUR[0]}_blur",
)


def _band(name: str) -> Column:
    span = name.removeprefix("energy_share_").removesuffix("_blur").replace("_", " ")
    return number(name, "share", f"share of the displacement's energy at wavelengths {span} times `blur_um`")


# Numbers computed from a result. To add one, add a line here and its function to `features.FUNCTIONS`.
FEATURES = (
    number("percent_created", "%", "created mass, of the target; NaN when it is empty"),
    number("percent_destroyed", "%", "destroyed mass, of the source; NaN when it is empty"),
    number("percent_moved", "%", "moved mass, of the source; NaN when it is empty"),
    number("fraction_created", "share", "created mass, of moved + created + destroyed"),
    number("fraction_destroyed", "share", "destroyed mass, of moved + created + destroyed"),
    number("fraction_moved", "share", "moved mass, of moved + created + destroyed"),
    number("area_created_um2", "um^2", "area of the created mass; NaN unless mass counts pixels"),
    number("area_destroyed_um2", "um^2", "area of the destroyed mass; NaN unless mass counts pixels"),
    number("area_moved_um2", "um^2", "area of the moved mass; NaN unless mass counts pixels"),
    number("growth_rate", "1", "natural logarithm of target mass over source mass; NaN when one is empty"),
    number("mean_displacement_um", "um", "mean length of the displacement of the moved mass; NaN when none moved"),
    number("mean_displacement_dy_um", "um", "mean displacement vector of the moved mass: down"),
    number("mean_displacement_dx_um", "um", "mean displacement vector of the moved mass: to the right"),
    number("p50_displacement_um", "um", "median displacement of the moved mass"),
    number("p90_displacement_um", "um", "90th percentile of the displacement of the moved mass"),
    number("max_displacement_um", "um", "longest displacement of any pixel, however little mass left it"),
    number("rms_displacement_um", "um", "root mean square displacement of the moved mass"),
    number("expansion_mean", "1", "mean expansion (divergence of the displacement field); shrinking is negative"),
    number("expansion_rms", "1", "root mean square of the expansion"),
    number("rotation_mean", "1", "mean rotation (curl of the displacement field); clockwise is positive"),
    number("rotation_rms", "1", "root mean square of the rotation"),
    *(_band(name) for name in BAND_NAMES),
    number(
        "shift_response_long",
        "share",
        "share of a rigid shift along the long axis of the source that is seen as motion: 1 unless the penalty is `kl`",
    ),
    number("shift_response_short", "share", "the same across it"),
    number(
        "areal_expansion_mean",
        "1",
        "mean factor of areas less 1, from the strain, without the rim; NaN without `strain`",
    ),
    number("areal_expansion_rms", "1", "root mean square of the same"),
    number(
        "anisotropy_mean",
        "1",
        "mean logarithm of the ratio of the principal stretches, without the rim; NaN without `strain`",
    ),
    number("local_growth_rate_rms", "1", "root mean square of the local growth rate; NaN without `strain`"),
)

# Displacement and growth over the time between the frames; null unless the pair has a label `frame_interval_min`.
RATES = (
    number("mean_speed_um_per_min", "um/min", "`mean_displacement_um` over the minutes between the frames"),
    number("p50_speed_um_per_min", "um/min", "`p50_displacement_um` over the minutes between the frames"),
    number("p90_speed_um_per_min", "um/min", "`p90_displacement_um` over the minutes between the frames"),
    number("growth_rate_per_h", "1/h", "`growth_rate` over the hours between the frames"),
)
INTERVAL = "frame_interval_min"  # the label, carried from a manifest or an option

_PART_MEANINGS = {
    "low": "lower end of the interval of `{}` for uncertain outlines (segmentation error, 95 %)",
    "high": "upper end of that interval",
    "se": "its standard error",
}


def _part(quantity: str, part: str) -> Column:
    unit = next(column.unit for column in (*FIELDS, *FEATURES) if column.name == quantity)
    return number(column_name(quantity, part), unit, _PART_MEANINGS[part].format(quantity))


# How far the main numbers may be off because the outlines are uncertain; null unless error bars were asked for.
ERROR_BARS = (
    *(_part(name, part) for name in QUANTITIES for part in PARTS),
    number(
        "rim_um", "um", "uncertainty of the outlines, one standard deviation; NaN if several segmentations were given"
    ),
    count("error_bar_draws", "1", "comparisons with other outlines that the error bars come from"),
)

COLUMNS = (*ABOUT_THE_PAIR, *FIELDS, *COSTS, *SETTINGS, *FEATURES, *RATES, *POSE, *MOTION, *VOLUME, *ERROR_BARS)
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
    """Check the name of a pair."""
    if not isinstance(pair_id, str):
        got = f"{ascii(pair_id)[:80]}, which is {type(pair_id).__name__}"
        raise StoreRowError("a pair_id that is text", got, 'give it in quotes, e.g. pair_id="embryo 3"')
    if not pair_id:
        raise StoreRowError("a pair_id of at least one character", "an empty one", "name the pair")
    if not _is_unicode(pair_id):
        raise StoreRowError(
            "a pair_id that can be written as UTF-8", ascii(pair_id)[:80], "remove the bytes that are not text"
        )
    return pair_id


def checked_extra(extra: Mapping[str, Any]) -> Row:
    """Check carried columns: any name that is not a fixed column; values are text, numbers, booleans or None."""
    checked: Row = {}
    for name, value in extra.items():
        if not isinstance(name, str) or not name or not _is_unicode(name) or name in BY_NAME:
            raise StoreRowError(
                "carried columns whose names are not fixed columns",
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
            f"{column.kind} in column {column.name!r}", ascii(value)[:80], "use rows from write_maps or failed_row"
        )
    if isinstance(plain, str):
        # A path may hold bytes that are not text: they are escaped rather than refused.
        return str(plain).encode("utf-8", "backslashreplace").decode() if column.name != "pair_id" else str(plain)
    return float(value) if column.kind == "float64" else plain


def _is_unicode(text: str) -> bool:
    """Whether a string can be written as UTF-8; Python strings may hold lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True

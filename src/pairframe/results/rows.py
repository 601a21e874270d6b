"""The row of a pair in the table: of a result, or of a failure."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from pairframe.errors import PairframeError
from pairframe.results.features import features_of
from pairframe.results.result import TransportResult
from pairframe.results.schema import BY_NAME, FAILED, FIELDS, Row, check_row, checked_extra


def result_row(
    result: TransportResult,
    pair_id: str,
    maps_group: str | None = None,
    *,
    source: str | None = None,
    target: str | None = None,
    seconds: float | None = None,
    work_key: str | None = None,
    extra: Mapping[str, Any] | None = None,
) -> Row:
    """Every column for a result.

    Parameters
    ----------
    source, target : str, optional
        The masks, as they were named.
    seconds : float, optional
        Wall time of the comparison.
    work_key : str, optional
        What a resumed run knows this comparison by.
    extra : mapping, optional
        Carried columns: labels such as group, series, frame.
    """
    transform = result.transform
    derived = {
        "blur_um": result.blur_um,
        "reach_um": result.reach_um,
        "mean_displacement_um": result.mean_displacement_um,
        "percent_created": _percent(result.total_mass_created, result.M_target),
        "percent_destroyed": _percent(result.total_mass_destroyed, result.M_source),
        "px_size_um": transform.px_size_um,
        "downsample_factor": transform.downsample_factor,
        "canon_height_px": transform.canon_shape_hw[0],
        "canon_width_px": transform.canon_shape_hw[1],
        "work_height_px": transform.work_shape_hw[0],
        "work_width_px": transform.work_shape_hw[1],
        "config_json": result.config.to_json(),
        "versions_json": json.dumps(dict(result.versions)),
        "notices_json": json.dumps(list(result.notices)),
    }
    about = {
        "pair_id": pair_id,
        "status": str(result.status),
        "advice": result.status.advice,
        "maps_group": maps_group,
        "source": source,
        "target": target,
        "created_at": _now(),
        "seconds": seconds,
        "work_key": work_key,
    }
    fields = {column.name: getattr(result, column.name) for column in FIELDS}
    return check_row({**checked_extra(extra or {}), **about, **fields, **derived, **features_of(result)})


def lengths_in_px(row: Mapping[str, Any]) -> bool:
    """Whether nobody said how large a pixel is, so that the lengths of a row are in pixels; also of a failed row."""
    config = row["config_json"]
    return not isinstance(config, str) or json.loads(config).get("px_size_um") is None


def column_unit(name: str, *, in_px: bool, is_euclidean: bool = False) -> str:
    """The unit of a column for a given result: ``um`` is ``px`` without a pixel size, and a cost may be a length.

    Parameters
    ----------
    in_px : bool
        See `lengths_in_px` and `TransportResult.length_unit`.
    is_euclidean : bool
        Whether ``metric`` is ``euclidean``: costs are then mass times length.
    """
    unit = BY_NAME[name].unit
    if is_euclidean and "mass" in unit:
        unit = unit.replace("px^2", "px").replace("um^2", "um")
    return unit.replace("um", "px") if in_px else unit


def failed_row(
    pair_id: str,
    error: str | BaseException,
    advice: str | None = None,
    *,
    source: str | None = None,
    target: str | None = None,
    seconds: float | None = None,
    work_key: str | None = None,
    extra: Mapping[str, Any] | None = None,
) -> Row:
    """The row of a pair without a result. A `PairframeError` brings its own advice."""
    if isinstance(error, PairframeError):
        message = f"{type(error).__name__}: expected {error.expected}, got {error.got}"
        advice = error.fix if advice is None else advice
    else:
        message = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
    about = {
        "pair_id": pair_id,
        "status": FAILED,
        "error": message,
        "advice": advice,
        "source": source,
        "target": target,
        "created_at": _now(),
        "seconds": seconds,
        "work_key": work_key,
    }
    return check_row({**checked_extra(extra or {}), **about})


def _percent(part: float, whole: float) -> float:
    return 100 * part / whole if whole > 0 else math.nan


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")

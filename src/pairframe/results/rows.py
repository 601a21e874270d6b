"""The row of a pair in the table: of a result, or of a failure."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from pairframe.errors import PairframeError
from pairframe.results.features import features_of, volume_columns
from pairframe.results.result import TransportResult
from pairframe.results.schema import COSTS, FAILED, FIELDS, INTERVAL, Row, check_row, checked_extra

# The feature that each of `schema.RATES` divides by time, and the unit of that time in minutes.
_RATE_OF = {
    **{f"{of}_speed_um_per_min": (f"{of}_displacement_um", 1.0) for of in ("mean", "p50", "p90")},
    "growth_rate_per_h": ("growth_rate", 60.0),
}


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
        Names of the masks, as given.
    seconds : float, optional
        Wall time of the comparison.
    work_key : str, optional
        Hash by which a resumed run recognises this comparison.
    extra : mapping, optional
        Carried columns: labels such as group, series, frame.
    """
    transform = result.transform
    settings = {
        "blur_um": result.blur_um,
        "reach_um": result.reach_um,
        "px_size_um": transform.units.px_size,
        "downsample_factor": transform.downsample_factor,
        "canon_height_px": transform.canon_shape_hw[-2],
        "canon_width_px": transform.canon_shape_hw[-1],
        "work_grid_height_px": transform.work_shape_hw[-2],
        "work_grid_width_px": transform.work_shape_hw[-1],
        "config_json": result.config.to_json(),
        "versions_json": json.dumps(dict(result.versions)),
        "notices_json": json.dumps([notice.to_plain() for notice in result.notices]),
    }
    about = {
        "pair_id": pair_id,
        "status": str(result.status),
        "warnings": " ".join(notice.code for notice in result.warnings) or None,
        "advice": result.status.advice,
        "maps_group": maps_group,
        "source": source,
        "target": target,
        "created_at": _now(),
        "seconds": seconds,
        "work_key": work_key,
    }
    fields = {column.name: getattr(result, column.name) for column in (*FIELDS, *COSTS)}
    features = features_of(result)
    volume = volume_columns(result) if transform.is_volume else {}
    numbers = (
        features
        | volume
        | rates(features, (extra or {}).get(INTERVAL))
        | _pose_columns(result)
        | motion_columns(result)
    )
    if result.error_bars is not None:
        numbers |= result.error_bars.columns()
    return check_row({**checked_extra(extra or {}), **about, **fields, **settings, **numbers})


def rates(features: Mapping[str, Any], minutes: Any) -> dict[str, float | None]:
    """The columns of `schema.RATES` from the features of a pair; None unless the minutes between its frames are known."""
    if isinstance(minutes, bool) or not isinstance(minutes, int | float) or not 0 < minutes < math.inf:
        return dict.fromkeys(_RATE_OF)
    found = {}
    for name, (feature, unit_min) in _RATE_OF.items():
        value = features.get(feature)
        found[name] = None if value is None else value / (minutes / unit_min)
    return found


def _pose_columns(result: TransportResult) -> dict[str, Any]:
    """The columns of `schema.POSE`; none for masks compared as given."""
    pose = result.pose
    if pose is None:
        return {}
    return {
        "pose_status": str(pose.status),
        "pose_kind": pose.kind,
        "pose_angle_deg": pose.angle_deg,
        "pose_shift_dy_um": pose.shift_yx_um[0],
        "pose_shift_dx_um": pose.shift_yx_um[1],
        "pose_flipped": int(pose.flipped),
        "pose_scale": pose.scale,
        "pose_iou_before": pose.iou_before,
        "pose_iou_after": pose.iou_after,
        "pose_runner_up_iou": None if pose.runner_up is None else pose.runner_up.iou,
        "pose_margin": pose.margin,
        "pose_runner_up_angle_deg": None if pose.runner_up is None else pose.runner_up.change.angle_deg,
        "pose_runner_up_flipped": None if pose.runner_up is None else int(pose.runner_up.change.flipped),
    }


def motion_columns(result: TransportResult) -> dict[str, Any]:
    """The columns of `schema.MOTION`; none if no mass moved."""
    motion = result.motion
    if not math.isfinite(motion.mean_square):
        return {}
    return {
        "motion_rms_um": math.sqrt(motion.mean_square),
        "motion_shift_dy_um": motion.shift_yx[-2],
        "motion_shift_dx_um": motion.shift_yx[-1],
        **({"motion_shift_dz_um": motion.shift_yx[0]} if result.transform.is_volume else {}),
        "motion_turn_deg": motion.turn_deg,
        "motion_scale": motion.scale,
        "motion_shift_share": motion.shift_share,
        "motion_turn_share": motion.turn_share,
        "motion_scale_share": motion.scale_share,
        "motion_deformation_share": motion.deformation_share,
    }


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


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")

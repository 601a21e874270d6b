"""Short names and units of columns and statuses for terminals and pages."""

from __future__ import annotations

from pairframe.engines import Status
from pairframe.results.error_bars import QUANTITIES, column_name
from pairframe.results.row_units import column_unit
from pairframe.results.schema import BAND_NAMES, BY_NAME, FAILED
from pairframe.units import Units, pretty


def _band_words(name: str) -> str:
    """``energy_share_8_to_16_blur`` as ``motion at 8–16 × blur``: its wavelengths."""
    span = name.removeprefix("energy_share_").removesuffix("_blur")
    return f"motion at {span.replace('_to_', '–').replace('over_', '>').replace('under_', '<')} × blur"


# Labels that a run adds to a pair of frames; labels of the user keep their names.
_LABEL_NAMES = {
    "frame_target": "target frame",
    "time_target": "target time",
    "series_target": "target series",
    "frame_interval_min": "frame interval (min)",
}


# Columns of `results.parquet` with a short name; the others keep theirs.
SHORT_NAMES = {
    "pair_id": "pair",
    "M_source": "source mass",
    "M_target": "target mass",
    "warnings": "warnings",
    "total_mass_moved": "moved mass",
    "total_mass_created": "created mass",
    "total_mass_destroyed": "destroyed mass",
    "total_transport_cost_work_px2": "transport cost (work px)",
    "total_transport_cost_um2": "transport cost",
    "volume_source_um3": "source volume",
    "volume_target_um3": "target volume",
    "volume_moved_um3": "moved volume",
    "volume_created_um3": "created volume",
    "volume_destroyed_um3": "destroyed volume",
    "mean_displacement_dz_um": "mean displacement towards higher planes",
    "motion_shift_dz_um": "whole shift towards higher planes",
    "px_size_z_um": "distance of planes",
    "px_size_y_um": "voxel height",
    "px_size_x_um": "voxel width",
    "canon_depth_px": "canvas planes",
    "work_grid_depth_px": "work grid planes",
    "area_source_um2": "source area",
    "area_target_um2": "target area",
    "noise_floor": "bias of the method, source",
    "noise_floor_target": "bias of the method, target",
    "mean_displacement_um": "mean displacement",
    "percent_created": "created",
    "percent_destroyed": "destroyed",
    "blur_um": "blur",
    "reach_um": "reach",
    "px_size_um": "pixel size",
    "backend": "engine",
    "created_at": "computed",
    "seconds": "time",
    "growth_percent": "growth",
    "transport_cost": "transport term",
    "divergence": "divergence (work px)",
    "divergence_error": "divergence (work px), error bound",
    "divergence_um2": "divergence",
    "divergence_error_um2": "divergence, error bound",
    "divergence_length_um": "divergence per unit of mass",
    "debiased_transport_cost_um2": "transport cost, debiased",
    "transport_length_um": "transport cost per unit of mass, debiased",
    "objective": "objective (work px)",
    "objective_um2": "objective",
    "dual_objective": "objective, lower bound",
    "lambda_unbalanced": "lambda",
    "downsample_factor": "downsampling",
    "canon_height_px": "canvas height",
    "canon_width_px": "canvas width",
    "work_grid_height_px": "work grid height",
    "work_grid_width_px": "work grid width",
    "area_moved_um2": "moved area",
    "area_created_um2": "created area",
    "area_destroyed_um2": "destroyed area",
    "percent_moved": "moved",
    "fraction_moved": "moved, of all mass",
    "fraction_created": "created, of all mass",
    "fraction_destroyed": "destroyed, of all mass",
    "growth_rate": "growth, log ratio",
    "growth_rate_per_h": "growth rate",
    "mean_speed_um_per_min": "mean speed",
    "p50_speed_um_per_min": "median speed",
    "p90_speed_um_per_min": "speed, 90th percentile",
    "p50_displacement_um": "median displacement",
    "p90_displacement_um": "displacement, 90th percentile",
    "max_displacement_um": "longest displacement",
    "rms_displacement_um": "displacement, root mean square",
    "mean_displacement_dy_um": "mean displacement down",
    "mean_displacement_dx_um": "mean displacement to the right",
    "expansion_mean": "mean expansion",
    "expansion_rms": "expansion, root mean square",
    "rotation_mean": "mean rotation",
    "rotation_rms": "rotation, root mean square",
    "areal_expansion_mean": "mean areal expansion",
    "areal_expansion_rms": "areal expansion, root mean square",
    "anisotropy_mean": "mean anisotropy of the stretch",
    "local_growth_rate_rms": "local growth rate, root mean square",
    "shift_response_long": "response to a shift along the body",
    "shift_response_short": "response to a shift across the body",
    "motion_rms_um": "whole motion, root mean square",
    "motion_shift_dy_um": "whole shift down",
    "motion_shift_dx_um": "whole shift to the right",
    "motion_turn_deg": "whole turn",
    "motion_scale": "whole change of size",
    "motion_shift_share": "shift, of the motion",
    "motion_turn_share": "turn, of the motion",
    "motion_scale_share": "change of size, of the motion",
    "motion_deformation_share": "deformation, of the motion",
    "pose_angle_deg": "pose, turn",
    "pose_shift_dy_um": "pose, shift down",
    "pose_shift_dx_um": "pose, shift to the right",
    "pose_flipped": "pose, mirrored",
    "pose_scale": "pose, scale",
    "pose_iou_before": "overlap (IoU) before",
    "pose_iou_after": "overlap (IoU) after",
    "pose_margin": "overlap (IoU), margin",
    "pose_runner_up_iou": "overlap (IoU) of the next best pose",
    "pose_runner_up_angle_deg": "next best pose, turn",
    "pose_runner_up_flipped": "next best pose, mirrored",
    **{name: _band_words(name) for name in BAND_NAMES},
    "rim_um": "uncertainty of the outlines",
    "error_bar_draws": "draws of the error bars",
}
# Beside the name of a quantity with error bars.
_PART_WORDS = {"low": "low", "high": "high", "se": "standard error"}
SHORT_NAMES |= {
    column_name(name, part): f"{SHORT_NAMES.get(name, name)}, {words}"
    for name in QUANTITIES
    for part, words in _PART_WORDS.items()
}
STATUS_WORDS = {
    str(Status.converged): "converged",
    str(Status.max_iterations): "not converged",
    str(Status.impossible): "impossible",
    str(Status.empty_source): "empty source",
    str(Status.empty_target): "empty target",
    FAILED: "failed",
}
# Good: certified. Odd: certified, but check the pair. Bad: no numbers, or uncertified ones.
STATUS_KINDS = {
    str(Status.converged): "good",
    str(Status.empty_source): "odd",
    str(Status.empty_target): "odd",
}


def status_word(status: str, *, has_warnings: bool = False) -> str:
    """A status as text; with warnings, one that says so."""
    word = STATUS_WORDS.get(status, status)
    if not has_warnings:
        return word
    return "solved exactly, but read this" if status == Status.converged else f"{word}, read this"


def status_kind(status: str, *, has_warnings: bool = False) -> str:
    """``good``, ``odd`` or ``bad``; a pair with warnings is not good."""
    kind = STATUS_KINDS.get(status, "bad")
    return "odd" if kind == "good" and has_warnings else kind


def label_name(column: str) -> str:
    """A carried column as a heading."""
    return _LABEL_NAMES.get(column, column)


def short_name(column: str) -> str:
    """The heading of a column."""
    return SHORT_NAMES.get(column, column.replace("_", " "))


def unit(column: str, units: Units, *, is_euclidean: bool = False) -> str:
    """Unit of a column as people write it; empty for a number without one."""
    if column == "growth_percent":
        return "%"
    text = column_unit(column, units, is_euclidean=is_euclidean) if column in BY_NAME else ""
    text = "" if text == "1" else text
    return pretty(text).replace("pixel mass ", "mass × ").replace("pixel mass", "px" if units.n_axes == 2 else "voxels")

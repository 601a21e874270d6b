"""Short names, units and numbers as a person reads them in the pages."""

from __future__ import annotations

import math
from typing import Any

from pairframe.engines import Status
from pairframe.report.style import minus, percent_digits
from pairframe.results.schema import BAND_NAMES, BY_NAME, FAILED


def _band_words(name: str) -> str:
    """``energy_share_8_to_16_blur`` as ``motion at 8–16 × blur``: its wavelengths."""
    span = name.removeprefix("energy_share_").removesuffix("_blur")
    return f"motion at {span.replace('_to_', '–').replace('over_', '>').replace('under_', '<')} × blur"


# Labels that a run itself gives to a pair of frames; a user's own keep their names.
_LABEL_NAMES = {
    "frame_target": "target frame",
    "time_target": "target time",
    "series_target": "target series",
    "frame_interval_min": "frame interval (min)",
}


# Of the columns of `results.parquet` that are worth a short name; the others keep theirs.
SHORT_NAMES = {
    "pair_id": "pair",
    "M_source": "source mass",
    "M_target": "target mass",
    "total_mass_moved": "moved mass",
    "total_mass_created": "created mass",
    "total_mass_destroyed": "destroyed mass",
    "total_transport_cost_work_px2": "transport cost (work px)",
    "total_transport_cost_um2": "transport cost",
    "area_source_um2": "source area",
    "area_target_um2": "target area",
    "noise_floor": "noise floor, source",
    "noise_floor_target": "noise floor, target",
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
    "divergence": "distance of the masks",
    "divergence_error": "distance, error bound",
    "dual_objective": "objective, lower bound",
    "lambda_unbalanced": "lambda",
    "downsample_factor": "downsampling",
    "canon_height_px": "canvas height",
    "canon_width_px": "canvas width",
    "work_height_px": "work grid height",
    "work_width_px": "work grid width",
    "area_moved_um2": "moved area",
    "area_created_um2": "created area",
    "area_destroyed_um2": "destroyed area",
    "percent_moved": "moved",
    "fraction_moved": "moved, of all mass",
    "fraction_created": "created, of all mass",
    "fraction_destroyed": "destroyed, of all mass",
    "growth_rate": "growth rate",
    "p50_displacement_um": "median displacement",
    "p90_displacement_um": "displacement, 90th percentile",
    "max_displacement_um": "longest displacement",
    "rms_displacement_um": "displacement, root mean square",
    "drift_dy_um": "drift down",
    "drift_dx_um": "drift to the right",
    "velocity_divergence_mean": "expansion, mean",
    "velocity_divergence_rms": "expansion, root mean square",
    "velocity_curl_mean": "curl, mean",
    "velocity_curl_rms": "curl, root mean square",
    **{name: _band_words(name) for name in BAND_NAMES},
}
STATUS_WORDS = {
    str(Status.converged): "converged",
    str(Status.max_iterations): "not converged",
    str(Status.impossible): "impossible",
    str(Status.empty_source): "empty source",
    str(Status.empty_target): "empty target",
    FAILED: "failed",
}
# Good: the numbers hold. Odd: they hold, but look at the pair. Bad: there are none, or they are not certified.
STATUS_KINDS = {
    str(Status.converged): "good",
    str(Status.empty_source): "odd",
    str(Status.empty_target): "odd",
}


def status_word(status: str) -> str:
    """A status as a person says it."""
    return STATUS_WORDS.get(status, status)


def status_kind(status: str) -> str:
    """``good``, ``odd`` or ``bad``."""
    return STATUS_KINDS.get(status, "bad")


def label_name(column: str) -> str:
    """A carried column as a heading."""
    return _LABEL_NAMES.get(column, column)


def short_name(column: str) -> str:
    """What the head of a table says."""
    return SHORT_NAMES.get(column, column.replace("_", " "))


def unit(column: str, *, lengths_in_px: bool, is_euclidean: bool = False) -> str:
    """Unit of a column as people write it; without a pixel size, lengths are in pixels and not in um."""
    if column == "growth_percent":
        return "%"
    text = BY_NAME[column].unit if column in BY_NAME else ""
    if lengths_in_px:
        text = text.replace("um", "px")
    if is_euclidean:
        text = text.replace("um^2", "um").replace("px^2", "px") if "mass" in text else text
    text = "" if text == "1" else text
    return text.replace("um", "µm").replace("^2", "²").replace("pixel mass ", "mass × ").replace("pixel mass", "px")


def number(value: Any, unit: str = "") -> str:
    """Four digits with separators, an exponent where that says more, a dash for what is missing."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    size = abs(value)
    if unit == "%" and value < 0 and size < 1e-3:
        return "−0"
    if unit == "%" and (0 < value < 1e-3 or 0 < abs(100 - value) < 1):
        return percent_digits(value)
    if size != 0 and not 1e-3 <= size < 1e9:
        return scientific(value)
    digits = 3 - math.floor(math.log10(size)) if size else 0
    text = f"{round(value, digits):,.{max(0, digits)}f}"
    return minus(text.rstrip("0").rstrip(".") if "." in text else text)


def scientific(value: Any, digits: int = 1) -> str:
    """Always with an exponent, as errors and tolerances are written: ``3.7e−12``."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return minus(f"{value:.{digits}e}") if is_number else number(value)


def share(value: Any) -> str:
    """A share in percent, two digits."""
    return "–" if value is None or not math.isfinite(value) else minus(f"{100 * value:.2g} %")

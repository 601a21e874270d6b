"""Short names, units and numbers as a person reads them in the pages."""

from __future__ import annotations

import math
from typing import Any

from pairframe.engines import Status
from pairframe.results.schema import BY_NAME, FAILED

# Of the columns of `results.parquet` that are worth a short name; the others keep theirs.
SHORT_NAMES = {
    "pair_id": "pair",
    "M_source": "source mass",
    "M_target": "target mass",
    "total_mass_moved": "moved",
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
    if unit == "%" and 0 < size < 1e-3:
        return "<0.001" if value > 0 else "−0"
    if size != 0 and not 1e-3 <= size < 1e9:
        return f"{value:.1e}".replace("-", "−")
    digits = 3 - math.floor(math.log10(size)) if size else 0
    text = f"{round(value, digits):,.{max(0, digits)}f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text).replace("-", "−")


def share(value: Any) -> str:
    """A share in percent, two digits."""
    return "–" if value is None or not math.isfinite(value) else f"{100 * value:.2g} %"

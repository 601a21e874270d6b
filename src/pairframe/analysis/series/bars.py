"""Error bars of a series, from those of its pairs: see `pairframe.results.error_bars`."""

from __future__ import annotations

import math

from pairframe.results.cohort_table import PlainRow, is_euclidean
from pairframe.results.error_bars import PARTS, column_name


def bars_of(row: PlainRow | None, area_source: float, area_target: float, duration: float) -> dict[str, float]:
    """Ends and standard errors of the step into a frame; NaN where the pair has none.

    Parameters
    ----------
    area_source, area_target : float
        Of which the shares are, um^2.
    duration : float
        Time of the step; speeds are per its unit.
    """
    found: dict[str, float] = {}
    for part in PARTS:
        for name, area in (("created", area_target), ("destroyed", area_source)):
            found[f"{name}_{part}_um2"] = _value(row, column_name(f"percent_{name}", part)) / 100 * area
        move = _value(row, column_name("mean_displacement_um", part))
        found[f"displacement_speed_{part}_um_per_time"] = move / duration
    length = _value(row, "divergence_length_um")
    middle = _value(row, "divergence")
    for part in ("low", "high"):
        ratio = max(_value(row, column_name("divergence", part)) / middle, 0.0) if middle > 0 else math.nan
        # A divergence is a squared length times a mass unless the metric is Euclidean.
        factor = ratio if row is not None and is_euclidean(row) else math.sqrt(ratio)
        found[f"divergence_speed_{part}_um_per_time"] = length * factor / duration
    return found


def _value(row: PlainRow | None, name: str) -> float:
    value = None if row is None else row.get(name)
    return math.nan if value is None else float(value)

"""Units of length as spelled in TIFF, ImageJ, OME and NGFF files."""

from __future__ import annotations

import math
from typing import Any

_MICROMETRES_IN = {
    "pm": 1e-6,
    "picometer": 1e-6,
    "Å": 1e-4,  # angstrom, U+00C5
    "angstrom": 1e-4,
    "nm": 1e-3,
    "nanometer": 1e-3,
    "um": 1.0,
    "\u00b5m": 1.0,  # micro sign
    "\u03bcm": 1.0,  # Greek mu
    "\\u00B5m": 1.0,  # ImageJ escapes the micro sign like this, literally
    "micron": 1.0,
    "micrometer": 1.0,
    "mm": 1e3,
    "millimeter": 1e3,
    "cm": 1e4,
    "centimeter": 1e4,
    "dm": 1e5,
    "decimeter": 1e5,
    "m": 1e6,
    "meter": 1e6,
    "in": 25400.0,
    "inch": 25400.0,
    "inche": 25400.0,  # what is left of "inches"
}


def micrometres_in(unit: object) -> float | None:
    """Return the micrometres in one ``unit``; None for pixels, a missing unit or an unknown one."""
    if not isinstance(unit, str):
        return None
    unit = unit.strip().strip("\0")
    if len(unit) > 2 and not unit.startswith("\\"):
        # Only for words; symbols are case-sensitive (Mm is not mm), and ms is not a length.
        unit = unit.lower().replace("metre", "meter").removesuffix("s")
    return _MICROMETRES_IN.get(unit)


def size_yx_um(size_y: Any, unit_y: object, size_x: Any, unit_x: object) -> tuple[float, float] | None:
    """Return the pixel size in micrometres, or None unless both sides are known and sane."""
    y, x = length_um(size_y, unit_y), length_um(size_x, unit_x)
    return None if y is None or x is None else (y, x)


def length_um(size: Any, unit: object) -> float | None:
    """Return a length in micrometres, or None unless it is known and sane."""
    factor = micrometres_in(unit)
    try:
        side = float(size) * factor if factor is not None else math.nan
    except (TypeError, ValueError):
        return None
    # Programs that do not know the size write 0 or NaN.
    return side if math.isfinite(side) and side > 0 else None

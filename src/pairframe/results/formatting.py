"""Numbers as text for terminals, figures and pages."""

from __future__ import annotations

import math
from typing import Any

LEAST_PERCENT = 1e-3  # smaller percentages are shown as "less than this"
ROUNDING = 1e-6  # relative to a whole: what a solve to the default tolerance leaves of nothing


def minus(text: str) -> str:
    """Text with U+2212 for every hyphen, the minus sign of figures and pages."""
    return text.replace("-", "\N{MINUS SIGN}")


def in_words(value: float) -> str:
    """Four digits, with separators instead of exponents where readable: ``267,100``, ``<0.001``."""
    if not math.isfinite(value) or value == 0:
        return minus(f"{value:g}")
    if 0 < value < 1e-3:
        return "<0.001"
    if not 1e-3 <= abs(value) < 1e12:
        return minus(f"{value:.3g}")
    decimals = max(0, 3 - math.floor(math.log10(abs(value))))
    rounded = round(value, 3 - math.floor(math.log10(abs(value))))
    text = minus(f"{rounded:,.{decimals}f}")
    return text.rstrip("0").rstrip(".") if "." in text else text


def part_of(part: float, whole: float) -> float:
    """The part, or 0 if it is only a rounding error of the whole."""
    return 0.0 if part <= ROUNDING * whole else part


def percent(part: float, whole: float) -> str:
    """A share of a whole (> 0) in percent; ``100%`` only for all of it, up to rounding errors."""
    return f"{percent_digits(100 * part / whole)}%"


def percent_digits(share_percent: float) -> str:
    """Three digits of a percentage, more to distinguish nearly all from all: ``42.6``, ``99.96``, ``>99.999``."""
    missing = abs(100 - share_percent)
    if 0 < share_percent <= 100 * ROUNDING:
        return "0"
    if 0 < share_percent < LEAST_PERCENT:
        return f"<{LEAST_PERCENT:g}"
    if missing <= 100 * ROUNDING:
        return "100"
    if missing < LEAST_PERCENT:
        return ">99.999" if share_percent < 100 else "<100.001"
    if missing < 1:
        return f"{share_percent:.{-math.floor(math.log10(missing))}f}".rstrip("0").rstrip(".")
    return minus(f"{share_percent:.3g}") if abs(share_percent) < 1e3 else in_words(share_percent)


def number(value: Any, unit: str = "") -> str:
    """Four digits with separators, an exponent for very small or large numbers, a dash for a missing one."""
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
    """A share in percent, two digits; ``<0.001 %`` for less, ``0 %`` for a rounding error."""
    if value is None or not math.isfinite(value):
        return "–"
    if abs(value) <= ROUNDING:
        return "0 %"
    return f"<{LEAST_PERCENT:g} %" if 0 < 100 * value < LEAST_PERCENT else minus(f"{100 * value:.2g} %")


def share_with_bias(part: float, whole: float, of: str, floor: float, is_noise: bool) -> str:
    """A share of a mask as text, with the bias of the method where that is not negligible."""
    if not whole > 0:
        return f"none {of}"
    if is_noise and floor > 0:
        return f"below the bias of the method, {percent(floor, 1.0)} {of}"
    bias = f" (bias of the method {percent(floor, 1.0)})" if math.isfinite(floor) else ""  # NaN for an empty mask
    return f"{percent(part, whole)} {of}{bias}"


def span(low: float, high: float, unit: str) -> str:
    """The interval of an error bar as text."""
    return f"outlines: {low:.3g} to {high:.3g} {unit}"

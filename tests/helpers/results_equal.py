"""Results to keep, and whether two of them are the same, bit for bit."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

import pairframe as pf
from pairframe.results import TransportResult
from pairframe.testing import disc

SHAPE = (30, 40)
SOURCE, TARGET = disc(SHAPE, (15, 12), 6), disc(SHAPE, (14, 20), 8)


def small_result(**config: object) -> TransportResult:
    return pf.compare(SOURCE, TARGET, pf.TransportConfig(**config))  # type: ignore[arg-type]


def unsolved_result(radius_px: float = 6) -> TransportResult:
    """Quick to make: one mask is empty, so nothing is solved."""
    return pf.compare(np.zeros(SHAPE, bool), disc(SHAPE, (15, 12), radius_px))


def differences(a: object, b: object) -> list[str]:
    """Names of the fields in which two results, or their work maps, differ in any bit or type of array."""
    found = []
    for field in fields(a):  # type: ignore[arg-type]
        one, other = getattr(a, field.name), getattr(b, field.name)
        if isinstance(one, np.ndarray):
            same = one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
        elif field.name == "work":
            found += [f"work.{name}" for name in differences(one, other)]
            continue
        elif isinstance(one, float):
            same = np.float64(one).tobytes() == np.float64(other).tobytes() or (one != one and other != other)
        elif field.name == "trace":
            same = np.array(one).tobytes() == np.array(other).tobytes() and all(
                type(r) is type(s) for r, s in zip(one, other, strict=True)
            )
        else:
            same = one == other and (type(one) is type(other) or field.name == "versions")
        if not same:
            found.append(field.name)
    return found

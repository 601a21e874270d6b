"""The last fraction of a degree: among turns that overlap alike to a fraction of a pixel, that in which the principal axes meet.

Overlap is read from pixels, so its best angle is uncertain by about a quarter of a pixel at the rim: 0.1 degrees for a body 120 px
long. The principal axes are means over all pixels, and of a body that was only turned they are ten times as exact.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pairframe.alignment.matching import Candidate, Matching

_MOST_PX = 0.25  # that any pixel may move; farther apart, the body has changed and its axes with it
_LEAST_ANISOTROPY = 0.1  # (larger - smaller variance) / both: rounder bodies have no axis


def with_axes_met(
    best: Candidate, matching: Matching, values: tuple[NDArray[np.generic], NDArray[np.generic]]
) -> Candidate:
    """The pose turned until the principal axes meet, if no pixel moves by more than a quarter of a pixel for it.

    Parameters
    ----------
    values : two (H, W)
        Of source and target; binary masks, coverages or densities.
    """
    source, target = (_principal_axis(np.asarray(one, dtype=np.float64)) for one in values)
    if source is None or target is None:
        return best
    moved = best.angle + (-target if best.flipped else target)
    missing = math.remainder(source - moved, math.pi)
    if abs(missing) * matching.target.radius * best.scale > _MOST_PX * matching.finest:
        return best
    return replace(best, angle=best.angle + missing)


def _principal_axis(values: NDArray[np.float64]) -> float | None:
    """Angle of the long axis, radians from the y axis towards the x axis; None for a round body."""
    total = float(values.sum())
    along = [values.sum(axis=1), values.sum(axis=0)]
    at = [np.arange(len(one)) - float(np.sum(one * np.arange(len(one)))) / total for one in along]
    yy, xx = (float(np.sum(one * place**2)) for one, place in zip(along, at, strict=True))
    yx = float(np.sum(at[0] * np.einsum("yx,x->y", values, at[1])))
    if math.hypot(yy - xx, 2 * yx) < _LEAST_ANISOTROPY * (yy + xx):
        return None
    return 0.5 * math.atan2(2 * yx, yy - xx)

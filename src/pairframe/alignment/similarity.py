"""`Similarity`: a shift, turn, mirroring and scaling of the plane, in the units of lengths."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pairframe import checks
from pairframe.errors import AlignError
from pairframe.types import Float


@dataclass(frozen=True)
class Similarity:
    """Mirror, turn and scale about a pivot, then shift.

    Positions are (y, x) in um (pixels if no pixel size is known), from the outer corner of the first pixel: pixel ``i``
    has its centre at ``(i + 0.5) * px_size``.

    Parameters
    ----------
    angle_deg : float
        Turn, counter-clockwise as the image is shown (rows downwards); stored from -180 to 180.
    shift_yx_um : (dy, dx)
        Displacement of the pivot.
    flipped : bool
        Mirror top to bottom first, before the turn.
    scale : float
        Factor of every length.
    pivot_yx_um : (y, x)
        The point that only shifts.
    """

    angle_deg: float = 0.0
    shift_yx_um: tuple[float, float] = (0.0, 0.0)
    flipped: bool = False
    scale: float = 1.0
    pivot_yx_um: tuple[float, float] = (0.0, 0.0)

    def __post_init__(self) -> None:
        if not checks.is_real_number(self.angle_deg) or not math.isfinite(self.angle_deg):
            raise AlignError("a finite angle_deg", checks.shown(self.angle_deg), "give degrees", "angle_deg")
        angle = math.remainder(float(self.angle_deg), 360.0)
        object.__setattr__(self, "angle_deg", 180.0 if angle == -180.0 else angle)
        object.__setattr__(self, "flipped", checks.boolean(self.flipped, "flipped", error=AlignError))
        object.__setattr__(self, "scale", checks.positive(self.scale, "scale", error=AlignError))
        for name in ("shift_yx_um", "pivot_yx_um"):
            value = getattr(self, name)
            if not (
                isinstance(value, tuple) and len(value) == 2 and all(checks.is_real_number(part) for part in value)
            ):
                raise AlignError(f"{name} to be two numbers (y, x)", checks.shown(value), "e.g. (0.0, 12.5)", name)
            object.__setattr__(self, name, (float(value[0]), float(value[1])))

    @property
    def matrix(self) -> Float:
        """The linear part, (2, 2), for columns (y, x)."""
        angle = self.angle_deg
        # Quarter turns are exact, so that they can be applied without resampling.
        exact = {0.0: (1.0, 0.0), 90.0: (0.0, 1.0), 180.0: (-1.0, 0.0), -90.0: (0.0, -1.0)}
        c, s = exact.get(angle, (math.cos(math.radians(angle)), math.sin(math.radians(angle))))
        f = -1.0 if self.flipped else 1.0
        return self.scale * np.array([[c * f, -s], [s * f, c]])

    @property
    def offset_yx_um(self) -> Float:
        """The image of the corner of the canvas, (2,): positions move to ``matrix @ p + offset``."""
        pivot = np.array(self.pivot_yx_um)
        offset: Float = pivot + np.array(self.shift_yx_um) - self.matrix @ pivot
        return offset

    def of_points(self, yx_um: ArrayLike) -> Float:
        """Move positions (..., 2)."""
        moved: Float = np.asarray(yx_um, dtype=np.float64) @ self.matrix.T + self.offset_yx_um
        return moved

    def inverse(self) -> Similarity:
        """The way back: ``s.inverse().of_points(s.of_points(p)) == p``."""
        # A mirrored turn is its own inverse: (R F)^-1 = F R^-1 = R F.
        pivot = (self.pivot_yx_um[0] + self.shift_yx_um[0], self.pivot_yx_um[1] + self.shift_yx_um[1])
        angle = self.angle_deg if self.flipped else -self.angle_deg
        shift = (-self.shift_yx_um[0], -self.shift_yx_um[1])
        return Similarity(angle, shift, self.flipped, 1.0 / self.scale, pivot)

    def then(self, after: Similarity) -> Similarity:
        """This change followed by another, about the same pivot."""
        # F R(a) = R(-a) F for the mirroring F: a mirroring afterwards turns the other way.
        angle = after.angle_deg + (-self.angle_deg if after.flipped else self.angle_deg)
        pivot = np.array(self.pivot_yx_um)
        dy, dx = after.of_points(pivot + np.array(self.shift_yx_um)) - pivot
        shift = (float(dy), float(dx))
        return Similarity(angle, shift, self.flipped != after.flipped, self.scale * after.scale, self.pivot_yx_um)

    def without_scale(self) -> Similarity:
        """The same with scale 1: the pivot still moves to the same place."""
        return Similarity(self.angle_deg, self.shift_yx_um, self.flipped, 1.0, self.pivot_yx_um)

    def turn_between(self, other: Similarity) -> float:
        """Degrees between the turns of two of one handedness, 0 to 180; 180 if only one is flipped."""
        return abs(math.remainder(self.angle_deg - other.angle_deg, 360.0)) if self.flipped == other.flipped else 180.0

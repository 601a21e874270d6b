"""Motion: the displacement of the moved mass as a shift, a turn, a scaling and the deformation that is left.

With ``x' = x - E x``, ``y' = y - E y``, the quarter turn J, ``r^2 = E|x'|^2``, ``alpha = E<y', x'> / r^2`` and
``beta = E<y', J x'> / r^2``, the best similarity has ``s = hypot(alpha, beta)`` and ``theta = atan2(beta, alpha)``, and

    E|y - x|^2 = |t|^2 + 4 s sin^2(theta / 2) r^2 + (s - 1)^2 r^2 + E|y' - s R(theta) x'|^2

is exact: shift, turn, scale and deformation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pairframe.errors import ArgumentError
from pairframe.types import Float


@dataclass(frozen=True)
class Motion:
    """A displacement field in four parts. NaN everywhere if no mass moved.

    Attributes
    ----------
    shift_yx : (dy, dx)
        Mean displacement, in the units of the positions.
    turn_deg : float
        Turn about the centroid, counter-clockwise as an image is shown (rows downwards).
    scale : float
        Factor of lengths about the centroid.
    mean_square : float
        Mean squared displacement ``E|y - x|^2``.
    shift_share, turn_share, scale_share, deformation_share : float
        Parts of it; they sum to 1, or are 0 if nothing was displaced.
    centre_yx : (y, x)
        Centroid of the moved mass before the motion.
    """

    shift_yx: tuple[float, float]
    turn_deg: float
    scale: float
    mean_square: float
    shift_share: float
    turn_share: float
    scale_share: float
    deformation_share: float
    centre_yx: tuple[float, float]

    def fitted(self, yx: ArrayLike) -> Float:
        """Where positions (..., 2) go by shift, turn and scale alone."""
        angle = math.radians(self.turn_deg)
        c, s = self.scale * math.cos(angle), self.scale * math.sin(angle)
        centred = np.asarray(yx, dtype=np.float64) - np.array(self.centre_yx)
        turned = np.stack(
            [c * centred[..., 0] - s * centred[..., 1], s * centred[..., 0] + c * centred[..., 1]], axis=-1
        )
        moved: Float = turned + np.array(self.centre_yx) + np.array(self.shift_yx)
        return moved


def decompose_motion(weights: ArrayLike, before_yx: ArrayLike, after_yx: ArrayLike) -> Motion:
    """Divide the motion of weighted points into shift, turn, scale and deformation.

    Parameters
    ----------
    weights : (n,)
        Mass of each point; not negative.
    before_yx, after_yx : (n, 2)
        Positions, rows first, rows downwards.
    """
    w = np.asarray(weights, dtype=np.float64)
    x, y = np.asarray(before_yx, dtype=np.float64), np.asarray(after_yx, dtype=np.float64)
    if w.ndim != 1 or x.shape != (len(w), 2) or y.shape != (len(w), 2):
        raise ArgumentError(
            "weights (n,) and positions (n, 2) of one length",
            f"{w.shape}, {x.shape} and {y.shape}",
            "give one row per point",
        )
    if not (np.isfinite(w).all() and (w >= 0).all() and np.isfinite(x).all() and np.isfinite(y).all()):
        raise ArgumentError("finite positions and weights >= 0", "others", "leave out points without a displacement")
    total = float(w.sum())
    if total <= 0:
        nan = math.nan
        return Motion((nan, nan), nan, nan, nan, nan, nan, nan, nan, (nan, nan))
    w = w / total
    centre, centre_after = w @ x, w @ y
    shift = w @ (y - x)
    x, y = x - centre, y - centre_after
    r2 = float(w @ (x**2).sum(axis=1))
    if r2 > 0:
        alpha = float(w @ (x * y).sum(axis=1)) / r2
        beta = float(w @ (x[:, 0] * y[:, 1] - x[:, 1] * y[:, 0])) / r2
        scale, angle = math.hypot(alpha, beta), math.atan2(beta, alpha)
    else:  # a single point
        alpha, beta, scale, angle = 1.0, 0.0, 1.0, 0.0
    fit = np.stack([alpha * x[:, 0] - beta * x[:, 1], beta * x[:, 0] + alpha * x[:, 1]], axis=1)
    parts = (
        float(shift @ shift),
        4 * scale * math.sin(angle / 2) ** 2 * r2,
        (scale - 1) ** 2 * r2,
        float(w @ ((y - fit) ** 2).sum(axis=1)),
    )
    mean_square = math.fsum(parts)
    shift_share, turn_share, scale_share, deformation_share = (
        part / mean_square if mean_square > 0 else 0.0 for part in parts
    )
    return Motion(
        (float(shift[0]), float(shift[1])),
        math.degrees(angle),
        scale,
        mean_square,
        shift_share,
        turn_share,
        scale_share,
        deformation_share,
        (float(centre[0]), float(centre[1])),
    )

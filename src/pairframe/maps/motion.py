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
    shift_yx : (dy, dx), or (dz, dy, dx) in a volume
        Mean displacement, in the units of the positions.
    turn_deg : float
        Turn about the centroid, counter-clockwise as an image is shown (rows downwards). In a volume the angle of the turn
        about its own axis, from 0 to 180.
    scale : float
        Factor of lengths about the centroid.
    mean_square : float
        Mean squared displacement ``E|y - x|^2``.
    shift_share, turn_share, scale_share, deformation_share : float
        Parts of it; they sum to 1, or are 0 if nothing was displaced.
    centre_yx : (y, x), or (z, y, x) in a volume
        Centroid of the moved mass before the motion.
    rotation : three rows of three, optional
        The turn in a volume as a matrix on (z, y, x).
    """

    shift_yx: tuple[float, ...]
    turn_deg: float
    scale: float
    mean_square: float
    shift_share: float
    turn_share: float
    scale_share: float
    deformation_share: float
    centre_yx: tuple[float, ...]
    rotation: tuple[tuple[float, ...], ...] | None = None

    def fitted(self, yx: ArrayLike) -> Float:
        """Where positions (..., 2), in a volume (..., 3), go by shift, turn and scale alone."""
        if self.rotation is not None:
            from_centre = np.asarray(yx, dtype=np.float64) - np.array(self.centre_yx)
            there: Float = self.scale * from_centre @ np.array(self.rotation).T
            there += np.array(self.centre_yx) + np.array(self.shift_yx)
            return there
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
    before_yx, after_yx : (n, 2), or (n, 3) in a volume
        Positions, rows first, rows downwards.
    """
    w = np.asarray(weights, dtype=np.float64)
    x, y = np.asarray(before_yx, dtype=np.float64), np.asarray(after_yx, dtype=np.float64)
    n_axes = x.shape[-1] if x.ndim == 2 and x.shape[-1] == 3 else 2
    if w.ndim != 1 or x.shape != (len(w), n_axes) or y.shape != (len(w), n_axes):
        raise ArgumentError(
            "weights (n,) and positions (n, 2), or (n, 3), of one length",
            f"{w.shape}, {x.shape} and {y.shape}",
            "give one row per point",
        )
    if not (np.isfinite(w).all() and (w >= 0).all() and np.isfinite(x).all() and np.isfinite(y).all()):
        raise ArgumentError("finite positions and weights >= 0", "others", "leave out points without a displacement")
    total = float(w.sum())
    if total <= 0:
        nan = math.nan
        return Motion((nan,) * n_axes, nan, nan, nan, nan, nan, nan, nan, (nan,) * n_axes)
    w = w / total
    if n_axes == 3:
        return _motion_in_volume(w, x, y)
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


def _motion_in_volume(w: Float, x: Float, y: Float) -> Motion:
    """The same with the best rotation R of a volume (Kabsch): the turn is ``2 (s r^2 - E<y', x'>)``, which is 0 for R = 1.

    In a plane this is ``4 s sin^2(theta / 2) r^2``; here the deformation need not be orthogonal to x', and the rest is counted
    with the turn. It is not negative, because no rotation has a larger ``E<y', R x'> = s r^2``.
    """
    centre, shift = w @ x, w @ (y - x)
    x, y = x - centre, y - w @ y
    r2 = float(w @ (x**2).sum(axis=1))
    rotation, scale = np.eye(3), 1.0
    if r2 > 0:
        left, singular, right = np.linalg.svd((y * w[:, None]).T @ x)
        # In a plane or on a line a mirror image is as good as a turn; only turns are wanted.
        signs = np.array([1.0, 1.0, np.sign(np.linalg.det(left @ right)) or 1.0])
        rotation = (left * signs) @ right
        scale = float((singular * signs).sum()) / r2
    turned = x @ rotation.T
    parts = (
        float(shift @ shift),
        2 * max(scale * r2 - float(w @ (x * y).sum(axis=1)), 0.0),
        (scale - 1) ** 2 * r2,
        float(w @ ((y - scale * turned) ** 2).sum(axis=1)),
    )
    mean_square = math.fsum(parts)
    shares = [part / mean_square if mean_square > 0 else 0.0 for part in parts]
    angle = math.degrees(math.acos(min(max((float(np.trace(rotation)) - 1) / 2, -1.0), 1.0)))
    rows = tuple(tuple(map(float, row)) for row in rotation)
    return Motion(
        tuple(map(float, shift)),
        angle,
        scale,
        mean_square,
        shares[0],
        shares[1],
        shares[2],
        shares[3],
        tuple(map(float, centre)),
        rows,
    )

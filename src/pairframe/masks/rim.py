"""Uncertain outlines: random masks whose rims lie a little inside or outside that of a given one.

A rim is moved along its normal by a smooth random amount, and as a whole by a constant one (a threshold that was a little
too high or too low). Fractions of pixels count, so that small moves are not rounded away.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pairframe.types import Float

EVEN_SHARE = 0.25  # of the variance of the rim's position: common to all of the rim
_SHORTEST_PX = 1.0  # correlation length


@dataclass(frozen=True, eq=False)
class UncertainRim:
    """A density and the distance of every pixel from its rim.

    Attributes
    ----------
    density : (H, W)
        Mass per pixel; mass outside the rim has the density of the nearest pixel inside.
    depth_px : (H, W)
        Distance from the rim, positive inside. The borders of the canvas are no rim.
    rim_px : float
        Standard deviation of the rim's position, pixels.
    correlation_px : float
        Distance along the rim at which the correlation of its smooth part has fallen to 1/e, pixels.
    """

    density: Float
    depth_px: Float
    rim_px: float
    correlation_px: float

    @classmethod
    def of(cls, density: NDArray[np.generic], rim_px: float, correlation_px: float) -> UncertainRim:
        """From a density (H, W) with some mass."""
        from scipy import ndimage

        on = np.asarray(density) > 0
        inside = ndimage.distance_transform_edt(on) if not on.all() else np.full(on.shape, np.inf)
        outside, nearest = ndimage.distance_transform_edt(~on, return_indices=True)
        filled = np.asarray(density, dtype=np.float64)[tuple(nearest)]
        return cls(filled, np.where(on, inside - 0.5, 0.5 - outside), rim_px, max(correlation_px, _SHORTEST_PX))

    def shift_px(self, rng: np.random.Generator) -> Float:
        """A random outward shift of the rim, (H, W); only values near the rim matter."""
        from scipy import ndimage

        # White noise smoothed by a Gaussian of width s has the variance 1/(4 pi s^2) and the correlation exp(-d^2/(4 s^2)).
        width = self.correlation_px / 2.0
        smooth = ndimage.gaussian_filter(rng.standard_normal(self.depth_px.shape), width, mode="wrap")
        smooth *= math.sqrt(4.0 * math.pi) * width
        even = float(rng.standard_normal())
        shift: Float = self.rim_px * (math.sqrt(1.0 - EVEN_SHARE) * smooth + math.sqrt(EVEN_SHARE) * even)
        return shift

    def moved(self, shift_px: Float) -> Float:
        """The density with its rim moved outward by that much, (H, W); a pixel on the rim holds a fraction of its mass."""
        moved: Float = self.density * np.clip(self.depth_px + shift_px + 0.5, 0.0, 1.0)
        return moved

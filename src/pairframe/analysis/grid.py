"""The shared canvas in blocks, coarse enough to hold the maps of a whole cohort in memory."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pairframe.frame.pool import real_pixels_per_block, sum_pool
from pairframe.types import Float

MAX_BLOCKS = 40_000


@dataclass(frozen=True)
class AnalysisGrid:
    """The canonical canvas in square blocks, starting at its upper left corner.

    Parameters
    ----------
    canon_shape_hw : (int, int)
        Of the canvas, canonical px.
    px_size_um : float
        Side of a canonical pixel.
    block_px : int
        Side of a block, canonical px; 1 keeps every pixel.
    """

    canon_shape_hw: tuple[int, int]
    px_size_um: float
    block_px: int

    @classmethod
    def of(cls, canon_shape_hw: tuple[int, int], px_size_um: float, max_blocks: int = MAX_BLOCKS) -> AnalysisGrid:
        """The finest grid with at most `max_blocks` blocks."""
        h, w = canon_shape_hw
        block = max(1, math.isqrt(h * w // max_blocks))
        while -(-h // block) * -(-w // block) > max_blocks:
            block += 1
        return cls(canon_shape_hw, px_size_um, block)

    @property
    def shape_hw(self) -> tuple[int, int]:
        """Blocks down and across."""
        return -(-self.canon_shape_hw[0] // self.block_px), -(-self.canon_shape_hw[1] // self.block_px)

    @property
    def block_um(self) -> float:
        """Side of a block, um."""
        return self.block_px * self.px_size_um

    @property
    def centres_um(self) -> tuple[Float, Float]:
        """Centres of the rows and of the columns, um from the upper left corner of the canvas."""
        h, w = self.shape_hw
        y, x = ((np.arange(n, dtype=np.float64) + 0.5) * self.block_um for n in (h, w))
        return y, x

    def sums(self, canonical: NDArray[np.generic]) -> Float:
        """Sum of an array (Hc, Wc) over each block, (H, W)."""
        out = np.empty(self.shape_hw)
        sum_pool(canonical, self.block_px, out)
        return out

    def density(self, mass: Float) -> Float:
        """Mass per canonical pixel in each block, (H, W), from mass per pixel (Hc, Wc)."""
        (hc, wc), (h, w) = self.canon_shape_hw, self.shape_hw
        rows, columns = real_pixels_per_block(hc, self.block_px, h), real_pixels_per_block(wc, self.block_px, w)
        return self.sums(mass) / (rows[:, None] * columns)

    def mean_known(self, field: Float) -> Float:
        """Mean of the known values of a field (Hc, Wc) in each block, (H, W); NaN without any."""
        known = np.isfinite(field)
        total, n = self.sums(np.where(known, field, 0.0)), self.sums(known)
        mean: Float = np.divide(total, n, out=np.full(n.shape, np.nan), where=n > 0)
        return mean

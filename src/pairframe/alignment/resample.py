"""Resampling that keeps mass and centroid: every pixel is splatted as samples onto the pixels of another canvas."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairframe.alignment.compiling import announced
from pairframe.alignment.quarters import LEAST_SIDE, splat_quarters
from pairframe.alignment.similarity import Similarity
from pairframe.alignment.splat_passes import row_spans, splat_pixels
from pairframe.errors import AlignError
from pairframe.types import Float, Int

# A step this small leaves a pixel where it is, after rounding of positions of some thousand pixels.
_EXACT = 1e-11
# A sample this little beyond the last pixel is there by rounding, which depends on the origin of the canvas; px.
_ROUNDING = 1e-9
_MOST_SAMPLES = 64  # per side of a pixel
SAMPLES = 2  # per pixel of the canvas and side
# For a strain: turned by 41 degrees, the inside of a mask has ripples of 0.8 % with 2 x 2 samples and of 0.3 %, much shorter
# than a blur, with 4 x 4. The strain of that turn falls from 0.0024 to 0.0003.
FINE_SAMPLES = 4


@dataclass(frozen=True)
class Canvas:
    """A grid of square pixels.

    Parameters
    ----------
    shape_hw : (H, W)
        Pixels.
    px : float
        Side of a pixel, in units of length.
    origin_yx : (y, x)
        Row and column of the pixel at the origin of positions: pixels above and left of it have negative positions.
    """

    shape_hw: tuple[int, int]
    px: float
    origin_yx: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class _PixelMap:
    """Pixel indices of one canvas to (fractional) indices of another, ``M p + o``."""

    matrix: Float
    offset: Float
    samples: int = SAMPLES

    @classmethod
    def of(cls, change: Similarity, px: float, canvas: Canvas, samples: int = SAMPLES) -> _PixelMap:
        matrix = change.matrix * (px / canvas.px)
        half = np.array([0.5, 0.5])
        offset = matrix @ half + change.offset_yx_um / canvas.px - half + np.array(canvas.origin_yx)
        return cls(matrix, offset, samples)

    @property
    def is_exact(self) -> bool:
        """Whether pixels fall on pixels: quarter turns and mirrorings with shifts by whole pixels."""
        parts = np.append(self.matrix.ravel(), self.offset)
        on_grid = bool((np.abs(parts - np.rint(parts)) < _EXACT).all())
        return on_grid and abs(abs(np.linalg.det(np.rint(self.matrix))) - 1.0) < 0.5

    @property
    def samples_per_side(self) -> int:
        """Two or more per pixel of the canvas and side, so that magnified pixels leave no gaps."""
        return max(self.samples, math.ceil(self.samples * math.sqrt(abs(np.linalg.det(self.matrix))) - 1e-9))

    def box(self, spans: Int, rounding: float = 0.0) -> tuple[int, int, int, int]:
        """First and last row, first and last column that the positive pixels of an image with these spans need.

        A row or column that samples enter by no more than `rounding`, px, does not count.
        """
        rows = np.flatnonzero(spans[:, 1] >= 0)
        rows, columns = np.tile(rows, 2), np.concatenate([spans[rows, 0], spans[rows, 1]])
        # Extremes of a linear function over a row are at its ends.
        moved = self.matrix @ np.stack([rows, columns]) + self.offset[:, None]
        low, high = moved.min(axis=1), moved.max(axis=1)
        if self.is_exact:
            low, high = np.rint(low), np.rint(high)
        else:
            inner = 0.5 - 0.5 / self.samples_per_side
            reach = np.abs(self.matrix).sum(axis=1) * inner - rounding
            low, high = np.floor(low - reach), np.floor(high + reach) + 1
        return int(low[0]), int(high[0]), int(low[1]), int(high[1])


def needed_box(
    values: NDArray[Any], px: float, change: Similarity, canvas: Canvas, samples: int = SAMPLES
) -> tuple[int, int, int, int]:
    """First and last row, first and last column of `canvas` (extended at will) that a moved image touches.

    Parameters
    ----------
    values : (H, W)
        Not empty.
    samples : int
        As for `resample`.
    """
    return _PixelMap.of(change, px, canvas, samples).box(row_spans(values))


def canvas_that_fits(box: tuple[int, int, int, int], canvas: Canvas) -> Canvas:
    """The smallest canvas that holds both `canvas` and a box of its pixels."""
    top, left = max(0, -box[0]), max(0, -box[2])
    height, width = max(canvas.shape_hw[0], box[1] + 1) + top, max(canvas.shape_hw[1], box[3] + 1) + left
    return Canvas((height, width), canvas.px, (canvas.origin_yx[0] + top, canvas.origin_yx[1] + left))


def copies_pixels(px: float, change: Similarity, canvas: Canvas) -> bool:
    """Whether pixels of this side fall on pixels of a canvas: `resample` then copies them."""
    return _PixelMap.of(change, px, canvas).is_exact


@announced
def resample(
    values: NDArray[Any],
    px: float,
    change: Similarity,
    canvas: Canvas,
    factor: float = 1.0,
    *,
    samples: int = SAMPLES,
) -> Float:
    """Move an image and put it on another canvas.

    Every pixel is divided into 2 x 2 samples (more if the pixels of the canvas are smaller), and each gives its mass to
    the four pixels around it. Shifts by whole pixels, quarter turns and mirrorings copy pixels instead.

    Parameters
    ----------
    values : (H, W)
        Mass per pixel, not negative.
    px : float
        Side of its pixels, in the units of `canvas`.
    factor : float
        Multiplies all mass.
    samples : int
        Per pixel and side. More of them leave weaker ripples inside a turned object.

    Returns
    -------
    (H', W') float64
        Its sum is that of `values` times `factor`, and its centroid the moved centroid, both up to rounding.

    Raises
    ------
    AlignError
        If some of the mass would fall off the canvas; the message has the canvas that is needed.
    """
    spans = row_spans(values)
    if not (spans[:, 1] >= 0).any():
        return np.zeros(canvas.shape_hw)
    pixel_map = _PixelMap.of(change, px, canvas, samples)
    if pixel_map.samples_per_side > _MOST_SAMPLES:
        raise AlignError(
            f"pixels that are magnified by at most {_MOST_SAMPLES // samples}",
            f"a factor of {pixel_map.samples_per_side / samples:.3g}",
            "use a canvas with larger pixels",
        )
    _require_fit(pixel_map.box(spans, _ROUNDING), canvas)
    if pixel_map.samples_per_side == 2 and min(canvas.shape_hw) >= LEAST_SIDE and not pixel_map.is_exact:
        return splat_quarters(canvas.shape_hw, values, spans, pixel_map.matrix, pixel_map.offset, factor)
    out = np.zeros(canvas.shape_hw)
    if pixel_map.is_exact:
        rows, columns = np.nonzero(values)
        matrix, offset = np.rint(pixel_map.matrix).astype(np.intp), np.rint(pixel_map.offset).astype(np.intp)
        moved = matrix @ np.stack([rows, columns]) + offset[:, None]
        out[moved[0], moved[1]] = values[rows, columns] * factor
        return out
    (myy, myx), (mxy, mxx) = pixel_map.matrix
    oy, ox = pixel_map.offset
    splat_pixels(out, values, spans, myy, myx, mxy, mxx, oy, ox, pixel_map.samples_per_side, factor)
    return out


def splat_weights(yx: Int, px: float, change: Similarity, canvas: Canvas, samples: int = SAMPLES) -> tuple[Int, Float]:
    """The pixels onto which `resample` divides each pixel, and the parts that they get.

    Parameters
    ----------
    yx : (n, 2)
        Rows and columns of the pixels, with sides of `px`.
    samples : int
        As for `resample`.

    Returns
    -------
    at : (n, k, 2) int
        Rows and columns on the canvas, some of them repeatedly.
    weights : (n, k)
        Each pixel's sum to 1.
    """
    pixel_map = _PixelMap.of(change, px, canvas, samples)
    if pixel_map.is_exact:
        pixels = yx @ np.rint(pixel_map.matrix).astype(np.intp).T + np.rint(pixel_map.offset).astype(np.intp)
        return pixels[:, None], np.ones((len(yx), 1))
    side = pixel_map.samples_per_side
    within = (np.arange(side) + 0.5) / side - 0.5
    places = np.stack(np.meshgrid(within, within, indexing="ij"), axis=-1).reshape(-1, 2)
    moved = (yx[:, None] + places) @ pixel_map.matrix.T + pixel_map.offset
    corner = np.floor(moved)
    part = moved - corner
    steps = np.array([(0, 0), (0, 1), (1, 0), (1, 1)])
    at = corner[:, :, None].astype(np.intp) + steps
    weights = np.where(steps == 1, part[:, :, None], 1.0 - part[:, :, None]).prod(axis=-1) / side**2
    return at.reshape(len(yx), -1, 2), weights.reshape(len(yx), -1)


def _require_fit(box: tuple[int, int, int, int], canvas: Canvas) -> None:
    height, width = canvas.shape_hw
    if box[0] >= 0 and box[1] < height and box[2] >= 0 and box[3] < width:
        return
    fits = canvas_that_fits(box, canvas)
    raise AlignError(
        f"the moved mask to fit on the canvas of {height} x {width} px",
        f"a mask that needs rows {box[0]} to {box[1]} and columns {box[2]} to {box[3]}",
        f"use canvas_hw={fits.shape_hw} with origin_yx={fits.origin_yx}, on which the canvas and the moved mask fit",
        "canvas_hw",
    )

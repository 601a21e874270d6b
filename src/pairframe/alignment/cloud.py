"""`Cloud`: a mask as points around its centroid, in units of length and at several resolutions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import ndimage

from pairframe.alignment.splat_passes import pooled_points
from pairframe.types import Bool, Float

_SAMPLES = 4  # per side of a pixel on the boundary


@dataclass(frozen=True, eq=False)
class Points:
    """Weighted points around the centroid of a mask.

    Attributes
    ----------
    yx : (n, 2)
        Positions relative to the centroid, um.
    weights : (n,)
        Area, um^2.
    radii : (n,)
        Largest distance of a pixel from the point that stands for it, um.
    """

    yx: Float
    weights: Float
    radii: Float


@dataclass(frozen=True, eq=False)
class Field:
    """Coverage of a mask on a grid around its centroid.

    Attributes
    ----------
    values : (H, W)
        Share of each cell that is covered; 0 in the outermost cells.
    pitch : float
        Side of a cell, um.
    origin_yx : (y, x)
        Centre of the first cell relative to the centroid, um.
    """

    values: Float
    pitch: float
    origin_yx: tuple[float, float]


class Cloud:
    """The positive pixels of a mask, cropped to their box.

    Parameters
    ----------
    inside : (H, W) bool
        Not empty.
    px : float
        Side of a pixel, um.
    centre_yx : (y, x), optional
        Origin of the positions, um from the corner of the canvas; the centroid if not given.
    by_thickness : bool
        Weigh each pixel by its squared distance to the background instead of its area.
    """

    def __init__(
        self, inside: Bool, px: float, centre_yx: tuple[float, float] | None = None, by_thickness: bool = False
    ) -> None:
        rows, columns = np.flatnonzero(inside.any(axis=1)), np.flatnonzero(inside.any(axis=0))
        self.corner_px = (int(rows[0]), int(columns[0]))
        self.inside = np.ascontiguousarray(inside[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1])
        self.px = px
        self.by_thickness = by_thickness
        self.n_px = int(np.count_nonzero(self.inside))
        if centre_yx is None:
            counts_y, counts_x = self.inside.sum(axis=1), self.inside.sum(axis=0)
            centre_yx = (
                px * (self.corner_px[0] + 0.5 + float(counts_y @ np.arange(len(counts_y))) / self.n_px),
                px * (self.corner_px[1] + 0.5 + float(counts_x @ np.arange(len(counts_x))) / self.n_px),
            )
        self.centre_yx = centre_yx
        self._points: dict[int, Points] = {}
        self._fields: dict[int, Field] = {}

    @property
    def area(self) -> float:
        """Area of the pixels, um^2."""
        return self.n_px * self.px**2

    @cached_property
    def norm(self) -> float:
        """Overlap of the mask with itself, um^2: its area, or the sum of squares of its weights."""
        return float((self.thickness**2).sum()) * self.px**2 if self.by_thickness else self.area

    @cached_property
    def radius(self) -> float:
        """Largest distance of a pixel from the centre, um."""
        return float(np.sqrt((self.points(1 if self.n_px < 500 else 2).yx ** 2).sum(axis=1)).max()) + 1.5 * self.px

    @cached_property
    def spread(self) -> float:
        """Root mean square distance of the area from the centre, um; positive, as a pixel has a size."""
        points = self.points(1 if self.n_px < 500 else 2)
        mean_square = float(points.weights @ (points.yx**2).sum(axis=1)) / float(points.weights.sum())
        return math.sqrt(mean_square + self.px**2 / 6)

    @cached_property
    def perimeter(self) -> float:
        """Length of the boundary, um: sides of pixels that face the background, corrected for their steps."""
        padded = np.pad(self.inside, 1)
        sides = np.count_nonzero(padded[1:] != padded[:-1]) + np.count_nonzero(padded[:, 1:] != padded[:, :-1])
        return sides * self.px * math.pi / 4

    @cached_property
    def thickness(self) -> Float:
        """Squared distance to the background, um^2, in the box of the mask."""
        distance_px = ndimage.distance_transform_edt(np.pad(self.inside, 1))[1:-1, 1:-1]
        squared: Float = (distance_px * self.px) ** 2
        return squared

    def points(self, side: int) -> Points:
        """Barycentres of blocks of ``side**2`` pixels."""
        if side not in self._points:
            self._points[side] = self._as_points(*pooled_points(self.inside, side))
        return self._points[side]

    @cached_property
    def samples(self) -> Points:
        """Points finer than pixels on the boundary, and one per pixel inside.

        One point per pixel of the boundary would favour poses that map pixels onto pixels, which interpolation does not
        blur. Inside, the sum over all pixels does not depend on how they fall on those of the source.
        """
        inner = ndimage.binary_erosion(self.inside, np.ones((3, 3), bool))
        at_inner, counts, radii = pooled_points(inner, 1)
        part = (np.arange(_SAMPLES) + 0.5) / _SAMPLES - 0.5
        parts = np.stack(np.meshgrid(part, part, indexing="ij"), axis=-1).reshape(1, -1, 2)
        at_edge = (np.argwhere(self.inside & ~inner)[:, None, :] + parts).reshape(-1, 2)
        n = len(at_edge)
        at_px = np.concatenate([at_inner, at_edge])
        counts = np.concatenate([counts, np.full(n, 1 / _SAMPLES**2)])
        return self._as_points(at_px, counts, np.concatenate([radii, np.full(n, 0.75)]))

    def _as_points(self, at_px: Float, counts: Float, radii_px: Float) -> Points:
        """Points in pixels of the box, (n, 2), with numbers of pixels and radii, (n,) each."""
        yx = (at_px + (np.array(self.corner_px) + 0.5)) * self.px - np.array(self.centre_yx)
        weights = counts * self.px**2
        if self.by_thickness:
            at = np.rint(at_px).astype(np.intp)
            weights = weights * self.thickness[at[:, 0], at[:, 1]]
        return Points(yx, weights, radii_px * self.px)

    def field(self, side: int) -> Field:
        """Mean coverage of blocks of ``side**2`` pixels."""
        if side not in self._fields:
            values = self.thickness if self.by_thickness else self.inside
            height, width = values.shape
            blocks = (-(-height // side), -(-width // side))
            padded = np.zeros((blocks[0] * side, blocks[1] * side))
            padded[:height, :width] = values
            pooled = padded.reshape(blocks[0], side, blocks[1], side).mean(axis=(1, 3))
            pitch = side * self.px
            # One empty cell around it, and the outer edge of the first block at the corner of the box.
            corner, centre = self.corner_px, self.centre_yx
            origin = [(corner[axis] - 0.5 * side) * self.px - centre[axis] for axis in (0, 1)]
            self._fields[side] = Field(np.pad(pooled, 1), pitch, (origin[0], origin[1]))
        return self._fields[side]

    def n_pieces(self, least_share: float) -> int:
        """Number of 8-connected pieces with at least this share of the area."""
        ids, total = ndimage.label(self.inside, structure=np.ones((3, 3)))
        if total <= 1:
            return int(total)
        return int(np.count_nonzero(np.bincount(ids.ravel())[1:] >= least_share * self.n_px))

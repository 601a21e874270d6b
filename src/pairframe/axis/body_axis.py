"""`body_axis`: the centreline of a mask from head to tail, and the coordinate S of every pixel along it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import ndimage

from pairframe.alignment.landmarks import checked_landmark
from pairframe.axis.centreline import Centreline, centreline, geodesic, project
from pairframe.errors import AxisError
from pairframe.frame import Box, tight_box
from pairframe.masks import Mask
from pairframe.masks.pieces import label_pieces
from pairframe.results import TransportResult
from pairframe.results.coverage import covered
from pairframe.types import Bool, Float
from pairframe.units import Units

FEWEST_PX = 60
LEAST_ELONGATION = 2.2  # length over mean width; a disc has 1.3, a square 2 along its diagonal
MOST_IN_OTHER_PIECES = 0.02  # of the pixels
LEAST_HEAD_OFFSET = 0.03  # of the thick part from the middle, in units of S
_PROFILE_POINTS = 101

Orientation = Literal["landmark", "reference", "thickest", "ambiguous"]


@dataclass(frozen=True, eq=False)
class BodyAxis:
    """The axis of an elongated mask, from head (S = 0) to tail (S = 1). Lengths are in `units`.

    Attributes
    ----------
    s : (H, W)
        Coordinate of every pixel of the mask in [0, 1]: that of the nearest point of the centreline; NaN outside.
    centreline_yx_um : (401, 2)
        At equal steps of S, from outline to outline; from the upper left corner of the image.
    thickness_um : (101,)
        Width of the mask across the axis at equal steps of S: area per length.
    length_um : float
    elongation : float
        Length over mean width.
    orientation : {"landmark", "reference", "thickest", "ambiguous"}
        How the head was found. ``ambiguous``: by the thickest part, but both halves are nearly alike.
    head_offset : float
        How far the thick part, or the landmark, lies from the middle towards the head, in units of S; at most 0.5.
    units : Units
    """

    s: Float
    centreline_yx_um: Float
    thickness_um: Float
    length_um: float
    elongation: float
    orientation: Orientation
    head_offset: float
    units: Units

    def __post_init__(self) -> None:
        for array in (self.s, self.centreline_yx_um, self.thickness_um):
            array.setflags(write=False)

    @property
    def is_ambiguous(self) -> bool:
        """Whether head and tail cannot be told apart."""
        return self.orientation == "ambiguous"

    @property
    def head_yx_um(self) -> tuple[float, float]:
        """Where the centreline begins."""
        y, x = self.centreline_yx_um[0]
        return float(y), float(x)

    def reversed(self) -> BodyAxis:
        """The same axis with head and tail exchanged."""
        return replace(
            self,
            s=1.0 - self.s,
            centreline_yx_um=self.centreline_yx_um[::-1].copy(),
            thickness_um=self.thickness_um[::-1].copy(),
            head_offset=-self.head_offset,
        )

    @cached_property
    def _nearest(self) -> tuple[Float, Float]:
        """For every pixel of the image the nearest one of the mask: rows and columns."""
        rows, columns = ndimage.distance_transform_edt(np.isnan(self.s), return_distances=False, return_indices=True)
        return rows, columns

    def coordinate(self, yx_um: ArrayLike) -> Float:
        """S (...) of positions (..., 2) on the image or beside it: of the nearest point of the centreline, so 0 or 1 beyond the ends."""
        points = np.asarray(yx_um, dtype=np.float64)
        flat = points.reshape(-1, 2) / self.units.px_size - 0.5
        row, column = (np.clip(np.rint(flat[:, k]).astype(int), 0, self.s.shape[k] - 1) for k in (0, 1))
        near = self.s[self._nearest[0][row, column], self._nearest[1][row, column]]
        return project(self._line, flat, near, self._width_px).reshape(points.shape[:-1])

    def direction(self, s: ArrayLike) -> Float:
        """Unit vectors (..., 2) along the axis towards the tail at coordinates S (...): dy, dx."""
        points = self.centreline_yx_um
        steps = np.gradient(points, axis=0)
        places = np.linspace(0.0, 1.0, len(points))
        along = np.stack([np.interp(np.asarray(s), places, step) for step in steps.T], axis=-1)
        unit: Float = along / np.linalg.norm(along, axis=-1, keepdims=True)
        return unit

    @property
    def _line(self) -> Centreline:
        px = self.units.px_size
        return Centreline(self.centreline_yx_um / px - 0.5, self.length_um / px)

    @property
    def _width_px(self) -> float:
        return self.length_um / self.units.px_size / self.elongation

    def __repr__(self) -> str:
        unit = self.units.length
        return (
            f"BodyAxis({self.length_um:.4g} {unit} long, {self.length_um / self.elongation:.4g} {unit} wide on average, "
            f"head: {self.orientation})"
        )


def body_axis(
    mask: Mask | ArrayLike | TransportResult,
    *,
    head: Mask | ArrayLike | None = None,
    reference: BodyAxis | None = None,
) -> BodyAxis:
    """The axis of an elongated mask.

    Pixels of which at least half is covered count (all with mass, if masses are not areas). Holes are filled, and specks of
    at most 2 % of the pixels ignored. The head is the end nearer to the landmark `head`; or the
    one that agrees with `reference`; or the end nearer to the thickest part.

    Parameters
    ----------
    mask : Mask, (H, W) array or TransportResult
        One object of at least 60 pixels. Of a result, its source on its canvas.
    head : Mask or (H, W) array, optional
        A landmark on the same canvas, such as the yolk or an eye.
    reference : BodyAxis, optional
        Of a similar mask at about the same place, such as the frame before.
    """
    if isinstance(mask, TransportResult) and mask.transform.is_volume:
        raise AxisError("an image", "a volume", "the body axis is for images; leave it out", "mask")
    if isinstance(mask, TransportResult):
        mask = mask_of(mask, "source")
    elif not isinstance(mask, Mask):
        mask = Mask.from_array(mask)
    px_size_um = mask.image_px_size_um
    on = covered(mask.values, is_area=mask.is_area)
    box = tight_box(on)
    if box is None:
        raise AxisError("a mask with an object", "an empty mask", "leave it out, or check the segmentation", "mask")
    inside = _one_piece(on[box.slices])
    geo = geodesic(inside)
    line = centreline(geo, inside)
    elongation = line.length**2 / np.count_nonzero(inside)
    if elongation < LEAST_ELONGATION:
        raise AxisError(
            f"an elongated mask, at least {LEAST_ELONGATION:g} times as long as wide",
            f"one {elongation:.2g} times as long as wide",
            "a round object has no axis: use radial_profile (--radial)",
            "mask",
        )
    at = np.argwhere(inside)
    along = project(line, at.astype(np.float64), geo.share[geo.block_of[inside]], line.length / elongation)
    line = Centreline(line.points_yx + np.array(box.lo), line.length)  # from the box to the canvas
    orientation, offset = _orientation(mask, box, inside, along, line, head, reference)
    if offset < 0:
        line, along, offset = line.reversed(), 1.0 - along, -offset
    s = np.full(mask.shape_hw, np.nan)
    s[box.slices][inside] = along
    units = Units(px_size_um)
    px = units.px_size
    return BodyAxis(
        s=s,
        centreline_yx_um=(line.points_yx + 0.5) * px,
        thickness_um=_thickness(along, line.length) * px,
        length_um=line.length * px,
        elongation=float(elongation),
        orientation=orientation,
        head_offset=float(offset),
        units=units,
    )


def mask_of(result: TransportResult, side: Literal["source", "target"]) -> Mask:
    """The pixels of one mask of a result of images that belong to the body, on its canvas."""
    mass = result.transform.rasterize_to_canon(result.work.mass_source if side == "source" else result.work.mass_target)
    return Mask.from_array(covered(mass, is_area=result.config.mass.is_area), px_size_um=result.units.px_size_um)


def _one_piece(on: Bool) -> Bool:
    """The object of a mask with some pixels, without holes."""
    labels, n_pieces = label_pieces(on)
    sizes = np.bincount(labels.ravel())[1:]
    others = 1.0 - sizes.max() / sizes.sum()
    if others > MOST_IN_OTHER_PIECES:
        raise AxisError(
            "a mask of one piece",
            f"{n_pieces} pieces, with {100 * others:.2g} % of the pixels outside the largest",
            "compare the objects one by one, or remove specks with clean_mask",
            "mask",
        )
    inside: Bool = ndimage.binary_fill_holes(labels == 1 + int(np.argmax(sizes)))
    if np.count_nonzero(inside) < FEWEST_PX:
        raise AxisError(
            f"an object of at least {FEWEST_PX} pixels",
            f"{np.count_nonzero(inside)}",
            "use an image of higher resolution",
            "mask",
        )
    return inside


def _orientation(
    mask: Mask,
    box: Box,
    inside: Bool,
    along: Float,
    line: Centreline,
    head: Mask | ArrayLike | None,
    reference: BodyAxis | None,
) -> tuple[Orientation, float]:
    """How the head is found, and its offset from the middle towards S = 0; negative if S has to be reversed."""
    if head is not None:
        landmark = head if isinstance(head, Mask) else Mask.from_array(head)
        if landmark.is_empty:
            raise AxisError("a landmark with pixels", "an empty mask", "leave out head if it is missing", "head")
        on = checked_landmark(landmark, mask, "mask")[box.slices] & inside
        offset = 0.5 - float(along[on[inside]].mean())
        return ("ambiguous" if abs(offset) < LEAST_HEAD_OFFSET else "landmark"), offset or 1e-9
    weight = np.histogram(along, 50, (0.0, 1.0))[0].astype(np.float64) ** 2
    offset = 0.5 - float(weight @ (np.arange(50) + 0.5) / 50 / weight.sum())
    if reference is not None:
        px = Units(mask.px_size_um).px_size
        points, other = (line.points_yx + 0.5) * px, reference.centreline_yx_um
        same, turned = (float(np.hypot(*(p - other).T).mean()) for p in (points, points[::-1]))
        return "reference", abs(offset) if same <= turned else -abs(offset) or -1e-9
    return ("ambiguous" if abs(offset) < LEAST_HEAD_OFFSET else "thickest"), offset


def _thickness(along: Float, length: float) -> Float:
    """Area per length at equal steps of S, pixels; (101,)."""
    n_bins = 8 * _PROFILE_POINTS
    area = np.histogram(along, n_bins, (0.0, 1.0))[0] / (length / n_bins)
    # Smoothed over a fiftieth of the axis, but not below two pixels, where columns of pixels would show.
    sigma = max(0.02 * n_bins, 2.0 * n_bins / length)
    smooth = ndimage.gaussian_filter1d(area, sigma, mode="constant")
    smooth /= ndimage.gaussian_filter1d(np.ones(n_bins), sigma, mode="constant")
    middles = (np.arange(n_bins) + 0.5) / n_bins
    return np.interp(np.linspace(0.0, 1.0, _PROFILE_POINTS), middles, smooth)

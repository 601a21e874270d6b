"""A volume as pictures: its projection through all planes, its planes, and sections across them, all in um."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pairframe.frame import BoxYX, GridTransform
from pairframe.report.view import Seen, SeenMaps
from pairframe.types import Float

AXES_OF_SECTION = {0: (1, 2), 1: (0, 2), 2: (0, 1)}  # across an axis: the two that are seen, down and to the right
NAMES = "zyx"
_MUCH = 0.25  # of the largest value of a profile


@dataclass(frozen=True, eq=False)
class FlatMaps:
    """Maps of a projection, as `SeenMaps` of an image: (Hw, Ww) mass, and (Hw, Ww, 2) work px."""

    mass_source: Float
    mass_target: Float
    mass_created: Float
    mass_destroyed: Float
    velocity_px: Float


@dataclass(frozen=True, eq=False)
class FlatResult:
    """A volume seen along z, as an image."""

    transform: GridTransform
    work: FlatMaps


@dataclass(frozen=True, eq=False)
class Section:
    """A section of a volume across one axis.

    Attributes
    ----------
    axis : int
        The axis across which it cuts: 0, 1, 2 for z, y, x.
    at_um : float
        Where it cuts, from the first plane of the canvas.
    source, target, created, destroyed : (h, w)
        Mass per work voxel.
    velocity_um : (h, w, 2)
        Displacement within the section, down and to the right; NaN where unknown.
    left : (h, w)
        Mass that stayed or moved.
    extent_um : (left, right, bottom, top)
        Of the section on the canvas, for drawing.
    """

    axis: int
    at_um: float
    source: Float
    target: Float
    created: Float
    destroyed: Float
    velocity_um: Float
    left: Float
    extent_um: tuple[float, float, float, float]

    @property
    def across(self) -> str:
        """Names of the two axes that are seen, such as ``zx``: down and to the right."""
        return "".join(NAMES[axis] for axis in AXES_OF_SECTION[self.axis])


def flattened(seen: Seen) -> FlatResult:
    """The projection of a volume through its planes: sums of mass, and displacements as means by mass."""
    work, transform = seen.work, seen.transform
    left = np.maximum(work.mass_source - work.mass_destroyed, 0.0) * np.isfinite(work.velocity_px[..., 0])
    total = left.sum(axis=0)
    moved = np.stack([(left * np.nan_to_num(work.velocity_px[..., k])).sum(axis=0) for k in (1, 2)], axis=-1)
    velocity = np.divide(moved, total[..., None], out=np.full(moved.shape, np.nan), where=total[..., None] > 0)
    crop, valid = transform.pair_crop_box_yx, transform.work_valid_box_yx
    _, height_um, width_um = transform.units.px_sides
    flat = GridTransform(
        canon_shape_hw=transform.canon_shape_hw[1:],
        pair_crop_box_yx=BoxYX.of(crop.lo[1:], crop.hi[1:]),
        downsample_factor=transform.downsample_factor,
        work_shape_hw=transform.work_shape_hw[1:],
        work_valid_box_yx=BoxYX.of(valid.lo[1:], valid.hi[1:]),
        work_pad_offsets_yx=transform.work_pad_offsets_yx[1:],
        px_size_um=None if transform.px_size_um is None else float(np.sqrt(height_um * width_um)),
    )
    # Displacements are in units of the voxel's shortest side, and pixels of the flat image may be larger.
    velocity *= transform.work_px_size_um / flat.work_px_size_um
    maps = FlatMaps(
        work.mass_source.sum(axis=0),
        work.mass_target.sum(axis=0),
        work.mass_created.sum(axis=0),
        work.mass_destroyed.sum(axis=0),
        velocity,
    )
    return FlatResult(flat, maps)


def changed_centre(work: SeenMaps) -> tuple[int, int, int]:
    """The work voxel in the middle of what was created and destroyed; of all mass if next to nothing was."""
    changed = work.mass_created + work.mass_destroyed
    mass = work.mass_source + work.mass_target
    if changed.sum() < 1e-4 * mass.sum():
        changed = mass
    z, y, x = (_median(changed.sum(axis=tuple(k for k in range(3) if k != axis))) for axis in range(3))
    return z, y, x


def _median(profile: Float) -> int:
    """The place that halves a profile (n,), or the nearest one with much of it: between two pieces there may be nothing."""
    place = int(np.searchsorted(np.cumsum(profile), 0.5 * profile.sum()))
    much = np.flatnonzero(profile >= _MUCH * profile.max())
    return place if profile[place] >= _MUCH * profile.max() else int(much[np.abs(much - place).argmin()])


def section(seen: Seen, axis: int, place: int) -> Section:
    """The section across an axis of the work grid at a place on it."""
    work, transform = seen.work, seen.transform
    shown = AXES_OF_SECTION[axis]
    source, target, created, destroyed = (
        np.take(mass, place, axis)
        for mass in (work.mass_source, work.mass_target, work.mass_created, work.mass_destroyed)
    )
    velocity = np.take(work.velocity_px, place, axis)[..., shown] * transform.work_px_size_um
    corners = transform.work_to_canon_yx(np.array([np.zeros(3), transform.work_shape_hw], dtype=np.float64))
    low, high = corners * np.array(transform.units.px_sides)
    at = transform.work_to_canon_yx(np.full(3, place + 0.5))[axis] * transform.units.px_sides[axis]
    down, right = shown
    left = np.maximum(source - destroyed, 0.0) * np.isfinite(velocity[..., 0])
    extent = (float(low[right]), float(high[right]), float(high[down]), float(low[down]))
    return Section(axis, float(at), source, target, created, destroyed, velocity, left, extent)


def depth_places(seen: Seen, most: int) -> list[int]:
    """Planes of the work grid from the first to the last with mass, at most `most` of them, evenly spaced."""
    mass = (seen.work.mass_source + seen.work.mass_target).sum(axis=(1, 2))
    planes = np.flatnonzero(mass)
    first, last = int(planes[0]), int(planes[-1])
    count = min(most, last - first + 1)
    return [round(place) for place in np.linspace(first, last, count)]

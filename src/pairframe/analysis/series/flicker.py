"""Flicker: mass that is created and soon destroyed again, or the other way round, near the same place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pairframe.results import TransportResult
from pairframe.results.pose_maps import created_on_target
from pairframe.types import Float, Int

BLOCKS_PER_REACH = 8
_LEAST = 1e-9  # of the mass of a step: rounding
_MOST_PAIRS = 4_000_000


@dataclass(eq=False)
class Places:
    """Mass that is left to be matched, in square blocks of the frame's own image.

    Attributes
    ----------
    block_yx : (n, 2)
        Row and column of a block, from the corner of the image.
    side_px : int
    px : float
        Side of a pixel, um.
    mass : (n,)
    """

    block_yx: Int
    side_px: int
    px: float
    mass: Float

    @property
    def at_yx_um(self) -> Float:
        """(n, 2) centres, um from the corner of the image."""
        return np.asarray((self.block_yx + 0.5) * self.side_px * self.px, dtype=np.float64)


def places_of(result: TransportResult, reach_um: float, area_of_mass: float) -> tuple[Places, Places]:
    """Areas of the created mass on the image of the target, and of the destroyed mass on the image of the source."""
    units, pose = result.units, result.pose
    if pose is None:
        created = _blocks(result.mass_created, units.px_size, (0, 0), reach_um)
        destroyed = _blocks(result.mass_destroyed, units.px_size, (0, 0), reach_um)
    else:
        canvas = pose.source_canvas
        created = _blocks(created_on_target(result), pose.target_canvas.px, (0, 0), reach_um)
        destroyed = _blocks(result.mass_destroyed, canvas.px, canvas.origin_yx, reach_um)
    created.mass *= area_of_mass
    destroyed.mass *= area_of_mass
    return created, destroyed


def flicker(
    steps: Sequence[tuple[Places, Places] | None], frames: int, reach_um: float, drift_yx_um: Float | None = None
) -> tuple[Float, Float]:
    """The part of the created and of the destroyed mass of every step that is flicker.

    Created mass is flicker if it is destroyed within the next `frames` steps no farther away than the reach; the latest and
    nearest is matched first, and every bit of mass at most once. Destroyed mass that is created again likewise, as in a frame
    where a part of the object was missed.

    Parameters
    ----------
    steps : sequence
        Of created and destroyed mass; None where it is unknown. They are used up.
    frames : int
    drift_yx_um : (n, 2), optional
        Mean displacement of every step, which places follow.

    Returns
    -------
    created, destroyed : (n,) mass
    """
    n = len(steps)
    moved = np.zeros((n, 2)) if drift_yx_um is None else np.nan_to_num(drift_yx_um)
    path = np.concatenate([np.zeros((1, 2)), np.cumsum(moved, axis=0)])  # of the frames
    found = np.zeros((2, n))
    for j in range(n):
        for i in range(j - 1, max(-1, j - 1 - frames), -1):
            one, two = steps[i], steps[j]
            if one is None or two is None:
                continue
            # What was created in step i lies on frame i + 1, what was destroyed in step j on frame j.
            appeared = _match(one[0], two[1], path[j] - path[i + 1], reach_um)
            missed = _match(one[1], two[0], path[j + 1] - path[i], reach_um)
            found[0, i] += appeared
            found[1, j] += appeared
            found[1, i] += missed
            found[0, j] += missed
    return found[0], found[1]


def take(places: Places, yx_px: Int, area: Float, reach_um: float) -> float:
    """Take areas (n,) of pixels (n, 2) out of the mass within the reach, nearest first; return how much was found."""
    wanted = _in_blocks(yx_px, area, places.side_px, places.px)
    return _match(wanted, places, np.zeros(2), reach_um)


def _match(earlier: Places, later: Places, shift_yx_um: Float, reach_um: float) -> float:
    """Mass of both that lies within the reach, nearest first; it is taken away from both."""
    from scipy.spatial import KDTree

    on, off = np.flatnonzero(earlier.mass > 0), np.flatnonzero(later.mass > 0)
    if not len(on) or not len(off):
        return 0.0
    here, there = earlier.at_yx_um[on] + shift_yx_um, later.at_yx_um[off]
    if len(on) * len(off) <= _MOST_PAIRS:
        distance = np.hypot(*(here[:, None] - there[None]).transpose(2, 0, 1))
        i, j = np.nonzero(distance <= reach_um)
        apart = distance[i, j]
    else:
        near = KDTree(here).sparse_distance_matrix(KDTree(there), reach_um, output_type="ndarray")
        i, j, apart = near["i"], near["j"], near["v"]
    left, right = earlier.mass[on], later.mass[off]
    most = float(min(left.sum(), right.sum()))
    total = 0.0
    for k in np.argsort(apart, kind="stable"):
        a, b = i[k], j[k]
        mass = min(left[a], right[b])
        if mass > 0:
            left[a] -= mass
            right[b] -= mass
            total += mass
            if total >= most * (1 - 1e-12):
                break
    earlier.mass[on], later.mass[off] = left, right
    return float(total)


def _blocks(mass: Float, px: float, origin_yx: tuple[int, int], reach_um: float) -> Places:
    """Sum a map in blocks of a fraction of the reach."""
    side = max(1, round(reach_um / px / BLOCKS_PER_REACH)) if np.isfinite(reach_um) else max(mass.shape)
    total = float(mass.sum())
    on = np.argwhere(mass > _LEAST * total) if total > 0 else np.zeros((0, 2), np.int64)
    return _in_blocks(on - np.array(origin_yx), mass[tuple(on.T)], side, px)


def _in_blocks(yx_px: Int, mass: Float, side_px: int, px: float) -> Places:
    """Sum the mass (n,) of pixels (n, 2) in blocks."""
    blocks = yx_px // side_px
    # One number per block: sorting pairs takes ten times as long.
    keys, first, place = np.unique((blocks[:, 0] << 31) + blocks[:, 1], return_index=True, return_inverse=True)
    sums = np.bincount(place, weights=mass, minlength=len(keys))
    return Places(blocks[first], side_px, px, np.asarray(sums, dtype=np.float64))

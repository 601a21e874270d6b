"""Plausibility: does the answer mean what a biologist will read into it?

The certificate proves that the optimum is exact. It does not prove that the question was right: a stage that drifted, an
embryo that turned or a mask that is inverted have exact answers too. Every check here compares a number of the answer with
a threshold that `docs/notices.md` explains.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import reduce

import numpy as np

from pairframe.frame import tight_box
from pairframe.masks.pieces import label_pieces, typical_length
from pairframe.notices import Notice, Severity, warning
from pairframe.problem import penalty_class
from pairframe.results import TransportResult
from pairframe.results.features import left_mass, shift_response
from pairframe.types import Bool, Float

MOST_EXCHANGED_GROWTH = 0.1  # created and destroyed, beyond net growth, of the smaller mass
MOST_EXCHANGED_IF_FAR = 0.03  # the same if the centre moved too far: two signs of one thing
LEAST_EXCHANGED_IF_FAR = 0.005  # below it all mass has been found again, so growth has moved the centre
NEAR_REACH, MOST_NEAR_REACH = 0.9, 0.2  # of the reach; share of the moved mass
MOST_BETWEEN_PIECES = 0.02  # share of the moved mass
LEAST_RESPONSE = 0.9
MOST_BLUR = 0.25  # of the reach, and of the thickness of the objects
MOST_NOISE = 0.01
_FEW_PIXELS = 4096  # of which the exact thickness takes no longer than a bound
_ALIGN = 'align the masks first (align="shift" or "rigid", --align)'
_ALIGN_VOLUMES = "shift the target onto the source first, by whole voxels (numpy.roll)"


def check_plausibility(result: TransportResult) -> list[Notice]:
    """Notices about what a result may be mistaken for; none without an answer."""
    work = result.work
    if not (result.has_answer and work.mass_source.any() and work.mass_target.any()):
        return []
    return list(_Checks(result).found())


class _Checks:
    def __init__(self, result: TransportResult) -> None:
        self._result, self._work = result, result.work
        self._left = left_mass(result)
        self._px_um, self._unit = result.transform.work_px_size_um, result.units.length
        self._tilts = any(penalty_class(name).tilts for name in result.config.penalties_ab)
        self._spacing = result.units.spacing
        self._align = _ALIGN_VOLUMES if result.transform.is_volume else _ALIGN
        centres = [_centre(mass, self._spacing) for mass in (self._work.mass_source, self._work.mass_target)]
        self._centre_moved_um = float(np.linalg.norm(centres[1] - centres[0])) * self._px_um

    def found(self) -> Iterator[Notice]:
        yield from self._motion()
        yield from self._near_reach()
        yield from self._between_pieces()
        yield from self._tilt()
        yield from self._blur()
        yield from self._noise()

    def _length(self, um: float) -> str:
        return f"{um:.4g} {self._unit}"

    def _motion(self) -> Iterator[Notice]:
        """Is motion called death and birth?"""
        result, work = self._result, self._work
        changed = min(result.total_mass_created, result.total_mass_destroyed) / min(result.M_source, result.M_target)
        changed -= max(result.noise_floor, result.noise_floor_target)  # `_noise` is about that
        too_far, length_um, longest_um = False, math.nan, math.inf
        if not self._tilts and changed > LEAST_EXCHANGED_IF_FAR:
            length_um = typical_length(work.mass_source, work.mass_target, spacing=self._spacing) * self._px_um
            # A rigid shift by k of an object of length L is seen as one if (L + k)^2 - L^2 <= reach^2.
            longest_um = math.hypot(length_um, result.reach_um) - length_um
            too_far = self._centre_moved_um > longest_um
        if changed > (MOST_EXCHANGED_IF_FAR if too_far else MOST_EXCHANGED_GROWTH):
            yield warning(
                "motion_called_growth",
                f"{_percent(changed)} of the mass is both destroyed and created, beyond net growth: the signature of motion "
                f"that is called death and birth"
                + (f" (the centre moved by {self._length(self._centre_moved_um)})" if too_far else ""),
                f"{self._align}, or raise reach_um",
            )
        elif too_far:
            yield warning(
                "centre_moved_far",
                f"the centre of mass moved by {self._length(self._centre_moved_um)}, but a shift of an object of "
                f"{self._length(length_um)} is seen as one only up to {self._length(longest_um)} at this reach",
                f"{self._align}, or raise reach_um",
            )

    def _near_reach(self) -> Iterator[Notice]:
        left, reach_um = self._left, self._result.reach_um
        if not (left.any() and math.isfinite(reach_um)) or self._tilts:
            return
        length_um = reduce(np.hypot, np.moveaxis(np.nan_to_num(self._work.velocity_px), -1, 0)) * self._px_um
        share = float(left[length_um > NEAR_REACH * reach_um].sum() / left.sum())
        if share > MOST_NEAR_REACH:
            yield warning(
                "moved_near_reach",
                f"{_percent(share)} of the moved mass moved nearly as far as the reach of {self._length(reach_um)} "
                "allows, so the reach decides what is motion and what is not",
                f"raise reach_um, or {self._align}",
            )

    def _between_pieces(self) -> Iterator[Notice]:
        work, moved = self._work, float(self._left.sum())
        mass, distance_px = mass_between_pieces(
            work.mass_source > 0, work.mass_target > 0, self._left, work.velocity_px, self._spacing
        )
        if moved > 0 and mass > MOST_BETWEEN_PIECES * moved:
            yield Notice(
                "mass_between_pieces",
                f"{_percent(mass / moved)} of the moved mass went from one separate object to another, "
                f"{self._length(distance_px * self._px_um)} far on average",
                "lower reach_um if objects cannot exchange mass, or compare them one by one as labels",
            )

    def _tilt(self) -> Iterator[Notice]:
        response = shift_response(self._result)[0] if self._tilts else 1.0
        if response < LEAST_RESPONSE:
            unseen_um = (1.0 - response) * self._centre_moved_um
            yield Notice(
                "kl_response",
                f"kl sees only {_percent(response)} of a rigid shift along the objects as motion, and calls the rest created "
                f"and destroyed; here the centre of mass moved by {self._length(self._centre_moved_um)}",
                f'use penalty="partial", or {self._align}',
                Severity.warning if unseen_um > self._result.blur_um else Severity.note,
            )

    def _blur(self) -> Iterator[Notice]:
        blur_um = self._result.blur_um
        limits_um: list[tuple[str, float]] = [("reach", self._result.reach_um)]
        supports = [mass > 0 for mass in (self._work.mass_source, self._work.mass_target)]
        thick_px = blur_um / MOST_BLUR / self._px_um
        if not any(on.size > _FEW_PIXELS and _is_thicker(on, thick_px, self._spacing) for on in supports):
            thickness_um = 2.0 * max(_depth(on, self._spacing) for on in supports) * self._px_um
            limits_um.append(("thickness of the objects", thickness_um))
        for name, length_um in limits_um:
            if blur_um > MOST_BLUR * length_um:
                yield Notice(
                    "blur_too_long",
                    f"the blur of {self._length(blur_um)} is more than a quarter of the {name}, "
                    f"{self._length(length_um)}",
                    f"lower blur_um to {MOST_BLUR * length_um:.2g} or less",
                )
                return

    def _noise(self) -> Iterator[Notice]:
        worst = max(self._result.noise_floor, self._result.noise_floor_target)
        if worst > MOST_NOISE:
            yield warning(
                "noise_floor",
                f"the method itself calls {_percent(worst)} of a mask created or destroyed when nothing happens (its bias)",
                "lower blur_um or raise reach_um",
            )


def mass_between_pieces(
    on_source: Bool, on_target: Bool, left: Float, velocity_px: Float, spacing: tuple[float, ...] = ()
) -> tuple[float, float]:
    """Mass that lands on a piece of the target which is not the successor of its own piece, and its mean distance in px.

    Successors of a piece are the target pieces that it overlaps, and the one in which most of its mass lands.
    """
    from scipy import ndimage

    target, n_target = label_pieces(on_target)
    if n_target < 2:
        return 0.0, math.nan
    source, n_source = label_pieces(on_source)
    moved = (left > 0) & np.isfinite(velocity_px[..., 0]) & (source > 0)
    if n_source == 0 or not moved.any():
        return 0.0, math.nan
    nearest = ndimage.distance_transform_edt(target == 0, return_distances=False, return_indices=True)
    landed = np.argwhere(moved) + np.rint(velocity_px[moved] / np.array(spacing or 1.0)).astype(np.int64)
    landed = np.clip(landed, 0, np.array(on_target.shape) - 1)
    to = target[tuple(nearest[:, *landed.T])]
    of, mass = source[moved], left[moved]
    flow = np.zeros((n_source + 1, n_target + 1))
    np.add.at(flow, (of, to), mass)
    own = np.zeros(flow.shape, bool)
    both = on_source & on_target
    own[source[both], target[both]] = True
    own[np.arange(n_source + 1), flow.argmax(axis=1)] = True
    other = ~own[of, to]
    if not other.any():
        return 0.0, math.nan
    distance = reduce(np.hypot, velocity_px[moved][other].T)
    total = float(mass[other].sum())
    return total, float(mass[other] @ distance) / total


def _centre(mass: Float, spacing: tuple[float, ...]) -> Float:
    """Centre of mass, px."""
    along = [mass.sum(axis=tuple(other for other in range(mass.ndim) if other != axis)) for axis in range(mass.ndim)]
    total = float(along[0].sum())
    means = [float(np.sum(line * np.arange(line.size))) / total for line in along]
    return np.array([mean * side for mean, side in zip(means, spacing, strict=True)])


def _is_thicker(on: Bool, thickness_px: float, spacing: tuple[float, ...]) -> bool:
    """Whether a square (in a volume a cube) of that side fits into the mask: much quicker than `_depth`, and mostly all there is to know."""
    from scipy import ndimage

    sides = [
        math.ceil(thickness_px / px) + 1 if n > 1 or on.ndim == 2 else 1
        for px, n in zip(spacing, on.shape, strict=True)
    ]
    return bool((ndimage.minimum_filter(on, sides, mode="constant")).any())


def _depth(on: Bool, spacing: tuple[float, ...]) -> float:
    """Largest distance of a pixel to the outside, px; along axes of one pixel there is no outside."""
    from scipy import ndimage

    box = tight_box(on)
    assert box is not None  # both masks have mass
    padded = np.pad(on[box.slices], [(int(side > 1 or on.ndim == 2),) * 2 for side in on.shape])
    return float(ndimage.distance_transform_edt(padded, None if set(spacing) == {1.0} else spacing).max())


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"

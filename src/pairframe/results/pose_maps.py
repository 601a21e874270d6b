"""Maps of an aligned pair: the whole displacement, the deformation, the motion, and the target's own image.

The plan of an aligned pair leads from the source to the moved target. The whole displacement ends on the target's own image;
the deformation is the part that the pose does not explain.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from pairframe.alignment.resample import canvas_that_fits, needed_box, resample
from pairframe.maps.motion import Motion, decompose_motion
from pairframe.types import Float

if TYPE_CHECKING:
    from pairframe.alignment import Pose
    from pairframe.results.result import TransportResult


def whole_displacement(velocity_um: Float, pose: Pose) -> Float:
    """From each source pixel to the target's own image, (Hc, Wc, 2), from the displacement to the moved target."""
    at = _positions(velocity_um.shape, pose)
    whole: Float = pose.change.inverse().of_points(at + velocity_um) - at
    return whole


def left_by_pose(velocity_um: Float, pose: Pose) -> Float:
    """The inverse of `whole_displacement`."""
    at = _positions(velocity_um.shape, pose)
    left: Float = pose.change.of_points(at + velocity_um) - at
    return left


def motion_of(result: TransportResult) -> Motion:
    """Shift, turn, scale and deformation of the moved mass: of the whole displacement, pose included."""
    before, after, weights = _moved(result)
    return decompose_motion(weights, before, after)


def deformation_of(result: TransportResult) -> Float:
    """Displacement (Hc, Wc, 2) without the pose or, for masks compared as given, without the fitted shift, turn and scale."""
    if result.pose is not None:
        return left_by_pose(result.velocity_field, result.pose)
    at = np.moveaxis(np.indices(result.velocity_field.shape[:-1]), 0, -1) + 0.5
    at = at * np.array(result.units.px_sides)
    left: Float = at + result.velocity_field - result.motion.fitted(at)
    return left


def created_on_target(result: TransportResult) -> Float:
    """Created mass per pixel of the target's own image, (Ht, Wt).

    Its sum is that of `mass_created`: what the resampling spreads over the border of the image is put onto its outermost
    pixels.
    """
    pose = result.pose
    if pose is None:
        return result.mass_created
    back, own = pose.inverse(), pose.target_canvas
    if not result.mass_created.any():
        return np.zeros(own.shape_hw)
    # Positions count from the first pixel of the source, which is not the corner of an extended canvas.
    image = result.mass_created
    top, left = pose.source_canvas.origin_yx
    px = pose.source_canvas.px
    change = back.change
    pivot = (change.pivot_yx_um[0] + top * px, change.pivot_yx_um[1] + left * px)
    shift = (change.shift_yx_um[0] - top * px, change.shift_yx_um[1] - left * px)
    change = replace(change, pivot_yx_um=pivot, shift_yx_um=shift)
    wide = canvas_that_fits(needed_box(image, px, change, own), own)
    moved = resample(image, px, change, wide)
    for axis in (0, 1):
        first, side = wide.origin_yx[axis], own.shape_hw[axis]
        moved = np.moveaxis(moved, axis, 0)
        kept = moved[first : first + side].copy()
        kept[0] += moved[:first].sum(axis=0)
        kept[-1] += moved[first + side :].sum(axis=0)
        moved = np.moveaxis(kept, 0, axis)
    return moved


def _positions(shape: tuple[int, ...], pose: Pose) -> Float:
    """Centres of the pixels from the first pixel of the source, (Hc, Wc, 2), um."""
    canvas = pose.source_canvas
    at: Float = (np.indices(shape[:2]).transpose(1, 2, 0) + 0.5 - np.array(canvas.origin_yx)) * canvas.px
    return at


def _moved(result: TransportResult) -> tuple[Float, Float, Float]:
    """Positions (n, 2) before and after the motion, um, and mass (n,) of the moved mass; work pixels."""
    work, transform = result.work, result.transform
    weights = np.where(work.velocity_valid, np.maximum(work.mass_source - work.mass_destroyed, 0.0), 0.0)
    on = weights > 0
    at = transform.work_to_canon_yx(np.argwhere(on) + 0.5) * np.array(transform.units.px_sides)
    after = at + work.velocity_px[on] * transform.work_px_size_um
    pose = result.pose
    if pose is not None:
        corner = np.array(pose.source_canvas.origin_yx) * pose.source_canvas.px
        at, after = at - corner, pose.change.inverse().of_points(after - corner)
    return at, after, weights[on]

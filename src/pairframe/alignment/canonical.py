"""Canonical pose of a single mask: against a reference, or by its principal axis with the thickest part as the head."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import ndimage

from pairframe import checks
from pairframe.alignment.align import FEWEST_PX, align
from pairframe.alignment.ambiguity import PoseStatus
from pairframe.alignment.compiling import announced
from pairframe.alignment.landmarks import checked_landmark
from pairframe.alignment.pose import OtherPose, Pose, iou_of
from pairframe.alignment.resample import Canvas
from pairframe.alignment.similarity import Similarity
from pairframe.errors import AlignError
from pairframe.masks import Mask
from pairframe.types import Bool, Float
from pairframe.units import Units, checked_px_size

LEAST_ELONGATION = 1.15  # ratio of the principal axes, below which a mask has no axis
LEAST_HEAD_OFFSET = 0.1  # distance of the head from the centroid along the axis, over the spread along it


@announced
def canonical_pose(
    mask: Mask | ArrayLike,
    canvas_hw: tuple[int, int],
    *,
    px_size_um: float | None = None,
    reference: Mask | None = None,
    landmark: Mask | ArrayLike | None = None,
    reference_landmark: Mask | ArrayLike | None = None,
    allow_flip: bool = False,
) -> Pose:
    """The pose change that brings one mask into a standard position on a canvas.

    With a reference the mask is aligned with it, and the middle of the reference's canvas comes to the middle of the new
    one. Without, the principal axis becomes horizontal with the head, the thickest part, on the left, and the centroid
    comes to the middle. A landmark then takes the place of the head, comes to the middle instead of the centroid and, if
    flips are allowed, below the axis. Two masks are compared more reliably with one reference than by their axes.

    Parameters
    ----------
    mask : Mask or (H, W) array
        At least 9 pixels.
    canvas_hw : (H, W)
        The new canvas, in its pixels.
    px_size_um : float, optional
        Side of its pixels; that of the mask if not given.
    reference : Mask, optional
    landmark, reference_landmark : Mask or array, optional
        Masks on the canvases of `mask` and `reference`. An empty one is missing: the pose says so, and none is used.
    allow_flip : bool
        Whether the mask may be mirrored: to fit the reference, or to bring the landmark below the axis.

    Returns
    -------
    Pose
        `Pose.apply` puts the mask on the canvas. ``undetermined`` if the mask is too round to have an axis.
    """
    mask = mask if isinstance(mask, Mask) else Mask.from_array(mask)
    if mask.area_px < FEWEST_PX:
        raise AlignError(
            f"a mask of at least {FEWEST_PX} pixels, which can be turned",
            "an empty mask" if mask.is_empty else f"{mask.area_px} pixels",
            "leave it out, or check the segmentation",
            "mask",
        )
    canvas, px_size = _canvas(mask, canvas_hw, px_size_um)
    if reference is not None:
        return _against(reference, mask, canvas, px_size, (reference_landmark, landmark), allow_flip)
    return _alone(mask, canvas, px_size, landmark, allow_flip)


def _against(
    reference: Mask, mask: Mask, canvas: Canvas, px_size_um: float | None, landmarks: tuple[Any, Any], allow_flip: bool
) -> Pose:
    """The pose that aligns the mask with a reference, carried to the middle of the canvas."""
    given = None if landmarks == (None, None) else landmarks
    pose = align(reference, mask, allow_flip=allow_flip, landmarks=given)
    middle = _middle(canvas) - _middle(pose.source_canvas)
    return _on_canvas(pose, middle, canvas, px_size_um)


def _alone(mask: Mask, canvas: Canvas, px_size_um: float | None, landmark: Any, allow_flip: bool) -> Pose:
    px = Units(mask.px_size_um).px_size
    inside: Bool = mask.values > 0
    points = (np.argwhere(inside) + 0.5) * px
    centroid = points.mean(axis=0)
    lengths, axes = np.linalg.eigh(np.cov(points.T, bias=True))
    along = axes[:, 1]
    mark, missing = _landmark(landmark, mask)
    anchor = centroid
    if mark is not None:
        anchor = (np.argwhere(mark) + 0.5).mean(axis=0) * px
    head = anchor if mark is not None else _thickest(inside) * px
    offset = float((head - centroid) @ along) / math.sqrt(lengths[1])
    status, kind, notices = PoseStatus.aligned, "rigid", []
    if lengths[1] < LEAST_ELONGATION**2 * lengths[0]:
        status, kind = PoseStatus.undetermined, "shift"
        notices.append("the mask is too round to have an axis, so it was only shifted")
    elif abs(offset) < LEAST_HEAD_OFFSET:
        status = PoseStatus.ambiguous
        notices.append("the thickest part is in the middle, so head and tail cannot be told apart")
    to_head = along * (1.0 if offset >= 0 else -1.0)
    angle, flipped = 0.0, False
    if kind == "rigid":
        angle = _angle_to_left(to_head)
        if allow_flip and mark is not None:
            flipped = _is_above(anchor - centroid, angle)
            angle = _angle_to_left(to_head * (-1.0, 1.0)) if flipped else angle
    if missing:
        notices.append("the landmark is missing, so no landmark was used")
    shift = _middle(canvas) - anchor
    change = Similarity(angle, (float(shift[0]), float(shift[1])), flipped, 1.0, (float(anchor[0]), float(anchor[1])))
    other = Similarity(angle + 180.0, change.shift_yx_um, flipped, 1.0, change.pivot_yx_um)
    own = Canvas(mask.shape_hw, px)
    before = float(iou_of(inside.astype(float), inside, px, Similarity(), own))
    return Pose(
        change=change,
        kind=kind,
        status=status,
        iou_before=before,
        iou_after=before,
        runner_up=OtherPose(other, before) if kind == "rigid" else None,
        margin=0.0,
        proof=None,
        landmark="missing" if missing else "none" if mark is None else "used",
        source_canvas=canvas,
        target_canvas=own,
        px_size_um=(px_size_um, mask.image_px_size_um),
        notices=tuple(notices),
    )


def _angle_to_left(direction: Float) -> float:
    """Degrees that turn a direction (y, x) to the left, (0, -1)."""
    # R(angle) (y, x) = (c y - s x, s y + c x); the angle of (y, x) = (-sin a, cos a) is a.
    return 180.0 - math.degrees(math.atan2(-direction[0], direction[1]))


def _is_above(offset: Float, angle_deg: float) -> bool:
    turned = Similarity(angle_deg).matrix @ offset
    return bool(turned[0] < 0)


def _thickest(inside: Bool) -> Float:
    """Centre of the thickest part, pixels: the mean of the pixels within 5 % of the largest distance to the background."""
    distance = ndimage.distance_transform_edt(np.pad(inside, 1))[1:-1, 1:-1]
    middle: Float = np.argwhere(distance >= 0.95 * distance.max()).mean(axis=0) + 0.5
    return middle


def _landmark(landmark: Any, mask: Mask) -> tuple[Bool | None, bool]:
    """The pixels of a landmark, and whether one was given but is empty."""
    if landmark is None:
        return None, False
    one = landmark if isinstance(landmark, Mask) else Mask.from_array(landmark)
    if one.is_empty:
        return None, True
    return checked_landmark(one, mask, "mask"), False


def _canvas(mask: Mask, canvas_hw: Any, px_size_um: float | None) -> tuple[Canvas, float | None]:
    if not isinstance(canvas_hw, tuple | list) or len(canvas_hw) != 2:
        raise AlignError("canvas_hw to be two integers", checks.shown(canvas_hw), "e.g. (256, 576)", "canvas_hw")
    height, width = (checks.integer(value, "canvas_hw", 1, error=AlignError) for value in canvas_hw)
    if px_size_um is not None and mask.px_size_um is None:
        raise AlignError(
            "a mask with a known pixel size",
            "none",
            "give the mask its px_size_um, or none to the canvas",
            "px_size_um",
        )
    size = mask.image_px_size_um if px_size_um is None else checked_px_size(px_size_um)
    return Canvas((height, width), Units(size).px_size), size


def _middle(canvas: Canvas) -> Float:
    return np.array(canvas.shape_hw) * (canvas.px / 2)


def _on_canvas(pose: Pose, moved: Float, canvas: Canvas, px_size_um: float | None) -> Pose:
    """The same pose followed by a shift onto another canvas."""

    def shifted(change: Similarity) -> Similarity:
        dy, dx = change.shift_yx_um
        return replace(change, shift_yx_um=(dy + float(moved[0]), dx + float(moved[1])))

    runner_up = pose.runner_up
    return replace(
        pose,
        change=shifted(pose.change),
        runner_up=None if runner_up is None else OtherPose(shifted(runner_up.change), runner_up.iou),
        source_canvas=canvas,
        px_size_um=(px_size_um, pose.px_size_um[1]),
    )

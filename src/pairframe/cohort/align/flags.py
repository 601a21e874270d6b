"""Flags of aligned masks: reasons to look at one, in words. A flagged mask is never dropped."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pairframe.alignment import PoseStatus
from pairframe.alignment.series import SeriesPose
from pairframe.types import Float

# A value is an outlier if it is farther from the median of the cohort than this many robust standard deviations (1.4826
# times the median absolute deviation), and than a least difference that matters.
ROBUST_DEVIATIONS = 3.5
LEAST_IOU_DIFFERENCE = 0.05
LEAST_IOU_SHARE = 0.8  # of the median: low however much the others differ, as in a small cohort
LEAST_AREA_FACTOR = 1.1
LEAST_OFFSET_SHARE = 0.05  # of the square root of the reference's area
FEWEST_FOR_OUTLIERS = 5


@dataclass(frozen=True)
class Flag:
    """A reason to look at a mask: a code for tables, and a sentence."""

    code: str
    words: str


@dataclass(frozen=True)
class Measured:
    """What the flags of one mask are about.

    Attributes
    ----------
    found : SeriesPose
    area_ratio : float
        Area over that of the reference.
    landmark_offset : float or None
        Distance of its landmark from that of the reference, units of length.
    """

    found: SeriesPose
    area_ratio: float
    landmark_offset: float | None


def flags_of(masks: Sequence[Measured], reference_area: float, unit: str) -> list[list[Flag]]:
    """The flags of every mask of a cohort, the most important first."""
    ious = np.array([one.found.pose.iou_after for one in masks])
    sizes = np.array([math.log(one.area_ratio) for one in masks])
    offsets = np.array([math.nan if one.landmark_offset is None else one.landmark_offset for one in masks])
    low_iou = _outlying(-ious, LEAST_IOU_DIFFERENCE) | (ious < LEAST_IOU_SHARE * _median(ious))
    large, small = (_outlying(sign * sizes, math.log(LEAST_AREA_FACTOR)) for sign in (1, -1))
    far = _outlying(offsets, LEAST_OFFSET_SHARE * math.sqrt(reference_area))
    found = []
    for i, one in enumerate(masks):
        flags = _flags_of_pose(one.found)
        if low_iou[i]:
            flags.append(
                Flag(
                    "low_overlap",
                    f"its IoU with the reference, {ious[i]:.2f}, is low: the median is {_median(ious):.2f}; "
                    "if masks may be mirrored, allow flips",
                )
            )
        if far[i]:
            words = f"its landmark is {offsets[i]:.3g} {unit} from that of the reference: the median is {_median(offsets):.3g}"
            flags.append(Flag("landmark_far", words))
        if large[i] or small[i]:
            words = (
                f"its area is {one.area_ratio:.2f} times that of the reference: the median is "
                f"{math.exp(_median(sizes)):.2f}"
            )
            flags.append(Flag("area", words))
        found.append(flags)
    return found


def structure_flags(errors: Mapping[str, str]) -> list[Flag]:
    """Flags of a mask whose structures could not be moved along; errors by column."""
    return [Flag("structure", f"its {column} could not be moved along: {error}") for column, error in errors.items()]


def _flags_of_pose(found: SeriesPose) -> list[Flag]:
    pose, flags = found.pose, []
    if pose.status == PoseStatus.undetermined:
        flags.append(Flag("undetermined", "it fits the reference at almost any angle, so it was only shifted"))
    if pose.status == PoseStatus.ambiguous:
        other = "" if pose.runner_up is None else f" (IoU {pose.iou_after:.2f} and {pose.runner_up.iou:.2f})"
        flags.append(Flag("ambiguous", f"another pose fits almost as well{other}"))
    if found.by_neighbours:
        flags.append(Flag("by_neighbours", "of two poses, the one that fits its neighbours in the series was taken"))
    if found.jumps and found.turn_deg is not None:
        how = "mirrored" if found.turn_deg == 180.0 else f"turned by {found.turn_deg:.0f} degrees"
        words = f"its pose jumps: it is {how} against the frame before, and their overlap does not confirm it"
        flags.append(Flag("jump", words))
    if pose.landmark == "missing":
        flags.append(Flag("landmark_missing", "its landmark is missing: it was aligned by its outline alone"))
    if any("several objects" in notice for notice in pose.notices):
        flags.append(Flag("several_objects", "it has several objects, so it was only shifted"))
    return flags


def _outlying(values: Float, least: float) -> np.ndarray:
    """Whether each value is far above the median of those that are known."""
    known = values[np.isfinite(values)]
    if len(known) < FEWEST_FOR_OUTLIERS:
        return np.zeros(len(values), bool)
    middle = np.median(known)
    spread = 1.4826 * np.median(np.abs(known - middle))
    # NaN compares as False.
    return np.asarray(values - middle > max(ROBUST_DEVIATIONS * spread, least))


def _median(values: Float) -> float:
    return float(np.nanmedian(values))

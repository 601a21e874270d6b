"""The reference of a cohort: given, or chosen among its masks, and where it lies on the canvas."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median

import numpy as np

from pairframe.alignment import Canvas, Similarity, canonical_pose
from pairframe.alignment.align import FEWEST_PX
from pairframe.alignment.landmarks import checked_landmark
from pairframe.cohort.align.job import align_with, area_of, check_reference_px_size, read_area, read_landmark
from pairframe.cohort.align.settings import AlignSettings
from pairframe.cohort.align.tasks import MaskOfCohort, ReferenceRef
from pairframe.cohort.inputs.cells import absolute
from pairframe.cohort.inputs.tasks import MaskRef
from pairframe.cohort.run.progress import MaskScan
from pairframe.errors import AlignError, PairframeError
from pairframe.masks import Mask
from pairframe.parallel.threads import n_cores
from pairframe.units import Units

MOST_CANDIDATES = 5
MOST_MEASURED = 1000  # masks whose areas are measured, evenly from first to last
RULE = (
    f"of up to {MOST_CANDIDATES} masks whose areas are nearest the median, from different series if there are several, the "
    "one that overlaps best with the others"
)


@dataclass(frozen=True)
class Reference:
    """The reference and its place on the canvas.

    Attributes
    ----------
    ref : ReferenceRef
    mask_id : str or None
        If it is a mask of the cohort.
    mask : Mask
    change : Similarity
        Moves the reference onto the canvas.
    canvas : Canvas
    px_size_um : float or None
        Side of a pixel of the canvas; None if unknown, and lengths are in pixels.
    """

    ref: ReferenceRef
    mask_id: str | None
    mask: Mask
    change: Similarity
    canvas: Canvas
    px_size_um: float | None


def given_reference(
    mask: str | os.PathLike[str], landmark: str | os.PathLike[str] | None, settings: AlignSettings
) -> ReferenceRef:
    """The reference that the user names."""
    if (settings.landmark is None) != (landmark is None):
        raise AlignError(
            "a landmark of the reference together with those of the masks",
            "only the column of the masks" if landmark is None else "only that of the reference",
            "give both the column and the landmark of the reference, or none",
            "reference_landmark",
        )
    masks = [None if one is None else _named(os.fspath(one)) for one in (mask, landmark)]
    assert masks[0] is not None
    return ReferenceRef(masks[0], masks[1])


def choose_reference(masks: Sequence[MaskOfCohort], settings: AlignSettings, scan: MaskScan) -> str:
    """The id of the mask that is the reference of its cohort; see `RULE`.

    Masks that touch the border of their canvas, or whose landmark is missing, are taken only if there are no others.
    """
    spread = _spread(masks)
    threads = ThreadPoolExecutor(n_cores(), thread_name_prefix="pairframe-scan")
    try:
        looks = list(scan.over(threads.map(lambda one: _look(one, settings), spread), len(spread)))
    finally:
        threads.shutdown(cancel_futures=True)
    best = max((look.rank for look in looks), default=0)
    usable = [(one, look.area) for one, look in zip(spread, looks, strict=True) if look.rank == best > 0]
    if not usable:
        raise AlignError(
            "a mask that can be the reference: at least 9 pixels" + (", with a landmark" if settings.landmark else ""),
            f"none among {len(spread)} masks",
            "check the masks, or give a reference",
            "reference",
        )
    middle = median(area for _, area in usable)
    usable.sort(key=lambda item: abs(np.log(item[1] / middle)))
    candidates = _of_different_series([one for one, _ in usable])
    if len(candidates) < 3:
        return candidates[0].mask_id
    read = [(read_area(one.frame.mask), read_landmark(one.landmark)) for one in candidates]
    scores: list[list[float]] = [[] for _ in candidates]
    for i in range(len(read)):
        for j in range(i):
            iou = _iou(read[i], read[j], settings)
            scores[i].append(iou)
            scores[j].append(iou)
    return candidates[int(np.argmax([mean(one) for one in scores]))].mask_id


def _iou(one: tuple[Mask, Mask | None], other: tuple[Mask, Mask | None], settings: AlignSettings) -> float:
    """IoU of two candidates at their best pose; 0 if they cannot be aligned."""
    try:
        return align_with(*one, *other, settings).iou_after
    except PairframeError:
        return 0.0


def place_reference(ref: ReferenceRef, mask_id: str | None, settings: AlignSettings) -> Reference:
    """Read the reference and put it on the canvas.

    A given one keeps its pose, and the middle of its canvas comes to the middle of the new one. A chosen one comes to its
    canonical pose; see `canonical_pose`.
    """
    mask = read_area(ref.mask)
    check_reference_px_size(mask, settings.px_size_um)
    mark = read_landmark(ref.landmark)
    if settings.landmark is not None and (mark is None or mark.is_empty):
        raise AlignError(
            "a reference with a landmark, as the masks have them",
            "none",
            "give another reference, or none to have one chosen",
            "reference",
        )
    if mask.area_px < FEWEST_PX and settings.kind != "shift":
        raise AlignError(
            f"a reference of at least {FEWEST_PX} pixels", f"{mask.area_px}", "give another reference", "reference"
        )
    px_size_um = mask.image_px_size_um if settings.px_size_um is None else settings.px_size_um
    canvas = Canvas(settings.canvas_hw, Units(px_size_um).px_size)
    if mask_id is None or settings.kind == "shift":
        own = np.array(mask.shape_hw) * Units(mask.px_size_um).px_size
        dy, dx = (np.array(canvas.shape_hw) * canvas.px - own) / 2
        change = Similarity(shift_yx_um=(float(dy), float(dx)))
    else:
        pose = canonical_pose(
            mask, canvas.shape_hw, px_size_um=px_size_um, landmark=mark, allow_flip=settings.allow_flip
        )
        change = pose.change
    return Reference(ref, mask_id, mask, change, canvas, px_size_um)


@dataclass(frozen=True)
class _Look:
    """The area of a mask in units of length squared, and whether it can be the reference: 0 not, 2 well."""

    area: float
    rank: int


def _look(one: MaskOfCohort, settings: AlignSettings) -> _Look:
    try:
        mask = read_area(one.frame.mask)
        if mask.area_px < FEWEST_PX or (settings.px_size_um is not None and mask.px_size_um is None):
            return _Look(1.0, 0)
        if settings.landmark is not None:
            mark = read_landmark(one.landmark)
            if mark is None or mark.is_empty:
                return _Look(1.0, 0)
            checked_landmark(mark, mask, "mask")
    except (PairframeError, OSError, MemoryError):  # its own row says why
        return _Look(1.0, 0)
    values = mask.values
    is_cut = values[0].any() or values[-1].any() or values[:, 0].any() or values[:, -1].any()
    return _Look(area_of(mask), 1 if is_cut else 2)


def _of_different_series(masks: Sequence[MaskOfCohort]) -> list[MaskOfCohort]:
    first: dict[str, MaskOfCohort] = {}
    for one in masks:
        first.setdefault(one.frame.series, one)
    chosen = list(first.values())[:MOST_CANDIDATES]
    others = [one for one in masks if one not in chosen]
    return chosen + others[: MOST_CANDIDATES - len(chosen)]


def _spread(masks: Sequence[MaskOfCohort]) -> list[MaskOfCohort]:
    if len(masks) <= MOST_MEASURED:
        return list(masks)
    return [masks[i * (len(masks) - 1) // (MOST_MEASURED - 1)] for i in range(MOST_MEASURED)]


def _named(name: str) -> MaskRef:
    return MaskRef(absolute(name, Path.cwd()), name)

"""`AlignJob`: the work of a worker. It finds the pose of a mask, or moves a mask and writes it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pairframe.alignment import Canvas, Pose, PoseStatus, Similarity, align
from pairframe.alignment.align import FEWEST_PX
from pairframe.alignment.pose import moved_onto
from pairframe.alignment.resample import needed_box
from pairframe.cohort.align.settings import AlignSettings
from pairframe.cohort.align.tasks import PlacedStructure, PlaceTask, PoseTask
from pairframe.cohort.inputs.tasks import MaskRef, PairTask
from pairframe.cohort.run.events import Chunk, PairFinished
from pairframe.cohort.run.mark import is_going_on
from pairframe.cohort.run.mask_cache import MaskCache
from pairframe.errors import AlignError, is_transient
from pairframe.masks import Mask, write_mask
from pairframe.parallel.threads import at_most
from pairframe.results import failed_row
from pairframe.results.schema import Row
from pairframe.types import Float
from pairframe.units import Units

NEEDED = "needed_canvas_hw"  # in the row of a mask that does not fit
LEFT_BEHIND = "left_behind"  # in the row of a mask that was moved: errors of its structures, by column


@dataclass(frozen=True)
class AlignJob:
    """The settings that all masks of a run share; small, because it is sent to every worker."""

    settings: AlignSettings
    out: Path
    token: str

    def is_wanted(self) -> bool:
        """Whether the run goes on, as seen from this machine."""
        return is_going_on(self.out, self.token)

    def compare_chunk(self, chunk: Chunk, cache: MaskCache) -> Iterator[PairFinished]:
        """Do the tasks one after the other; end early when the run does. A mask that fails is a failed row."""
        read: dict[tuple[MaskRef, MaskRef | None], tuple[Mask, Mask | None]] = {}  # the reference, once per chunk
        for task in chunk:
            if not self.is_wanted():
                break
            try:
                with at_most(1):
                    row = self._placed(task) if isinstance(task, PlaceTask) else self._pose(task, read)
            except Exception as error:  # one mask of thousands: record the error and go on with the others
                advice = None if hasattr(error, "fix") else "check the disk and the memory, and run it again"
                yield PairFinished(failed_row(task.pair_id, error, advice), is_transient(error))
                continue
            yield PairFinished(row)

    def _pose(self, task: PairTask, read: dict[Any, Any]) -> Row:
        assert isinstance(task, PoseTask)
        key = (task.source, task.reference_landmark)
        if key not in read:
            read[key] = (read_area(task.source), read_landmark(task.reference_landmark))
        reference, reference_mark = read[key]
        mask, mark = read_area(task.target), read_landmark(task.landmark)
        _check_size(mask, self.settings.kind)
        pose = align_with(reference, reference_mark, mask, mark, self.settings)
        return {
            "pair_id": task.pair_id,
            "status": str(pose.status),
            "pose": pose.to_plain(),
            "area": area_of(mask),
            "px_size_um": mask.px_size_um,
            "landmark_offset": _landmark_offset(pose, reference_mark, mark),
            "landmark_offset_runner_up": _landmark_offset(pose, reference_mark, mark, of_runner_up=True),
        }

    def _placed(self, task: PlaceTask) -> Row:
        mask = read_area(task.target)
        needed = canvas_around_middle(mask, task.change, task.canvas)
        if needed != task.canvas.shape_hw:
            error = does_not_fit("the mask", task.canvas, needed)
            return failed_row(task.pair_id, error) | {NEEDED: needed}
        moved = moved_onto(mask, task.change, task.canvas, task.px_size_um)
        write_mask(moved, self.out / task.file, overwrite=True)
        trouble = {}
        for one in task.along:
            try:
                self._place_along(one, mask, task)
            except Exception as error:  # the mask itself is there
                trouble[one.column] = str(error)
        return {"pair_id": task.pair_id, "status": str(PoseStatus.aligned), LEFT_BEHIND: trouble}

    def _place_along(self, one: PlacedStructure, mask: Mask, task: PlaceTask) -> None:
        """Move a structure as its mask was moved; pixels that it covers by half or more are inside."""
        structure = one.mask.read()
        if structure.shape_hw != mask.shape_hw:
            sizes = ["{} x {} px".format(*shape_hw) for shape_hw in (mask.shape_hw, structure.shape_hw)]
            raise AlignError(f"{one.column!r} on the canvas of its mask, {sizes[0]}", sizes[1], "check the column")
        own = replace(structure, px_size_um=mask.px_size_um)
        moved = moved_onto(own, task.change, task.canvas, task.px_size_um)
        inside = Mask.from_array(moved.values >= 0.5, px_size_um=task.px_size_um)
        (self.out / one.file).parent.mkdir(parents=True, exist_ok=True)
        write_mask(inside, self.out / one.file, overwrite=True)


def align_with(
    reference: Mask, reference_mark: Mask | None, mask: Mask, mark: Mask | None, settings: AlignSettings
) -> Pose:
    """The pose of a mask against the reference; a landmark that is missing is so in the pose."""
    return align(
        reference,
        mask,
        kind=settings.kind,
        allow_flip=settings.allow_flip,
        landmarks=(reference_mark, mark) if settings.landmark is not None else None,
        several=settings.several,
    )


def canvas_around_middle(mask: Mask, change: Similarity, canvas: Canvas) -> tuple[int, int]:
    """The shape (H, W) of the canvas, extended on both sides alike until a moved mask fits: its middle stays."""
    box = needed_box(mask.values, Units(mask.px_size_um).px_size, change, canvas)
    height, width = canvas.shape_hw
    more_y, more_x = max(0, -box[0], box[1] + 1 - height), max(0, -box[2], box[3] + 1 - width)
    return height + 2 * more_y, width + 2 * more_x


def does_not_fit(what: str, canvas: Canvas, needed_hw: tuple[int, int]) -> AlignError:
    """The error of a canvas that is too small."""
    height, width = canvas.shape_hw
    return AlignError(
        f"{what} to fit on the canvas of {height} x {width} px",
        f"one that needs {needed_hw[0]} x {needed_hw[1]} px",
        f"use a canvas of {needed_hw[0]}x{needed_hw[1]} or larger, or larger pixels",
        "canvas_hw",
    )


def read_area(ref: MaskRef) -> Mask:
    """A binary mask, or a coverage that an alignment wrote."""
    return ref.read()


def read_landmark(ref: MaskRef | None) -> Mask | None:
    """A landmark without a pixel size: it is on the canvas of its mask."""
    return None if ref is None else replace(ref.read(), px_size_um=None)


def area_of(mask: Mask) -> float:
    """Area in square um, or pixels if no pixel size is known."""
    return float(mask.values.sum()) * Units(mask.px_size_um).px_area


def _check_size(mask: Mask, kind: str) -> None:
    least = 1 if kind == "shift" else FEWEST_PX
    if mask.area_px < least:
        raise AlignError(
            "a mask with pixels" if kind == "shift" else f"a mask of at least {FEWEST_PX} pixels, which can be turned",
            "an empty mask" if mask.is_empty else f"{mask.area_px} pixel{'s' if mask.area_px > 1 else ''}",
            "check the segmentation, or leave out the row",
        )


def _landmark_offset(
    pose: Pose, reference_mark: Mask | None, mark: Mask | None, *, of_runner_up: bool = False
) -> float | None:
    """Distance of the centroids of both landmarks after the move; None if one is missing."""
    if pose.landmark != "used" or reference_mark is None or mark is None:
        return None
    change: Similarity | None = pose.change
    if of_runner_up:
        change = None if pose.runner_up is None else pose.runner_up.change
    if change is None:
        return None
    still, moving = (
        _centroid(one, Units(size).px_size) for one, size in zip((reference_mark, mark), pose.px_size_um, strict=True)
    )
    return float(np.hypot(*(change.without_scale().of_points(moving) - still)))


def _centroid(mask: Mask, px_size: float) -> Float:
    """(y, x) in units of length."""
    at: Float = (np.argwhere(mask.values > 0).mean(axis=0) + 0.5) * px_size
    return at


def check_reference_px_size(reference: Mask, px_size_um: float | None) -> None:
    """Refuse a canvas in um for a reference without a pixel size."""
    if px_size_um is not None and reference.px_size_um is None:
        raise AlignError(
            "a reference with a known pixel size, as the canvas has one",
            "none",
            "give the masks their pixel size in a column px_size_um, or none to the canvas",
            "px_size_um",
        )

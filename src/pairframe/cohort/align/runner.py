"""`align_cohort`: choose the reference, find every pose, settle the series, write the masks and their manifest."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from pairframe.alignment import Pose
from pairframe.alignment.pose import moved_onto
from pairframe.alignment.series import SeriesPose, settle_series
from pairframe.cohort.align.flags import Measured, flags_of, structure_flags
from pairframe.cohort.align.job import (
    LEFT_BEHIND,
    NEEDED,
    AlignJob,
    area_of,
    canvas_around_middle,
    does_not_fit,
    read_area,
)
from pairframe.cohort.align.manifest import AlignedMask, write_aligned_manifest
from pairframe.cohort.align.reference import (
    RULE,
    Reference,
    choose_reference,
    given_reference,
    place_reference,
)
from pairframe.cohort.align.settings import AlignSettings
from pairframe.cohort.align.state import REFERENCE, AlignState
from pairframe.cohort.align.tasks import (
    MaskOfCohort,
    PlaceTask,
    ReferenceRef,
    file_names,
    masks_of,
    moved_along,
    pose_key,
    pose_task,
)
from pairframe.cohort.inputs.columns import ColumnMap
from pairframe.cohort.inputs.content import Digests, side_content
from pairframe.cohort.inputs.sources import read_frames
from pairframe.cohort.inputs.tasks import PairTask
from pairframe.cohort.run.chunks import cut_into_chunks
from pairframe.cohort.run.events import Stopped
from pairframe.cohort.run.executor import Executor
from pairframe.cohort.run.interrupt import stop_on_interrupt
from pairframe.cohort.run.local_executor import LocalExecutor
from pairframe.cohort.run.mark import RunMark
from pairframe.cohort.run.plan import Plan
from pairframe.cohort.run.progress import MaskScan, ProgressCallback
from pairframe.cohort.run.runner import checked_jobs
from pairframe.cohort.run.tally import Tally
from pairframe.cohort.run.work_queue import WorkQueue
from pairframe.masks import Mask, write_mask
from pairframe.problem import TransportConfig
from pairframe.results.schema import FAILED, Row
from pairframe.units import Units


@dataclass(frozen=True, eq=False)
class AlignedCohort:
    """How an alignment ended.

    Attributes
    ----------
    out : Path
        Folder with the masks and their manifest; `run_cohort` takes it.
    masks : tuple of AlignedMask
        In the order of the table.
    reference : str
        Its name in the table, or the file that was given.
    rule : str
        How it was found.
    written, skipped : int
        Masks that were moved in this run, and those that were there already.
    failed : int
    needed_canvas_hw : (H, W) or None
        The canvas on which all masks fit, if the given one is too small for some.
    seconds : float
    """

    out: Path
    masks: tuple[AlignedMask, ...]
    reference: str
    rule: str
    written: int
    skipped: int
    failed: int
    needed_canvas_hw: tuple[int, int] | None
    seconds: float

    @property
    def flagged(self) -> int:
        """Number of masks with a flag, without those that failed."""
        return sum(bool(one.flags) and one.error is None for one in self.masks)


def align_cohort(
    manifest: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    canvas_hw: tuple[int, int],
    px_size_um: float | None = None,
    reference: str | os.PathLike[str] | None = None,
    reference_landmark: str | os.PathLike[str] | None = None,
    landmark: str | None = None,
    columns: ColumnMap | None = None,
    kind: str = "rigid",
    allow_flip: bool = False,
    several: str = "shift",
    jobs: int | None = None,
    overwrite: bool = False,
    progress: ProgressCallback | None = None,
) -> AlignedCohort:
    """Bring all masks of a cohort into one pose on one canvas, each against the same reference.

    Run again, it aligns only masks that are missing or have changed; a new canvas moves the masks again without a new search.

    Parameters
    ----------
    manifest : path
        Table of frames, folder, pattern or stack of labels, as for `run_cohort`. Canvases and pixel sizes may differ.
    out : path
        Folder for the masks, the manifest ``aligned.csv`` and the reference. `run_cohort` takes this folder.
    canvas_hw : (H, W)
        Canvas of all masks, pixels.
    px_size_um : float, optional
        Side of its pixels; that of the reference if not given.
    reference : path, optional
        A mask whose pose all others get. If not given, one of the masks is chosen and brought to its canonical pose.
    reference_landmark : path, optional
        Its landmark; needed for a given reference if there is a column of landmarks.
    landmark : str, optional
        Column of the table with a second mask per row, such as the yolk. It counts as much as the mask itself. A row
        without one is aligned by its outline alone and flagged.
    columns : ColumnMap, optional
        Which columns of the table hold what, if they do not have the usual names.
    kind, allow_flip, several
        See `align`. The scale of ``similarity`` helps to find the pose; it is recorded and not applied.
    jobs : int, optional
        Worker processes; None: one per core. They import the main module: a script needs ``if __name__ == "__main__":``
        around its calls.
    overwrite : bool
        Write into a folder that holds other files.
    progress : callable (CohortProgress), optional
        Called about twice a second.

    Notes
    -----
    A mask that cannot be aligned, or does not fit on the canvas, is recorded in the manifest with its error, and the others
    go on. `pairframe.report.html.write_contact_sheet` draws all of them.
    """
    began = time.monotonic()
    settings = AlignSettings(canvas_hw, px_size_um, landmark, kind, allow_flip, several)
    n_jobs = checked_jobs(jobs)
    masks = masks_of(read_frames(manifest, (columns or ColumnMap()).with_structure(landmark)), settings)
    given = None if reference is None else given_reference(reference, reference_landmark, settings)
    state = AlignState.read(Path(out).absolute())
    # A reference that cannot be used, or does not fit, is refused before anything is written.
    settled = _settled_reference(given, masks, settings, state, progress)
    state.create(overwrite=overwrite)
    with RunMark(state.out) as mark, stop_on_interrupt(mark.stop) as is_stopping:
        run = _Run(settings, masks, state, AlignJob(settings, state.out, mark.token), is_stopping, progress)
        try:
            return run.align(settled, n_jobs, began)
        finally:
            state.save()


def _settled_reference(
    given: ReferenceRef | None,
    masks: Sequence[MaskOfCohort],
    settings: AlignSettings,
    state: AlignState,
    progress: ProgressCallback | None,
) -> Reference:
    """The reference that is given, was chosen before, or is chosen now."""
    if given is not None:
        settled = place_reference(given, None, settings)
    else:
        by_id = {one.mask_id: one for one in masks}
        chosen = state.about.get("chosen_reference")
        if chosen not in by_id or state.about.get("landmark") != settings.landmark:
            chosen = choose_reference(masks, settings, MaskScan(progress))
            state.about |= {"chosen_reference": chosen, "landmark": settings.landmark}
        one = by_id[str(chosen)]
        settled = place_reference(ReferenceRef(one.frame.mask, one.landmark), one.mask_id, settings)
    needed = canvas_around_middle(settled.mask, settled.change, settled.canvas)
    if needed != settled.canvas.shape_hw:
        raise does_not_fit("the reference", settled.canvas, needed)
    return settled


class _Run:
    """One run over the masks of a cohort."""

    def __init__(
        self,
        settings: AlignSettings,
        masks: Sequence[MaskOfCohort],
        state: AlignState,
        job: AlignJob,
        is_stopping: Callable[[], bool],
        progress: ProgressCallback | None,
    ) -> None:
        self._settings, self._masks, self._state, self._job = settings, masks, state, job
        self._is_stopping, self._progress = is_stopping, progress
        self._scan = MaskScan(progress, is_stopping)
        self._digests = Digests()
        self._structures = tuple(dict.fromkeys(name for one in masks for name in one.frame.structures))

    def align(self, reference: Reference, n_jobs: int, began: float) -> AlignedCohort:
        tasks = [pose_task(one, reference.ref) for one in self._masks]
        keys = {task.pair_id: pose_key(task, self._settings, self._digests) for task in tasks}
        todo = [task for task in tasks if not self._is_known(task.pair_id, keys[task.pair_id])]
        with _Workers(self._job, min(n_jobs, len(self._masks))) as workers:
            for row in self._rows_of(todo, len(tasks), workers, "masks aligned"):
                self._state.poses[row["pair_id"]] = {"key": keys[row["pair_id"]], "row": row}
                self._state.save_when_due()
            poses = self._settled()
            place = self._place_tasks(poses, reference)
            marks = {task.pair_id: self._place_key(task, keys[task.pair_id]) for task in place}
            left = [task for task in place if not self._is_written(task, marks[task.pair_id])]
            failed: dict[str, Row] = {}
            left_behind: dict[str, dict[str, str]] = {}
            for row in self._rows_of(left, len(place), workers, "masks written"):
                if row["status"] == FAILED:
                    failed[row["pair_id"]] = row
                elif row[LEFT_BEHIND]:
                    left_behind[row["pair_id"]] = row[LEFT_BEHIND]  # not marked as done: it is tried again
                else:
                    self._state.placed[row["pair_id"]] = str(marks[row["pair_id"]])
                self._state.save_when_due()
        return self._finish(reference, poses, failed, left_behind, len(left), len(place) - len(left), began)

    def _is_known(self, mask_id: str, key: str | None) -> bool:
        known = self._state.poses.get(mask_id)
        # A failure may have a reason that is gone, and is found again quickly.
        return known is not None and key is not None and known["key"] == key and known["row"]["status"] != FAILED

    def _is_written(self, task: PlaceTask, place_key: str) -> bool:
        files = (task.file, *(one.file for one in task.along))
        return self._state.placed.get(task.pair_id) == place_key and all((self._job.out / f).is_file() for f in files)

    def _rows_of(self, tasks: Sequence[PairTask], total: int, workers: _Workers, unit: str) -> Iterator[Row]:
        """Rows as workers finish them; KeyboardInterrupt at the end if the run is stopping."""
        if tasks:
            kept = {str(place): "kept" for place in range(total - len(tasks))}
            tally = Tally(Plan(tuple(tasks), kept), total, self._is_stopping, self._progress, unit)
            executor = workers.started()
            chunks = cut_into_chunks(tasks, executor.n_workers, TransportConfig(), self._scan)
            if not isinstance(chunks, Stopped):
                queue = WorkQueue(chunks, self._job.is_wanted)
                with closing(executor.events(queue, self._is_stopping)) as events:
                    for event in events:
                        for row in queue.resolve(event):
                            tally.count(row)
                            yield row
                        tally.show_progress()
        if self._is_stopping():
            raise KeyboardInterrupt

    def _settled(self) -> dict[str, SeriesPose]:
        """The poses of all masks that have one, consistent along their series."""
        by_series: dict[str, list[MaskOfCohort]] = {}
        for one in self._masks:
            if self._row(one.mask_id)["status"] != FAILED:
                by_series.setdefault(one.frame.series, []).append(one)
        found: dict[str, SeriesPose] = {}
        for series in by_series.values():
            poses = [Pose.from_plain(self._row(one.mask_id)["pose"]) for one in series]

            def read(i: int, series: list[MaskOfCohort] = series) -> Mask:
                return read_area(series[i].frame.mask)

            settled = settle_series(poses, read)
            found |= {one.mask_id: pose for one, pose in zip(series, settled, strict=True)}
        return found

    def _row(self, mask_id: str) -> Row:
        row: Row = self._state.poses[mask_id]["row"]
        return row

    def _place_tasks(self, poses: Mapping[str, SeriesPose], reference: Reference) -> list[PlaceTask]:
        names = file_names([one.mask_id for one in self._masks])
        return [
            PlaceTask(
                one.mask_id,
                reference.ref.mask,
                one.frame.mask,
                # The scale is left out: a mask keeps its area.
                change=poses[one.mask_id].pose.change.without_scale().then(reference.change),
                canvas=reference.canvas,
                px_size_um=reference.px_size_um,
                file=names[one.mask_id],
                along=moved_along(one, names[one.mask_id], self._structures),
            )
            for one in self._masks
            if one.mask_id in poses
        ]

    def _place_key(self, task: PlaceTask, key: str | None) -> str:
        """A hash of all that the written files of a mask depend on."""
        along = []
        for one in task.along:
            try:
                along.append([one.column, one.file, side_content(one.mask, self._digests)])
            except OSError as error:
                along.append([one.column, str(error)])
        values = [key, vars(task.change), vars(task.canvas), task.px_size_um, task.file, along]
        return hashlib.sha256(json.dumps(values).encode()).hexdigest()

    def _finish(
        self,
        reference: Reference,
        poses: Mapping[str, SeriesPose],
        failed: Mapping[str, Row],
        left_behind: Mapping[str, Mapping[str, str]],
        n_left: int,
        n_kept: int,
        began: float,
    ) -> AlignedCohort:
        """Write the reference and the manifest."""
        state, names = self._state, file_names([one.mask_id for one in self._masks])
        moved = moved_onto(reference.mask, reference.change, reference.canvas, reference.px_size_um)
        write_mask(moved, state.out / REFERENCE, overwrite=True)
        reference_area = area_of(reference.mask)
        ids = [one.mask_id for one in self._masks if one.mask_id in poses]
        measured = [Measured(poses[i], self._row(i)["area"] / reference_area, self._offset(i, poses[i])) for i in ids]
        units = Units(reference.px_size_um)
        flags = dict(zip(ids, flags_of(measured, reference_area, units.length_text), strict=True))
        about = dict(zip(ids, measured, strict=True))
        tasks = {task.pair_id: task for task in self._place_tasks(poses, reference)}
        rows = []
        for one in self._masks:
            mask_id = one.mask_id
            trouble = failed.get(mask_id) or (None if mask_id in poses else self._row(mask_id))
            rows.append(
                AlignedMask(
                    mask_id=mask_id,
                    frame=one.frame,
                    file=names[mask_id],
                    found=poses.get(mask_id),
                    change=tasks[mask_id].change if mask_id in tasks else None,
                    measured=about.get(mask_id),
                    flags=(*flags.get(mask_id, ()), *structure_flags(left_behind.get(mask_id, {}))),
                    px_size_um=self._row(mask_id).get("px_size_um"),
                    structures={
                        along.column: along.file
                        for along in (tasks[mask_id].along if mask_id in tasks and trouble is None else ())
                        if along.column not in left_behind.get(mask_id, {})
                    },
                    error=None if trouble is None else f"{trouble['error']}. To fix: {trouble['advice']}",
                )
            )
        needs = [row[NEEDED] for row in failed.values() if NEEDED in row]
        needed = None if not needs else (max(h for h, _ in needs), max(w for _, w in needs))
        if needed is not None and len(needs) == len(self._masks):
            raise does_not_fit("the masks", reference.canvas, needed)
        write_aligned_manifest(rows, state.out, reference.px_size_um, self._structures)
        name = reference.mask_id or reference.ref.mask.named
        rule = "given" if reference.mask_id is None else RULE
        state.about |= {
            "reference": name,
            "rule": rule,
            "canvas_hw": list(reference.canvas.shape_hw),
            "px_size_um": reference.px_size_um,
            "unit": units.length,
        }
        n_failed = sum(row.error is not None for row in rows)
        return AlignedCohort(
            state.out, tuple(rows), name, rule, n_left - len(failed), n_kept, n_failed, needed, time.monotonic() - began
        )

    def _offset(self, mask_id: str, found: SeriesPose) -> float | None:
        name = "landmark_offset_runner_up" if found.by_neighbours else "landmark_offset"
        offset: float | None = self._row(mask_id)[name]
        return offset


class _Workers:
    """The processes of a run, started when the first mask is to do, and kept for both passes over the masks."""

    def __init__(self, job: AlignJob, jobs: int) -> None:
        self._executor = LocalExecutor(job, max(1, jobs))
        self._is_started = False

    def __enter__(self) -> _Workers:
        return self

    def started(self) -> Executor:
        if not self._is_started:
            self._executor.__enter__()
            self._is_started = True
        return self._executor

    def __exit__(self, *error: object) -> None:
        if self._is_started:
            self._executor.__exit__(None, None, None)

"""Minutes between the two frames of every pair, from the minutes between one frame of a series and the next."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from pairframe.cohort.tasks import PairTask
from pairframe.errors import CohortError, ManifestError

COLUMN = "frame_interval_min"
_WHOLE_WITHIN = 1e-3  # of a frame: numbers in a table are rounded


def with_frame_interval(tasks: Sequence[PairTask], frame_interval_min: float | None) -> list[PairTask]:
    """The tasks, carrying the column ``frame_interval_min``; as they are when nothing is given.

    Parameters
    ----------
    frame_interval_min : float, optional
        Minutes from a frame of a series to the next. A pair of frames that are k apart carries k times as much, one of
        two series nothing, one that a table or a program names itself just this.
    """
    if frame_interval_min is None:
        return list(tasks)
    minutes = _checked(frame_interval_min)
    if any(COLUMN in task.carried for task in tasks):
        raise ManifestError(
            f"{COLUMN} from one place", "a column of the manifest and an option", "leave one of them out"
        )
    return [
        replace(task, carried={**task.carried, COLUMN: None if apart is None else minutes * apart})
        for task in tasks
        for apart in [_whole_frames(task)]
    ]


def _whole_frames(task: PairTask) -> int | None:
    if task.frames_apart is None:
        return None
    apart = round(task.frames_apart)
    if apart < 1 or abs(task.frames_apart - apart) > _WHOLE_WITHIN:
        raise ManifestError(
            "frames at equal distances, some of which may be missing, with a frame interval",
            f"pair {task.pair_id!r}, {task.frames_apart:.4g} times as far apart as the closest frames",
            f"number the frames 0, 1, 2, ..., or write a manifest of pairs with a column {COLUMN}",
        )
    return apart


def _checked(minutes: float) -> float:
    if isinstance(minutes, bool) or not isinstance(minutes, int | float) or not (0 < minutes < math.inf):
        raise CohortError(
            f"{COLUMN} to be a positive, finite number of minutes, or None", repr(minutes), f"e.g. {COLUMN}=5"
        )
    return float(minutes)

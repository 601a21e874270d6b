"""`with_frame_interval`: minutes between the two frames of every pair, from the frame interval of a series."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from pairframe.cohort.inputs.tasks import PairTask
from pairframe.errors import CohortError, ManifestError
from pairframe.results.schema import INTERVAL

COLUMN = INTERVAL
_WHOLE_WITHIN = 1e-3  # of a frame: numbers in a table are rounded


def with_frame_interval(tasks: Sequence[PairTask], frame_interval_min: float | None) -> list[PairTask]:
    """The tasks with the column ``frame_interval_min``; unchanged without an interval.

    Parameters
    ----------
    frame_interval_min : float, optional
        Minutes from a frame of a series to the next. A pair of frames that are k apart gets k times as much, a pair of
        two series none, and a pair from a table or a program exactly this.
    """
    if frame_interval_min is None:
        return list(tasks)
    minutes = checked_frame_interval(frame_interval_min)
    if any(COLUMN in task.carried for task in tasks):
        raise ManifestError(
            f"{COLUMN} from one place", "both a column of the manifest and an option", "remove one of them"
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
            "equally spaced frames, of which some may be missing, with a frame interval",
            f"pair {task.pair_id!r}, whose frames are {task.frames_apart:.4g} times as far apart as the closest ones",
            f"number the frames 0, 1, 2, ..., or write a manifest of pairs with a column {COLUMN}",
        )
    return apart


def checked_frame_interval(minutes: float) -> float:
    """A frame interval in minutes, if it is one."""
    if isinstance(minutes, bool) or not isinstance(minutes, int | float) or not (0 < minutes < math.inf):
        raise CohortError(
            "a positive, finite frame interval in minutes", repr(minutes), "give a number such as 5", COLUMN
        )
    return float(minutes)

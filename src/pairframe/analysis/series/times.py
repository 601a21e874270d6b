"""`times_of`: the time of every frame of a series, from a column, from the frame interval, or the frame numbers."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from pairframe import checks
from pairframe.analysis.series.chain import Chain
from pairframe.errors import CohortError
from pairframe.results.cohort_table import Cohort
from pairframe.results.schema import INTERVAL
from pairframe.types import Float

HOURS = {"h": 1.0, "min": 1 / 60, "s": 1 / 3600, "d": 24.0}
_NAMES = {"hpf": "h", "hours": "h", "hour": "h", "minutes": "min", "seconds": "s", "dpf": "d", "days": "d", "day": "d"}
_COUNTS = ("frame", "frame_index", "frame_source", "step")


@dataclass(frozen=True)
class Clock:
    """Where the time of a series comes from.

    Attributes
    ----------
    column : str or None
        A carried column; None: frame numbers, or an interval was given.
    unit : str
        Of the times: ``h`` if it is known, ``frame`` for frame numbers, otherwise as given.
    factor : float
        From the numbers in the column to that unit.
    interval_h : float or None
        Hours from a frame to the next, if that was given.
    frame_step : float or None
        Difference of frame numbers that is one frame: the smallest of any series; None without frame numbers.
    """

    column: str | None
    unit: str
    factor: float = 1.0
    interval_h: float | None = None
    frame_step: float | None = None


def find_clock(
    cohort: Cohort, time: str | None = None, time_unit: str | None = None, frame_interval_min: float | None = None
) -> Clock:
    """Choose the clock: as asked for; else the frame interval in the table, else a time column, else frames."""
    if frame_interval_min is not None:
        if time is not None or time_unit is not None:
            raise CohortError("the time from one place", "both a column and a frame interval", "remove one of them")
        checks.positive(frame_interval_min, INTERVAL, fix="e.g. 5", error=CohortError)
        return Clock(None, "h", interval_h=float(frame_interval_min) / 60, frame_step=_smallest_step(cohort))
    if time is not None and time not in cohort.carried:
        known = ", ".join(ascii(name)[:40] for name in cohort.carried[:8]) or "none"
        raise CohortError("a column of the table as the time", ascii(time)[:80], f"the labels are {known}", "time")
    if time_unit is not None and (not time_unit.strip() or not time_unit.isprintable() or len(time_unit) > 20):
        raise CohortError("a unit of time", ascii(time_unit)[:80], "e.g. h, min, s, d", "time_unit")
    if time is None and time_unit is None and all(row.get(INTERVAL) is not None for row in cohort.rows):
        return Clock(INTERVAL, "h", HOURS["min"])
    column = time or (cohort.time if cohort.time not in _COUNTS else None)
    if column is None:
        if time_unit is not None:
            raise CohortError("a column with the time, to which the unit belongs", "none", "name it with time", "time")
        return Clock(None, "frame")
    unit = time_unit or _unit_in(column)
    if unit in HOURS:
        return Clock(column, "h", HOURS[unit])
    return Clock(column, unit or ("frame" if column in _COUNTS else "time unit"))


def times_of(chain: Chain, clock: Clock) -> Float:
    """(n,) times of the frames; an error unless they increase."""
    times = _from_column(chain, clock) if clock.column is not None else _from_frames(chain, clock)
    for i, (before, after) in enumerate(pairwise(times)):
        if not after > before:  # also NaN
            raise CohortError(
                "time that increases along every series",
                f"series {chain.name!r}: {_value(before)} at frame {chain.frames[i]} and {_value(after)} at frame "
                f"{chain.frames[i + 1]} ({clock.column or 'frame'}, {clock.unit})",
                "correct the column, choose another one with time, or give the frame interval",
                "time",
            )
    return times


def _from_frames(chain: Chain, clock: Clock) -> Float:
    """Numbers of the frames as they are, or in hours; frames without numbers are numbered in their order."""
    try:
        numbers = np.array([float(frame) for frame in chain.frames])
    except ValueError:
        numbers = np.arange(len(chain.frames), dtype=np.float64)
    if clock.interval_h is None:
        return numbers
    steps = np.diff(numbers)
    step = clock.frame_step or min(steps[steps > 0], default=1.0)
    return np.asarray((numbers - numbers[0]) / step * clock.interval_h)


def _smallest_step(cohort: Cohort) -> float | None:
    """The smallest difference of frame numbers in any series, as in a run with a frame interval."""
    by_series: dict[Any, set[float]] = {}
    for row in cohort.rows:
        pair = [row.get("frame"), row.get("frame_target")]
        if all(isinstance(frame, int | float) and math.isfinite(frame) for frame in pair):
            by_series.setdefault(row.get(cohort.series) if cohort.series else None, set()).update(map(float, pair))  # type: ignore[arg-type]
    return min((b - a for found in by_series.values() for a, b in pairwise(sorted(found))), default=None)


def _from_column(chain: Chain, clock: Clock) -> Float:
    name = str(clock.column)
    times = [math.nan] * len(chain.frames)
    if name == INTERVAL:
        times[0] = 0.0
        for i, row in enumerate(chain.rows):
            if row is None:
                raise CohortError(
                    "every pair of a series, to add up the frame intervals",
                    f"series {chain.name!r} without a pair from frame {chain.frames[i]} to {chain.frames[i + 1]}",
                    "run the missing pairs, or give the frame interval",
                )
            times[i + 1] = times[i] + _number(row[name], name)
    else:
        for i, row in enumerate(chain.rows):
            if row is not None:
                times[i] = _number(row[name], name)
                times[i + 1] = _number(row.get(f"{name}_target"), name)
    return np.array(times) * clock.factor


def _number(value: Any, name: str) -> float:
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise CohortError("numbers in the column of the time", f"{ascii(value)[:40]} in {name!r}", "convert it", "time")
    return float(value)


def _value(value: float) -> str:
    return f"{value:.6g}" if value == value else "no time"


def _unit_in(column: str) -> str | None:
    """The unit that a name ends with: ``time_h``, ``age_min``."""
    if column.lower() in _NAMES:
        return _NAMES[column.lower()]
    found = re.search(r"_(h|min|s|d)$", column)
    return found[1] if found else None

"""`series_table`: growth, flicker and speeds of every series over time, one row per frame."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from pairframe import checks
from pairframe.alignment.drift import local_lines
from pairframe.analysis.series.bars import bars_of
from pairframe.analysis.series.books import books_of
from pairframe.analysis.series.chain import chains_of
from pairframe.analysis.series.flags import FRAME_FLAGS
from pairframe.analysis.series.kept import SeriesFrames, check_areas, kept_frames
from pairframe.analysis.series.times import find_clock, times_of
from pairframe.errors import CohortError
from pairframe.progress import Progress
from pairframe.results import ResultStore
from pairframe.results.cohort_table import PlainRow, read_cohort
from pairframe.types import Float

if TYPE_CHECKING:
    import pandas as pd

SMOOTHED = ("area_um2", "lasting_growth_um2", "displacement_speed_um_per_time", "divergence_speed_um_per_time")


@dataclass(frozen=True)
class SeriesRule:
    """How series are read; recorded with the table.

    Attributes
    ----------
    flicker_frames : int
        Mass that is created and destroyed again within this many frames, or the other way round, is flicker.
    leave_out : tuple of str
        Frames with these flags are left out, see `FRAME_FLAGS`: the frames before and after are joined, and only the net change
        from one to the other is counted.
    smooth_frames : float, optional
        Standard deviation of the kernel, in frames; adds columns ``*_smooth``. None: no smoothing.
    """

    flicker_frames: int = 3
    leave_out: tuple[str, ...] = ()
    smooth_frames: float | None = None

    def __post_init__(self) -> None:
        checks.integer(self.flicker_frames, "flicker_frames", 0, fix="e.g. 3", error=CohortError)
        if self.smooth_frames is not None:
            checks.positive(self.smooth_frames, "smooth_frames", fix="e.g. 2", error=CohortError)
        for code in self.leave_out:
            if code not in FRAME_FLAGS:
                raise CohortError(
                    f"flags of single frames to leave out: {', '.join(FRAME_FLAGS)}",
                    ascii(code)[:80],
                    "leave out one of these, or none",
                    "leave_out",
                )

    @property
    def kernel(self) -> str:
        """The smoothing in words."""
        if self.smooth_frames is None:
            return "none"
        return f"local lines with Gaussian weights, standard deviation {self.smooth_frames:g} frames"


def series_table(
    out: str | os.PathLike[str] | ResultStore,
    *,
    series: Sequence[str] | None = None,
    time: str | None = None,
    time_unit: str | None = None,
    frame_interval_min: float | None = None,
    flicker_frames: int = 3,
    leave_out: Sequence[str] = (),
    smooth_frames: float | None = None,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Read a folder of consecutive pairs as series: one row per series and frame, the columns as in docs/series.md.

    Parameters
    ----------
    out : path or ResultStore
        Results of ``pairframe run`` with the pairing ``consecutive`` or ``every:K``.
    series : sequence of str, optional
        Only these.
    time, time_unit : str, optional
        Column with the time, and its unit if the name does not have it (``time_h``, ``hpf``). Known units become hours.
    frame_interval_min : float, optional
        Minutes from a frame to the next, if the table has no time.
    flicker_frames, leave_out, smooth_frames
        See `SeriesRule`.
    progress : callable (task, done, total, pair_id), optional
        Called after each pair.

    Returns
    -------
    DataFrame. ``attrs`` has the rule, the kernel, and where the time comes from.
    """
    import pandas as pd

    rule = SeriesRule(flicker_frames, (leave_out,) if isinstance(leave_out, str) else tuple(leave_out), smooth_frames)
    store = out if isinstance(out, ResultStore) else ResultStore(out)
    cohort = read_cohort(store)
    check_areas(cohort)
    wanted = [series] if isinstance(series, str) else series
    chains = chains_of(cohort, wanted)
    clock = find_clock(cohort, time, time_unit, frame_interval_min)
    times = [times_of(chain, clock) for chain in chains]  # all errors come before the maps are read
    n_pairs, parts = sum(len(chain.rows) for chain in chains), []
    done = count(1)

    def tick(pair_id: str) -> None:
        number = next(done)
        if progress is not None:
            progress("series", number, n_pairs, pair_id)

    for chain, at in zip(chains, times, strict=True):
        frames = kept_frames(chain, at, rule.leave_out, cohort.units)
        parts.append(_table(frames, rule, store, tick))
    whole = pd.concat(parts, ignore_index=True)
    whole.insert(3, "time_unit", clock.unit)
    if whole[[name for name in whole.columns if "_low_" in name]].isna().all(axis=None):  # the pairs have no error bars
        whole = whole.drop(columns=[name for name in whole.columns if re.search("_(low|high|se)_", name)])
    whole.attrs = {
        "flicker_frames": rule.flicker_frames,
        "smooth_frames": rule.smooth_frames,
        "leave_out": list(rule.leave_out),
        "kernel": rule.kernel,
        "time_column": clock.column,
        "time_unit": clock.unit,
        "length_unit": cohort.units.length,
    }
    return whole


def _table(frames: SeriesFrames, rule: SeriesRule, store: ResultStore, tick: Callable[[str], None]) -> pd.DataFrame:
    """The rows of one series."""
    import pandas as pd

    chain, steps = frames.chain, frames.steps
    created, destroyed = np.array([step.created for step in steps]), np.array([step.destroyed for step in steps])
    books = books_of(frames, rule.flicker_frames, store, tick)
    on, off = books.flicker_created, books.flicker_destroyed
    duration = np.diff(frames.times[frames.kept])
    move = np.array([_number(step.row, "mean_displacement_um") for step in steps])
    away = np.array([_number(step.row, "divergence_length_um") for step in steps])
    area = frames.area[frames.kept]
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = np.diff(np.log(area)) / duration
    columns: dict[str, Any] = {
        "created_um2": _after(created),
        "destroyed_um2": _after(destroyed),
        "flicker_created_um2": _after(on),
        "flicker_destroyed_um2": _after(off),
        "created_total_um2": _summed(created),
        "destroyed_total_um2": _summed(destroyed),
        "flicker_total_um2": _summed(on),
        "outline_flicker_um2": _after(books.outline),
        "outline_flicker_total_um2": _known_sum(books.outline),
        "lasting_created_total_um2": _summed(books.lasting_created),
        "lasting_destroyed_total_um2": _summed(books.lasting_destroyed),
        "lasting_growth_um2": _lasting_growth(books.lasting_created - books.lasting_destroyed, area),
        "growth_rate_per_time": _after(rate),
        "mean_displacement_um": _after(move),
        "path_um": _summed(move),
        "displacement_speed_um_per_time": _after(move / duration),
        "divergence_length_um": _after(away),
        "divergence_speed_um_per_time": _after(away / duration),
    }
    ends = zip(steps, area[:-1], area[1:], duration, strict=True)
    bars = [bars_of(step.row, float(a), float(b), float(t)) for step, a, b, t in ends]
    columns |= {name: _after(np.array([bar[name] for bar in bars])) for name in (bars[0] if bars else ())}
    for name in ("created", "destroyed") if bars else ():
        columns[f"{name}_total_se_um2"] = _summed(columns[f"{name}_se_um2"][1:] ** 2) ** 0.5
    columns["area_um2"] = area
    if rule.smooth_frames is not None:
        unit_time = frames.times[frames.kept] / (float(np.median(duration)) if len(duration) else 1.0)
        columns |= {f"{name}_smooth": _smooth(columns[name], unit_time, rule.smooth_frames) for name in SMOOTHED}
    n = len(chain.frames)
    known = area[np.isfinite(area)]
    first = known[0] if len(known) else math.nan
    table = pd.DataFrame({"series": [chain.name] * n, "frame": list(chain.frames), "time": frames.times})
    table["length_unit"] = frames.units.length
    table["area_um2"] = frames.area
    table["net_growth_um2"] = frames.area - first
    table["net_growth_percent"] = 100 * (frames.area / first - 1) if first > 0 else math.nan
    for name, values in columns.items():
        if name != "area_um2":
            whole = np.full(n, np.nan)
            whole[frames.kept] = values
            table[name] = whole
    table["pair_id"] = [None, *(None if row is None else row["pair_id"] for row in chain.rows)]
    table["flags"] = ["; ".join(flag.code for flag in flags) or None for flags in frames.flags]
    table["reason"] = ["; ".join(flag.words for flag in flags) or None for flags in frames.flags]
    table["left_out"] = ~np.isin(np.arange(n), frames.kept)
    return table


def _number(row: PlainRow | None, name: str) -> float:
    value = None if row is None else row[name]
    return math.nan if value is None else float(value)


def _after(steps: Float) -> Float:
    """Values of steps at the frames that they lead to; NaN at the first."""
    return np.concatenate([[np.nan], steps])


def _summed(steps: Float) -> Float:
    """Running sum at the frames, from 0; an unknown step adds nothing, and its frame is flagged."""
    return np.concatenate([[0.0], np.cumsum(np.nan_to_num(steps))])


def _lasting_growth(steps: Float, area: Float) -> Float:
    """Net growth less the flicker that is open, at the frames: NaN where the area is unknown.

    Over an unknown step the whole change of area counts, because no flicker is found in it.

    Parameters
    ----------
    steps : (n - 1,)
        Lasting change in every step, um^2.
    area : (n,)
    """
    found = np.full(len(area), np.nan)
    total, before = 0.0, None
    for k in np.flatnonzero(np.isfinite(area)):
        if before is not None:
            is_measured = before == k - 1 and np.isfinite(steps[k - 1])
            total += float(steps[k - 1] if is_measured else area[k] - area[before])
        found[k], before = total, k
    return found


def _known_sum(steps: Float) -> Float:
    """The same, but NaN throughout if more than half of the steps are unknown."""
    total = _summed(steps)
    return total if np.isnan(steps).mean() <= 0.5 else np.full_like(total, np.nan)


def _smooth(values: Float, times: Float, width: float) -> Float:
    known = np.flatnonzero(np.isfinite(values))
    found = np.full(len(values), np.nan)
    if len(known) >= 2:
        inside = slice(known[0], known[-1] + 1)  # a gap is filled, but the line does not go on where no value is known
        found[inside] = local_lines(values[inside, None], times[inside], width)[:, 0]
    return found

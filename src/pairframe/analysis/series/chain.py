"""`chains_of`: the pairs of a cohort as series of frames, each compared with the next."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from pairframe.errors import CohortError
from pairframe.results.cohort_table import Cohort, PlainRow
from pairframe.results.schema import FAILED

_TO_FIX = "run the cohort again with --pairing consecutive into another folder"


@dataclass(frozen=True, eq=False)
class Chain:
    """One series.

    Attributes
    ----------
    name : str
    frames : tuple
        Frame numbers or names, in order.
    rows : tuple of rows or None
        ``rows[i]`` compares frame i with frame i + 1; None if the table has no such pair.
    """

    name: str
    frames: tuple[Any, ...]
    rows: tuple[PlainRow | None, ...]


def chains_of(cohort: Cohort, wanted: Sequence[str] | None = None) -> list[Chain]:
    """The series of a cohort in the order of the table; an error unless every frame is compared with the next one only.

    Parameters
    ----------
    wanted : sequence of str, optional
        Only these series.
    """
    by_series: dict[str, list[PlainRow]] = {}
    for row in cohort.rows:
        if row.get("series_target") is not None:
            raise _not_consecutive(f"pair {row['pair_id']!r}, which compares frames of two series")
        name = "" if cohort.series is None or row[cohort.series] is None else str(row[cohort.series])
        by_series.setdefault(name, []).append(row)
    if not by_series:
        raise CohortError("at least one pair", "an empty table", "run a cohort first")
    unknown = [name for name in wanted or () if name not in by_series]
    if unknown:
        known = ", ".join(ascii(name)[:40] for name in list(by_series)[:8]) + (", ..." if len(by_series) > 8 else "")
        raise CohortError(
            f"the name of one of the {len(by_series)} series", ascii(unknown[0])[:80], f"for instance {known}", "series"
        )
    names = list(by_series) if wanted is None else list(dict.fromkeys(wanted))
    return [_chain(name, by_series[name]) for name in names]


def is_known(row: PlainRow | None) -> bool:
    """Whether a pair has a result."""
    return row is not None and row["status"] != FAILED


def _chain(name: str, rows: list[PlainRow]) -> Chain:
    ends = [_ends(row, name) for row in rows]
    for which, words in ((0, "source"), (1, "target")):
        frame, count = Counter(pair[which] for pair in ends).most_common(1)[0]
        if count > 1:
            raise _not_consecutive(f"{_in(name)}frame {frame!r} as the {words} of {count} pairs")
    by_source = {pair[0]: (pair[1], row) for pair, row in zip(ends, rows, strict=True)}
    targets = {pair[1] for pair in ends}
    starts: list[Any] = [pair[0] for pair in ends if pair[0] not in targets]
    if all(isinstance(frame, int | float) for frame in starts):
        starts.sort()
    frames: list[Any] = []
    steps: list[PlainRow | None] = []
    for start in starts:
        if frames:
            steps.append(None)  # a pair is missing
        frames.append(start)
        while frames[-1] in by_source:
            frame, row = by_source[frames[-1]]
            frames.append(frame)
            steps.append(row)
    if len([step for step in steps if step is not None]) < len(rows):
        raise _not_consecutive(f"{_in(name)}pairs that lead back to their first frame")
    if all(isinstance(frame, int | float) for frame in frames) and any(b <= a for a, b in pairwise(frames)):
        raise _not_consecutive(f"{_in(name)}frames that are not compared in their order: {_shown(frames)}")
    return Chain(name, tuple(frames), tuple(steps))


def _ends(row: PlainRow, name: str) -> tuple[Hashable, Hashable]:
    """The frames of a pair: by their numbers, otherwise by the names of the masks."""
    pair = (row.get("frame"), row.get("frame_target"))
    if None in pair:
        pair = (row["source"], row["target"])
    if None in pair or any(isinstance(frame, float) and not math.isfinite(frame) for frame in pair):
        raise CohortError(
            "the frames of every pair",
            f"{_in(name)}pair {row['pair_id']!r} without columns frame and frame_target, and without names of its masks",
            "compare the series with pairframe run",
        )
    if pair[0] == pair[1]:
        raise _not_consecutive(f"{_in(name)}pair {row['pair_id']!r}, which compares a frame with itself")
    return pair


def _in(name: str) -> str:
    return f"series {name!r}: " if name else ""


def _shown(frames: Sequence[Any]) -> str:
    return ", ".join(map(str, frames[:8])) + (", ..." if len(frames) > 8 else "")


def _not_consecutive(got: str) -> CohortError:
    return CohortError("a cohort in which each frame is compared with the next one of its series", got, _TO_FIX)

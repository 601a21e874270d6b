"""`pair_frames`: which frames of a series are compared, by a pairing rule."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise

from pairframe.cohort.inputs.tasks import MaskRef, PairTask, Scalar
from pairframe.errors import CohortError

RULES = "consecutive, reference, reference:FRAME, all, every:K"


@dataclass(frozen=True)
class Frame:
    """One image of a series.

    Attributes
    ----------
    name : str
        Frame number or name.
    labels : dict
        The other columns.
    structures : dict
        Further masks of the same image, by column, such as a yolk; those that are there.
    """

    series: str
    name: str
    mask: MaskRef
    labels: dict[str, Scalar] = field(default_factory=dict)
    structures: dict[str, MaskRef] = field(default_factory=dict)

    @property
    def group(self) -> str:
        """Frames that ``all`` pairs with each other: the column ``group``, else the series."""
        value = self.labels.get("group")
        return f"series {self.series}" if value is None else f"group {value}"


def pair_frames(frames: Sequence[Frame], rule: str) -> list[PairTask]:
    """Tasks of the frames, in the order of a series' frames, one series after the other.

    Parameters
    ----------
    frames : sequence
        In any order; each (series, name) once.
    rule : str
        ``consecutive``: each frame with the next. ``every:K``: the same with every K-th frame of a series.
        ``reference``: the first frame with each later one; ``reference:FRAME``: a named one with each other.
        ``all``: every two frames of a group (of a series, when there is no column ``group``), earlier to later.
    """
    choose = _parse(rule)
    by_series: dict[str, list[Frame]] = {}
    for frame in frames:
        by_series.setdefault(frame.series, []).append(frame)
    ordered = [in_order(series) for series in by_series.values()]
    for series in ordered:
        for one, other in pairwise(series):
            if one.name == other.name:
                raise CohortError(
                    "each frame of a series once",
                    f"frame {one.name!r} twice in series {one.series!r}",
                    "correct the column frame, or give the lines another series",
                )
    places = _places(ordered)
    if rule == "all":
        by_group: dict[str, list[Frame]] = {}
        for frame in (frame for series in ordered for frame in series):
            by_group.setdefault(frame.group, []).append(frame)
        ordered = list(by_group.values())
    pairs = [pair for series in ordered for pair in choose(series)]
    if not pairs:
        raise CohortError(
            "at least two frames in a series",
            f"{len(frames)} frames in {len(by_series)} series, of which {rule!r} makes no pair",
            "check the column series, or choose another rule",
        )
    varying = _varying(by_series.values())
    paired = (frame for pair in pairs for frame in pair)  # an image without a partner has no say
    place = int if all(re.fullmatch(r"-?[0-9]{1,18}", frame.name) for frame in paired) else str
    return [
        replace(_task(source, target, varying, place), frames_apart=_frames_apart(source, target, places))
        for source, target in pairs
    ]


def in_order(frames: Iterable[Frame]) -> list[Frame]:
    """Sort frames as numbers if all of them are, otherwise in natural order (``f9`` before ``f10``)."""
    frames = list(frames)
    try:
        return sorted(frames, key=lambda frame: float(frame.name))
    except ValueError:
        return sorted(frames, key=lambda frame: natural_key(frame.name))


def natural_key(text: str) -> list[tuple[int, int, str]]:
    """Sort key in which digits count as numbers."""
    parts = re.findall(r"[0-9]+|[^0-9]+", text)
    return [(0, int(part), "") if part.isascii() and part.isdigit() else (1, 0, part) for part in parts]


# --- rules -----------------------------------------------------------------------------------

_Choice = Callable[[list[Frame]], Iterable[tuple[Frame, Frame]]]


def _parse(rule: str) -> _Choice:
    name, _, detail = rule.partition(":")
    if rule == "consecutive":
        return pairwise
    if rule == "all":
        return lambda frames: combinations(frames, 2)
    if rule == "reference" or (name == "reference" and detail):
        return lambda frames: _with_reference(frames, detail)
    if name == "every" and detail.isascii() and detail.isdigit() and int(detail) >= 1:
        return lambda frames: pairwise(frames[:: int(detail)])
    raise CohortError(f"a pairing rule: {RULES}", repr(rule), "for instance consecutive, or every:5")


def _with_reference(frames: list[Frame], name: str) -> list[tuple[Frame, Frame]]:
    found = [frame for frame in frames if frame.name == name] if name else frames[:1]
    if not found:
        raise CohortError(
            f"a frame {name!r} in every series", f"series {frames[0].series!r} without one", "name another frame"
        )
    return [(found[0], frame) for frame in frames if frame is not found[0]]


# --- time ------------------------------------------------------------------------------------

_Places = dict[tuple[str, str], float]  # of (series, frame), in frames


def _places(all_series: Sequence[list[Frame]]) -> _Places:
    """Positions of frames in their series: by number, in units of the smallest step of any series; by order without numbers."""
    numbers = [_finite_numbers(series) for series in all_series]
    steps = [b - a for found in numbers if found is not None for a, b in pairwise(found) if b > a]
    step = min(steps, default=1.0)
    return {
        (frame.series, frame.name): float(i) if found is None else (found[i] - found[0]) / step
        for series, found in zip(all_series, numbers, strict=True)
        for i, frame in enumerate(series)
    }


def _finite_numbers(series: list[Frame]) -> list[float] | None:
    try:
        numbers = [float(frame.name) for frame in series]
    except ValueError:
        return None
    return numbers if all(map(math.isfinite, numbers)) else None


def _frames_apart(source: Frame, target: Frame, places: _Places) -> float | None:
    if source.series != target.series:
        return None
    return abs(places[target.series, target.name] - places[source.series, source.name])


# --- tasks -----------------------------------------------------------------------------------


def _varying(all_series: Iterable[list[Frame]]) -> set[str]:
    """Labels that change within a series: a pair gets the source's and the target's."""
    found: set[str] = set()
    for series in all_series:
        for name in {name for frame in series for name in frame.labels}:
            if len({frame.labels.get(name) for frame in series}) > 1:
                found.add(name)
    return found


def _task(source: Frame, target: Frame, varying: set[str], place: type[int] | type[str]) -> PairTask:
    names = [f"{frame.series}_{frame.name}" if frame.series else frame.name for frame in (source, target)]
    if source.series == target.series:
        names[1] = target.name
    carried: dict[str, Scalar] = {
        "series": source.series,
        "frame": place(source.name),
        "frame_target": place(target.name),
    }
    if source.series != target.series:
        carried["series_target"] = target.series
    for name, value in source.labels.items():
        carried[name] = value
        if name in varying or value != target.labels.get(name):
            carried[f"{name}_target"] = target.labels.get(name)
    structures = (source.structures, target.structures)
    return PairTask("-".join(names), source.mask, target.mask, carried, structures=structures)

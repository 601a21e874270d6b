"""Tasks of an alignment: find the pose of a mask, and put a mask on the canvas."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pairframe._version import __version__
from pairframe.alignment import Canvas, Similarity
from pairframe.checks import listed
from pairframe.cohort.align.settings import AlignSettings
from pairframe.cohort.inputs.content import Digests, side_content
from pairframe.cohort.inputs.pairing import Frame
from pairframe.cohort.inputs.sources import FrameTable
from pairframe.cohort.inputs.tasks import MaskRef, PairTask, Scalar, check_tasks
from pairframe.errors import ManifestError
from pairframe.results import disk
from pairframe.results.motion_words import COHORT_POSE as PREFIX

MASKS, STRUCTURES = "masks", "structures"  # folders
_KEY_VERSION = 1


@dataclass(frozen=True)
class MaskOfCohort:
    """One mask of the table.

    Attributes
    ----------
    mask_id : str
        Series and frame; unique.
    frame : Frame
    landmark : MaskRef or None
        None if the cell is empty, or if no column was named.
    """

    mask_id: str
    frame: Frame
    landmark: MaskRef | None = None


@dataclass(frozen=True)
class ReferenceRef:
    """The place of the reference and of its landmark, if landmarks are used."""

    mask: MaskRef
    landmark: MaskRef | None = None


@dataclass(frozen=True)
class PoseTask(PairTask):
    """Align `target`, a mask, with `source`, the reference."""

    landmark: MaskRef | None = None
    reference_landmark: MaskRef | None = None


@dataclass(frozen=True)
class PlacedStructure:
    """A further mask of the same image, which moves along: its column, its place, and the file to write."""

    column: str
    mask: MaskRef
    file: str


@dataclass(frozen=True)
class PlaceTask(PairTask):
    """Move `target` and its structures, and write them to files in the folder of the run."""

    change: Similarity = field(default_factory=Similarity)
    canvas: Canvas = field(default_factory=lambda: Canvas((1, 1), 1.0))
    px_size_um: float | None = None
    file: str = ""
    along: tuple[PlacedStructure, ...] = ()


def masks_of(table: FrameTable, settings: AlignSettings) -> list[MaskOfCohort]:
    """The masks of a table with their landmarks; an error if a name is unsafe or not unique, or a column is missing."""
    column = settings.landmark
    if column is not None and column not in table.names:
        names = listed(table.names) or "none, as there is no table"
        raise ManifestError(
            f"a column {column!r} with landmarks", f"the columns {names}", "name one of them", "landmark"
        )
    taken = [name for name in table.names if name.startswith(PREFIX)]
    if taken:
        raise ManifestError(
            f"no columns that begin with {PREFIX}, which the alignment adds", repr(taken[0]), "align the first table"
        )
    twice = [key for key, count in Counter((one.series, one.name) for one in table.frames).items() if count > 1]
    if twice:
        series, frame_name = twice[0]
        raise ManifestError(
            "each frame of a series once",
            f"frame {frame_name!r} twice in series {series!r}",
            "correct the column of the frames, or give the lines another series",
        )
    found = []
    for frame in table.frames:
        name = f"{frame.series}_{frame.name}" if frame.series else frame.name
        found.append(MaskOfCohort(name, frame, None if column is None else frame.structures.get(column)))
    check_tasks([_as_pair(one) for one in found])
    return found


def _as_pair(one: MaskOfCohort) -> PairTask:
    carried: dict[str, Scalar] = {"series": one.frame.series, "frame": one.frame.name, **one.frame.labels}
    return PairTask(one.mask_id, one.frame.mask, one.frame.mask, carried)


def pose_task(one: MaskOfCohort, reference: ReferenceRef) -> PoseTask:
    """The search for the pose of one mask."""
    return PoseTask(
        one.mask_id,
        reference.mask,
        one.frame.mask,
        landmark=one.landmark,
        reference_landmark=reference.landmark,
    )


def pose_key(task: PoseTask, settings: AlignSettings, digests: Digests) -> str | None:
    """A hash of all that a pose depends on: the content of masks and landmarks, and the settings; None if unreadable."""
    refs = (task.source, task.target, task.reference_landmark, task.landmark)
    try:
        sides = [None if ref is None else side_content(ref, digests) for ref in refs]
    except OSError:
        return None
    content = [_KEY_VERSION, __version__, settings.search, sides]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def file_names(mask_ids: Sequence[str]) -> dict[str, str]:
    """A file name for every mask: safe, and unique on every file system. No id becomes a path unchecked."""
    prefixes = {mask_id: disk.safe_prefix(mask_id) for mask_id in mask_ids}
    count: dict[str, int] = {}
    for prefix in prefixes.values():
        count[prefix.lower()] = count.get(prefix.lower(), 0) + 1
    names = {}
    for mask_id, prefix in prefixes.items():
        is_plain = prefix == mask_id and count[prefix.lower()] == 1
        ending = "" if is_plain else f"-{hashlib.sha256(mask_id.encode()).hexdigest()[:8]}"
        names[mask_id] = str(Path(MASKS) / f"{prefix}{ending}.tif")
    return names


def moved_along(one: MaskOfCohort, file: str, columns: Sequence[str]) -> tuple[PlacedStructure, ...]:
    """The structures of a mask that move along, with files named like that of the mask, in a folder per column."""
    folders = [f"{number}_{disk.safe_prefix(column)}" for number, column in enumerate(columns, 1)]
    return tuple(
        PlacedStructure(column, one.frame.structures[column], str(Path(STRUCTURES) / folder / Path(file).name))
        for column, folder in zip(columns, folders, strict=True)
        if column in one.frame.structures
    )

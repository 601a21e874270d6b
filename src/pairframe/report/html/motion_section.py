"""Pose and motion on the page of a pair: sentences, a bar of shares and a table of poses."""

from __future__ import annotations

from dataclasses import dataclass

from pairframe.alignment import PoseStatus
from pairframe.results.cohort_table import PlainRow
from pairframe.results.formatting import number
from pairframe.results.motion_words import PARTS, is_known, is_still, motion_sentences, pose_sentences, share_words
from pairframe.results.row_units import units_of

_KINDS = {PoseStatus.aligned: "good", PoseStatus.ambiguous: "odd", PoseStatus.undetermined: "odd"}


@dataclass(frozen=True)
class Part:
    """One part of the motion: where it begins on the bar and how long it is, percent, and its share in words."""

    name: str
    begin: float
    percent: float
    words: str


@dataclass(frozen=True)
class MotionSection:
    """What the page says about pose and motion.

    Attributes
    ----------
    motion, pose : tuple of str
        Sentences.
    parts : tuple of Part
        The bar; empty without motion.
    status, kind : str
        How sure the pose is, and the colour of that word; empty for masks compared as given.
    poses : tuple of tuple of str
        Rows of the table of poses: name, turn, mirrored, scale, IoU. Empty without a pose.
    """

    motion: tuple[str, ...]
    pose: tuple[str, ...]
    parts: tuple[Part, ...]
    status: str
    kind: str
    poses: tuple[tuple[str, ...], ...]


def motion_section(row: PlainRow) -> MotionSection | None:
    """The section of a row; None if its masks were compared as given and no mass moved."""
    units = units_of(row)
    if not is_known(row) and row["pose_status"] is None:
        return None
    parts: list[Part] = []
    if is_known(row) and not is_still(row):
        begin = 0.0
        for name, column, _ in PARTS:
            parts.append(Part(name, begin, 100 * row[column], share_words(row[column])))
            begin += 100 * row[column]
    status = row["pose_status"] or ""
    kind = _KINDS[PoseStatus(status)] if status else ""
    return MotionSection(
        tuple(motion_sentences(row, units)), tuple(pose_sentences(row, units)), tuple(parts), status, kind, _poses(row)
    )


def _poses(row: PlainRow) -> tuple[tuple[str, ...], ...]:
    if row["pose_status"] is None:
        return ()
    rows = [
        ("as given", "0", "no", "1", number(row["pose_iou_before"])),
        (
            "applied",
            number(row["pose_angle_deg"]),
            "yes" if row["pose_flipped"] else "no",
            number(row["pose_scale"]),
            number(row["pose_iou_after"]),
        ),
    ]
    if row["pose_runner_up_iou"] is not None:
        turn, flipped = row["pose_runner_up_angle_deg"], row["pose_runner_up_flipped"]
        mirrored = "–" if flipped is None else "yes" if flipped else "no"
        rows.append(("next best", number(turn), mirrored, "–", number(row["pose_runner_up_iou"])))
    return tuple(rows)

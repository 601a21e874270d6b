"""Motion and pose of a pair in sentences, from its row in the table or from the result itself."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pairframe.alignment import PoseStatus
from pairframe.results.formatting import in_words, number, percent_digits
from pairframe.units import Units

COHORT_POSE = "align_"  # labels that an alignment of a whole cohort adds begin with it
LEAST_MOTION_PX = 0.05  # root mean square, canonical px: less is rounding
_LEAST_SHIFT_SHARE = 0.001  # parts below it are not named
_LEAST_TURN_DEG, _LEAST_SCALE = 0.1, 0.001
# The part of the motion, its column and its words.
PARTS = (
    ("shift", "motion_shift_share", "a shift of the whole object"),
    ("turn", "motion_turn_share", "a turn of the whole object"),
    ("scale", "motion_scale_share", "a change of its size"),
    ("deformation", "motion_deformation_share", "deformation"),
)


def is_known(row: Mapping[str, Any]) -> bool:
    """Whether a row has a motion: not if no mass moved, and not in tables of earlier versions."""
    return row.get("motion_rms_um") is not None and math.isfinite(row["motion_rms_um"])


def is_still(row: Mapping[str, Any]) -> bool:
    """Whether the motion is too small for shares to mean anything."""
    return float(row["motion_rms_um"]) < LEAST_MOTION_PX * (row.get("px_size_um") or 1.0)


def motion_sentences(row: Mapping[str, Any], units: Units) -> list[str]:
    """How the whole object moved: the shares of its motion, and their sizes. Empty if the motion is unknown."""
    if not is_known(row):
        return []
    unit = units.length_text
    if is_still(row):
        least = LEAST_MOTION_PX * (row.get("px_size_um") or 1.0)
        return [f"Nothing moved by more than {in_words(least)} {unit} (root mean square)."]
    named = sorted(PARTS, key=lambda part: -row[part[1]])
    named = [part for part in named if row[part[1]] >= _LEAST_SHIFT_SHARE] or named[:1]
    shares = [f"{share_words(row[column])} {words}" for _, column, words in named]
    shares[0] = shares[0].replace("%", "% is", 1)
    mirrored = (
        ["A mirrored pose counts as deformation here, since no turn or shift can mirror."]
        if row.get("pose_flipped")
        else []
    )
    return [
        f"Of the motion, {_listed(shares)} (shares of the mean squared displacement, "
        f"{in_words(row['motion_rms_um'])} {unit} root mean square).",
        f"As a whole, the moved mass {_listed(_parts_of_motion(row, unit))}.",
        *mirrored,
    ]


def _cohort_pose_sentences(row: Mapping[str, Any]) -> list[str]:
    """How both masks were moved when their whole cohort was aligned; from the labels that `align_cohort` adds."""
    moved, remarks = [], []
    for side, ending in (("source", ""), ("target", "_target")):
        angle, flipped, iou, reason = (
            row.get(f"{COHORT_POSE}{name}{ending}", row.get(f"{COHORT_POSE}{name}"))
            for name in ("angle_deg", "flipped", "iou", "reason")
        )
        if angle is None or iou is None:
            continue
        words = f"the {side} was turned by {_turn(angle)}{' and mirrored' if flipped in (True, 'true', 1) else ''}"
        moved.append(f"{words} (overlap with it, as intersection over union: {iou:.3f})")
        if reason:
            remarks.append(f"A flag of the {side}: {reason}.")
    if not moved:
        return ["The masks were compared as an alignment of their cohort left them."]
    return [f"Both masks were aligned with the reference of their cohort before: {_listed(moved)}.", *remarks]


def pose_sentences(row: Mapping[str, Any], units: Units) -> list[str]:
    """How the target was moved before the comparison, and how sure that is; for masks compared as given, a remark."""
    if row.get("pose_status") is None and row.get(f"{COHORT_POSE}status") is not None:
        return _cohort_pose_sentences(row)
    if row.get("pose_status") is None:
        if not is_known(row) or is_still(row):
            return ["The masks were compared as given."]
        is_volume = row.get("motion_shift_dz_um") is not None
        whole = 0.0 if is_volume else row["motion_shift_share"] + row["motion_turn_share"]
        advice = 'If position and orientation are not the question, align the pair first (align="rigid").'
        return ["The masks were compared as given." + (f" {advice}" if whole > 0.5 else "")]
    unit = units.length_text
    parts = [f"shifted by {_shift(row['pose_shift_dy_um'], row['pose_shift_dx_um'], unit)}"]
    if row["pose_flipped"]:
        parts.append("mirrored top to bottom")
    if abs(row["pose_angle_deg"]) >= _LEAST_TURN_DEG:
        parts.append(f"turned by {_turn(row['pose_angle_deg'])}")
    if abs(row["pose_scale"] - 1) >= _LEAST_SCALE:
        parts.append(f"scaled by {number(row['pose_scale'])}")
    sentences = [
        f"Before the comparison the target was {_listed(parts)}, onto the source. Their overlap (intersection over union) "
        f"went from {row['pose_iou_before']:.3f} to {row['pose_iou_after']:.3f}."
    ]
    other = row.get("pose_runner_up_iou")
    if other is not None:
        turned = row.get("pose_runner_up_angle_deg")
        which = "" if turned is None or row["pose_kind"] == "shift" else f", turned by {_turn(turned)}"
        if row.get("pose_runner_up_flipped") and not row["pose_flipped"]:
            which += ", mirrored"
        sentences.append(
            f"The next best pose{which}, reaches {other:.3f}." if which else f"The next best pose reaches {other:.3f}."
        )
    status = PoseStatus(row["pose_status"])
    if status != PoseStatus.aligned:
        sentences.append(f"{status.advice[0].upper()}{status.advice[1:]}.")
    return sentences


def _parts_of_motion(row: Mapping[str, Any], unit: str) -> list[str]:
    parts = []
    dy, dx = row["motion_shift_dy_um"], row["motion_shift_dx_um"]
    if row["motion_shift_share"] >= _LEAST_SHIFT_SHARE:
        parts.append(f"shifted by {_shift(dy, dx, unit, row.get('motion_shift_dz_um'))}")
    if row.get("motion_shift_dz_um") is not None and row["motion_turn_deg"] >= _LEAST_TURN_DEG:
        parts.append(f"turned by {row['motion_turn_deg']:.1f}°")
    elif abs(row["motion_turn_deg"]) >= _LEAST_TURN_DEG:
        parts.append(f"turned by {_turn(row['motion_turn_deg'])}")
    if abs(row["motion_scale"] - 1) >= _LEAST_SCALE:
        word = "was enlarged" if row["motion_scale"] > 1 else "was reduced"
        share = share_words(abs(row["motion_scale"] - 1))
        parts.append(f"{word} by {share} (one factor for all of it; created mass does not count)")
    return parts or ["neither shifted nor turned nor changed its size"]


def _shift(dy: float, dx: float, unit: str, dz: float | None = None) -> str:
    length = math.hypot(dy, dx, dz or 0.0)
    ways = [(abs(dx), "to the right" if dx > 0 else "to the left"), (abs(dy), "down" if dy > 0 else "up")]
    if dz is not None:
        ways.append((abs(dz), "towards higher planes" if dz > 0 else "towards lower planes"))
    ways = [(size, way) for size, way in sorted(ways, reverse=True) if size > 0.02 * length]
    if len(ways) < 2:
        return f"{in_words(length)} {unit}{f' {ways[0][1]}' if ways else ''}"
    return f"{in_words(length)} {unit} ({', '.join(f'{in_words(size)} {way}' for size, way in ways)})"


def _turn(degrees: float) -> str:
    if abs(degrees) > 179.95:
        return "180°"
    way = "" if abs(degrees) < _LEAST_TURN_DEG else " counter-clockwise" if degrees > 0 else " clockwise"
    return f"{abs(degrees):.1f}°{way}"


def share_words(share: float) -> str:
    """Three digits of a share in percent: ``93.1 %``."""
    return f"{percent_digits(float(f'{100 * share:.3g}'))} %"


def _listed(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"

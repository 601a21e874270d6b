"""Frames that break a series: a jump in area or pose, an empty mask, a pair without a trusted answer; each with a reason."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pairframe.analysis.series.chain import Chain, is_known
from pairframe.results.cohort_table import PlainRow
from pairframe.results.words import status_kind
from pairframe.types import Float

ROBUST_DEVIATIONS = 3.5  # 1.4826 times the median absolute deviation each
LEAST_AREA_FACTOR = 1.2
LEAST_MOVE_SHARE = 0.25  # of the square root of the area
LEAST_TURN_DEG = 45.0
MOST_CAUSE = 240  # characters of the error of a failed pair
FEWEST_FRAMES = 5  # fewer say nothing about what is usual

# Flags of a single frame, which may be left out; the others are about the series from that frame on.
FRAME_FLAGS = ("empty", "area_outlier", "pose_outlier")


@dataclass(frozen=True)
class FrameFlag:
    """A reason to look at a frame: a code for tables, and a sentence."""

    code: str
    words: str


def flags_of(chain: Chain, area: Float, length_text: str) -> list[list[FrameFlag]]:
    """The flags of every frame.

    Parameters
    ----------
    area : (n,)
        Of the frames, NaN where unknown.
    """
    flags: list[list[FrameFlag]] = [[] for _ in chain.frames]
    for k in np.flatnonzero(area == 0):
        flags[k].append(FrameFlag("empty", "the mask is empty"))
    _flag_areas(flags, chain, area)
    _flag_poses(flags, chain, area, length_text)
    for i, row in enumerate(chain.rows):
        here = f"from frame {chain.frames[i]} to frame {chain.frames[i + 1]}"
        if row is None:
            flags[i + 1].append(FrameFlag("gap", f"there is no pair {here}"))
        elif not is_known(row):
            cause = " ".join(str(row.get("error") or "the cause is not recorded").split())
            shown = cause if len(cause) <= MOST_CAUSE else f"{cause[: MOST_CAUSE - 3]}..."
            flags[i + 1].append(FrameFlag("failed", f"the comparison {here} failed: {shown}"))
        elif status_kind(row["status"]) == "bad":
            flags[i + 1].append(FrameFlag("not_certified", f"the comparison {here} did not converge"))
    return flags


def _flag_areas(flags: list[list[FrameFlag]], chain: Chain, area: Float) -> None:
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.log(area)
    kept = [int(i) for i in np.flatnonzero(np.isfinite(size))]
    while len(kept) >= FEWEST_FRAMES:  # the worst first: an outlier makes its neighbours look odd
        off, expected = _off_line(size[kept])
        usual = max(math.log(LEAST_AREA_FACTOR), ROBUST_DEVIATIONS * _spread(off))
        weight = np.abs(off)
        weight[[0, -1]] *= 0.7  # an end has one neighbour, which may be the odd one
        worst = int(weight.argmax())
        if weight[worst] <= usual or not _returns(size[kept], worst, usual):
            break
        i = kept.pop(worst)
        factor = math.exp(size[i] - expected[worst])
        flags[i].append(FrameFlag("area_outlier", f"its area is {factor:.2f} times what its neighbours suggest"))
    steps = np.diff(size[kept])
    if len(steps) >= FEWEST_FRAMES - 1:
        usual_step = float(np.median(steps))
        usual = max(math.log(LEAST_AREA_FACTOR), ROBUST_DEVIATIONS * _spread(steps - usual_step))
        for k in np.flatnonzero(np.abs(steps - usual_step) > usual):
            words = f"the area changes by a factor of {math.exp(steps[k]):.2f} from frame {chain.frames[kept[k]]}"
            flags[kept[k + 1]].append(FrameFlag("area_jump", f"{words}; usual is {math.exp(usual_step):.2f}"))


def _off_line(size: Float) -> tuple[Float, Float]:
    """(n,) deviations from the mean of both neighbours, or at the ends from the one neighbour and the usual step."""
    usual = float(np.median(np.diff(size)))
    expected = np.concatenate([[size[1] - usual], 0.5 * (size[:-2] + size[2:]), [size[-2] + usual]])
    return size - expected, expected


def _returns(size: Float, k: int, usual: float) -> bool:
    """Whether the series goes on as before without frame k: otherwise it is a jump, not an outlier."""
    if k in (0, len(size) - 1):
        return True
    step = float(np.median(np.diff(size)))
    return bool(abs(size[k + 1] - size[k - 1] - 2 * step) <= max(usual, 0.5 * abs(size[k] - size[k - 1])))


def _flag_poses(flags: list[list[FrameFlag]], chain: Chain, area: Float, length_text: str) -> None:
    moves = np.array([_move(row) for row in chain.rows])
    turns = np.array([_turn(row) for row in chain.rows])
    known = moves[np.isfinite(moves)]
    if len(known) < FEWEST_FRAMES - 1:
        far = np.zeros(len(moves), bool)
    else:
        usual = float(np.median(known))
        least = LEAST_MOVE_SHARE * np.sqrt(np.fmin(area[:-1], area[1:]))
        limit = usual + np.fmax(ROBUST_DEVIATIONS * _spread(known - usual), least)
        far = moves > limit
    turned = turns > LEAST_TURN_DEG
    jumps = far | turned
    for i in np.flatnonzero(jumps):
        words = (
            f"turned by {turns[i]:.0f} degrees"
            if turned[i]
            else f"moved by {moves[i]:.3g} {length_text} (usual: {np.median(known):.3g})"
        )
        both = i + 1 < len(jumps) and jumps[i + 1]
        after = i > 0 and jumps[i - 1] and any(flag.code == "pose_outlier" for flag in flags[i])
        if after:  # the way back
            continue
        code = "pose_outlier" if both else "pose_jump"
        flags[i + 1].append(FrameFlag(code, f"it is {words} against frame {chain.frames[i]}"))


def _move(row: PlainRow | None) -> float:
    """How far the object moved as a whole: the pose that was taken out, else the mean displacement."""
    if row is None or not is_known(row):
        return math.nan
    parts = [row.get("pose_shift_dy_um"), row.get("pose_shift_dx_um")]
    if None not in parts:
        return math.hypot(*parts)  # type: ignore[arg-type]
    dy, dx = row["mean_displacement_dy_um"], row["mean_displacement_dx_um"]
    return math.nan if dy is None or dx is None else math.hypot(dy, dx)


def _turn(row: PlainRow | None) -> float:
    if row is None or row.get("pose_angle_deg") is None:
        return 0.0
    return 180.0 if row.get("pose_flipped") == 1 else abs((float(row["pose_angle_deg"]) + 180) % 360 - 180)


def _spread(values: Sequence[float] | Float) -> float:
    values = np.asarray(values)
    return float(1.4826 * np.median(np.abs(values - np.median(values))))

"""Ambiguity: whether the masks determine a pose, leave several, or none."""

from __future__ import annotations

import math
from dataclasses import replace
from enum import StrEnum

import numpy as np

from pairframe.alignment.matching import Matching
from pairframe.alignment.refine import Found
from pairframe.alignment.search import Profile

# A difference in IoU counts when it is above all of these together: a floor, the noise of the pixels along the boundary,
# and a share of the disagreement that is left at the best pose.
LEAST_MARGIN = 0.015
NOISE_SHARE = 1.0
DISAGREEMENT_SHARE = 0.05
# A top this wide, in degrees, or this share of all angles, is no top.
WIDEST_TOP_DEG = 50.0
LARGEST_TIED_SHARE = 0.4
# A shift by this share of the spread of the smaller mask must be noticed.
NOTICED_SHIFT = 0.3


class PoseStatus(StrEnum):
    """How sure a pose is."""

    aligned = "aligned"
    ambiguous = "ambiguous"
    undetermined = "undetermined"

    @property
    def advice(self) -> str:
        """What to do about it."""
        return {
            "aligned": "nothing to do",
            "ambiguous": "another pose fits almost as well: look at both, or give landmarks (pf.align, pairframe align)",
            "undetermined": "the masks fit almost as well in many other poses (round, tiny, or one inside the other), so the "
            "target was shifted at most: give landmarks, or do not align",
        }[self.value]


def margin(matching: Matching, best_score: float) -> float:
    """The difference in score from which on one pose counts as better than another."""
    noise = NOISE_SHARE * matching.pixel_noise()
    return float(LEAST_MARGIN + noise + DISAGREEMENT_SHARE * max(0.0, 1.0 - best_score))


def status_of_turn(matching: Matching, profile: Profile, found: Found) -> PoseStatus:
    """Whether the turn is determined."""
    least = margin(matching, found.best_compared)
    tied = profile.scores >= profile.scores.max() - least
    if tied.mean() > LARGEST_TIED_SHARE or _width_of_top_deg(profile, least) > WIDEST_TOP_DEG:
        return PoseStatus.undetermined
    if found.runner_up is not None and found.runner_up.score > found.best_compared - least:
        return PoseStatus.ambiguous
    return PoseStatus.aligned


def status_of_shift(matching: Matching, found: Found, pitch: float) -> PoseStatus:
    """Whether the shift is determined."""
    best = found.best
    least = margin(matching, found.best_compared)
    step = NOTICED_SHIFT * min(matching.source.spread, best.scale * matching.target.spread)
    at_best = matching.score(best, pitch)
    for direction in np.arange(8) * (math.pi / 4):
        y, x = best.shift_yx[0] + step * math.sin(direction), best.shift_yx[1] + step * math.cos(direction)
        # A slope is measured beside the same neighbours, so the disagreement of the masks does not matter.
        if matching.score(replace(best, shift_yx=(y, x)), pitch) > at_best - margin(matching, 1.0):
            return PoseStatus.undetermined
    if found.runner_up is not None and found.runner_up.score > found.best_compared - least:
        return PoseStatus.ambiguous
    return PoseStatus.aligned


def _width_of_top_deg(profile: Profile, least: float) -> float:
    """Degrees around the best angle over which the score stays within the margin."""
    flip, index = divmod(int(profile.scores.argmax()), profile.n_angles)
    row = np.roll(profile.scores[flip], -index) >= profile.scores.max() - least
    ahead = int(np.argmin(row)) if not row.all() else len(row)
    behind = int(np.argmin(row[::-1])) if not row.all() else 0
    return (ahead + behind) * 360.0 / profile.n_angles

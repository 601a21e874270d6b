"""Refine: from the peaks of a search to the best pose and its runner-up, from coarse cells to pixels."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from pairframe.alignment.matching import Candidate, Matching
from pairframe.alignment.search import STEP_DEG, Profile

OTHER_POSE_DEG = 20.0  # poses that differ by less are one pose
MOST_PEAKS = 6
_KEPT = 3  # after the first refinement


@dataclass(frozen=True)
class Found:
    """The best pose, and the best of the poses that differ from it, both scored on the same cells."""

    best: Candidate
    best_compared: float
    runner_up: Candidate | None


def refine_turns(matching: Matching, profile: Profile, with_scale: bool) -> Found:
    """The best turn and its runner-up among the peaks of a profile."""
    n_free = 4 if with_scale else 3
    half = math.radians(STEP_DEG) / 2
    pitch = profile.pitch
    peaks = [matching.climb(one, pitch, (pitch / 2, half), n_free, 0.1) for one in profile.peaks(MOST_PEAKS)]
    kept = _distinct(peaks, OTHER_POSE_DEG / 2)[:_KEPT]
    half, pitch = half / 2, max(pitch / 2, matching.finest)
    kept = [matching.climb(one, pitch, (pitch / 2, half), n_free, 0.1) for one in kept]
    kept = _distinct(kept, OTHER_POSE_DEG / 2)
    half, pitch = half / 2, max(pitch / 2, matching.finest)
    kept = [matching.climb(one, pitch, (pitch / 2, half), n_free, 0.1) for one in kept[:2]]
    kept = _distinct(kept, OTHER_POSE_DEG)
    best = kept[0]
    runner_up = kept[1] if len(kept) > 1 else _best_elsewhere(matching, profile, best, pitch)
    return Found(_to_pixels(matching, best, pitch, n_free), best.score, runner_up)


def refine_runner_up(matching: Matching, found: Found, kind: str) -> Found:
    """The runner-up down to pixels too, for when it may be chosen; it keeps the score that it was compared with."""
    if found.runner_up is None:
        return found
    n_free = {"shift": 2, "rigid": 3, "similarity": 4}[kind]
    pitch = (matching.radius_source + matching.radius_target) / 160
    climbed = _to_pixels(matching, found.runner_up, max(pitch, matching.finest), n_free)
    return replace(found, runner_up=replace(climbed, score=found.runner_up.score))


def refine_shifts(matching: Matching, candidates: list[Candidate], pitch: float) -> Found:
    """The best of a few shifts at one angle and its runner-up."""
    pitch = max(pitch, matching.finest)
    found = [matching.climb(one, pitch, (pitch / 2, 0.0), 2, 0.1) for one in candidates]
    found.sort(key=lambda one: -one.score)
    best = found[0]
    far = 0.1 * min(matching.source.spread, best.scale * matching.target.spread)
    others = [one for one in found[1:] if math.dist(one.shift_yx, best.shift_yx) > max(far, 2 * pitch)]
    return Found(_to_pixels(matching, best, pitch, 2), best.score, others[0] if others else None)


def polish(found: Found, matching: Matching, kind: str) -> Found:
    """Refine the best pose with another weight of the pixels."""
    n_free = {"shift": 2, "rigid": 3, "similarity": 4}[kind]
    best = found.best
    for pitch in (4 * matching.finest, matching.finest):
        turn = pitch / max(matching.target.radius, matching.finest)
        best = matching.climb(best, pitch, (2 * pitch, 2 * turn), n_free, 0.05)
    return replace(found, best=best)


def _to_pixels(matching: Matching, best: Candidate, pitch: float, n_free: int) -> Candidate:
    """Refine one pose down to the larger pixel."""
    finest = matching.finest
    turn = pitch / max(matching.target.radius, finest)
    while pitch > 1.01 * finest:
        pitch = max(pitch / 2.5, finest)
        turn = pitch / max(matching.target.radius, finest)
        best = matching.climb(best, pitch, (pitch, turn), n_free, 0.05)
    # Once more from small simplices on either side: the method of Nelder and Mead may stop early.
    for share in (-0.5, 0.25):
        best = matching.climb(best, finest, (share * finest, share * turn), n_free, 0.03)
    return best


def _distinct(found: list[Candidate], degrees: float) -> list[Candidate]:
    """Best first, without those that climbed to the same pose."""
    kept: list[Candidate] = []
    for one in sorted(found, key=lambda one: -one.score):
        if all(one.degrees_from(other) > degrees for other in kept):
            kept.append(one)
    return kept


def _best_elsewhere(matching: Matching, profile: Profile, best: Candidate, pitch: float) -> Candidate | None:
    """The best angle of a profile that is another pose, scored at this pitch; for a profile with one peak."""
    scores = np.array(profile.scores)
    for flip, index in np.ndindex(*scores.shape):
        if profile.candidate(flip, index).degrees_from(best) <= OTHER_POSE_DEG:
            scores[flip, index] = -1.0
    flip, index = divmod(int(scores.argmax()), profile.n_angles)
    if scores[flip, index] < 0:
        return None
    one = profile.candidate(flip, index)
    return Candidate(one.shift_yx, one.angle, one.flipped, one.scale, matching.score(one, pitch))

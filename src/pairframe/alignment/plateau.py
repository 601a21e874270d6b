"""Plateau: where one mask lies inside the other, a range of poses overlaps equally, and one of them has to be taken.

An object that grew on all sides is such a case. The overlap alone would leave it anywhere inside its outline, which looks like
growth on one side. Among poses of equal overlap the one in which the thick parts meet is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pairframe.alignment.cloud import Cloud
from pairframe.alignment.matching import Candidate, Matching
from pairframe.alignment.refine import Found, polish

SMALLER = 0.98  # area of the smaller mask over that of the larger one: more leaves no room
CONTAINED = 0.97  # share of the smaller mask that overlaps
EQUAL = 0.02  # of the noise of pixels along the boundary: a smaller difference in score is none
_STEPS = 8  # on the way from the best pose to the one in which the thick parts meet


def settle(matching: Matching, found: Found, kind: str, iou: Callable[[Candidate], float]) -> Found:
    """The best pose or, if one mask lies inside the other, the pose on the plateau that is nearest to the settled one.

    Parameters
    ----------
    iou : callable
        IoU of the masks at a pose, pixel by pixel. The score of the search is not exact enough for ties: where the outlines
        touch it is too large by a few thousandths.
    """
    best, areas = found.best, (matching.source.area, found.best.scale**2 * matching.target.area)
    if matching.marks is not None or min(areas) > SMALLER * max(areas):
        return found
    at_best = iou(best)
    both = at_best / (1.0 + at_best) * sum(areas)
    if both < CONTAINED * min(areas):
        return found
    together = replace(found, best=replace(best, shift_yx=(0.0, 0.0)))
    settled = polish(together, by_thickness(matching), "shift" if kind == "shift" else "rigid").best
    least = at_best - EQUAL * matching.pixel_noise()
    for step in range(_STEPS, 0, -1):
        between = _between(best, settled, step / _STEPS)
        if iou(between) >= least:
            return replace(found, best=replace(between, score=best.score))
    return found


def _between(one: Candidate, other: Candidate, share: float) -> Candidate:
    """A pose on the way from one to the other."""
    shift = tuple(a + share * (b - a) for a, b in zip(one.shift_yx, other.shift_yx, strict=True))
    return replace(one, shift_yx=(shift[0], shift[1]), angle=one.angle + share * (other.angle - one.angle))


def by_thickness(matching: Matching) -> Matching:
    """The same masks, with pixels weighted by their squared distance to the background."""

    def weighted(cloud: Cloud) -> Cloud:
        return Cloud(cloud.inside, cloud.px, _in_box(cloud), by_thickness=True)

    source, target = weighted(matching.source), weighted(matching.target)
    marks = matching.marks
    if marks is not None:
        marks = (_same_centre(marks[0], matching.source), _same_centre(marks[1], matching.target))
    return Matching(source, target, marks)


def _in_box(cloud: Cloud) -> tuple[float, float]:
    y, x = (middle - corner * cloud.px for middle, corner in zip(cloud.centre_yx, cloud.corner_px, strict=True))
    return y, x


def _same_centre(mark: Cloud, body: Cloud) -> Cloud:
    """A landmark in the box of its own, around the centre of its mask."""
    y, x = (m - c * mark.px for m, c in zip(body.centre_yx, mark.corner_px, strict=True))
    return Cloud(mark.inside, mark.px, (y, x))

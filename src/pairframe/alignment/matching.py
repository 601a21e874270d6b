"""`Matching`: two masks, with their landmarks if there are any, and the score of a pose at several resolutions."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from pairframe.alignment.cloud import Cloud, Field, Points
from pairframe.alignment.overlap_passes import climb, score
from pairframe.types import Float

# Among poses of equal overlap the centroids shall meet. The weight is too small to move a pose that has an optimum.
TIE_BREAKER = 1e-3
# Half of the cells of a field: a block of target pixels is at most this share of a cell.
_BLOCK_SHARE = 0.5
_NO_FIELD = Field(np.zeros((1, 1)), 1.0, (0.0, 0.0))
_NO_POINTS = Points(np.zeros((0, 2)), np.zeros(0), np.zeros(0))


@dataclass(frozen=True)
class Candidate:
    """A pose in coordinates centred on both masks: ``x = scale R(angle) F y + t``.

    Attributes
    ----------
    shift_yx : (ty, tx)
        um.
    angle : float
        Radians.
    flipped : bool
    scale : float
    score : float
        Mean IoU of bodies and landmarks at the resolution at which it was found.
    """

    shift_yx: tuple[float, float]
    angle: float
    flipped: bool
    scale: float
    score: float

    def degrees_from(self, other: Candidate) -> float:
        """Degrees between the two turns; 180 if only one is flipped."""
        if self.flipped != other.flipped:
            return 180.0
        return abs(math.degrees(math.remainder(self.angle - other.angle, 2 * math.pi)))


@dataclass(frozen=True, eq=False)
class Matching:
    """Source and target as clouds, and their landmarks around the same centres."""

    source: Cloud
    target: Cloud
    marks: tuple[Cloud, Cloud] | None = None

    @property
    def finest(self) -> float:
        """Side of the larger pixel, um."""
        return max(self.source.px, self.target.px)

    @property
    def radius_source(self) -> float:
        """Largest distance of a pixel of the source or of its landmark from the centroid of the source, um."""
        return max(self.source.radius, 0.0 if self.marks is None else self.marks[0].radius)

    @property
    def radius_target(self) -> float:
        """The same of the target."""
        return max(self.target.radius, 0.0 if self.marks is None else self.marks[1].radius)

    def pixel_noise(self) -> float:
        """IoU that depends on how the boundary falls on the pixels: a quarter of a pixel along it."""
        return 0.25 * max(cloud.px * cloud.perimeter / cloud.area for cloud in (self.source, self.target))

    def score(self, candidate: Candidate, pitch: float) -> float:
        """The score of a pose on cells of about this pitch, um."""
        body, points, mark, mark_points, numbers = self._at(pitch)
        pose = _numbers_of(candidate)
        sign = -1.0 if candidate.flipped else 1.0
        weights = (points.weights, mark_points.weights)
        return float(
            score(body.values, points.yx, weights[0], mark.values, mark_points.yx, weights[1], numbers, pose, sign)
        )

    def climb(
        self, candidate: Candidate, pitch: float, steps: tuple[float, float], n_free: int, tolerance: float
    ) -> Candidate:
        """The best pose near a candidate.

        Parameters
        ----------
        pitch : float
            Side of a cell, um.
        steps : (shift, turn)
            First steps, um and radians.
        n_free : {2, 3, 4}
            Shift alone; with the turn; with the scale as well.
        tolerance : float
            Precision as a share of the first steps.
        """
        body, points, mark, mark_points, numbers = self._at(pitch)
        first = np.array([steps[0], steps[0], steps[1], steps[1]])
        found, value, _ = climb(
            body.values,
            points.yx,
            points.weights,
            mark.values,
            mark_points.yx,
            mark_points.weights,
            numbers,
            _numbers_of(candidate),
            -1.0 if candidate.flipped else 1.0,
            first,
            n_free,
            tolerance,
            120,
        )
        return replace(
            candidate,
            shift_yx=(float(found[0]), float(found[1])),
            angle=float(found[2]),
            scale=math.exp(found[3]),
            score=float(value),
        )

    def _at(self, pitch: float) -> tuple[Field, Points, Field, Points, Float]:
        body, points = _pair_at(self.source, self.target, pitch)
        numbers = np.zeros(11)
        numbers[:5] = (body.pitch, *body.origin_yx, self.source.norm, self.target.norm)
        numbers[10] = TIE_BREAKER / (self.source.spread * self.target.spread)
        if self.marks is None:
            return body, points, _NO_FIELD, _NO_POINTS, numbers
        mark, mark_points = _pair_at(*self.marks, pitch)
        numbers[5:10] = (mark.pitch, *mark.origin_yx, self.marks[0].norm, self.marks[1].norm)
        return body, points, mark, mark_points, numbers


def _pair_at(source: Cloud, target: Cloud, pitch: float) -> tuple[Field, Points]:
    side = max(1, int(pitch / source.px + 1e-9))
    block = max(1, int(_BLOCK_SHARE * max(pitch, source.px) / target.px + 1e-9))
    return source.field(side), target.samples if block == 1 else target.points(block)


def _numbers_of(candidate: Candidate) -> Float:
    return np.array([*candidate.shift_yx, candidate.angle, math.log(candidate.scale)])

"""Search: the overlap at all shifts, for every angle, flip and scale, by Fourier transforms.

Both masks are splatted onto one coarse grid, the target once per angle, and correlated. Centroids play no part: a mask cut
by the border keeps its overlap, but not its centroid.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from pairframe.alignment.cloud import Cloud
from pairframe.alignment.matching import Candidate, Matching
from pairframe.alignment.splat_passes import splat_points
from pairframe.types import Float, Index

STEP_DEG = 5.0
_CELLS_TO_TURN = 40  # cells along the reach: the sum of both radii
_CELLS_TO_SHIFT = 100
_BATCH = 24  # angles that are transformed together


@dataclass(frozen=True, eq=False)
class Profile:
    """The best score over all shifts, by angle.

    Attributes
    ----------
    scores : (n_flips, n_angles)
        Mean IoU of bodies and landmarks on the coarse grid.
    shifts_yx : (n_flips, n_angles, 2)
        The shifts that reach it, um.
    scales : (n_flips, n_angles)
        Of the scales that were tried, the best.
    pitch : float
        Side of a cell, um.
    """

    scores: Float
    shifts_yx: Float
    scales: Float
    pitch: float

    @property
    def n_angles(self) -> int:
        """Number of angles over the full circle."""
        return int(self.scores.shape[1])

    def candidate(self, flip: int, index: int) -> Candidate:
        """The pose at one angle."""
        y, x = self.shifts_yx[flip, index]
        angle = 2 * math.pi * index / self.n_angles
        return Candidate(
            (float(y), float(x)), angle, bool(flip), float(self.scales[flip, index]), float(self.scores[flip, index])
        )

    def peaks(self, most: int) -> list[Candidate]:
        """The best local maxima over the angle, best first."""
        before, after = np.roll(self.scores, 1, axis=1), np.roll(self.scores, -1, axis=1)
        is_peak = (self.scores >= before) & (self.scores >= after)
        found = sorted(zip(*np.nonzero(is_peak), strict=True), key=lambda at: -self.scores[at])
        kept: list[Candidate] = []
        for flip, index in found:
            one = self.candidate(int(flip), int(index))
            # Neighbours of a flat top are one peak.
            if all(one.degrees_from(other) > 1.5 * 360 / self.n_angles for other in kept):
                kept.append(one)
            if len(kept) == most:
                break
        return kept


def search_turns(matching: Matching, allow_flip: bool, scales: tuple[float, ...]) -> Profile:
    """The best shift for every angle, and for the mirrored target if it is allowed."""
    flips = (False, True) if allow_flip else (False,)
    n_angles = round(360 / STEP_DEG)
    profile: Profile | None = None
    for scale in scales:
        grid = _Grid(matching, scale, _CELLS_TO_TURN)
        scores, shifts = np.zeros((len(flips), n_angles)), np.zeros((len(flips), n_angles, 2))
        for flip in flips:
            for first in range(0, n_angles, _BATCH):
                batch = range(first, min(first + _BATCH, n_angles))
                maps = grid.score_maps([2 * math.pi * index / n_angles for index in batch], flip)
                best = maps.reshape(len(batch), -1).argmax(axis=1)
                scores[int(flip), batch] = maps.reshape(len(batch), -1)[np.arange(len(batch)), best]
                shifts[int(flip), batch] = grid.shifts_of(best)
        found = Profile(scores, shifts, np.full(scores.shape, scale), grid.pitch)
        profile = found if profile is None else _better(profile, found)
    assert profile is not None
    return profile


def search_shifts(matching: Matching, angle: float, flipped: bool, scale: float, most: int) -> list[Candidate]:
    """The best shifts at one angle that are not neighbours, best first."""
    grid = _Grid(matching, scale, _CELLS_TO_SHIFT)
    scores = grid.score_maps([angle], flipped)[0]
    near = max(2.0, 0.25 * min(matching.source.spread, scale * matching.target.spread) / grid.pitch)
    rows, columns = np.indices(scores.shape)
    found = []
    for _ in range(most):
        best = int(scores.argmax())
        y, x = grid.shifts_of(np.array([best]))[0]
        if scores.flat[best] <= 0:
            break
        found.append(Candidate((float(y), float(x)), angle, flipped, scale, float(scores.flat[best])))
        # Circular distances: the map wraps around.
        dy, dx = (np.abs(at - centre) for at, centre in zip((rows, columns), divmod(best, grid.n), strict=True))
        dy, dx = np.minimum(dy, grid.n - dy), np.minimum(dx, grid.n - dx)
        scores = np.where(dy**2 + dx**2 <= near**2, -1.0, scores)
    return found


def _better(one: Profile, other: Profile) -> Profile:
    """Whichever has the larger score, angle by angle."""
    first = one.scores >= other.scores
    return Profile(
        np.maximum(one.scores, other.scores),
        np.where(first[..., None], one.shifts_yx, other.shifts_yx),
        np.where(first, one.scales, other.scales),
        max(one.pitch, other.pitch),
    )


class _Grid:
    """A square grid on which both masks fit at every shift that leaves an overlap."""

    def __init__(self, matching: Matching, scale: float, cells: int) -> None:
        source, target = matching.source, matching.target
        reach = matching.radius_source + scale * matching.radius_target
        self.pitch = max(source.px, target.px * scale, reach / cells)
        self.n = int(fft.next_fast_len(int(2 * reach / self.pitch) + 8, real=True))
        self._scale = scale
        pairs = [(source, target), *([] if matching.marks is None else [matching.marks])]
        self._pairs = [(self._spectrum(one), two, one.norm, scale**2 * two.norm) for one, two in pairs]

    def score_maps(self, angles: list[float], flipped: bool) -> Float:
        """Mean IoU over all shifts, (n_angles, n, n), wrapped around."""
        total: Float | None = None
        for spectrum, target, area_source, area_target in self._pairs:
            images = np.zeros((len(angles), self.n, self.n), np.float32)
            points = target.points(max(1, int(0.5 * self.pitch / (target.px * self._scale))))
            factor, sign = self._scale / self.pitch, -1.0 if flipped else 1.0
            weights = points.weights * factor**2
            for image, angle in zip(images, angles, strict=True):
                c, s = math.cos(angle) * factor, math.sin(angle) * factor
                splat_points(image, points.yx, weights, c * sign, -s, s * sign, c, self.n // 2, self.n // 2)
            transformed = fft.rfft2(images)
            np.conjugate(transformed, out=transformed)
            transformed *= spectrum
            both = fft.irfft2(transformed, s=(self.n, self.n)) * np.float32(self.pitch**2)
            found = both / (np.float32(area_source + area_target) - both)
            total = found if total is None else 0.5 * (total + found)
        assert total is not None
        return total

    def shifts_of(self, flat: Index) -> Float:
        """Shifts (m, 2) in um of flat indices (m,) into a map."""
        at = np.stack(np.divmod(flat, self.n), axis=-1)
        return ((at + self.n // 2) % self.n - self.n // 2) * self.pitch

    def _spectrum(self, source: Cloud) -> NDArray[np.complex64]:
        image = np.zeros((self.n, self.n), np.float32)
        points = source.points(max(1, int(0.5 * self.pitch / source.px)))
        scaled = 1.0 / self.pitch
        splat_points(image, points.yx, points.weights * scaled**2, scaled, 0.0, 0.0, scaled, self.n // 2, self.n // 2)
        spectrum: NDArray[np.complex64] = fft.rfft2(image)
        return spectrum

"""Proof that every other pose overlaps less, by branch and bound over all turns and shifts.

The overlap ``O(T)`` is the number of target pixels ``y`` whose nearest pixel of ``T y`` lies in the source. Over a cell of poses
(angle within ``D / 2``, each component of the shift within ``s / 2``), with ``p`` the position of ``y`` at the middle of the cell and
``q`` the pixel nearest to it, ``T y`` is at most ``2 |y| sin(D / 4) + s / sqrt(2)`` from ``p``, and its nearest pixel at most half a
diagonal farther. So

    O(T) <= #{ y : distance_to_source(q) <= 2 |y| sin(D / 4) + s / sqrt(2) + |p - q| + 0.7072 }

A block of target pixels is counted as one point, at the price of its radius. Proven is the optimum of this overlap at the
scale of the pose: not that the pose is the right one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from scipy import ndimage

from pairframe.alignment.cloud import Cloud
from pairframe.alignment.matching import Candidate, Matching
from pairframe.alignment.proof_passes import branch_and_bound, distances_rounded_down, overlap_count, upper_bound
from pairframe.types import Bool, Float

MOST_VISITS = 100_000_000  # of blocks of pixels, about half a second
_SIDES = (1, 2, 4, 8, 16)
_FINENESS = 0.15


@dataclass(frozen=True)
class Proof:
    """The outcome of a proof.

    Attributes
    ----------
    claim : str
        ``flip``: every pose of the other handedness overlaps less. ``N degrees``: every pose of this handedness that is
        turned by more than N degrees from it does.
    proven : bool
        False if the budget ended first; then nothing is known.
    overlap : float
        Overlap of the pose, as a share of the smaller mask.
    bound : float
        No pose of the claim overlaps more than this share. If proven, it is below the overlap of the pose.
    nodes : int
        Cells that were bounded.
    seconds : float
    """

    claim: str
    proven: bool
    overlap: float
    bound: float
    nodes: int
    seconds: float


class Prover:
    """Bounds of the overlap of two masks at one scale."""

    def __init__(self, source: Cloud, target: Cloud, scale: float) -> None:
        self._source, self._target = source, target
        self.ratio = scale / source.px
        # Positions in pixels of the box of the source, whose first pixel has its centre at 0.
        self.centre = tuple(
            middle / source.px - 0.5 - corner for middle, corner in zip(source.centre_yx, source.corner_px, strict=True)
        )
        pad = self._pad = 8
        inside = np.pad(source.inside, pad)
        nearest = ndimage.distance_transform_edt(~inside, return_distances=False, return_indices=True)
        squared = ((nearest - np.indices(inside.shape)) ** 2).sum(axis=0)
        self.distance = distances_rounded_down(squared)
        self.inside: Bool = inside
        self.smaller = min(target.n_px, source.n_px / (self.ratio * target.px) ** 2)

    def blocks(self, side: int) -> tuple[Float, Float, Float, Float]:
        """Barycentres (n, 2), numbers of pixels, distances from the origin and radii of blocks, in source pixels."""
        points = self._target.points(side)
        yx = points.yx * self.ratio
        lengths = np.sqrt((yx**2).sum(axis=1))
        return yx, np.rint(points.weights / self._target.px**2), lengths, points.radii * self.ratio

    def overlap(self, shift_yx: tuple[float, float], angle: float, flipped: bool) -> float:
        """Number of target pixels on the source at a pose in centred coordinates, um and radians."""
        yx, counts, _, _ = self.blocks(1)
        ty, tx = self._at(shift_yx)
        return float(overlap_count(self.inside, yx, counts, -1.0 if flipped else 1.0, angle, ty, tx))

    def bound(
        self, shift_yx: tuple[float, float], angle: float, flipped: bool, turn: float, side: float, block: int = 1
    ) -> float:
        """Upper bound of the overlap over a cell around a pose: `turn` in radians, `side` in um."""
        ty, tx = self._at(shift_yx)
        sign = -1.0 if flipped else 1.0
        cell = (angle, ty, tx, turn, side / self._source.px)
        return float(upper_bound(self.distance, *self.blocks(block), sign, *cell))

    def search(self, incumbent: float, flipped: bool, low: float, high: float, reach: float) -> tuple[float, int]:
        """Upper bound of the overlap over the angles from `low` to `high`, radians, and the number of cells."""
        sides = [side for side in _SIDES if side == 1 or self._target.n_px > 50 * side**2]
        sizes = [self.blocks(side) for side in sides]
        starts = np.cumsum([0, *(len(size[1]) for size in sizes)])
        joined = [np.concatenate([size[part] for size in sizes]) for part in range(4)]
        coarseness = np.array([size[3].max() for size in sizes])
        cy, cx = self._at((0.0, 0.0))
        bound, nodes = branch_and_bound(
            self.distance,
            *joined,
            starts,
            coarseness,
            self._target.spread * self.ratio,
            incumbent,
            -1.0 if flipped else 1.0,
            low,
            high,
            cy,
            cx,
            reach / self._source.px,
            MOST_VISITS,
            _FINENESS,
        )
        return float(bound), int(nodes)

    def _at(self, shift_yx: tuple[float, float]) -> tuple[float, float]:
        y, x = (c + self._pad + t / self._source.px for c, t in zip(self.centre, shift_yx, strict=True))
        return y, x


def prove(matching: Matching, best: Candidate, claim: str | float) -> Proof:
    """Try to prove that every pose of a claim overlaps less than the best one.

    Parameters
    ----------
    claim : "flip" or float
        The other handedness, or the degrees that a pose must differ by.
    """
    began = perf_counter()
    prover = Prover(matching.source, matching.target, best.scale)
    incumbent = prover.overlap(best.shift_yx, best.angle, best.flipped)
    reach = matching.source.radius + best.scale * matching.target.radius
    if claim == "flip":
        text, flipped, low, high = "flip", not best.flipped, 0.0, 2 * math.pi
    else:
        degrees = float(claim)
        text, flipped = f"{degrees:g} degrees", best.flipped
        low, high = best.angle + math.radians(degrees), best.angle + 2 * math.pi - math.radians(degrees)
    # Overlaps are whole numbers of pixels: less means by one at least. A pose that ties is not excluded.
    bound, nodes = prover.search(incumbent - 1.0, flipped, low, high, reach)
    return Proof(
        claim=text,
        proven=bound < incumbent,
        overlap=incumbent / prover.smaller,
        bound=bound / prover.smaller,
        nodes=nodes,
        seconds=perf_counter() - began,
    )

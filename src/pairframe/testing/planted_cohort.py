"""Series of embryos that grow, each frame in a pose, mirroring and pixel size of its own, with the truth and the yolk."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy import ndimage

from pairframe.alignment.similarity import Similarity
from pairframe.testing.shapes import embryo
from pairframe.types import Bool

PX_SIZES_UM = (2.0, 3.1, 4.7)


@dataclass(frozen=True, eq=False)
class PlantedFrame:
    """A frame with its true pose.

    Attributes
    ----------
    series, frame : str, int
    mask, yolk : (H, W) bool
    px_size_um : float
    place : Similarity
        From the drawing, in which all embryos of all series lie alike, to the image.
    """

    series: str
    frame: int
    mask: Bool
    yolk: Bool
    px_size_um: float
    place: Similarity


def planted_cohort(
    n_series: int = 3, n_frames: int = 7, *, seed: int = 0, flips: bool = True, growth: float = 0.35
) -> list[PlantedFrame]:
    """Frames of several embryos in random poses.

    Parameters
    ----------
    flips : bool
        Mirror about half of the frames.
    growth : float
        Growth of the length from the first to the last frame; the body straightens and the yolk shrinks meanwhile.
    """
    rng = np.random.default_rng(seed)
    frames = []
    for s in range(n_series):
        length, bend, yolk = rng.uniform(230, 270), rng.uniform(0.5, 1.1), rng.uniform(40, 50)
        for t in range(n_frames):
            done = t / max(1, n_frames - 1)
            draw = partial(
                embryo,
                (420, 720),
                length_px=length * (1 + growth * done),
                bend=bend * (1 - 0.6 * done),
                thickness_px=24 + 3 * done,
            )
            whole, body = draw(yolk_px=yolk - 10 * done), draw(yolk_px=0.0)
            px = PX_SIZES_UM[int(rng.integers(len(PX_SIZES_UM)))]
            flipped = bool(flips and rng.random() < 0.5)
            turn = float(rng.uniform(-180, 180))
            frames.append(_placed(whole, whole & ~body, px, turn, flipped, f"embryo{s + 1}", t, rng))
    return frames


def _placed(
    whole: Bool, yolk: Bool, px: float, turn: float, flipped: bool, series: str, frame: int, rng: np.random.Generator
) -> PlantedFrame:
    """Put a drawing with pixels of 2 um on an image with pixels of another size; the object lies somewhere on it."""
    fine = 2.0
    centre = (np.argwhere(whole).mean(axis=0) + 0.5) * fine
    points = (np.argwhere(whole) + 0.5) * fine
    turned = Similarity(turn, (0.0, 0.0), flipped, 1.0, (float(centre[0]), float(centre[1]))).of_points(points)
    low, high = turned.min(axis=0), turned.max(axis=0)
    margin = rng.uniform(3, 30, size=4) * px
    shift = margin[:2] - low
    place = Similarity(turn, (float(shift[0]), float(shift[1])), flipped, 1.0, (float(centre[0]), float(centre[1])))
    shape = np.ceil((high - low + margin[:2] + margin[2:]) / px).astype(int)
    at = place.inverse().of_points((np.indices(tuple(shape)).reshape(2, -1).T + 0.5) * px) / fine - 0.5

    def drawn(inside: Bool) -> Bool:
        found = ndimage.map_coordinates(inside.astype(float), at.T, order=1).reshape(tuple(shape))
        return np.asarray(found > 0.5)

    mask = drawn(whole)
    return PlantedFrame(series, frame, mask, drawn(yolk) & mask, px, place)

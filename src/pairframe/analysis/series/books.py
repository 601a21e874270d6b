"""`books_of`: what was created and destroyed in every step of a series, and how much of it is flicker."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pairframe.analysis.series.early import sticks_out
from pairframe.analysis.series.flicker import Places, flicker, places_of, take
from pairframe.analysis.series.kept import SeriesFrames
from pairframe.analysis.series.outline import Band, OutlineFlicker
from pairframe.results import ResultStore
from pairframe.types import Float


@dataclass(frozen=True, eq=False)
class Books:
    """Areas per step (n,), um^2.

    Attributes
    ----------
    flicker_created, flicker_destroyed : (n,)
        Area that comes and goes within a few frames: thin bands of the outline, counted by pixel; created mass that is
        destroyed again, or the other way round; and area by which single frames stick out, see `sticks_out`.
    outline : (n,)
        The first of the two, where it switches on; NaN if unknown.
    lasting_created, lasting_destroyed : (n,)
        The rest. Their difference is the change of area less that of the flicker, which is exact.
    """

    flicker_created: Float
    flicker_destroyed: Float
    outline: Float
    lasting_created: Float
    lasting_destroyed: Float


def books_of(frames: SeriesFrames, flicker_frames: int, store: ResultStore, tick: Callable[[str], None]) -> Books:
    """The books of a series; reads the maps of one pair after the other."""
    places: list[tuple[Places, Places] | None] = []
    outline = OutlineFlicker(flicker_frames)
    reach, px_area = math.inf, frames.units.px_area
    for step in frames.steps:
        if step.row is None:
            places.append(None)
            outline.skip()
            continue
        result = store.load(step.row["pair_id"])
        reach = float(step.row["reach_um"])
        places.append(places_of(result, reach, px_area))
        outline.add(result, step.drift_yx_um)
        tick(step.row["pair_id"])
    n = len(places)
    bands = np.full((2, n), np.nan)
    taken = np.zeros((2, n))
    for i, found in enumerate(places):
        for side, band in enumerate((outline.on[i], outline.off[i])):
            if found is not None and band is not None:
                bands[side, i] = px_area * band.flickers.sum()
                taken[side, i] = _take(found[side], band, px_area, reach)
    drift = np.array([step.drift_yx_um for step in frames.steps]).reshape(-1, 2)
    matched = np.stack(flicker(places, flicker_frames, reach, drift))
    total = np.nan_to_num(bands) + matched
    own = np.array([[step.created, step.destroyed] for step in frames.steps]).reshape(-1, 2).T
    left = np.maximum(own - taken - matched, 0.0)
    # Transport nets flicker of the outline against growth or loss; the rest of the change of area is what it hid.
    hidden = (own[0] - own[1]) - (total[0] - total[1]) - (left[0] - left[1])
    lasting = left + np.maximum([hidden, -hidden], 0.0)
    total, lasting = _without_early(total, lasting)
    return Books(total[0], total[1], bands[0], lasting[0], lasting[1])


def _without_early(total: Float, lasting: Float) -> tuple[Float, Float]:
    """Move area by which single frames stick out from lasting change to flicker; (2, n) created and destroyed each."""
    steps = lasting[0] - lasting[1]
    change = np.zeros(len(steps))  # of what sticks out, in every step
    known = np.flatnonzero(np.isfinite(steps))
    for run in np.split(known, np.flatnonzero(np.diff(known) > 1) + 1):  # an unknown step parts the series
        change[run] = np.diff(sticks_out(np.concatenate([[0.0], np.cumsum(steps[run])])))
    created, destroyed = np.maximum(change, 0.0), np.maximum(-change, 0.0)
    # A step that loses what stuck out loses less, or creates more, than it seemed to.
    kept = np.stack([lasting[0] - created, lasting[1] - destroyed])
    return total + np.stack([created, destroyed]), np.maximum(kept, 0.0) + np.maximum(-kept[::-1], 0.0)


def _take(places: Places, band: Band, px_area: float, reach_um: float) -> float:
    """Take the flicker of an outline out of the mass that is matched."""
    on = band.flickers > 0
    return take(places, band.yx_px[on], px_area * band.flickers[on], reach_um)

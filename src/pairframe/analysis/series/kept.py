"""`kept_frames`: the frames of a series with their areas and flags, and the steps between those that are not left out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from pairframe.analysis.series.chain import Chain, is_known
from pairframe.analysis.series.flags import FrameFlag, flags_of
from pairframe.errors import CohortError
from pairframe.masks.mass import MassMode
from pairframe.results.cohort_table import Cohort, PlainRow, json_of
from pairframe.results.row_units import units_of
from pairframe.types import Float, Int
from pairframe.units import Units

_SAME_AREA = 1e-6  # of the area


@dataclass(frozen=True, eq=False)
class Step:
    """From one kept frame to the next.

    Attributes
    ----------
    row : row or None
        The pair; None if frames between were left out, or the pair has no result.
    created, destroyed : float
        Areas, um^2. Over frames that were left out: the net change, which is the least that happened.
    drift_yx_um : (dy, dx)
        Mean displacement; NaN if unknown, zero if the pair was aligned, because places are then those of the images.
    """

    row: PlainRow | None
    created: float
    destroyed: float
    drift_yx_um: tuple[float, float] = (math.nan, math.nan)


@dataclass(frozen=True, eq=False)
class SeriesFrames:
    """A series with what is known about its frames: (n,) times and areas in um^2, flags, and the indices that are kept."""

    chain: Chain
    times: Float
    area: Float
    flags: list[list[FrameFlag]]
    kept: Int
    steps: list[Step]
    units: Units


def check_areas(cohort: Cohort) -> None:
    """Refuse a cohort whose masses are no areas, or whose lengths have two units."""
    if any(row["canon_depth_px"] is not None for row in cohort.rows):
        raise CohortError("series of images", "volumes", "series are for images; use the table of the volumes")
    modes = {str(json_of(row["config_json"], {}).get("mass_mode", "uniform")) for row in cohort.rows if is_known(row)}
    for mode in sorted(modes):
        if not MassMode.parse(mode).is_area:
            raise CohortError(
                "masks whose mass is their area", f"mass_mode {mode!r}", "compare them with mass_mode uniform"
            )
    if cohort.has_mixed_units:
        raise CohortError(
            "one unit of length", "pairs with and without a pixel size", "give all masks a pixel size", "px_size_um"
        )


def kept_frames(chain: Chain, times: Float, leave_out: Sequence[str], units: Units) -> SeriesFrames:
    """Areas, flags and steps of a series; frames with a flag in `leave_out` are no part of the steps."""
    as_source, as_target = np.full((2, len(chain.frames)), np.nan)
    for i, row in enumerate(chain.rows):
        if row is not None and is_known(row):
            px_area = units_of(row).px_area
            as_source[i], as_target[i + 1] = row["M_source"] * px_area, row["M_target"] * px_area
    area = np.where(np.isnan(as_source), as_target, as_source)
    flags = flags_of(chain, area, units.length_text)
    for k in np.flatnonzero(np.abs(as_source - as_target) > _SAME_AREA * np.abs(area)):
        words = f"its area is {as_target[k]:.6g} in the pair before and {as_source[k]:.6g} in the pair after it"
        flags[k].append(FrameFlag("other_area", f"{words} (scaled by an alignment, or another mask)"))
    out = [any(flag.code in leave_out for flag in of_frame) for of_frame in flags]
    kept = np.flatnonzero(~np.array(out, dtype=bool))
    if len(kept) < 2:
        raise CohortError(
            "at least two frames in a series",
            f"series {chain.name!r}, of which {len(kept)} of {len(out)} frames are not left out",
            "leave out fewer",
            "leave_out",
        )
    steps = [_step(chain, area, int(a), int(b)) for a, b in pairwise(kept)]
    return SeriesFrames(chain, times, area, flags, kept, steps, units)


def _step(chain: Chain, area: Float, a: int, b: int) -> Step:
    row = chain.rows[a] if b == a + 1 else None
    if row is None or not is_known(row):
        if b == a + 1:
            return Step(None, math.nan, math.nan)
        change = float(area[b] - area[a])
        return Step(None, max(change, 0.0), max(-change, 0.0))
    px_area = units_of(row).px_area
    drift = (row["mean_displacement_dy_um"], row["mean_displacement_dx_um"])
    if row.get("pose_status") is not None:
        drift = (0.0, 0.0)
    dy, dx = (math.nan if value is None else float(value) for value in drift)
    return Step(row, row["total_mass_created"] * px_area, row["total_mass_destroyed"] * px_area, (dy, dx))

"""The drift of a stage as curves: both parts over the frames, and the path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from pairframe.alignment import StageDrift
from pairframe.report.style import SMALL_SIZE, SOURCE_COLOUR, TARGET_COLOUR, TITLE_SIZE, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_SERIES = 12


def drift_figure(drifts: Mapping[str, StageDrift]) -> Figure:
    """A row per series, by name: dy and dx over the frames with the measured points, and the path in the image."""
    shown = list(drifts.items())[:MOST_SERIES]
    figure = new_figure(10.0, 2.9 * len(shown) + 0.3)
    axes = figure.subplots(len(shown), 2, squeeze=False, width_ratios=(2, 1))
    for (name, drift), (over_time, path) in zip(shown, axes, strict=True):
        unit = drift.units.length_text
        places = np.arange(len(drift.frames))
        parts = ((0, "down", SOURCE_COLOUR), (1, "to the right", TARGET_COLOUR))
        for axis, words, colour in parts:
            over_time.plot(places, drift.shift_yx_um[:, axis], color=colour, label=words)
            over_time.plot(places, drift.measured_yx_um[:, axis], ".", color=colour, ms=5)
        step = max(1, len(places) // 10)
        over_time.set_xticks(places[::step], [label[:12] for label in drift.frames[::step]], fontsize=SMALL_SIZE)
        over_time.set(xlabel="frame", ylabel=f"drift, {unit}")
        smooth = "" if drift.kernel == "none" else f"\nline: {drift.kernel}; points: as measured"
        heading = f"{name}: " if name else ""
        over_time.set_title(
            f"{heading}drift from frame {drift.frames[drift.reference]}{smooth}", fontsize=TITLE_SIZE, parse_math=False
        )
        over_time.legend(frameon=False, fontsize=SMALL_SIZE)
        over_time.grid(alpha=0.25)
        y, x = drift.shift_yx_um.T
        path.plot(x, y, "-", color="#5A6570", lw=1)
        path.plot(x[drift.reference], y[drift.reference], "o", color="black", ms=5)
        path.set(xlabel=f"to the right, {unit}", ylabel=f"down, {unit}", aspect="equal")
        path.set_title("path; dot: reference frame", fontsize=TITLE_SIZE)
        path.invert_yaxis()
        path.set_adjustable("datalim")
    if len(drifts) > len(shown):
        figure.suptitle(f"the first {len(shown)} of {len(drifts)} series", fontsize=SMALL_SIZE)
    return figure

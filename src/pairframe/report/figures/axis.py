"""A profile along the body axis beside the axis itself."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from pairframe.axis import BodyAxis
from pairframe.axis.table import target_axis_length_um
from pairframe.report.figures.axes import title
from pairframe.report.figures.radial import LEAST_DISPLACEMENT_PX
from pairframe.report.style import (
    CREATED_COLOUR,
    DESTROYED_COLOUR,
    SMALL_SIZE,
    SOURCE_COLOUR,
    TARGET_COLOUR,
    colour_map,
)
from pairframe.report.view import frame_box, in_frame, outline, show
from pairframe.results import TransportResult
from pairframe.results.formatting import in_words

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

S_MAP = "viridis"
AXIS_SIZE_IN = (13.0, 6.0)
_BEYOND_WIDE = 0.12  # room for the mass beyond an end, in units of S
_LEAST_BEYOND = 0.01  # of the largest bar; less stays in the bin at the end
_LEAST_CHANGE = 1e-3  # of the source in a bin


def axis_map(result: TransportResult, axis: BodyAxis, ax: Axes) -> Axes:
    """The coordinate S on the source, its tenths as lines, and the centreline with head and tail."""
    s = in_frame(result, axis.s)
    show(result, s, ax, cmap=colour_map(S_MAP), vmin=0.0, vmax=1.0)
    corner, px = frame_box(result), result.units.px_size
    ys, xs = np.indices(s.shape)
    ax.contour(
        xs + corner.x0 + 0.5, ys + corner.y0 + 0.5, s, levels=np.arange(0.1, 0.95, 0.1), colors="white", linewidths=0.7
    )
    outline(result, result.work.mass_target, ax, TARGET_COLOUR)
    y, x = axis.centreline_yx_um.T / px
    ax.plot(x, y, color="black", lw=1.4)
    for name, end in zip(_ends(axis), (0, -1), strict=True):
        ax.annotate(
            name,
            (x[end], y[end]),
            xytext=(0, 8),
            textcoords="offset points",
            ha="center",
            fontsize=SMALL_SIZE,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 1.0},
        )
        ax.plot(x[end], y[end], "o", color="black", ms=4)
    how = {
        "thickest": "head: assumed at the thicker end",
        "ambiguous": "which end is the head is not known",
        "landmark": "head: by the landmark",
        "reference": "head: as in the frame before",
    }[axis.orientation]
    unit = result.units.length_text
    target_um = target_axis_length_um(result)
    of_target = "" if math.isnan(target_um) else f"; of the target {in_words(target_um)} {unit}"
    return title(ax, f"body axis, {in_words(axis.length_um)} {unit} long{of_target}", f"{how}; outline: target")


def axis_figure(result: TransportResult, axis: BodyAxis, profile: pd.DataFrame, figure: Figure) -> Figure:
    """The axis, and profiles along it: created and destroyed mass, displacement, thickness."""
    grid = figure.add_gridspec(3, 2)
    axis_map(result, axis, figure.add_subplot(grid[:, 0]))
    thick = figure.add_subplot(grid[2, 1])
    mass, moved = (figure.add_subplot(grid[row, 1], sharex=thick) for row in (0, 1))
    low, high = profile["s_low"].to_numpy(float), profile["s_high"].to_numpy(float)
    middle = 0.5 * (low + high)
    unit, is_area = result.units.length_text, result.config.mass.is_area
    per_mass = result.units.px_area if is_area else 1.0
    first, last = _ends(axis)
    the_first, the_last = (end if axis.is_ambiguous else f"the {end}" for end in (first, last))
    goes_beyond = _mass_bars(profile, per_mass, mass, (the_first, the_last))
    mass.set_ylabel(f"area\n{unit}²" if is_area else "mass", fontsize=SMALL_SIZE)
    along, across = profile["displacement_along_um"], profile["displacement_across_um"]
    moved.plot(middle, along, color=SOURCE_COLOUR, marker=".", label=f"+ to {the_last}, − to {the_first}")
    moved.plot(
        middle, across, color="0.45", marker=".", label=f"+ to the right, − to the left, seen towards {the_last}"
    )
    moved.set_ylabel(f"displacement\n{unit}", fontsize=SMALL_SIZE)
    thick.fill_between(middle, 0.0, profile["thickness_um"], color=SOURCE_COLOUR, alpha=0.3, label="source")
    thick.set_ylabel(f"thickness\n{unit}", fontsize=SMALL_SIZE)
    thick.set_xlabel(f"S, from {first} (0) to {last} (1)", fontsize=SMALL_SIZE)
    thick.set_xlim(*((-_BEYOND_WIDE, 1.0 + _BEYOND_WIDE) if goes_beyond else (0.0, 1.0)))
    thick.set_xticks(np.linspace(0.0, 1.0, 6))
    for ax in (mass, moved, thick):
        ax.axhline(0.0, color="0.6", lw=0.8)
        if goes_beyond:
            for end in (0.0, 1.0):
                ax.axvline(end, color="0.6", lw=0.8, ls=":")
        ax.tick_params(labelsize=SMALL_SIZE)
        ax.legend(
            fontsize=SMALL_SIZE, frameon=False, ncols=2, loc="lower right", bbox_to_anchor=(1.0, 0.98), borderpad=0.0
        )
        ax.spines[["top", "right"]].set_visible(False)
    least = LEAST_DISPLACEMENT_PX * result.units.px_size
    bottom, top = moved.get_ylim()
    moved.set_ylim(min(bottom, -least), max(top, least))
    bottom, top = mass.get_ylim()
    mass.set_ylim(min(bottom, 0.0), max(top, per_mass))
    return figure


def _ends(axis: BodyAxis) -> tuple[str, str]:
    """What the ends at S = 0 and S = 1 are called: not head and tail if they cannot be told apart."""
    return ("end A", "end B") if axis.is_ambiguous else ("head", "tail")


def _mass_bars(profile: pd.DataFrame, per_mass: float, ax: Axes, ends_named: tuple[str, str]) -> bool:
    """Created mass upwards and destroyed mass downwards; whether some of it lies beyond an end, in hatched bars beside the bins."""
    low, high = profile["s_low"].to_numpy(float), profile["s_high"].to_numpy(float)
    kinds = (("created", 1.0, CREATED_COLOUR), ("destroyed", -1.0, DESTROYED_COLOUR))
    masses = [per_mass * profile[f"mass_{name}"].to_numpy(float) for name, _, _ in kinds]
    beyond = [per_mass * profile[f"mass_{name}_beyond"].to_numpy(float) for name, _, _ in kinds]
    # Equal masks have changes by rounding only. In a single bin, head and tail are one.
    notable = max(float(np.max(masses)), _LEAST_CHANGE * per_mass * float(profile["mass_source"].max()))
    goes_beyond = len(profile) > 1 and bool(np.max(beyond) > _LEAST_BEYOND * notable)
    for (name, sign, colour), mass, outside in zip(kinds, masses, beyond, strict=True):
        label = name if sign > 0 else f"{name} (down)"
        ax.bar(0.5 * (low + high), sign * (mass - outside * goes_beyond), high - low, color=colour, label=label)
        if goes_beyond:
            ends = np.array([-0.5, 0.5]) * _BEYOND_WIDE + [0.0, 1.0]
            ax.bar(ends, sign * outside[[0, -1]], 0.6 * _BEYOND_WIDE, facecolor="white", edgecolor=colour, hatch="////")
    if goes_beyond:
        for end, x, side in zip(ends_named, (-0.03, 1.03), ("right", "left"), strict=True):
            ax.text(
                x, -0.06, f"beyond\n{end}", transform=ax.get_xaxis_transform(), ha=side, va="top", fontsize=SMALL_SIZE
            )
    return goes_beyond

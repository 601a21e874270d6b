"""A profile around the centre of a source: created and destroyed mass, and the displacement, by distance or angle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pairframe.report.style import CREATED_COLOUR, DESTROYED_COLOUR, SMALL_SIZE, SOURCE_COLOUR
from pairframe.units import pretty

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

RADIAL_SIZE_IN = (9.0, 5.0)
_BINS = {  # the column of lower edges, and what it is in words
    "from_centre_low_um": "distance from the centre of the source",
    "from_outline_low_um": "distance from the outline of the source (inside is negative)",
    "angle_low_deg": "direction from the centre (right 0, up 90, left 180, down −90)",
}


def is_radial(profile: pd.DataFrame) -> bool:
    """Whether a table has the columns of a radial profile with bins."""
    wanted = {"mass_created", "mass_destroyed", "displacement_outward_um", "displacement_clockwise_um", "length_unit"}
    known = [name for name in _BINS if name in profile.columns and profile[name].notna().any()]
    return wanted <= set(profile.columns) and bool(known)


def radial_figure(profile: pd.DataFrame, figure: Figure) -> Figure:
    """Created and destroyed mass above, displacement below; `profile` as in ``radial_profile.csv``, of one pair."""
    low_name = next(name for name in _BINS if name in profile.columns and profile[name].notna().any())
    low, high = (profile[name].to_numpy(float) for name in (low_name, low_name.replace("_low_", "_high_")))
    middle, width = 0.5 * (low + high), high - low
    unit = pretty(str(profile["length_unit"].iloc[0]))
    mass, moved = figure.subplots(2, 1, sharex=True)
    mass.bar(middle, profile["mass_created"], width, color=CREATED_COLOUR, label="created")
    mass.bar(middle, -profile["mass_destroyed"], width, color=DESTROYED_COLOUR, label="destroyed (down)")
    mass.set_ylabel("mass", fontsize=SMALL_SIZE)
    moved.plot(middle, profile["displacement_outward_um"], color=SOURCE_COLOUR, marker=".", label="+ outward, − inward")
    moved.plot(
        middle, profile["displacement_clockwise_um"], color="0.45", marker=".", label="+ clockwise, − counter-clockwise"
    )
    moved.set_ylabel(f"displacement\n{unit}", fontsize=SMALL_SIZE)
    moved.set_xlabel(f"{_BINS[low_name]}, {'degrees' if low_name == 'angle_low_deg' else unit}", fontsize=SMALL_SIZE)
    for ax in (mass, moved):
        ax.axhline(0.0, color="0.6", lw=0.8)
        if low_name == "from_outline_low_um":
            ax.axvline(0.0, color="0.3", lw=0.8, ls="--")
        ax.tick_params(labelsize=SMALL_SIZE)
        ax.legend(
            fontsize=SMALL_SIZE, frameon=False, ncols=2, loc="lower right", bbox_to_anchor=(1.0, 0.98), borderpad=0.0
        )
        ax.spines[["top", "right"]].set_visible(False)
    return figure

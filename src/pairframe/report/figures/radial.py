"""A profile around the centre of a source: created and destroyed mass, and the displacement, by distance or angle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pairframe.report.style import CREATED_COLOUR, DESTROYED_COLOUR, SMALL_SIZE, SOURCE_COLOUR
from pairframe.units import pretty

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

RADIAL_SIZE_IN = (9.0, 5.0)
LEAST_DISPLACEMENT_PX = 0.05  # the ends of an axis, so that rounding errors do not fill it
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


def radial_figure(
    profile: pd.DataFrame, figure: Figure, *, px_size: float | None = None, is_area: bool = False
) -> Figure:
    """Created and destroyed mass above, displacement below.

    Parameters
    ----------
    profile : DataFrame
        As in ``radial_profile.csv``, of one pair.
    px_size : float, optional
        Side of a pixel in the unit of length, so that displacements far below it are not enlarged.
    is_area : bool
        Whether masses are pixels. With a `px_size`, they are then drawn as areas.
    """
    low_name = next(name for name in _BINS if name in profile.columns and profile[name].notna().any())
    low, high = (profile[name].to_numpy(float) for name in (low_name, low_name.replace("_low_", "_high_")))
    middle, width = 0.5 * (low + high), high - low
    unit = pretty(str(profile["length_unit"].iloc[0]))
    mass, moved = figure.subplots(2, 1, sharex=True)
    per_mass = px_size**2 if is_area and px_size is not None else None
    for name, sign, colour in (("created", 1.0, CREATED_COLOUR), ("destroyed", -1.0, DESTROYED_COLOUR)):
        amount = sign * (per_mass or 1.0) * profile[f"mass_{name}"]
        mass.bar(middle, amount, width, color=colour, label=name if sign > 0 else f"{name} (down)")
    mass.set_ylabel("mass" if per_mass is None else f"area\n{unit}²", fontsize=SMALL_SIZE)
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
    if px_size is not None:
        bottom, top = moved.get_ylim()
        moved.set_ylim(min(bottom, -LEAST_DISPLACEMENT_PX * px_size), max(top, LEAST_DISPLACEMENT_PX * px_size))
    return figure

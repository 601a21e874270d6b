"""Maps of a result: pure functions ``(result, ax) -> ax`` in image coordinates, y down."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pairframe.report.figures.axes import colour_bar, is_flat, title
from pairframe.report.style import (
    COST_MAP,
    CREATED_MAP,
    CROP_COLOUR,
    DESTROYED_MAP,
    SMALL_SIZE,
    SMALLEST_SPEED_PX,
    SOURCE_COLOUR,
    SPEED_MAP,
    TARGET_COLOUR,
    colour_map,
)
from pairframe.report.view import (
    circles,
    full_pixel_mass,
    has_moved,
    in_frame,
    is_area,
    left_share,
    lifted,
    outline,
    show,
    tint,
    top_of,
)
from pairframe.results import TransportResult
from pairframe.results.features import left_mass
from pairframe.results.formatting import in_words, part_of, percent
from pairframe.types import Float

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TOP_COST_SHARE = 0.9  # of the cost lies within the colours: a few pixels have most of it


def pair_overlay(result: TransportResult, ax: Axes) -> Axes:
    """Source and target overlaid, inside their frame."""
    source, target = (lifted(result, mass) for mass in (result.work.mass_source, result.work.mass_target))
    show(result, tint(source, target), ax)
    for spine in ax.spines.values():
        spine.set(color=CROP_COLOUR, linewidth=1.5)
    for a, b, name in ((1, 0, "source"), (0, 1, "target"), (1, 1, "both")):
        ax.fill([], [], color=tint(np.array([[a]]), np.array([[b]]))[0, 0], label=name)
    sides = ((result.work.mass_source, SOURCE_COLOUR), (result.work.mass_target, TARGET_COLOUR))
    marked = [circles(result, mass, ax, colour) for mass, colour in sides]
    if any(marked):
        ax.scatter([], [], s=40, facecolors="none", edgecolors="0.3", label="around tiny ones")
    crop = result.transform.pair_crop_box_yx
    narrow = crop.h > 1.5 * crop.w
    # Beside a narrow frame; under a wide one, below the scale bar.
    ax.legend(
        loc="upper left",
        bbox_to_anchor=(1.0, 1.0) if narrow else (0.0, 0.0),
        ncols=1 if narrow else 4,
        frameon=False,
        fontsize=SMALL_SIZE,
        borderaxespad=0.1 if narrow else 1.3,
        borderpad=0.0,
        columnspacing=1.2,
    )
    return title(ax, "source and target", f"{crop.h} x {crop.w} px at y {crop.y0}, x {crop.x0}")


def created_map(result: TransportResult, ax: Axes) -> Axes:
    """Mass created per canonical pixel, with the outline of the target."""
    ax = _mass_map(result, result.mass_created, CREATED_MAP, ax)
    outline(result, result.work.mass_target, ax)
    return _mass_title(result, ax, "created", result.total_mass_created, "target", result.M_target)


def destroyed_map(result: TransportResult, ax: Axes) -> Axes:
    """Mass destroyed per canonical pixel, with the outline of the source."""
    ax = _mass_map(result, result.mass_destroyed, DESTROYED_MAP, ax)
    outline(result, result.work.mass_source, ax)
    return _mass_title(result, ax, "destroyed", result.total_mass_destroyed, "source", result.M_source)


def speed_map(result: TransportResult, ax: Axes, *, frame_interval_min: float | None = None) -> Axes:
    """Displacement of the source's mass, um; the fainter the less mass moved, blank where unknown.

    The colours end where 98 % of the moved mass is below; the title has the maximum, and the speed if the minutes
    between the frames are given.
    """
    field = in_frame(result, result.field_in_frame)
    speed = np.hypot(field[..., 0], field[..., 1])
    known = np.isfinite(speed)
    share = np.where(known, left_share(result), 0.0)
    top = top_of(speed, lifted(result, left_mass(result)), SMALLEST_SPEED_PX * result.units.px_size)
    # A faint pixel must still look like one.
    alpha = np.where(known, 0.15 + 0.85 * share, 0.0)
    image = show(result, speed, ax, cmap=colour_map(SPEED_MAP), vmin=0.0, vmax=top, alpha=alpha)
    if not known.any():
        outline(result, result.work.mass_source, ax)
        return title(ax, "displacement: nothing moved")
    outline(result, result.work.mass_target, ax)
    unit = result.units.length_text
    most = float(speed[known].max())
    colour_bar(image, ax, unit, goes_on=most > top)
    mean = result.mean_displacement_um
    per_min = "" if frame_interval_min is None else f" ({in_words(mean / frame_interval_min)} {unit}/min)"
    detail = f"{in_words(mean)} {unit} on average{per_min}, {in_words(most)} {unit} at most"
    return title(ax, "displacement of the source", detail)


def cost_source_map(result: TransportResult, ax: Axes) -> Axes:
    """Transport cost at the source pixel: mass times um^2 per canonical pixel."""
    ax = _cost_map(result, result.cost_source, ax)
    outline(result, result.work.mass_source, ax)
    return title(ax, f"{_cost_name(result)}, by start", _cost_words(result))


def cost_target_map(result: TransportResult, ax: Axes) -> Axes:
    """Transport cost at the target pixel: mass times um^2 per canonical pixel."""
    ax = _cost_map(result, result.cost_target, ax)
    outline(result, result.work.mass_target, ax)
    return title(ax, f"{_cost_name(result)}, by end", _cost_words(result))


# --- parts -----------------------------------------------------------------------------------


def _mass_title(result: TransportResult, ax: Axes, verb: str, mass: float, side: str, whole: float) -> Axes:
    if whole == 0:
        return title(ax, f"{verb}: nothing", f"the {side} is empty")
    return title(ax, f"{verb}: {percent(mass, whole)} of the {side}", _amount(result, part_of(mass, whole)))


def _amount(result: TransportResult, mass: float) -> str:
    """A mass with its unit: pixels and um^2 for masks."""
    if not is_area(result):
        return f"{in_words(mass)} mass"
    units = result.units
    area = "" if units.in_px else f" = {in_words(mass * units.px_area)} {units.area_text}"
    return f"{in_words(mass)} px{area}"


def _mass_map(result: TransportResult, mass: Float, colours: tuple[str, tuple[str, ...]], ax: Axes) -> Axes:
    # One scale for created and destroyed: full colour is a full pixel.
    inside = in_frame(result, mass)
    picture = np.where(inside > 0, inside, np.nan)
    full = full_pixel_mass(result)
    image = show(result, picture, ax, cmap=colour_map(colours), vmin=0.0, vmax=full)
    label = "mass per pixel"
    if is_area(result) and not result.units.in_px and not is_flat(ax):
        label += f"\n(1 px = {in_words(result.units.px_area)} {result.units.area_text})"
    colour_bar(image, ax, label)
    return ax


def _cost_map(result: TransportResult, cost: Float, ax: Axes) -> Axes:
    # Mass at rest costs about blur^2, which should look faint.
    blur_cost = full_pixel_mass(result) * result.blur_um**result.scales.power
    sides = (result.cost_source, result.cost_target)
    top = max(top_of(side, side, 4 * blur_cost, TOP_COST_SHARE) for side in sides)
    most = max(float(result.cost_source.max()), float(result.cost_target.max()))
    inside = in_frame(result, cost)
    picture = np.where((inside > 0) & has_moved(result), inside, np.nan)
    image = show(result, picture, ax, cmap=colour_map(COST_MAP), vmin=0.0, vmax=top)
    if not has_moved(result):  # no colour bar without values
        return ax
    colour_bar(image, ax, f"mass × {_cost_unit(result)} per pixel", goes_on=most > top)
    return ax


def _cost_unit(result: TransportResult) -> str:
    unit = result.units.length_text
    return f"{unit}²" if result.scales.power == 2 else unit


def _cost_name(result: TransportResult) -> str:
    return f"transport cost (mass × distance{'²' if result.scales.power == 2 else ''})"


def _cost_words(result: TransportResult) -> str:
    if not has_moved(result):
        return "none: nothing moved"
    return f"{in_words(result.total_transport_cost_um2)} mass × {_cost_unit(result)} in all"

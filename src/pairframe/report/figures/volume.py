"""A volume in one figure: three sections through the middle of what changed, two projections and a profile over depth."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pairframe.report.figures.axes import title
from pairframe.report.figures.headline import headline
from pairframe.report.style import (
    CREATED_COLOUR,
    CREATED_MAP,
    DESTROYED_COLOUR,
    DESTROYED_MAP,
    MOVED_COLOUR,
    SMALL_SIZE,
    SOURCE_COLOUR,
    TARGET_COLOUR,
    colour_map,
    round_length,
)
from pairframe.report.view import compose, mark_unfinished
from pairframe.report.volume import NAMES, Section, changed_centre, section
from pairframe.results import TransportResult
from pairframe.results.formatting import in_words, percent
from pairframe.types import Float

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

N_ARROWS = 12  # along the longer side of a section
FULL_ENOUGH = 0.3  # of a block: emptier ones have no arrow
LEAST_ARROW = 0.25  # of the space between two arrows: shorter ones are magnified
MOST_MAGNIFICATION = 50.0
VOLUME_WIDTH_IN = 14.0
MOST_TICKS = 4  # of a panel along an axis: numbers of um may be long


def volume_size_in(result: TransportResult, width_in: float = VOLUME_WIDTH_IN) -> tuple[float, float]:
    """Width and height in inches of a figure that `volume_figure` fills well."""
    sides = np.array(result.transform.work_shape_hw) * np.array(result.units.px_sides)
    panel_in = width_in / 3 - 0.6
    highest = max(sides[1] / sides[2], sides[0] / sides[2], sides[0] / sides[1])
    top = min(4.6, max(2.4, panel_in * highest))
    bottom = min(4.6, max(2.6, panel_in * sides[1] / sides[2]))
    return width_in, float(top + bottom + 2.4)


def volume_figure(result: TransportResult, figure: Figure) -> Figure:
    """Six panels: sections across z, y and x, created and destroyed mass along z, and the mass of every plane."""
    top, bottom = figure.subplots(2, 3)
    places = changed_centre(result.work)
    full = max(float(result.work.mass_source.max()), float(result.work.mass_target.max()))
    for axis, ax in enumerate(top):
        section_map(result, section(result, axis, places[axis]), ax, full)
    projection_map(result, "created", bottom[0])
    projection_map(result, "destroyed", bottom[1])
    depth_profile(result, bottom[2])
    headline(result, figure)
    return figure


def section_map(result: TransportResult, cut: Section, ax: Axes, full: float) -> Axes:
    """Kept, created and destroyed mass of one section, the outlines of both masks and arrows within it."""
    kept = np.maximum(cut.target - cut.created, 0.0)
    ax.imshow(compose(kept, cut.created, cut.destroyed, full), extent=cut.extent_um, interpolation="nearest")
    for mass, colour in ((cut.source, SOURCE_COLOUR), (cut.target, TARGET_COLOUR)):
        _outline(mass > 0, cut.extent_um, ax, colour)
    note = _arrows(result, cut, ax)
    _frame(result, ax, cut.across)
    name = NAMES[cut.axis]
    return title(ax, f"section at {name} = {in_words(cut.at_um)} {result.units.length_text}", note)


def projection_map(result: TransportResult, kind: str, ax: Axes) -> Axes:
    """Created or destroyed mass, summed along z, in voxels per column, both to one scale."""
    mass = getattr(result.work, f"mass_{kind}").sum(axis=0)
    most = max(float(result.work.mass_created.sum(axis=0).max()), float(result.work.mass_destroyed.sum(axis=0).max()))
    full = result.transform.downsample_factor**2
    cut = section(result, 0, 0)
    colours = colour_map(CREATED_MAP if kind == "created" else DESTROYED_MAP)
    image = ax.imshow(
        mass / full,
        extent=cut.extent_um,
        cmap=colours,
        vmin=0.0,
        vmax=max(most / full, 1.0),
        interpolation="nearest",
    )
    for masks, colour in ((result.work.mass_source, SOURCE_COLOUR), (result.work.mass_target, TARGET_COLOUR)):
        _outline(masks.sum(axis=0) > 0, cut.extent_um, ax, colour)
    ax.figure.colorbar(image, ax=ax, shrink=0.8, label="voxels along z")
    _frame(result, ax, "yx")
    whole = result.M_target if kind == "created" else result.M_source
    part = result.total_mass_created if kind == "created" else result.total_mass_destroyed
    of = "target" if kind == "created" else "source"
    return title(ax, f"{kind}: {percent(part, whole)} of the {of}", "all planes, seen along z")


def depth_profile(result: TransportResult, ax: Axes) -> Axes:
    """Mass of every plane: source and target as lines, created and destroyed as areas."""
    work, units = result.work, result.units
    z_um = _depths_um(result)
    profiles = {
        name: getattr(work, f"mass_{name}").sum(axis=(1, 2)) for name in ("source", "target", "created", "destroyed")
    }
    for name, colour in (("created", CREATED_COLOUR), ("destroyed", DESTROYED_COLOUR)):
        ax.fill_between(z_um, profiles[name], color=colour, alpha=0.6, lw=0, label=name, step="mid")
    for name, colour in (("source", SOURCE_COLOUR), ("target", TARGET_COLOUR)):
        ax.step(z_um, profiles[name], color=colour, where="mid", label=name)
    ax.set_xlabel(f"z ({units.length_text})", fontsize=SMALL_SIZE)
    ax.set_ylabel("mass of a plane (voxels)" if result.config.mass.is_area else "mass of a plane", fontsize=SMALL_SIZE)
    ax.set_ylim(0, 1.45 * max(1e-300, *(float(profile.max()) for profile in profiles.values())))
    ax.tick_params(labelsize=SMALL_SIZE)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.fill_between([], [], color=MOVED_COLOUR, lw=0, label="kept (in the sections)")
    ax.locator_params(nbins=MOST_TICKS, axis="x")
    ax.legend(fontsize=SMALL_SIZE, frameon=False, loc="upper center", ncols=2)
    mark_unfinished(result, ax)
    return title(ax, "over depth")


# --- parts -----------------------------------------------------------------------------------


def _depths_um(result: TransportResult) -> Float:
    transform = result.transform
    points = np.zeros((transform.work_shape_hw[0], 3))
    points[:, 0] = np.arange(len(points)) + 0.5
    depths: Float = transform.work_to_canon_yx(points)[:, 0] * transform.units.px_sides[0]
    return depths


def _outline(mask: np.ndarray, extent_um: tuple[float, float, float, float], ax: Axes, colour: str) -> None:
    """The outline of a mask along its pixel edges."""
    from matplotlib.collections import LineCollection

    padded = np.pad(mask, 1)
    y, x = np.argwhere(padded[1:, 1:-1] != padded[:-1, 1:-1]).T
    level = np.stack([np.stack([x, y], axis=-1), np.stack([x + 1, y], axis=-1)], axis=1)
    y, x = np.argwhere(padded[1:-1, 1:] != padded[1:-1, :-1]).T
    upright = np.stack([np.stack([x, y], axis=-1), np.stack([x, y + 1], axis=-1)], axis=1)
    left, right, bottom, top = extent_um
    scale = np.array([(right - left) / mask.shape[1], (bottom - top) / mask.shape[0]])
    edges = np.concatenate([level, upright]) * scale + np.array([left, top])
    ax.add_collection(LineCollection(list(edges), colors=colour, linewidths=0.9, capstyle="projecting"), autolim=False)


def _arrows(result: TransportResult, cut: Section, ax: Axes) -> str:
    """Mean displacements within the section as arrows, and a remark about their length."""
    left, right, bottom, top = cut.extent_um
    height, width = cut.left.shape
    step_um = max(right - left, bottom - top) / N_ARROWS
    px_down, px_right = (bottom - top) / height, (right - left) / width
    rows, columns = (max(1, round(step_um / px)) for px in (px_down, px_right))
    starts, vectors = [], []
    for y in range(0, height, rows):
        for x in range(0, width, columns):
            block = np.s_[y : y + rows, x : x + columns]
            weight = cut.left[block]
            if not weight.any() or weight.sum() < FULL_ENOUGH * cut.left.max() * rows * columns:
                continue
            flow = np.nan_to_num(cut.velocity_um[block])
            vectors.append((weight[..., None] * flow).sum(axis=(0, 1)) / weight.sum())
            at = np.argwhere(weight > 0).mean(axis=0) + 0.5
            starts.append((top + (y + at[0]) * px_down, left + (x + at[1]) * px_right))
    if not vectors:
        return "nothing moved here"
    starts_um, moved_um = np.array(starts), np.array(vectors)
    lengths = np.hypot(*moved_um.T)
    longest = float(np.quantile(lengths, 0.9))
    if longest < 0.05 * result.units.px_size:
        return "no motion within this section"
    factor = 1.0
    if longest < LEAST_ARROW * step_um:
        factor = min(MOST_MAGNIFICATION, round_length(step_um / longest))
    ax.quiver(
        starts_um[:, 1],
        starts_um[:, 0],
        moved_um[:, 1],
        moved_um[:, 0],
        angles="xy",
        scale_units="xy",
        scale=1 / factor,
        units="inches",
        width=0.014,
        color="black",
        minlength=0.5,
    )
    return "arrows to scale" if factor == 1 else f"arrows {factor:g} times longer"


def _frame(result: TransportResult, ax: Axes, across: str) -> None:
    down, right = across[0], across[1]
    unit = result.units.length_text
    ax.set_xlabel(f"{right} ({unit})", fontsize=SMALL_SIZE)
    ax.set_ylabel(f"{down} ({unit})", fontsize=SMALL_SIZE)
    ax.tick_params(labelsize=SMALL_SIZE)
    ax.set_aspect("equal")
    ax.locator_params(nbins=MOST_TICKS)
    for spine in ax.spines.values():
        spine.set_color("0.6")
    mark_unfinished(result, ax)

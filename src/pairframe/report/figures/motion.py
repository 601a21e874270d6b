"""The whole motion of a pair beside the part of it that pose, or shift, turn and scale, do not explain.

Positions are in um from the first pixel of the source, y down, so that arrows may end on the target's own image.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pairframe.alignment import Similarity
from pairframe.frame import tight_box
from pairframe.report.figures.arrows import arrow_step, magnification, sample_objects
from pairframe.report.figures.axes import colour_bar, title
from pairframe.report.style import (
    CREATED_MAP,
    SMALLEST_SPEED_PX,
    SOURCE_COLOUR,
    TARGET_COLOUR,
    TITLE_SIZE,
    add_scale_bar_below,
    colour_map,
    rgb,
)
from pairframe.report.view import frame_box, full_pixel_mass, has_moved, in_frame, left_share, lifted, mark_unfinished
from pairframe.results import TransportResult
from pairframe.results.features import left_mass
from pairframe.results.formatting import in_words, percent
from pairframe.results.motion_words import PARTS, is_still
from pairframe.results.rows import motion_columns
from pairframe.types import Bool, Float
from pairframe.units import Units

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

MARGIN = 0.04  # of the longer side, around what is drawn
LEAST_SHARE = 0.005  # parts of the motion below it are not named in a title


def whole_motion_arrows(result: TransportResult, ax: Axes) -> Axes:
    """Arrows from the source to the target's own image, with the outline of the target as it was given."""
    outline = [_unmoved(result).of_points(part) for part in _target_outline(result)]
    drawn = _draw_arrows(result, result.velocity_field, outline, ax)
    if drawn is None:
        return title(ax, "whole motion: none", "")
    columns = motion_columns(result) | {"px_size_um": result.units.px_size}
    if is_still(columns):
        return title(ax, "whole motion: none", f"below {SMALLEST_SPEED_PX:g} px")
    named = [(name, columns[column]) for name, column, _ in PARTS if columns[column] >= LEAST_SHARE]
    shares = ", ".join(f"{100 * share:.0f} % {name}" for name, share in sorted(named, key=lambda part: -part[1]))
    size = f"{in_words(columns['motion_rms_um'])} {result.units.length_text}"
    return title(ax, f"the whole motion: {size} ({drawn})", shares)


def deformation_arrows(result: TransportResult, ax: Axes) -> Axes:
    """Arrows of the deformation field, with the outline of the target as the pose (or the fitted motion) moves it back."""
    fit = Similarity() if result.pose is not None or not has_moved(result) else _fitted(result).inverse()
    outline = [fit.of_points(part) for part in _target_outline(result)]
    field = result.deformation_field if has_moved(result) else result.velocity_field
    drawn = _draw_arrows(result, field, outline, ax)
    after = "after the pose" if result.pose is not None else "after the best shift, turn and scale"
    if drawn is None:
        return title(ax, "what is left: nothing", "")
    weight = in_frame(result, _weight(result, field))
    squares = np.where(weight > 0, np.square(in_frame(result, field)).sum(axis=-1), 0.0)
    size = float(np.sqrt((squares * weight).sum() / weight.sum()))
    return title(ax, f"what is left {after}: {in_words(size)} {result.units.length_text}", drawn)


def created_on_target_map(result: TransportResult, ax: Axes) -> Axes:
    """Created mass on the target's own image, with the outline of the target as it was given."""
    pose, created = result.pose, result.mass_created_on_target
    units = result.units if pose is None else Units(pose.px_size_um[1])
    px, (height, width) = units.px_size, created.shape
    outline = [_unmoved(result).of_points(part) for part in _target_outline(result)]
    full = full_pixel_mass(result)
    image = ax.imshow(
        np.where(created > 0, created, np.nan),
        extent=(0.0, width * px, height * px, 0.0),
        interpolation="nearest",
        cmap=colour_map(CREATED_MAP),
        vmin=0.0,
        vmax=full * (1.0 if pose is None else (pose.scale * px / pose.source_canvas.px) ** 2),
    )
    _draw_outline(outline, ax)
    _fit_axes(
        result, [*outline, *_corners_of(created > 0, px)] or [np.array([[0.0, 0.0], [height * px, width * px]])], ax
    )
    colour_bar(image, ax, "mass per pixel")
    if result.M_target == 0:
        return title(ax, "created: nothing", "the target is empty")
    share = percent(result.total_mass_created, result.M_target)
    return title(ax, f"created: {share} of the target", "on the target's own image")


def motion_figure(result: TransportResult, figure: Figure | SubFigure) -> Figure | SubFigure:
    """Three panels: the whole motion, what is left of it, and created mass on the target's own image."""
    for panel, ax in zip(
        (whole_motion_arrows, deformation_arrows, created_on_target_map), figure.subplots(1, 3), strict=True
    ):
        panel(result, ax)
        mark_unfinished(result, ax)
    return figure


def motion_size_in(result: TransportResult, width_in: float = 14.0) -> tuple[float, float]:
    """Width and height in inches of a figure that `motion_figure` fills well."""
    outline = [_unmoved(result).of_points(part) for part in _target_outline(result)]
    points = np.concatenate([*outline, *_source_corners(result)])
    height, width = np.ptp(points, axis=0)
    crop = frame_box(result)
    flattest = max(height / max(width, 1e-300), crop.h / crop.w)
    return width_in, float(np.clip((width_in / 3 - 0.6) * flattest + 1.0, 2.6, 9.0))


def alignment_figure(as_given: TransportResult, aligned: TransportResult, figure: Figure) -> Figure:
    """Two rows of `motion_figure`: a pair compared as given, and the same pair aligned first."""
    unit = as_given.units.length_text
    headings = ("compared as given", "aligned first, after the pose")
    rows: Any = figure.subfigures(2, 1)
    for row, result, words in zip(rows, (as_given, aligned), headings, strict=True):
        motion_figure(result, row)
        moved = f"{words}: mass moves by {in_words(result.mean_displacement_um)} {unit} on average"
        row.suptitle(moved, fontsize=TITLE_SIZE + 2, fontweight="bold")
    return figure


# --- parts -----------------------------------------------------------------------------------


def _draw_arrows(result: TransportResult, field: Float, outline: list[Float], ax: Axes) -> str | None:
    """The source in colour, an outline of the target and arrows; in words, how long the arrows are. None without any."""
    box, px = frame_box(result), result.units.px_size
    top, left = _corner_px(result)
    shade = 1 - 0.35 * (1 - rgb(SOURCE_COLOUR)) * (lifted(result, result.work.mass_source) > 0)[..., None]
    if has_moved(result):
        shade = 1 - 0.35 * (1 - rgb(SOURCE_COLOUR)) * left_share(result)[..., None]
    extent = ((box.x0 - left) * px, (box.x1 - left) * px, (box.y1 - top) * px, (box.y0 - top) * px)
    ax.imshow(shade, extent=extent, interpolation="nearest")
    _draw_outline(outline, ax)
    around = [*outline, *_source_corners(result)]
    if not has_moved(result):
        _fit_axes(result, around, ax)
        return None
    inside = in_frame(result, field) / px
    weight = in_frame(result, _weight(result, field))
    step = arrow_step(weight)
    arrows = sample_objects(inside, weight, step)
    if not (arrows.lengths_px >= SMALLEST_SPEED_PX).any():
        _fit_axes(result, around, ax)
        return f"nothing above {SMALLEST_SPEED_PX:g} px"
    factor = magnification(arrows, step, weight.shape)
    starts = (arrows.starts_yx + 0.5 + np.array([box.y0 - top, box.x0 - left])) * px
    vectors = arrows.vectors_yx * px
    (ys, xs), (dy, dx) = starts.T, vectors.T
    # Width in inches: the same thickness in panels of any size.
    style: dict[str, Any] = {"angles": "xy", "scale_units": "xy", "units": "inches", "width": 0.013, "minlength": 0.5}
    ax.quiver(xs, ys, dx, dy, scale=1 / factor, color="black", **style)
    _fit_axes(result, [*around, starts + factor * vectors], ax)
    return "arrows to scale" if factor == 1 else f"arrows {factor:g} times longer"


def _weight(result: TransportResult, field: Float) -> Float:
    """Mass that moved, (Hc, Wc), where a field (Hc, Wc, 2) is known."""
    weight = np.zeros(field.shape[:2])
    box = frame_box(result)
    weight[box.slices] = lifted(result, left_mass(result))
    weight[~np.isfinite(field[..., 0])] = 0.0
    return weight


def _unmoved(result: TransportResult) -> Similarity:
    """From positions of the moved target to those of its own image."""
    return Similarity() if result.pose is None else result.pose.change.inverse()


def _fitted(result: TransportResult) -> Similarity:
    """Shift, turn and scale of the moved mass."""
    motion = result.motion
    (dy, dx), (y, x) = motion.shift_yx, motion.centre_yx
    return Similarity(motion.turn_deg, (dy, dx), False, motion.scale, (y, x))


def _corner_px(result: TransportResult) -> tuple[int, int]:
    """Row and column of the first pixel of the source on the canvas of the maps."""
    return (0, 0) if result.pose is None else result.pose.source_canvas.origin_yx


def _target_outline(result: TransportResult) -> list[Float]:
    """Outlines (n, 2) of the target as the maps have it, um."""
    from contourpy import contour_generator  # matplotlib brings it

    mass = np.pad(lifted(result, result.work.mass_target), 1)
    if not mass.any():
        return []
    box, top_left = frame_box(result), np.array(_corner_px(result))
    # Between the pixels of a mask; around the light rim of a density as well.
    level = 0.5 * min(full_pixel_mass(result), float(mass[mass > 0].mean()))
    corner = np.array([box.y0, box.x0]) - 0.5 - top_left
    lines = [np.asarray(line)[:, ::-1] for line in contour_generator(z=mass).lines(level)]
    return [(line + corner) * result.units.px_size for line in lines]


def _source_corners(result: TransportResult) -> list[Float]:
    """Corners (2, 2) of the box of the source, um; none if it is empty."""
    box, (top, left) = frame_box(result), _corner_px(result)
    found = _corners_of(lifted(result, result.work.mass_source) > 0, result.units.px_size)
    return [part + np.array([box.y0 - top, box.x0 - left]) * result.units.px_size for part in found]


def _corners_of(inside: Bool, px: float) -> list[Float]:
    box = tight_box(inside)
    return [] if box is None else [np.array([box.lo, box.hi]) * px]


def _draw_outline(outline: list[Float], ax: Axes) -> None:
    for part in outline:
        ax.plot(part[:, 1], part[:, 0], color=TARGET_COLOUR, lw=1.2)


def _fit_axes(result: TransportResult, points: list[Float], ax: Axes) -> None:
    """Show the box of all points (n, 2), with a margin and a scale bar."""
    joined = np.concatenate(points)
    (y0, x0), (y1, x1) = joined.min(axis=0), joined.max(axis=0)
    margin = MARGIN * max(y1 - y0, x1 - x0, result.units.px_size)
    ax.set_xlim(x0 - margin, x1 + margin)
    ax.set_ylim(y1 + margin, y0 - margin)
    ax.set_aspect("equal")
    ax.set_xticks([])
    ax.set_yticks([])
    for spine in ax.spines.values():
        spine.set_color("0.6")
    # Positions are lengths here, not pixels.
    add_scale_bar_below(ax, Units(1.0) if not result.units.in_px else Units(None), (x0 - margin, x1 + margin))

"""Pictures of a result: pure functions ``(result, ax) -> ax`` in image coordinates, y down."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pairframe.engines import Status
from pairframe.frame import BoxYX, tight_box
from pairframe.report.style import (
    COST_MAP,
    CREATED_MAP,
    CROP_COLOUR,
    DESTROYED_MAP,
    SMALL_SIZE,
    SOURCE_COLOUR,
    SPEED_MAP,
    TARGET_COLOUR,
    TITLE_SIZE,
    colour_map,
    in_words,
    minus,
    percent,
    rgb,
    round_length,
)
from pairframe.report.view import (
    circles,
    frame_box,
    full_pixel_mass,
    has_moved,
    in_frame,
    is_area,
    length_word,
    lifted,
    mark_unfinished,
    outline,
    show,
    tint,
)
from pairframe.results import TransportResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

Float = NDArray[np.float64]

N_ARROWS = 14  # along the longer side of what moved
CLOSEST_ARROWS = 1 / 48  # of the frame's longer side: in a small object, arrows are fewer rather than a black heap
FEWEST_ARROWS = 10  # unless the object has no room for them
# Canonical px: the colour scale of a pair that did not move does not zoom into rounding errors.
SMALLEST_SPEED_PX = 0.05
MOST_MAGNIFICATION = 50.0
FLAT = 0.3  # height over width of a frame beside which a colour bar has no room for many words


def pair_overlay(result: TransportResult, ax: Axes) -> Axes:
    """Source and target over each other, inside their frame."""
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
    return _title(ax, "source and target", f"{crop.h} x {crop.w} px at y {crop.y0}, x {crop.x0}")


def created_map(result: TransportResult, ax: Axes) -> Axes:
    """Mass created per canonical pixel, with the target's rim."""
    ax = _mass_map(result, result.mass_created, CREATED_MAP, ax)
    outline(result, result.work.mass_target, ax)
    return _mass_title(result, ax, "created", result.total_mass_created, "target", result.M_target)


def destroyed_map(result: TransportResult, ax: Axes) -> Axes:
    """Mass destroyed per canonical pixel, with the source's rim."""
    ax = _mass_map(result, result.mass_destroyed, DESTROYED_MAP, ax)
    outline(result, result.work.mass_source, ax)
    return _mass_title(result, ax, "destroyed", result.total_mass_destroyed, "source", result.M_source)


def velocity_arrows(result: TransportResult, ax: Axes) -> Axes:
    """Where the source's mass went: arrows where it is known, on the source, with the target's rim.

    Arrows are as long as the way in the picture. When they would be too short to see, all are longer by one factor,
    which the title names. When nothing moved, the source is a rim too.
    """
    left = lifted(result, result.work.mass_source) * has_moved(result)
    show(result, 1 - 0.35 * (1 - rgb(SOURCE_COLOUR)) * (left > 0)[..., None], ax)
    outline(result, result.work.mass_target, ax, TARGET_COLOUR)
    if not has_moved(result):
        outline(result, result.work.mass_source, ax, SOURCE_COLOUR)
        return _title(ax, "moved: nothing")
    field_px = in_frame(result, result.velocity_field) / result.transform.px_size_um
    ys, xs, step = _arrow_grid(np.isfinite(field_px[..., 0]))
    dy, dx = field_px[ys, xs].T
    factor = _magnification(np.hypot(dy, dx), step)
    corner = frame_box(result)
    # A width in inches: panels of any size have arrows of one thickness.
    ax.quiver(
        xs + corner.x0 + 0.5,
        ys + corner.y0 + 0.5,
        dx,
        dy,
        angles="xy",
        scale_units="xy",
        scale=1 / factor,
        units="inches",
        width=0.014,
        color="black",
        minlength=0.5,
    )
    unit = length_word(result)
    scale = "arrows to scale" if factor == 1 else f"arrows {factor:g} times longer"
    return _title(
        ax,
        f"stayed or moved: {percent(result.total_mass_moved, result.M_source)} of the source",
        f"{in_words(result.mean_displacement_um)} {unit} on average; {scale}",
    )


def speed_map(result: TransportResult, ax: Axes) -> Axes:
    """How far the source's mass moved, um/frame; nothing where it is not known."""
    field = in_frame(result, result.velocity_field)
    speed = np.hypot(field[..., 0], field[..., 1])
    known = np.isfinite(speed)
    least = SMALLEST_SPEED_PX * result.transform.px_size_um
    most = max(least, float(speed[known].max())) if known.any() else least
    image = show(result, speed, ax, cmap=colour_map(SPEED_MAP), vmin=0.0, vmax=most)
    if not known.any():
        outline(result, result.work.mass_source, ax)
        return _title(ax, "displacement: nothing moved")
    outline(result, result.work.mass_target, ax)
    unit = length_word(result)
    _colour_bar(image, ax, f"{unit}/frame")
    detail = f"{in_words(float(speed[known].max()))} {unit} at most, {in_words(result.mean_displacement_um)} {unit} on average"
    return _title(ax, "displacement of the source", detail)


def cost_source_map(result: TransportResult, ax: Axes) -> Axes:
    """The transport cost by where it started: mass times um^2 per canonical pixel."""
    ax = _cost_map(result, result.cost_source, ax)
    outline(result, result.work.mass_source, ax)
    return _title(ax, f"{_cost_name(result)}, by start", _cost_words(result))


def cost_target_map(result: TransportResult, ax: Axes) -> Axes:
    """The transport cost by where it ended: mass times um^2 per canonical pixel."""
    ax = _cost_map(result, result.cost_target, ax)
    outline(result, result.work.mass_target, ax)
    return _title(ax, f"{_cost_name(result)}, by end", _cost_words(result))


def convergence_plot(result: TransportResult, ax: Axes) -> Axes:
    """Relative gap and marginal error over work, with the tolerance that both had to reach.

    Work is counted in kernel applications on the work grid; cheaper ones on coarser grids count as their share.
    """
    trace = result.work.trace
    if not trace or result.status in (Status.empty_source, Status.empty_target):
        ax.set_axis_off()
        ax.text(0.5, 0.5, f"no solve: {result.status}", transform=ax.transAxes, ha="center", va="center")
        return _title(ax, "convergence")
    work = np.array([record.work for record in trace])
    size = abs(result.objective)
    gaps = np.array([record.gap for record in trace]) / size if size > 0 else np.full(work.size, np.nan)
    errors = np.array([record.marginal_error for record in trace])
    series = (("relative gap", gaps, SOURCE_COLOUR, "o"), ("marginal error", errors, CROP_COLOUR, "s"))
    for name, values, colour, marker in series:
        # A log axis has no place for 0 and no number for infinity.
        drawn = np.where(np.isfinite(values) & (values > 0), values, np.nan)
        label = f"{name}, 0 at the end" if values[-1] == 0 else name
        ax.plot(work, drawn, color=colour, marker=marker, ms=3.5, lw=1.2, label=label)
    ax.axhline(result.config.tol, color="0.3", lw=1, ls="--", label=minus(f"tolerance {result.config.tol:g}"))
    ax.set_yscale("log")
    ax.set_xlabel("work (kernel applications at full resolution)", fontsize=SMALL_SIZE)
    ax.set_ylabel("error", fontsize=SMALL_SIZE)
    ax.tick_params(labelsize=SMALL_SIZE)
    ax.grid(True, color="0.9", lw=0.6)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize=SMALL_SIZE)
    mark_unfinished(result, ax)
    ends = minus(f"relative gap {result.relative_gap:.1e}, marginal error {result.marginal_error:.1e}")
    return _title(ax, f"{result.status} after {result.iterations} iterations", ends)


# --- parts -----------------------------------------------------------------------------------


def _title(ax: Axes, first: str, second: str = "") -> Axes:
    ax.set_title(f"{first}\n{second}" if second else first, fontsize=TITLE_SIZE, parse_math=False)
    return ax


def _mass_title(result: TransportResult, ax: Axes, verb: str, mass: float, side: str, whole: float) -> Axes:
    if whole == 0:
        return _title(ax, f"{verb}: nothing", f"the {side} is empty")
    return _title(ax, f"{verb}: {percent(mass, whole)} of the {side}", _amount(result, mass))


def _amount(result: TransportResult, mass: float) -> str:
    """A mass in the units that it has: pixels and um^2 for masks."""
    if not is_area(result):
        return f"{in_words(mass)} mass"
    px_size_um = result.transform.px_size_um
    area = "" if length_word(result) == "px" else f" = {in_words(mass * px_size_um**2)} µm²"
    return f"{in_words(mass)} px{area}"


def _mass_map(result: TransportResult, mass: Float, colours: tuple[str, tuple[str, ...]], ax: Axes) -> Axes:
    # One scale for created and destroyed, and no zoom into little: full colour is a whole pixel.
    inside = in_frame(result, mass)
    picture = np.where(inside > 0, inside, np.nan)
    full = full_pixel_mass(result)
    image = show(result, picture, ax, cmap=colour_map(colours), vmin=0.0, vmax=full)
    label = "mass per pixel"
    if is_area(result) and length_word(result) == "µm" and not _is_flat(ax):
        label += f"\n(1 px = {in_words(result.transform.px_area_um2)} µm²)"
    _colour_bar(image, ax, label)
    return ax


def _cost_map(result: TransportResult, cost: Float, ax: Axes) -> Axes:
    # Mass that stays still pays about blur^2: without anything else to pay, that is faint.
    blur_cost = full_pixel_mass(result) * result.blur_um**result.scales.power
    most = max(4 * blur_cost, float(result.cost_source.max()), float(result.cost_target.max()))
    inside = in_frame(result, cost)
    picture = np.where((inside > 0) & has_moved(result), inside, np.nan)
    image = show(result, picture, ax, cmap=colour_map(COST_MAP), vmin=0.0, vmax=most)
    if not has_moved(result):  # a scale of nothing would only be read as something
        return ax
    _colour_bar(image, ax, f"mass × {_cost_unit(result)} per pixel")
    return ax


def _cost_unit(result: TransportResult) -> str:
    unit = length_word(result)
    return f"{unit}²" if result.scales.power == 2 else unit


def _cost_name(result: TransportResult) -> str:
    return f"transport cost (mass × distance{'²' if result.scales.power == 2 else ''})"


def _cost_words(result: TransportResult) -> str:
    if not has_moved(result):
        return "none: nothing moved"
    return f"{in_words(result.total_transport_cost_um2)} mass × {_cost_unit(result)} in all"


def _colour_bar(image: AxesImage, ax: Axes, label: str) -> None:
    """A bar as high as the picture beside it, of one thickness in wide and tall frames."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    (x0, x1), (y1, y0) = ax.get_xlim(), ax.get_ylim()
    thickness = 0.03 * max(1.0, (y1 - y0) / (x1 - x0))
    figure = ax.get_figure()
    assert figure is not None
    bar = figure.colorbar(image, cax=ax.inset_axes((1 + 0.6 * thickness, 0.0, thickness, 1.0)))
    bar.locator = MaxNLocator(2 if _is_flat(ax) else 4)
    bar.formatter = FuncFormatter(lambda value, _: in_words(value))
    bar.update_ticks()
    bar.ax.tick_params(labelsize=SMALL_SIZE)
    bar.set_label(label, fontsize=SMALL_SIZE)


def _is_flat(ax: Axes) -> bool:
    (x0, x1), (y1, y0) = ax.get_xlim(), ax.get_ylim()
    return y1 - y0 < FLAT * (x1 - x0)


def _arrow_grid(known: NDArray[np.bool_]) -> tuple[NDArray[np.intp], NDArray[np.intp], int]:
    """Rows and columns of an even grid over the known pixels (H, W), of which there are some, and its step in px."""
    box = tight_box(known)
    assert box is not None
    least = max(1, round(max(box.h, box.w) / N_ARROWS))
    step = max(least, math.ceil(CLOSEST_ARROWS * max(known.shape)))
    ys, xs = _grid_points(box, step)
    while known[ys, xs].sum() < FEWEST_ARROWS and step > least:
        step = max(least, step // 2)
        ys, xs = _grid_points(box, step)
    on = known[ys, xs]
    if not on.any():  # thin or scattered: the grid may miss all of it
        ys, xs = np.nonzero(known)
        every = max(1, ys.size // N_ARROWS)
        return ys[::every], xs[::every], step
    return ys[on], xs[on], step


def _grid_points(box: BoxYX, step: int) -> NDArray[np.intp]:
    """(2, N) rows and columns of every `step`-th pixel of a box, as far inside it as the step allows."""
    first_y, first_x = box.y0 + min(step, box.h) // 2, box.x0 + min(step, box.w) // 2
    return np.mgrid[first_y : box.y1 : step, first_x : box.x1 : step].reshape(2, -1)


def _magnification(lengths_px: Float, step_px: int) -> float:
    """One factor for all arrows, 1 unless they would be too short to see."""
    longest = float(np.quantile(lengths_px, 0.95))
    if longest < SMALLEST_SPEED_PX or longest >= 0.5 * step_px:
        return 1.0
    return max(1.0, round_length(min(step_px / longest, MOST_MAGNIFICATION)))

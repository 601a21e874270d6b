"""A result inside its frame: arrays are cropped to it, so a small object on a huge canvas is drawn large and fast."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pairframe.engines import Status
from pairframe.frame import Box, BoxYX, GridTransform
from pairframe.report.style import (
    CREATED_COLOUR,
    DESTROYED_COLOUR,
    MOVED_COLOUR,
    SMALL_SIZE,
    SOURCE_COLOUR,
    TARGET_COLOUR,
    WARNING_COLOUR,
    add_scale_bar_below,
    rgb,
)
from pairframe.results import TransportResult
from pairframe.results.features import weighted_quantiles
from pairframe.types import Bool, Float

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

SMALLEST_SEEN = 0.02  # of the frame's longer side: smaller objects get a circle
MOST_CIRCLES = 60  # more would hide the picture
TOP_SHARE = 0.98  # of the weight lies within the colour scale
UNFINISHED = (Status.max_iterations, Status.impossible)


class SeenMaps(Protocol):
    """The work-grid maps that pictures show: (Hw, Ww) masses, and (Hw, Ww, 2) work px, NaN where unknown."""

    @property
    def mass_source(self) -> Float: ...
    @property
    def mass_target(self) -> Float: ...
    @property
    def mass_created(self) -> Float: ...
    @property
    def mass_destroyed(self) -> Float: ...
    @property
    def velocity_px(self) -> Float: ...


class Seen(Protocol):
    """A result, or the part of it that pictures show."""

    @property
    def transform(self) -> GridTransform: ...
    @property
    def work(self) -> SeenMaps: ...


def frame_box(result: Seen) -> Box:
    """The part of the frame that lies on the canvas, canonical px."""
    return result.transform.pair_crop_box_yx.clamp(result.transform.canon_shape_hw)


def in_frame(result: TransportResult, canonical: NDArray[Any]) -> NDArray[Any]:
    """The frame's part (H, W, ...) of a canonical array (Hc, Wc, ...)."""
    return canonical[frame_box(result).slices]


def lifted(result: Seen, mass_work: Float) -> Float:
    """Work-grid mass (Hw, Ww) as mass per canonical pixel inside the frame, (H, W)."""
    return _alone(result).rasterize_to_canon(mass_work)


def lifted_speed(result: Seen) -> Float:
    """Length of the displacement inside the frame, (H, W) in um; NaN where unknown."""
    velocity = _alone(result).rasterize_velocity_to_canon(result.work.velocity_px)
    speed: Float = np.hypot(velocity[..., 0], velocity[..., 1])
    return speed


def left_share(result: Seen) -> Float:
    """Share of the mass of each pixel inside the frame that stayed or moved, (H, W) from 0 to 1; 0 off the source."""
    source = lifted(result, result.work.mass_source)
    left = source - lifted(result, result.work.mass_destroyed)
    share: Float = np.clip(np.divide(left, source, out=np.zeros(source.shape), where=source > 0), 0.0, 1.0)
    return share


def top_of(values: Float, weights: Float, least: float, share: float = TOP_SHARE) -> float:
    """Upper end of a colour scale: a high quantile by weight, so that a few pixels do not turn all others dark."""
    known = np.isfinite(values) & (weights > 0)
    return max(least, weighted_quantiles(values[known], weights[known], (share,))[0]) if known.any() else least


def _alone(result: Seen) -> GridTransform:
    """The frame without the canvas around it."""
    crop = result.transform.pair_crop_box_yx
    return replace(
        result.transform,
        canon_shape_hw=frame_box(result).shape,
        pair_crop_box_yx=BoxYX(0, crop.h, 0, crop.w),
    )


def full_pixel_mass(result: Seen) -> float:
    """The most mass that a canonical pixel holds on either side; 1 for masks."""
    most = max(float(mass.max()) for mass in (result.work.mass_source, result.work.mass_target))
    return most / result.transform.downsample_factor**2


def has_moved(result: TransportResult) -> bool:
    """Whether the displacement of any mass is known."""
    return bool(result.work.velocity_valid.any())


def is_area(result: TransportResult) -> bool:
    """Whether the mass is an area; intensities are not."""
    return result.config.mass.is_area


# --- pictures --------------------------------------------------------------------------------


def tint(mass_a: NDArray[np.generic], mass_b: NDArray[np.generic]) -> Float:
    """White canvas with source and target laid over it, fainter where there is less; (H, W, 3) RGB in 0..1."""
    picture = np.ones((*mass_a.shape, 3))
    for mass, colour in ((mass_b, TARGET_COLOUR), (mass_a, SOURCE_COLOUR)):
        alpha = 0.6 * _strength(np.asarray(mass, dtype=np.float64))[..., None]
        picture = (1 - alpha) * picture + alpha * rgb(colour)
    return picture


def compose(moved: Float, created: Float, destroyed: Float, full: float) -> Float:
    """Kept, new and lost mass in one picture.

    Parameters
    ----------
    moved, created, destroyed : (H, W)
        Mass per pixel.
    full : float
        The mass of a pixel in full colour.

    Returns
    -------
    (H, W, 3) RGB in 0..1: the colours mixed by mass, on white.
    """
    parts = np.stack([moved, created, destroyed], axis=-1)
    total = parts.sum(axis=-1, keepdims=True)
    share = np.divide(parts, total, out=np.zeros_like(parts), where=total > 0)
    colours = np.stack([rgb(colour) for colour in (MOVED_COLOUR, CREATED_COLOUR, DESTROYED_COLOUR)])
    alpha = np.clip(total / full, 0.0, 1.0) if full > 0 else np.zeros_like(total)
    mixed: Float = 1.0 - alpha * (1.0 - share @ colours)
    return mixed


def _strength(mass: Float) -> Float:
    """From 0 to 1 for a full pixel; clipped so that a few very bright pixels do not hide the others."""
    positive = mass[mass > 0]
    if positive.size == 0:
        return np.zeros(mass.shape)
    return np.clip(mass / np.quantile(positive, 0.95, method="lower"), 0.0, 1.0)


def show(result: TransportResult, picture: Float, ax: Axes, **style: Any) -> AxesImage:
    """A picture of the frame, (H, W) or RGB, in canonical coordinates, y down; NaN is shown as nothing."""
    box, crop = frame_box(result), result.transform.pair_crop_box_yx
    image = ax.imshow(picture, extent=(box.x0, box.x1, box.y1, box.y0), interpolation="nearest", **style)
    ax.set_xlim(crop.x0, crop.x1)
    ax.set_ylim(crop.y1, crop.y0)
    ax.set_aspect("equal")
    ax.set_xticks([])
    ax.set_yticks([])
    for spine in ax.spines.values():
        spine.set_color("0.6")
    add_scale_bar_below(ax, result.units, (crop.x0, crop.x1))
    mark_unfinished(result, ax)
    return image


def mark_unfinished(result: TransportResult, ax: Axes) -> None:
    """Mark a panel of an answer that did not converge."""
    if result.status in UNFINISHED:
        ax.text(
            0.02,
            0.97,
            f"not converged: {result.status}",
            transform=ax.transAxes,
            ha="left",
            va="top",
            fontsize=SMALL_SIZE,
            fontweight="bold",
            color="white",
            bbox={"facecolor": WARNING_COLOUR, "edgecolor": "none", "pad": 2.0},
        )


def outline(result: TransportResult, mass_work: Float, ax: Axes, colour: str = "0.55") -> None:
    """The outline of a mask along its pixel edges, and `circles`; (Hw, Ww) work-grid mass."""
    from matplotlib.collections import LineCollection

    circles(result, mass_work, ax, colour)

    mask = np.pad(lifted(result, mass_work) > 0, 1)  # also an edge where the mask meets the frame
    corner = frame_box(result)
    y, x = np.argwhere(mask[1:, 1:-1] != mask[:-1, 1:-1]).T  # between a row and the next one
    level = np.stack([np.stack([x, y], axis=-1), np.stack([x + 1, y], axis=-1)], axis=1)
    y, x = np.argwhere(mask[1:-1, 1:] != mask[1:-1, :-1]).T
    upright = np.stack([np.stack([x, y], axis=-1), np.stack([x, y + 1], axis=-1)], axis=1)
    edges = np.concatenate([level, upright]) + np.array([corner.x0, corner.y0])
    ax.add_collection(LineCollection(list(edges), colors=colour, linewidths=0.8, capstyle="projecting"), autolim=False)


def circles(result: TransportResult, mass_work: Float, ax: Axes, colour: str = "0.55") -> bool:
    """Circle the objects of a mask that are too small to see; return whether there are any."""
    centres_yx = specks(lifted(result, mass_work) > 0, SMALLEST_SEEN * max(result.transform.pair_crop_box_yx.shape))
    if not 0 < len(centres_yx) <= MOST_CIRCLES:
        return False
    corner = frame_box(result)
    y, x = (centres_yx + np.array([corner.y0, corner.x0])).T
    ax.scatter(x, y, s=70, facecolors="none", edgecolors=colour, linewidths=1.0, clip_on=False)
    return True


def specks(mask: Bool, smallest_px: float) -> Float:
    """(N, 2) centres, y and x in px, of the connected parts of a mask (H, W) whose longer side is below `smallest_px`."""
    from scipy import ndimage

    labels, _ = ndimage.label(mask, structure=np.ones((3, 3)))
    sides = [[(part.start, part.stop) for part in box] for box in ndimage.find_objects(labels)]
    small = [box for box in sides if max(stop - start for start, stop in box) < smallest_px]
    middles: Float = np.array(small, dtype=np.float64).reshape(-1, 2, 2).mean(axis=2)
    return middles

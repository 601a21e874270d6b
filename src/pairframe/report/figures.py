"""Pictures of frames and results: pure functions, colour-blind safe, in image coordinates, scale bars in um."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pairframe.frame import BoxYX, GridTransform, tight_box
from pairframe.results import TransportResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

# Okabe and Ito's palette: told apart by (nearly) everybody.
SOURCE_COLOUR = "#0072B2"
TARGET_COLOUR = "#E69F00"
CROP_COLOUR = "#D55E00"
BUCKET_COLOUR = "#009E73"
MAX_GRID_LINES = 160
CREATED_MAP, DESTROYED_MAP, SPEED_MAP = "YlGn", "OrRd", "viridis"
N_ARROWS = 14  # along the longer side of what moved


def frame_overview(
    transform: GridTransform, mask_a: NDArray[np.generic], mask_b: NDArray[np.generic], ax: Axes
) -> Axes:
    """Both masks on the canvas, the crop, the work grid, and the bucket where there is one.

    Parameters
    ----------
    transform : GridTransform
        The pair's frame.
    mask_a, mask_b : (Hc, Wc)
        Source and target; positive pixels are drawn.
    """
    h, w = transform.canon_shape_hw
    ax.imshow(_tint(mask_a, mask_b), extent=(0, w, h, 0), interpolation="nearest")
    crop, s = transform.pair_crop_box_yx, transform.downsample_factor
    _draw_work_grid(ax, crop, s)
    _draw_box(ax, crop, CROP_COLOUR, "pair crop")
    bottom, right = max(h, crop.y1), max(w, crop.x1)
    if transform.work_shape_hw != transform.work_valid_box_yx.shape_hw:
        hw, ww = transform.work_shape_hw
        y0, x0 = transform.work_to_canon_yx((0, 0))
        bucket = BoxYX(y0, y0 + hw * s, x0, x0 + ww * s)
        _draw_box(ax, bucket, BUCKET_COLOUR, f"bucket {hw} x {ww}", linestyle="--")
        bottom, right = max(bottom, bucket.y1), max(right, bucket.x1)
    ax.plot([0, w, w, 0, 0], [0, 0, h, h, 0], color="0.4", lw=1, label="canvas")
    margin = 0.02 * max(bottom, right)
    ax.set_xlim(-margin, right + margin)
    ax.set_ylim(bottom + margin, -margin)
    ax.set_aspect("equal")
    for colour, name in ((SOURCE_COLOUR, "source"), (TARGET_COLOUR, "target")):
        ax.fill([], [], color=colour, alpha=0.6, label=name)
    ax.set_xlabel("x (canonical pixels)")
    ax.set_ylabel("y (canonical pixels)")
    ax.set_title(
        f"pair frame: crop {crop.h} x {crop.w} px, s = {s}, "
        f"work grid {transform.work_valid_box_yx.h} x {transform.work_valid_box_yx.w} of {transform.work_px_size_um:g} µm"
    )
    add_scale_bar(ax, transform.px_size_um, transform.canon_shape_hw)
    ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False)
    return ax


def result_overview(result: TransportResult, figure: Figure) -> Figure:
    """Four panels: the pair, where mass was created and destroyed, and how the rest moved."""
    panels = (pair_overlay, velocity_arrows, created_map, destroyed_map)
    for panel, ax in zip(panels, figure.subplots(2, 2).ravel(), strict=True):
        panel(result, ax)
    figure.suptitle(
        f"moved {result.total_mass_moved:.4g}, created {result.total_mass_created:.4g}, "
        f"destroyed {result.total_mass_destroyed:.4g} px of mass; blur {result.blur_um:.3g} µm, reach {result.reach_um:.3g} µm"
    )
    return figure


def pair_overlay(result: TransportResult, ax: Axes) -> Axes:
    """Source and target over each other, inside their frame."""
    source, target = (
        result.transform.rasterize_to_canon(mass) for mass in (result.work.mass_source, result.work.mass_target)
    )
    _show(result, _tint(source, target), ax)
    for colour, name in ((SOURCE_COLOUR, "source"), (TARGET_COLOUR, "target")):
        ax.fill([], [], color=colour, alpha=0.6, label=name)
    ax.legend(loc="upper right", frameon=False, ncols=2)
    ax.set_title("source and target")
    return ax


def created_map(result: TransportResult, ax: Axes) -> Axes:
    """Mass created per canonical pixel."""
    return _mass_map(result, result.mass_created, CREATED_MAP, "created", ax)


def destroyed_map(result: TransportResult, ax: Axes) -> Axes:
    """Mass destroyed per canonical pixel."""
    return _mass_map(result, result.mass_destroyed, DESTROYED_MAP, "destroyed", ax)


def velocity_arrows(result: TransportResult, ax: Axes) -> Axes:
    """Displacement on the source, where it is known: colour for length, arrows for direction (true to scale)."""
    field = result.velocity_field
    speed = np.hypot(field[..., 0], field[..., 1])
    image = _show(result, speed, ax, cmap=SPEED_MAP, vmin=0.0)
    ax.figure.colorbar(image, ax=ax, shrink=0.8, label="µm/frame")
    _outline(result, ax)
    known = np.isfinite(speed)
    box = tight_box(known)
    if box is None:
        ax.set_title("moved: nothing")
        return ax
    step = max(1, max(box.h, box.w) // N_ARROWS)
    ys, xs = np.mgrid[box.y0 + step // 2 : box.y1 : step, box.x0 + step // 2 : box.x1 : step]
    ys, xs = ys[known[ys, xs]], xs[known[ys, xs]]
    dy, dx = field[ys, xs].T / result.transform.px_size_um
    ax.quiver(xs + 0.5, ys + 0.5, dx, dy, angles="xy", scale_units="xy", scale=1.0, color="black", width=0.0022)
    ax.set_title(f"moved: {result.total_mass_moved:.4g} px, {result.mean_displacement_um:.3g} µm on average")
    return ax


def _outline(result: TransportResult, ax: Axes) -> None:
    """The target's rim, thin and grey: where the arrows lead."""
    target = result.transform.rasterize_to_canon(result.work.mass_target) > 0
    ys, xs = (np.arange(n) + 0.5 for n in target.shape)
    if target.any() and not target.all() and min(target.shape) > 1:
        ax.contour(xs, ys, target, levels=[0.5], colors="0.6", linewidths=0.8)


def _mass_map(result: TransportResult, mass: NDArray[np.float64], cmap: str, name: str, ax: Axes) -> Axes:
    per_pixel = max(float(m.max()) for m in (result.work.mass_source, result.work.mass_target))
    most = per_pixel / result.transform.downsample_factor**2  # one scale for both maps: full colour is a whole pixel
    image = _show(result, np.where(mass > 0, mass, np.nan), ax, cmap=cmap, vmin=0.0, vmax=most)
    ax.figure.colorbar(image, ax=ax, shrink=0.8, label="mass per pixel")
    total = float(mass.sum())
    ax.set_title(f"{name}: {total:.4g} px, {total * result.transform.px_area_um2:.4g} µm²")
    return ax


def _show(result: TransportResult, picture: NDArray[np.float64], ax: Axes, **style: Any) -> AxesImage:
    """A canonical image, (Hc, Wc) or RGB, seen through the pair's frame; NaN is shown as nothing."""
    h, w = result.transform.canon_shape_hw
    image = ax.imshow(picture, extent=(0, w, h, 0), interpolation="nearest", **style)
    crop = result.transform.pair_crop_box_yx
    ax.set_xlim(crop.x0, crop.x1)
    ax.set_ylim(crop.y1, crop.y0)
    ax.set_xticks([])
    ax.set_yticks([])
    add_scale_bar(ax, result.transform.px_size_um, crop.shape_hw, (crop.y0, crop.x0))
    return image


def add_scale_bar(
    ax: Axes, px_size_um: float, shape_hw: tuple[int, int], corner_yx: tuple[float, float] = (0.0, 0.0)
) -> Axes:
    """A bar of a round length in um (1, 2 or 5 times a power of ten), about a fifth of the width of what is seen."""
    h, w = shape_hw
    target_um = 0.2 * w * px_size_um
    power = 10.0 ** np.floor(np.log10(target_um))
    length_um = power * max(m for m in (1, 2, 5) if m * power <= target_um)
    length_px = length_um / px_size_um
    x1, y = corner_yx[1] + 0.97 * w, corner_yx[0] + 0.95 * h
    ax.plot([x1 - length_px, x1], [y, y], color="black", lw=3, solid_capstyle="butt")
    ax.annotate(
        f"{length_um:g} µm",
        (x1 - length_px / 2, y),
        xytext=(0, 3),
        textcoords="offset points",
        ha="center",
        va="bottom",
    )
    return ax


def _tint(mask_a: NDArray[np.generic], mask_b: NDArray[np.generic]) -> NDArray[np.float64]:
    """White canvas with both masks laid over it; (H, W, 3) RGB in 0..1."""
    from matplotlib.colors import to_rgb

    picture = np.ones((*mask_a.shape, 3))
    for mask, colour in ((mask_b, TARGET_COLOUR), (mask_a, SOURCE_COLOUR)):
        on = np.asarray(mask) > 0
        picture[on] = 0.4 * picture[on] + 0.6 * np.array(to_rgb(colour))
    return picture


def _draw_box(ax: Axes, box: BoxYX, colour: str, label: str, linestyle: str = "-") -> None:
    ys, xs = [box.y0, box.y0, box.y1, box.y1, box.y0], [box.x0, box.x1, box.x1, box.x0, box.x0]
    ax.plot(xs, ys, color=colour, lw=2, linestyle=linestyle, label=label)


def _draw_work_grid(ax: Axes, crop: BoxYX, s: int) -> None:
    """The work pixels' edges; every k-th only when they would turn into a grey sheet."""
    every = s * max(1, -(-max(crop.h, crop.w) // (s * MAX_GRID_LINES)))
    ys, xs = np.arange(crop.y0, crop.y1 + 1, every), np.arange(crop.x0, crop.x1 + 1, every)
    label = "work grid" if every == s else f"work grid (every {every // s}th line)"
    ax.hlines(ys, crop.x0, crop.x1, color="0.35", lw=0.3, label=label)
    ax.vlines(xs, crop.y0, crop.y1, color="0.35", lw=0.3)

"""What the pictures of the concepts share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from pairframe import TransportResult


def ink(*layers: tuple[ArrayLike, str]) -> NDArray[np.float64]:
    """(H, W, 3) in 0..1: mass from 0 to 1 per pixel as ink of a ``#RRGGBB`` colour on white paper."""
    page: NDArray[np.float64] = np.ones(())
    for mass, colour in layers:
        rgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
        page = page * (1 - np.clip(np.asarray(mass, dtype=float), 0, 1)[..., None] * (1 - rgb) * 0.8)
    return page


def picture(ax: Axes, image: NDArray[np.float64], title: str) -> None:
    """An image without axes, with a thin frame and its title."""
    ax.imshow(image, interpolation="nearest")
    ax.set(xticks=[], yticks=[])
    ax.set_title(title, fontsize=9)


def rims(ax: Axes, *masks: ArrayLike) -> None:
    """The outlines of masks, thin and grey."""
    for mask in masks:
        ax.contour(np.asarray(mask, dtype=float), levels=[0.5], colors="0.6", linewidths=0.6)


def arrows(ax: Axes, source: ArrayLike, result: TransportResult, step_px: int) -> None:
    """The displacement as arrows in their true length, one every `step_px` pixels of the source
    where most of the mass moved, and by a pixel or more."""
    on = result.velocity_valid & (np.asarray(source) > result.mass_destroyed + 0.5)
    for y, x in np.argwhere(on):
        if y % step_px == x % step_px == step_px // 2:
            dy, dx = result.velocity_field[y, x] / result.units.px_size
            if np.hypot(dy, dx) >= 1.0:
                ax.annotate(
                    "", (x + dx, y + dy), (x, y), arrowprops={"arrowstyle": "->", "lw": 0.9, "shrinkA": 0, "shrinkB": 0}
                )


def put_up(figure: Figure, name: str) -> None:
    """Write it beside the caller, without a date in it: the same picture gives the same file."""
    figure.savefig(name, dpi=100, metadata={"Software": None})

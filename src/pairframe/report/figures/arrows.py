"""Where the mass of the source went, as arrows that sample its objects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pairframe.frame import tight_box
from pairframe.masks.pieces import label_pieces
from pairframe.report.figures.axes import title
from pairframe.report.style import SMALLEST_SPEED_PX, SOURCE_COLOUR, TARGET_COLOUR, rgb, round_length
from pairframe.report.view import frame_box, has_moved, in_frame, left_share, lifted, outline, show
from pairframe.results import TransportResult
from pairframe.results.features import left_mass, weighted_quantiles
from pairframe.results.formatting import in_words, percent
from pairframe.types import Float, Index

if TYPE_CHECKING:
    from matplotlib.axes import Axes

N_ARROWS = 14  # along the longer side of the moved mass
CLOSEST_ARROWS = 1 / 40  # of the frame's longer side: a small object has fewer arrows so that they do not overlap
CLOSEST_STEP = 0.85  # of the step between two arrows of one object
FULL_ENOUGH = 0.3  # of the heaviest cell of an object: lighter cells have no arrow
MOST_ARROWS = 400
TYPICAL = 0.9  # quantile of the lengths, by mass, that fills the space between two arrows
LONGEST_ARROW = 0.12  # of the frame's longer side, when arrows are magnified
MOST_MAGNIFICATION = 50.0


@dataclass(frozen=True, eq=False)
class Arrows:
    """Arrows on an image: starts (n, 2) and mean displacements (n, 2), y and x in px, and the mass (n,) each stands for."""

    starts_yx: Float
    vectors_yx: Float
    mass: Float

    @property
    def lengths_px(self) -> Float:
        """(n,)."""
        lengths: Float = np.hypot(*self.vectors_yx.T)
        return lengths


def velocity_arrows(result: TransportResult, ax: Axes) -> Axes:
    """Displacement of the source's mass as arrows, with the outline of the target.

    Each object has at least one arrow, a large one has several; an arrow is the mean over the mass around it. Arrows are drawn to
    scale. If they would be too short to see, all are longer by one factor, which the title states. If nothing moved, the
    source is an outline too.
    """
    share = left_share(result) * has_moved(result)
    show(result, 1 - 0.35 * (1 - rgb(SOURCE_COLOUR)) * share[..., None], ax)
    outline(result, result.work.mass_target, ax, TARGET_COLOUR)
    if not has_moved(result):
        outline(result, result.work.mass_source, ax, SOURCE_COLOUR)
        return title(ax, "moved: nothing")
    field_px = in_frame(result, result.field_in_frame) / result.units.px_size
    weight = np.where(np.isfinite(field_px[..., 0]), lifted(result, left_mass(result)), 0.0)
    moved, unit = percent(result.total_mass_moved, result.M_source), result.units.length_text
    step = arrow_step(weight)
    arrows = sample_objects(field_px, weight, step)
    if not (arrows.lengths_px >= SMALLEST_SPEED_PX).any():
        return title(ax, f"stayed: {moved} of the source", f"no motion above {SMALLEST_SPEED_PX:g} px")
    factor = magnification(arrows, step, weight.shape)
    corner = frame_box(result)
    (ys, xs), (dy, dx) = arrows.starts_yx.T, arrows.vectors_yx.T
    # Width in inches: the same thickness in panels of any size.
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
    scale = "arrows to scale" if factor == 1 else f"arrows {factor:g} times longer"
    return title(
        ax,
        f"stayed or moved: {moved} of the source",
        f"{in_words(result.mean_displacement_um)} {unit} on average; {scale}",
    )


def sample_objects(field_px: Float, weight: Float, step_px: float) -> Arrows:
    """Arrows for every connected piece of the moved mass, about `step_px` apart.

    Parameters
    ----------
    field_px : (H, W, 2)
        Displacement; not used where `weight` is 0.
    weight : (H, W)
        Mass that moved, positive somewhere.
    """
    pieces, _ = label_pieces(weight > 0)
    places = np.argwhere(weight > 0)
    mass, of = weight[weight > 0], pieces[weight > 0].astype(np.int64) - 1
    cell = _cells(places, of, step_px)
    total = np.bincount(cell, mass).astype(np.float64)
    weighed = mass[:, None] * np.concatenate([places, field_px[weight > 0]], axis=1)
    means = np.stack([np.bincount(cell, column) for column in weighed.T], axis=1) / total[:, None]
    starts = _nearest(places, cell, means[:, :2])
    piece = np.zeros(total.size, np.int64)
    piece[cell] = of
    heaviest = np.zeros(int(of.max()) + 1)
    np.maximum.at(heaviest, piece, total)
    stays = np.flatnonzero(total >= FULL_ENOUGH * heaviest[piece])
    stays = stays[np.argsort(-total[stays], kind="stable")][:MOST_ARROWS]
    stays = stays[_apart(starts[stays], piece[stays], CLOSEST_STEP * step_px)]
    return Arrows(starts[stays].astype(np.float64), means[stays, 2:], total[stays])


def magnification(arrows: Arrows, step_px: float, shape_hw: tuple[int, ...]) -> float:
    """One factor for all arrows: 1 unless they would be too short to see, and no more than fits into the picture (H, W)."""
    lengths = arrows.lengths_px
    (typical,) = weighted_quantiles(lengths, arrows.mass, (TYPICAL,))
    typical = max(typical, SMALLEST_SPEED_PX)
    if typical >= 0.5 * step_px:
        return 1.0
    side = np.array(shape_hw, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        # How much longer each arrow may be before its tip leaves the picture.
        room = np.where(arrows.vectors_yx > 0, side - arrows.starts_yx, arrows.starts_yx) / np.abs(arrows.vectors_yx)
    fits = min(float(np.nanmin(room)), LONGEST_ARROW * float(side.max()) / float(lengths.max()))
    wanted = min(step_px / typical, fits, MOST_MAGNIFICATION)
    return max(1.0, round_length(wanted)) if wanted > 1 else 1.0


def arrow_step(weight: Float) -> float:
    """Pixels from one arrow to the next."""
    box = tight_box(weight)
    assert box is not None
    return float(max(1.0, max(box.shape) / N_ARROWS, CLOSEST_ARROWS * max(weight.shape)))


def _cells(places: Index, of: NDArray[np.int64], step_px: float) -> Index:
    """(N,) number of the cell in which each pixel lies; the box of every piece is divided evenly, so a small one is one cell."""
    n_pieces = int(of.max()) + 1
    key = of
    for along in places.T:
        low, high = np.full(n_pieces, np.iinfo(np.int64).max), np.zeros(n_pieces, np.int64)
        np.minimum.at(low, of, along)
        np.maximum.at(high, of, along)
        side = high - low + 1
        n_cells = np.maximum(1, np.rint(side / step_px).astype(np.int64))
        index = (along - low[of]) * n_cells[of] // side[of]
        key = key * int(n_cells.max()) + index
    return np.unique(key, return_inverse=True)[1]


def _apart(starts: Index, piece: NDArray[np.int64], least_px: float) -> Index:
    """Indices of the starts (n, 2) that are not too close to an earlier one of the same piece (n,)."""
    stays: list[int] = []
    for number, start in enumerate(starts):
        near = [other for other in stays if piece[other] == piece[number]]
        if not near or np.square(starts[near] - start).sum(axis=1).min() >= least_px**2:
            stays.append(number)
    return np.array(stays, np.int64)


def _nearest(places: Index, cell: Index, middles: Float) -> Index:
    """(n, 2): the pixel of each cell that is nearest to its centre of mass, so that an arrow of a ring starts on the ring."""
    distance = np.square(places - middles[cell]).sum(axis=1)
    order = np.lexsort((distance, cell))
    first = np.unique(cell[order], return_index=True)[1]
    return places[order[first]]

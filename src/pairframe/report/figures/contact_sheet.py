"""Contact sheet of aligned masks: small pictures of all of them over the outline of the reference, in one figure."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pairframe.frame import BoxYX
from pairframe.masks import Mask
from pairframe.report.images import resized, to_image
from pairframe.report.style import SOURCE_COLOUR, WARNING_COLOUR, new_figure, rgb
from pairframe.types import Bool, Float

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TILE_PX = 176  # longer side of a picture
MOST_TILES = 600  # in one figure
_OUTLINE = rgb("#1B2126")
_FILL = rgb("#56B4E9")
_CAPTION_LINES = 4


@dataclass(frozen=True, eq=False)
class Tile:
    """One mask on the sheet.

    Attributes
    ----------
    name : str
    picture : (h, w, 3) or None
        RGB in 0..1; None if there is no mask.
    reason : str
        Why one should look at it; empty for a mask without flags.
    """

    name: str
    picture: Float | None
    reason: str = ""


def mask_picture(mask: Mask | None, reference: Mask, box: BoxYX | None = None, side_px: int = TILE_PX) -> Float:
    """A mask in light blue under the outline of the reference, (h, w, 3) in 0..1; the longer side has `side_px` pixels.

    Parameters
    ----------
    mask, reference : Mask
        On one canvas.
    box : BoxYX, optional
        Part of the canvas that is shown.
    """
    part = np.s_[:, :] if box is None else box.slices
    still = np.asarray(reference.values, dtype=np.float32)[part]
    zoom = side_px / max(still.shape)
    size_wh = (max(1, round(still.shape[1] * zoom)), max(1, round(still.shape[0] * zoom)))
    picture: Float = np.ones((size_wh[1], size_wh[0], 3))
    if mask is not None:
        share = _resized(np.asarray(mask.values, dtype=np.float32)[part], size_wh)
        picture += share[..., None] * (_FILL - 1)
    picture[_outline(_resized(still, size_wh) >= 0.5)] = _OUTLINE
    return picture


def png_of(picture: Float) -> bytes:
    """A picture as a PNG of few colours."""
    from PIL import Image

    content = io.BytesIO()
    to_image(picture).quantize(16, dither=Image.Dither.NONE).save(content, format="PNG", optimize=True)
    return content.getvalue()


def contact_sheet(sections: Sequence[tuple[str, Sequence[Tile]]], columns: int = 8) -> Figure:
    """All tiles by section, in rows.

    Parameters
    ----------
    sections : sequence of (heading, tiles)
    columns : int
        Tiles in a row.
    """
    shapes = [tile.picture.shape for _, tiles in sections for tile in tiles if tile.picture is not None]
    tile_h, tile_w = (shapes[0][0], shapes[0][1]) if shapes else (TILE_PX // 2, TILE_PX)
    unit = tile_w / 1.7  # pixels of a tile per inch of the figure
    caption = {True: 0.16 * (1 + _CAPTION_LINES) * unit, False: 0.2 * unit}
    gap, heading_h = 0.08 * unit, 0.42 * unit
    places: list[tuple[float, float, Tile]] = []
    headings: list[tuple[float, str]] = []
    y = 0.0
    for heading, tiles in sections:
        headings.append((y + 0.7 * heading_h, heading))
        y += heading_h
        for first in range(0, len(tiles), columns):
            row = tiles[first : first + columns]
            places += [(y, k * (tile_w + gap), tile) for k, tile in enumerate(row)]
            y += tile_h + caption[any(tile.reason for tile in row)] + gap
    width = columns * (tile_w + gap)
    figure = new_figure(width / unit + 0.2, max(y, 1.0) / unit + 0.2)
    ax = figure.subplots()
    ax.set(xlim=(-gap, width), ylim=(y, 0), aspect="equal")
    ax.axis("off")
    for at, heading in headings:
        ax.text(0, at, heading, fontsize=11, fontweight="bold", va="center", parse_math=False)
    for top, left, tile in places:
        _draw(ax, top, left, tile, (tile_h, tile_w), unit)
    return figure


def _draw(ax: Axes, top: float, left: float, tile: Tile, shape_hw: tuple[int, int], unit: float) -> None:
    from matplotlib.patches import Rectangle

    height, width = shape_hw
    if tile.picture is not None:
        ax.imshow(tile.picture, extent=(left, left + width, top + height, top), interpolation="nearest", aspect="auto")
    colour = WARNING_COLOUR if tile.reason else "#B8BFC6"
    ax.add_patch(Rectangle((left, top), width, height, fill=False, ec=colour, lw=1.4 if tile.reason else 0.6))
    if tile.picture is None:
        ax.text(left + width / 2, top + height / 2, "no mask", ha="center", va="center", fontsize=8, color=colour)
    name = tile.name if len(tile.name) <= 30 else f"{tile.name[:29]}…"
    below = top + height + 0.03 * unit
    ax.text(left, below, name, fontsize=7, va="top", color=SOURCE_COLOUR, parse_math=False)
    if tile.reason:
        lines = textwrap.wrap(tile.reason, 38)
        lines = (
            lines
            if len(lines) <= _CAPTION_LINES
            else [*lines[: _CAPTION_LINES - 1], f"{lines[_CAPTION_LINES - 1][:36]}…"]
        )
        ax.text(
            left, below + 0.15 * unit, "\n".join(lines), fontsize=6, va="top", color=WARNING_COLOUR, parse_math=False
        )


def _resized(values: NDArray[np.float32], size_wh: tuple[int, int]) -> Float:
    from PIL import Image

    return np.clip(np.asarray(resized(Image.fromarray(values), size_wh), dtype=np.float64), 0.0, 1.0)


def _outline(inside: Bool) -> Bool:
    from scipy import ndimage

    return np.asarray(inside & ~ndimage.binary_erosion(inside))

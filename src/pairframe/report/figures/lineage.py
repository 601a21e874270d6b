"""A lineage as a movie: every track in its own colour, daughters in shades of their mother's."""

from __future__ import annotations

import colorsys
import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pairframe import files
from pairframe.errors import OutputError
from pairframe.frame import tight_box
from pairframe.regions import Lineage
from pairframe.report.figures.movie import CAPTION_PX, LONG_SIDE_PX, NARROWEST_PX, font, one_palette, save_movie
from pairframe.report.images import fitted, to_image
from pairframe.report.style import round_length
from pairframe.types import Bool, Float

if TYPE_CHECKING:
    from PIL import Image

FRAME_MS = 450
_MARGIN = 0.05  # of the longer side of the objects, around them
_SISTERS = 0.04  # of the colour circle, between a mother and her daughters
_HUES = 120  # hues that an eye tells apart side by side
_GOLDEN = 0.618034  # steps of this share of the colour circle give neighbours different colours


def write_lineage_movie(lineage: Lineage, path: str | os.PathLike[str]) -> Path:
    """Write a GIF with one picture per frame. Objects without a parent that appear later have a white rim."""
    path = files.checked_path(path, OutputError)
    if path.suffix.lower() != ".gif":
        raise OutputError("a movie file ending in .gif", repr(path.name), "e.g. lineage.gif")
    pictures = one_palette([_picture(lineage, frame, image) for frame, image in enumerate(_cropped(lineage))])
    return save_movie(pictures, path, "GIF", [FRAME_MS] * len(pictures))


def _cropped(lineage: Lineage) -> list[NDArray[np.integer]]:
    """The frames with tracks instead of labels, without the border that is empty in all of them."""
    images = lineage.track_images()
    box = tight_box(np.max(images, axis=0))
    if box is None:
        return images
    margin = max(4, round(_MARGIN * max(side.stop - side.start for side in box.slices)))
    inside = tuple(slice(max(0, side.start - margin), side.stop + margin) for side in box.slices)
    return [image[inside] for image in images]


def track_colours(lineage: Lineage) -> Float:
    """(n_tracks + 1, 3) RGB in 0..1, by track; the first is the background."""
    tracks = lineage.tracks
    hue = np.zeros(len(tracks) + 1)
    light = np.full(len(tracks) + 1, 0.55)
    n_families, n_daughters = 0, np.zeros(len(tracks) + 1, dtype=int)
    used: set[tuple[int, int]] = set()
    for track, parent in zip(tracks["track"].tolist(), tracks["parent_track"].tolist(), strict=True):
        if parent:
            is_odd = n_daughters[parent] % 2
            n_daughters[parent] += 1
            hue[track] = hue[parent] + (_SISTERS if is_odd else -_SISTERS)
            light[track] = 0.42 if is_odd else 0.68
        else:
            hue[track] = n_families * _GOLDEN
            n_families += 1
        while (key := (round(hue[track] % 1.0 * _HUES), round(100 * light[track]))) in used and len(used) < _HUES:
            hue[track] += 1.0 / _HUES  # taken by a cousin
        used.add(key)
    colours = [colorsys.hls_to_rgb(h % 1.0, x, 0.65) for h, x in zip(hue, light, strict=True)]
    found: Float = np.array(colours)
    found[0] = 0.08
    return found


def _picture(lineage: Lineage, frame: int, tracks: NDArray[np.integer]) -> Image.Image:
    from PIL import Image, ImageDraw

    picture = track_colours(lineage)[tracks]
    rim = _rims(tracks)
    picture[rim] *= 0.45
    own = lineage.objects[(lineage.objects["frame"] == frame) & (lineage.objects["event"] == "appears")]
    picture[rim & np.isin(tracks, own["track"].to_numpy())] = 1.0
    image = fitted(to_image(picture), LONG_SIDE_PX)
    whole = Image.new("RGB", (max(image.width, NARROWEST_PX), image.height + CAPTION_PX), "white")
    whole.paste(image, ((whole.width - image.width) // 2, 0))
    draw = ImageDraw.Draw(whole)
    top = image.height + 6
    n_objects = int((lineage.objects["frame"] == frame).sum())
    text = f"frame {frame} of {len(lineage.frames) - 1}, {n_objects} objects; white rim: appears"
    draw.text((8, top), text, fill="black", font=font(12))
    px = lineage.units.px_size * max(tracks.shape) / LONG_SIDE_PX  # of one pixel of the picture
    length = round_length(0.25 * whole.width * px)
    draw.rectangle((8, top + 26, 8 + round(length / px), top + 29), fill="black")
    draw.text(
        (14 + round(length / px), top + 20), f"{length:g} {lineage.units.length_text}", fill="black", font=font(12)
    )
    return whole


def _rims(labels: NDArray[np.integer]) -> Bool:
    """Pixels of an object beside another label or the background."""
    rim: Bool = np.zeros(labels.shape, dtype=bool)
    for axis in (0, 1):
        low, high = [slice(None)] * 2, [slice(None)] * 2
        low[axis], high[axis] = slice(None, -1), slice(1, None)
        differ = labels[tuple(low)] != labels[tuple(high)]
        rim[tuple(low)] |= differ
        rim[tuple(high)] |= differ
    return rim & (labels > 0)

"""A series as pictures: a strip of its masks, and one movie through all frames."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pairframe.frame import BoxYX
from pairframe.report.figures.movie import FRAME_MS, font, one_palette
from pairframe.report.images import fitted, to_image
from pairframe.report.interpolation import Interpolation
from pairframe.report.style import CREATED_COLOUR, DESTROYED_COLOUR, MOVED_COLOUR, round_length
from pairframe.report.view import Seen, compose, frame_box, full_pixel_mass, lifted
from pairframe.types import Float
from pairframe.units import Units

if TYPE_CHECKING:
    from PIL import Image, ImageDraw

STRIP_PICTURES = 10
STRIP_PX = 180  # longer side of a picture
MOVIE_PX = 480
MOVIE_FRAMES = 72
MOST_BETWEEN = 8
_CAPTION_PX = 34
_HOLD = 3  # as long as this many frames at the ends


def series_strip(steps: Sequence[Seen], captions: Sequence[str], units: Units) -> bytes:
    """Masks of a series as a PNG: at most ten, the first and the last among them; green was created in the step before it.

    Parameters
    ----------
    steps : sequence
        Results of consecutive pairs on one canvas.
    captions : sequence of str
        Of the frames: one more than steps.
    """
    from PIL import Image, ImageDraw

    box = shared_box(steps)
    chosen = sorted({round(k) for k in np.linspace(0, len(steps), STRIP_PICTURES)})
    cells = [fitted(to_image(_still(steps, k, box)), STRIP_PX) for k in chosen]
    width, height = cells[0].size
    per_row = max(1, min(len(cells), 1000 // (width + 8)))
    n_rows = -(-len(cells) // per_row)
    whole = Image.new("RGB", (per_row * (width + 8) + 8, n_rows * (height + 26) + 30), "white")
    draw = ImageDraw.Draw(whole)
    for n, (k, cell) in enumerate(zip(chosen, cells, strict=True)):
        x, y = 8 + (n % per_row) * (width + 8), (n // per_row) * (height + 26)
        whole.paste(cell, (x, y + 20))
        draw.rectangle((x, y + 20, x + width - 1, y + 19 + height), outline=(205, 205, 205))
        draw.text((x, y + 3), captions[k], fill="black", font=font(12))
    _scale_bar(draw, 8, whole.height - 20, units.px_size * box.w / width, units, width)
    return _png(whole)


def series_movie(steps: Sequence[Seen], captions: Sequence[str], units: Units) -> bytes:
    """The whole series as a GIF by displacement interpolation from frame to frame; see `series_strip`."""
    box = shared_box(steps)
    between = int(np.clip(MOVIE_FRAMES // max(1, len(steps)), 1, MOST_BETWEEN))
    pictures = []
    for k, step in enumerate(steps):
        way = Interpolation.of(step)
        full = full_pixel_mass(step)
        for share in np.arange(between) / between:
            moved, created, destroyed = (
                _placed(step, _on_work_grid(step, part), box) for part in way.parts(float(share))
            )
            caption = captions[k] if share < 0.5 else captions[k + 1]
            pictures.append(_captioned(compose(moved, created, destroyed, full), caption, box, units))
    pictures.append(_captioned(_still(steps, len(steps), box), captions[-1], box, units))
    durations = [max(FRAME_MS, 240 // between)] * len(pictures)
    durations[0] = durations[-1] = _HOLD * 300
    content = io.BytesIO()
    indexed = one_palette(pictures)
    indexed[0].save(
        content, format="GIF", save_all=True, append_images=indexed[1:], duration=durations, loop=0, disposal=1
    )
    return content.getvalue()


def shared_box(steps: Sequence[Seen]) -> BoxYX:
    """The smallest box, canonical px, that holds the frames of all pairs."""
    boxes = [frame_box(step) for step in steps]
    return BoxYX(
        min(box.y0 for box in boxes),
        max(box.y1 for box in boxes),
        min(box.x0 for box in boxes),
        max(box.x1 for box in boxes),
    )


def _still(steps: Sequence[Seen], k: int, box: BoxYX) -> Float:
    """Frame k, (H, W, 3): its mask, with the mass created since the frame before in green."""
    step = steps[max(k - 1, 0)]
    if k == 0:
        mask = _placed(step, step.work.mass_source, box)
        return compose(mask, np.zeros_like(mask), np.zeros_like(mask), full_pixel_mass(step))
    mask, created = (_placed(step, mass, box) for mass in (step.work.mass_target, step.work.mass_created))
    return compose(np.maximum(mask - created, 0.0), created, np.zeros_like(mask), full_pixel_mass(step))


def _on_work_grid(step: Seen, part: Float) -> Float:
    whole = np.zeros(step.work.mass_source.shape)
    whole[step.transform.work_valid_box_yx.slices] = part
    return whole


def _placed(step: Seen, mass_work: Float, box: BoxYX) -> Float:
    own = frame_box(step)
    image = np.zeros((box.h, box.w))
    image[own.y0 - box.y0 : own.y1 - box.y0, own.x0 - box.x0 : own.x1 - box.x0] = lifted(step, mass_work)
    return image


def _captioned(picture: Float, caption: str, box: BoxYX, units: Units) -> Image.Image:
    from PIL import Image, ImageDraw

    image = fitted(to_image(picture), MOVIE_PX)
    whole = Image.new("RGB", (max(image.width, 330), image.height + _CAPTION_PX), "white")
    whole.paste(image, ((whole.width - image.width) // 2, 0))
    draw = ImageDraw.Draw(whole)
    top = image.height + 4
    draw.line([(0, image.height), (whole.width, image.height)], fill=(190, 190, 190))
    draw.text((8, top), caption, fill="black", font=font(12))
    x = whole.width - 8
    for name, colour in (("destroyed", DESTROYED_COLOUR), ("created", CREATED_COLOUR), ("moves", MOVED_COLOUR)):
        x -= round(draw.textlength(name, font=font(11)))
        draw.text((x, top), name, fill="black", font=font(11))
        x -= 14
        draw.rectangle((x, top + 3, x + 10, top + 12), fill=colour)
        x -= 8
    _scale_bar(draw, 8, top + 15, units.px_size * box.w / image.width, units, image.width)
    return whole


def _scale_bar(draw: ImageDraw.ImageDraw, x: int, y: int, px: float, units: Units, width: int) -> None:
    length = round_length(0.3 * width * px)
    draw.rectangle((x, y + 5, x + round(length / px), y + 8), fill="black")
    draw.text((x + 6 + round(length / px), y), f"{length:g} {units.length_text}", fill="black", font=font(11))


def _png(image: Image.Image) -> bytes:
    content = io.BytesIO()
    image.save(content, format="PNG")
    return content.getvalue()

"""A result at a glance, small enough for a table of thousands."""

from __future__ import annotations

import io

import numpy as np

from pairframe.errors import InputError
from pairframe.report.movie import to_image
from pairframe.report.view import compose, full_pixel_mass
from pairframe.results import TransportResult

N_COLOURS = 48


def thumbnail(result: TransportResult, size: int = 160) -> bytes:
    """PNG of at most `size` x `size` pixels: the target in grey, created mass in green, destroyed mass in orange."""
    from PIL import Image

    if isinstance(size, bool) or not isinstance(size, int | np.integer) or not 8 <= size <= 4096:
        raise InputError("a thumbnail's size in pixels, from 8 to 4096", repr(size), "e.g. size=160")
    work, valid = result.work, result.transform.work_valid_box_yx.slices
    created, destroyed = work.mass_created[valid], work.mass_destroyed[valid]
    arrived = np.maximum(work.mass_target[valid] - created, 0.0)
    full = full_pixel_mass(result) * result.transform.downsample_factor**2
    image = to_image(compose(arrived, created, destroyed, full))
    zoom = int(size) / max(image.size)
    smaller = (max(1, round(image.width * zoom)), max(1, round(image.height * zoom)))
    image = image.resize(smaller, Image.Resampling.BOX if zoom < 1 else Image.Resampling.NEAREST)
    content = io.BytesIO()
    image.quantize(N_COLOURS, dither=Image.Dither.NONE).save(content, format="PNG", optimize=True)
    return content.getvalue()

"""A result at a glance, small enough for a table of thousands."""

from __future__ import annotations

import io

import numpy as np
from numpy.typing import NDArray

from pairframe.errors import InputError
from pairframe.report.movie import fitted, to_image
from pairframe.report.view import Seen, compose, full_pixel_mass

Float = NDArray[np.float64]
N_COLOURS = 48
SMALLEST_PX = 8
FEW = 0.01  # share of the frame: so little mass would fade away in a smaller picture


def thumbnail(result: Seen, size: int = 160, *, most_bytes: int | None = None) -> bytes:
    """PNG of at most `size` x `size` pixels: the target in grey, created mass in green, destroyed mass in orange.

    Parameters
    ----------
    size : int
        Longer side, from 8 to 4096 px.
    most_bytes : int, optional
        A picture that would be heavier is made smaller, down to 8 px.
    """
    if isinstance(size, bool) or not isinstance(size, int | np.integer) or not SMALLEST_PX <= size <= 4096:
        raise InputError("a thumbnail's size in pixels, from 8 to 4096", repr(size), "e.g. size=160")
    work, valid = result.work, result.transform.work_valid_box_yx.slices
    created, destroyed = work.mass_created[valid], work.mass_destroyed[valid]
    arrived = np.maximum(work.mass_target[valid] - created, 0.0)
    full = full_pixel_mass(result) * result.transform.downsample_factor**2
    picture, side = compose(arrived, created, destroyed, full), int(size)
    content = _png(picture, side)
    while most_bytes is not None and len(content) > most_bytes and side > SMALLEST_PX:
        side = max(SMALLEST_PX, side * 3 // 4)
        content = _png(picture, side)
    return content


def _png(picture: Float, side_px: int) -> bytes:
    from PIL import Image
    from scipy.ndimage import minimum_filter

    shrink = max(picture.shape[:2]) / side_px
    if shrink > 1 and (picture < 1).any(axis=-1).mean() < FEW:
        side = 2 * round(shrink) + 1
        picture = minimum_filter(picture, size=(side, side, 1), mode="nearest")  # a pixel of it stays one that is seen
    image = to_image(picture)
    content = io.BytesIO()
    small = fitted(image, side_px).quantize(N_COLOURS, dither=Image.Dither.NONE)
    small.save(content, format="PNG", optimize=True)
    return content.getvalue()

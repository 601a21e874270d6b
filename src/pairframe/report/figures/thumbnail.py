"""A small picture of a result for a table of thousands."""

from __future__ import annotations

import io

import numpy as np

from pairframe import checks
from pairframe.report.images import fitted, to_image
from pairframe.report.view import Seen, compose, full_pixel_mass
from pairframe.types import Float

N_COLOURS = 48
SMALLEST_PX = 8
FEW = 0.01  # share of the frame: less mass would disappear in a smaller picture


def thumbnail(result: Seen, size: int = 160, *, most_bytes: int | None = None) -> bytes:
    """PNG of at most `size` x `size` pixels: the target in grey, created mass in green, destroyed mass in orange.

    Parameters
    ----------
    size : int
        Longer side, from 8 to 4096 px.
    most_bytes : int, optional
        A larger file is made smaller, down to 8 px.
    """
    size = checks.integer(size, "size", SMALLEST_PX, 4096, fix="give the longer side in pixels, e.g. 160")
    work, valid = result.work, result.transform.work_valid_box_yx.slices
    created, destroyed = work.mass_created[valid], work.mass_destroyed[valid]
    arrived = np.maximum(work.mass_target[valid] - created, 0.0)
    full = full_pixel_mass(result) * result.transform.downsample_factor**2
    picture, side = compose(arrived, created, destroyed, full), size
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
        picture = minimum_filter(picture, size=(side, side, 1), mode="nearest")  # keep single pixels visible
    image = to_image(picture)
    content = io.BytesIO()
    small = fitted(image, side_px).quantize(N_COLOURS, dither=Image.Dither.NONE)
    small.save(content, format="PNG", optimize=True)
    return content.getvalue()

"""A walk through the planes of a volume: frames of a movie, and the film of a page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from pairframe.report.images import resized, rim, to_image
from pairframe.report.style import SOURCE_COLOUR, TARGET_COLOUR, rgb
from pairframe.report.view import Seen, compose
from pairframe.report.volume import Section, depth_places, section
from pairframe.types import Bool

if TYPE_CHECKING:
    from PIL import Image

MOST_PLANES = 41


def plane_sections(seen: Seen, most: int = MOST_PLANES) -> list[Section]:
    """Sections across z, from the first plane with mass to the last."""
    return [section(seen, 0, place) for place in depth_places(seen, most)]


def plane_pictures(seen: Seen, cuts: list[Section], longest_px: int) -> Iterator[Image.Image]:
    """Grey mass is kept, green created, orange destroyed; thin lines outline source and target. Square pixels in um."""
    full = max(float(seen.work.mass_source.max()), float(seen.work.mass_target.max()))
    for cut in cuts:
        kept = np.maximum(cut.target - cut.created, 0.0)
        left, right, bottom, top = cut.extent_um
        zoom = longest_px / max(right - left, bottom - top)
        size = max(1, round((right - left) * zoom)), max(1, round((bottom - top) * zoom))
        image = resized(to_image(compose(kept, cut.created, cut.destroyed, full)), size)
        for mask, colour in ((cut.source > 0, SOURCE_COLOUR), (cut.target > 0, TARGET_COLOUR)):
            image.paste(to_image(np.broadcast_to(rgb(colour), (1, 1, 3))).resize(size), mask=_rim_of(mask, size))
        yield image


def _rim_of(mask: Bool, size_wh: tuple[int, int]) -> Image.Image:
    from PIL import Image

    return rim(resized(Image.fromarray(mask.astype(np.uint8) * 255), size_wh).point(lambda v: 255 * (v > 127)))

"""Arrays as images of a wanted size."""

from __future__ import annotations

import io
import warnings
from typing import TYPE_CHECKING

import numpy as np

from pairframe.types import Float

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from PIL import Image


def figure_png(figure: Figure, dpi: int) -> bytes:
    """PNG of a figure. Characters that the font lacks are drawn as boxes; pages show them beside it."""
    content = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        figure.savefig(content, format="png", dpi=dpi, facecolor="white")
    return content.getvalue()


def fitted(image: Image.Image, longest_px: int) -> Image.Image:
    """The image scaled so that its longer side has `longest_px` pixels."""
    zoom = longest_px / max(image.size)
    return resized(image, (max(1, round(image.width * zoom)), max(1, round(image.height * zoom))))


def resized(image: Image.Image, size_wh: tuple[int, int]) -> Image.Image:
    """Shrink by averaging, enlarge by repeating pixels."""
    from PIL import Image

    smaller = size_wh[0] < image.width or size_wh[1] < image.height
    return image.resize(size_wh, Image.Resampling.BOX if smaller else Image.Resampling.NEAREST)


def to_image(picture: Float) -> Image.Image:
    """(H, W, 3) RGB in 0..1 as an 8-bit image."""
    from PIL import Image

    return Image.fromarray(np.rint(np.clip(picture, 0.0, 1.0) * 255).astype(np.uint8))


def rim(mask: Image.Image) -> Image.Image:
    """The outermost pixels of a mask, as a mask."""
    from PIL import ImageChops, ImageFilter, ImageOps

    # The edge of the frame is an edge of the mask too.
    inner = ImageOps.expand(mask, border=1, fill=0).filter(ImageFilter.MinFilter(3))
    return ImageChops.subtract(mask, inner.crop((1, 1, mask.width + 1, mask.height + 1)))

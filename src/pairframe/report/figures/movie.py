"""The pair as a short movie (GIF or APNG): mass moves, fades in and fades out."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pairframe import files
from pairframe.errors import OutputError
from pairframe.report.figures.depth import plane_pictures, plane_sections
from pairframe.report.images import fitted, resized, rim, to_image
from pairframe.report.interpolation import Interpolation, frame_times
from pairframe.report.style import (
    CREATED_COLOUR,
    DESTROYED_COLOUR,
    MOVED_COLOUR,
    SOURCE_COLOUR,
    TARGET_COLOUR,
    WARNING_COLOUR,
    rgb,
    round_length,
)
from pairframe.report.view import UNFINISHED, compose, full_pixel_mass
from pairframe.results import TransportResult
from pairframe.results.formatting import in_words
from pairframe.types import Bool, Float

if TYPE_CHECKING:
    from PIL import Image, ImageDraw, ImageFont


FORMATS = {".gif": "GIF", ".png": "PNG", ".apng": "PNG"}
LONG_SIDE_PX = 540
NARROWEST_PX = 350  # so that the caption fits
CAPTION_PX = 46
FRAME_MS, END_MS = 80, 900


def write_movie(result: TransportResult, path: str | os.PathLike[str], n: int = 24) -> Path:
    """Write the displacement interpolation as a movie of `n` frames: ``.gif``, or ``.apng``/``.png`` in full colour.

    Grey mass travels, green mass is created, orange mass is destroyed; thin lines outline source and target. The movie of a
    volume walks through its planes.
    """
    path = files.checked_path(path, OutputError)
    form = FORMATS.get(path.suffix.lower())
    if form is None:
        raise OutputError(f"a movie file ending in {', '.join(FORMATS)}", repr(path.name), "e.g. morph.gif")
    pictures = list(movie_frames(result, n))
    if form == "GIF":
        pictures = one_palette(pictures)
    durations = [FRAME_MS] * len(pictures)
    durations[0] = durations[-1] = END_MS
    return save_movie(pictures, path, form, durations)


def save_movie(pictures: Sequence[Image.Image], path: Path, form: str, durations_ms: Sequence[int]) -> Path:
    """Write pictures as one animated file, each shown for its duration."""
    content = io.BytesIO()
    pictures[0].save(
        content, format=form, save_all=True, append_images=pictures[1:], duration=list(durations_ms), loop=0, disposal=1
    )
    try:
        path.write_bytes(content.getvalue())
    except OSError as error:
        raise OutputError(
            "a place to write the movie", f"{path}: {error.strerror or error}", "choose another path"
        ) from error
    return path


def movie_frames(result: TransportResult, n: int) -> Iterator[Image.Image]:
    """The movie's pictures, one by one, with legend, time and scale bar."""
    if result.transform.is_volume:
        yield from _depth_frames(result)
        return
    times = frame_times(n)
    way = Interpolation.of(result)
    full = full_pixel_mass(result) * result.transform.downsample_factor**2
    rims = _rims(result)
    for time in times:
        yield _captioned(result, compose(*way.parts(time), full), rims, time)


# --- parts -----------------------------------------------------------------------------------


def _rims(result: TransportResult) -> list[tuple[Bool, str]]:
    valid = result.transform.work_valid_box_yx.slices
    return [
        (result.work.mass_source[valid] > 0, SOURCE_COLOUR),
        (result.work.mass_target[valid] > 0, TARGET_COLOUR),
    ]


def _captioned(result: TransportResult, picture: Float, rims: list[tuple[Bool, str]], time: float) -> Image.Image:
    from PIL import Image

    image = fitted(to_image(picture), LONG_SIDE_PX)
    size, zoom = image.size, LONG_SIDE_PX / max(picture.shape[:2])
    for mask, colour in rims:
        grown = resized(Image.fromarray(mask.astype(np.uint8) * 255), size).point(lambda v: 255 * (v > 127))
        image.paste(to_image(np.broadcast_to(rgb(colour), (1, 1, 3))).resize(size), mask=rim(grown))
    return _with_caption(result, image, result.transform.work_px_size_um / zoom, "moves", f"t = {time:.2f}")


def _depth_frames(result: TransportResult) -> Iterator[Image.Image]:
    cuts = plane_sections(result)
    for cut, image in zip(cuts, plane_pictures(result, cuts, LONG_SIDE_PX), strict=True):
        left, right, _, _ = cut.extent_um
        where = f"z = {in_words(cut.at_um)} {result.units.length_text}"
        yield _with_caption(result, image, (right - left) / image.width, "kept", where)


def _with_caption(result: TransportResult, image: Image.Image, px_um: float, kept: str, when: str) -> Image.Image:
    """A picture, whose pixels have the side `px_um`, above legend, scale bar and time or place."""
    from PIL import Image, ImageDraw

    size = image.size
    whole = Image.new("RGB", (max(size[0], NARROWEST_PX), size[1] + CAPTION_PX), "white")
    whole.paste(image, ((whole.width - size[0]) // 2, 0))
    draw = ImageDraw.Draw(whole)
    draw.line([(0, size[1]), (whole.width, size[1])], fill=(190, 190, 190))
    _legend(draw, size[1] + 6, kept)
    _scale_and_time(draw, result, (whole.width, size[1] + 26), px_um, when)
    if result.status in UNFINISHED:
        draw.rectangle((0, 0, whole.width, 17), fill=WARNING_COLOUR)
        draw.text((4, 1), f"not converged: {result.status}", fill="white", font=font(12))
    return whole


def _legend(draw: ImageDraw.ImageDraw, top: int, kept: str) -> None:
    x = 8
    for name, colour in ((kept, MOVED_COLOUR), ("created", CREATED_COLOUR), ("destroyed", DESTROYED_COLOUR)):
        draw.rectangle((x, top + 2, x + 11, top + 12), fill=colour)
        draw.text((x + 16, top), name, fill="black", font=font(12))
        x += 26 + round(draw.textlength(name, font=font(12)))
    for name, colour in (("source", SOURCE_COLOUR), ("target", TARGET_COLOUR)):
        draw.line((x, top + 7, x + 12, top + 7), fill=colour, width=2)
        draw.text((x + 16, top), name, fill="black", font=font(12))
        x += 26 + round(draw.textlength(name, font=font(12)))


def _scale_and_time(
    draw: ImageDraw.ImageDraw, result: TransportResult, width_top: tuple[int, int], px_um: float, when: str
) -> None:
    width, top = width_top
    length = round_length(0.25 * width * px_um)
    draw.rectangle((8, top + 6, 8 + round(length / px_um), top + 9), fill="black")
    text = f"{length:g} {result.units.length_text}"
    draw.text((14 + round(length / px_um), top), text, fill="black", font=font(12))
    draw.text((width - 8, top), when, fill="black", font=font(12), anchor="ra")


def one_palette(pictures: list[Image.Image]) -> list[Image.Image]:
    """All frames in the same 256 colours including white, to avoid flicker and a grey background."""
    from PIL import Image

    chosen = [pictures[round(k * (len(pictures) - 1) / 4)] for k in range(5)]
    strip = Image.new("RGB", (chosen[0].width, sum(picture.height for picture in chosen)))
    for k, picture in enumerate(chosen):
        strip.paste(picture, (0, k * picture.height))
    colours = (strip.quantize(255).getpalette() or [])[: 255 * 3]
    palette = Image.new("P", (1, 1))
    palette.putpalette([*colours, *[255] * (256 * 3 - len(colours))])
    indexed = []
    for picture in pictures:
        indices = np.array(picture.quantize(palette=palette, dither=Image.Dither.NONE))
        # The nearest colour is looked up in coarse cells; keep the background white.
        indices[(np.asarray(picture) == 255).all(axis=-1)] = 255
        image = Image.fromarray(indices)
        image.putpalette(palette.getpalette() or [])
        indexed.append(image)
    return indexed


def font(size_px: int) -> ImageFont.FreeTypeFont:
    """DejaVu Sans, which comes with matplotlib and has a micro sign."""
    import matplotlib
    from PIL import ImageFont

    return ImageFont.truetype(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf", size_px)

"""The pictures of a pair's page. Light ones, by numpy, for every pair; drawn figures where a cohort is small."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pairframe.report.figures import (
    CREATED_COLOUR,
    DESTROYED_COLOUR,
    SOURCE_COLOUR,
    SPEED_MAP,
    TARGET_COLOUR,
    convergence_plot,
    new_figure,
    summary_figure,
    summary_size_in,
    thumbnail,
)
from pairframe.report.html.assets import plain
from pairframe.report.interpolation import Interpolation, frame_times
from pairframe.report.movie import to_image
from pairframe.report.style import colour_map, rgb, round_length
from pairframe.report.view import compose, frame_box, full_pixel_mass, in_frame, lifted
from pairframe.results import TransportResult

if TYPE_CHECKING:
    from PIL import Image

Float = NDArray[np.float64]
PICTURES_VERSION = 1  # raised when the pictures change: older ones are made again
STAMP = "view.json"
THUMBNAIL_SIZES = (128, 96, 64, 48, 32)
THUMBNAIL_BYTES = 10_000  # 2000 of them, in base64, stay below 30 MB
LONGEST_SIDE_PX = 1000
MORPH_SIDE_PX, N_MORPH = 560, 13
DPI = 110


@dataclass(frozen=True)
class View:
    """What a page must know about its pictures.

    Attributes
    ----------
    frame_hw_px : (int, int)
        Height and width of what they show, canonical px.
    bar_length, bar_percent : float
        The scale bar: um (or px without a pixel size), and percent of the width.
    full_mass : float
        Mass per pixel in the full colour of created and destroyed.
    top_speed : float
        The upper end of the displacement's colours, um/frame; NaN when nothing moved.
    has_figures : bool
        Whether the drawn figures and the morph are there.
    has_convergence : bool
        Whether the history of the solve is drawn; not every engine keeps one.
    n_morph : int
        Frames in the morph, 0 without one.
    """

    frame_hw_px: tuple[int, int]
    bar_length: float
    bar_percent: float
    full_mass: float
    top_speed: float
    has_figures: bool
    has_convergence: bool
    n_morph: int


def make_pictures(result: TransportResult, folder: Path, *, with_figures: bool) -> View:
    """Write the pictures of a result into `folder`; the stamp comes last, so that an interrupted run is finished later."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / STAMP).unlink(missing_ok=True)
    _write(folder / "thumbnail.png", small_thumbnail(result))
    for name, image in layers(result).items():
        _write(folder / f"{name}.png", _png(image))
    moved = result.total_mass_moved > 0
    if with_figures:
        _write(folder / "summary.png", _figure_png(result, summary_figure, summary_size_in(result)))
        if result.work.trace:
            draw: Callable[..., Any] = lambda found, figure: convergence_plot(found, figure.add_subplot())  # noqa: E731
            _write(folder / "convergence.png", _figure_png(result, draw, (7.0, 3.4)))
        if moved:
            _write(folder / "morph.png", _png(morph_strip(result)))
    box, px_size_um = frame_box(result), result.transform.px_size_um
    length = round_length(0.25 * box.w * px_size_um)
    view = View(
        frame_hw_px=box.shape_hw,
        bar_length=length,
        bar_percent=100 * length / (box.w * px_size_um),
        full_mass=full_pixel_mass(result),
        top_speed=_top_speed_um(result),
        has_figures=with_figures,
        has_convergence=with_figures and bool(result.work.trace),
        n_morph=N_MORPH if with_figures and moved else 0,
    )
    content = {"version": PICTURES_VERSION, **plain(view.__dict__)}
    _write(folder / STAMP, json.dumps(content).encode())
    return view


def known_view(folder: Path) -> View | None:
    """The view of pictures that are there, complete and of this version; None when they must be made."""
    try:
        found = json.loads((folder / STAMP).read_text())
        if found.pop("version") != PICTURES_VERSION or not (folder / "thumbnail.png").is_file():
            return None
        found["frame_hw_px"] = tuple(found["frame_hw_px"])
        found["top_speed"] = float("nan") if found["top_speed"] is None else found["top_speed"]
        return View(**found)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


# --- parts -----------------------------------------------------------------------------------


def small_thumbnail(result: TransportResult) -> bytes:
    """A thumbnail of at most `THUMBNAIL_BYTES`: smaller where it would be heavier."""
    for size in THUMBNAIL_SIZES:
        content = thumbnail(result, size)
        if len(content) <= THUMBNAIL_BYTES:
            break
    return content


def layers(result: TransportResult) -> dict[str, Image.Image]:
    """Transparent pictures of the frame that lie over each other on the page, one pixel per canonical pixel at most."""
    work = result.work
    full = full_pixel_mass(result)
    one_colour = {
        "source": (lifted(result, work.mass_source), SOURCE_COLOUR),
        "target": (lifted(result, work.mass_target), TARGET_COLOUR),
        "created": (in_frame(result, result.mass_created), CREATED_COLOUR),
        "destroyed": (in_frame(result, result.mass_destroyed), DESTROYED_COLOUR),
    }
    found = {
        name: _smaller(_tinted(mass / full if full > 0 else mass, colour))
        for name, (mass, colour) in one_colour.items()
    }
    speed = np.hypot(*np.moveaxis(in_frame(result, result.velocity_field), -1, 0))
    known, top = np.isfinite(speed), _top_speed_um(result)
    coloured = colour_map(SPEED_MAP)(np.where(known, speed, 0.0) / top if np.isfinite(top) else np.zeros(speed.shape))
    coloured[..., 3] = known
    found["displacement"] = _smaller(to_image(coloured))
    return found


def morph_strip(result: TransportResult) -> Image.Image:
    """The displacement interpolation as frames below each other: grey moves, green is created, orange destroyed."""
    from PIL import Image

    way = Interpolation.of(result)
    full = full_pixel_mass(result) * result.transform.downsample_factor**2
    frames = [to_image(compose(*way.parts(time), full)) for time in frame_times(N_MORPH)]
    frames = [_smaller(frame, MORPH_SIDE_PX) for frame in frames]
    strip = Image.new("RGB", (frames[0].width, sum(frame.height for frame in frames)))
    for number, frame in enumerate(frames):
        strip.paste(frame, (0, number * frame.height))
    return strip.quantize(128, dither=Image.Dither.NONE)


def _top_speed_um(result: TransportResult) -> float:
    """Upper end of the colours: the fastest, but never so little that rounding errors get a colour; NaN without any."""
    speed = np.hypot(*np.moveaxis(result.velocity_field[result.velocity_valid], -1, 0))
    return max(float(speed.max()), 0.05 * result.transform.px_size_um) if speed.size else float("nan")


def _tinted(strength: Float, colour: str) -> Image.Image:
    """One colour, as opaque as `strength` (H, W) in 0..1 says."""
    picture = np.empty((*strength.shape, 4))
    picture[..., :3] = rgb(colour)
    picture[..., 3] = np.clip(strength, 0.0, 1.0)
    return to_image(picture)


def _smaller(image: Image.Image, longest_px: int = LONGEST_SIDE_PX) -> Image.Image:
    from PIL import Image

    zoom = longest_px / max(image.size)
    if zoom >= 1:
        return image
    size = (max(1, round(image.width * zoom)), max(1, round(image.height * zoom)))
    return image.resize(size, Image.Resampling.BOX)


def _figure_png(result: TransportResult, draw: Callable[..., Any], size_in: tuple[float, float]) -> bytes:
    figure = new_figure(*size_in)
    draw(result, figure)
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=DPI, facecolor="white")
    return content.getvalue()


def _png(image: Image.Image) -> bytes:
    content = io.BytesIO()
    image.save(content, format="PNG")
    return content.getvalue()


def _write(path: Path, content: bytes) -> None:
    """In one step, so that a page never shows half a picture."""
    beside = path.with_name(f".tmp-{path.name}")
    try:
        beside.write_bytes(content)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)

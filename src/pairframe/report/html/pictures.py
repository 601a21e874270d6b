"""The pictures of a pair's page. Light ones, without a plotting library, for every pair; drawn figures for a few."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pairframe import files, plain_json
from pairframe.axis.table import drawn_axis
from pairframe.report.figures import (
    AXIS_SIZE_IN,
    CREATED_COLOUR,
    DESTROYED_COLOUR,
    RADIAL_SIZE_IN,
    SOURCE_COLOUR,
    SPEED_MAP,
    TARGET_COLOUR,
    axis_figure,
    convergence_plot,
    flow_figure,
    is_radial,
    motion_figure,
    motion_size_in,
    new_figure,
    radial_figure,
    strain_figure,
    strain_size_in,
    summary_figure,
    summary_size_in,
    sweep_figure,
    sweep_size_in,
    thumbnail,
    write_movie,
)
from pairframe.report.figures.depth import plane_pictures, plane_sections
from pairframe.report.images import figure_png, fitted, to_image
from pairframe.report.interpolation import Interpolation, frame_times
from pairframe.report.style import SMALLEST_SPEED_PX, colour_map, round_length
from pairframe.report.view import (
    Seen,
    compose,
    frame_box,
    full_pixel_mass,
    has_moved,
    left_share,
    lifted,
    lifted_speed,
    top_of,
)
from pairframe.report.volume import flattened
from pairframe.results import Sweep, TransportResult
from pairframe.types import Float

if TYPE_CHECKING:
    import pandas as pd
    from PIL import Image

PICTURES_VERSION = 7  # raised when the pictures change: older ones are made again
STAMP = "view.json"
THUMBNAIL_PX = 128
THUMBNAIL_BYTES = 10_000  # 2000 of them, in base64, stay below 30 MB
LONGEST_SIDE_PX = 1000
MORPH_SIDE_PX, N_MORPH = 560, 13
SLICE_SIDE_PX = 480
DPI = 110


@dataclass(frozen=True)
class View:
    """Facts about the pictures that a page needs.

    Attributes
    ----------
    frame_hw_px : (int, int)
        Height and width of the frame they show, in units of the width of a canonical pixel.
    bar_length, bar_percent : float
        The scale bar: um (or px without a pixel size), and percent of the width.
    full_mass : float
        Mass per pixel in the full colour of created and destroyed.
    top_speed, most_speed : float
        The upper end of the displacement's colours, and the longest displacement, um; NaN when nothing moved.
    has_figures : bool
        Whether the drawn figures and the morph are there.
    has_convergence : bool
        Whether the history of the solve is drawn; not every engine keeps one.
    n_morph : int
        Frames in the morph, 0 without one. With a morph there is a figure of the motion as well.
    has_strain : bool
        Whether the strain is drawn.
    axis : str
        Hash of the profile along the body axis that is drawn; empty without one.
    slices_um : tuple of float
        Depths of the planes in the film of a volume; empty for images.
    """

    frame_hw_px: tuple[int, int]
    bar_length: float
    bar_percent: float
    full_mass: float
    top_speed: float
    most_speed: float
    has_figures: bool
    has_convergence: bool
    n_morph: int
    has_strain: bool = False
    axis: str = ""
    slices_um: tuple[float, ...] = ()


def make_pictures(seen: Seen, folder: Path) -> View:
    """Write the light pictures of a pair into `folder`; the stamp is written last, so an interrupted run is completed later."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / STAMP).unlink(missing_ok=True)
    slices_um: tuple[float, ...] = ()
    height, width = seen.transform.units.px_sides[-2:]
    if seen.transform.is_volume:
        slices_um = _write_slices(seen, folder)
        seen = flattened(seen)
    files.replace_file(folder / "thumbnail.png", thumbnail(seen, THUMBNAIL_PX, most_bytes=THUMBNAIL_BYTES), flush=False)
    speed_um = lifted_speed(seen)
    known = np.isfinite(speed_um)
    left = lifted(seen, seen.work.mass_source) * left_share(seen)
    top_um = top_of(speed_um, left, SMALLEST_SPEED_PX * seen.transform.units.px_size) if known.any() else float("nan")
    for name, image in layers(seen, speed_um, top_um).items():
        files.replace_file(folder / f"{name}.png", _png(image), flush=False)
    box = frame_box(seen)
    length = round_length(0.25 * box.w * width)
    view = View(
        frame_hw_px=(round(box.h * height / width), box.w),
        bar_length=length,
        bar_percent=100 * length / (box.w * width),
        full_mass=full_pixel_mass(seen),
        top_speed=top_um,
        most_speed=float(speed_um[known].max()) if known.any() else float("nan"),
        has_figures=False,
        has_convergence=False,
        n_morph=0,
        slices_um=slices_um,
    )
    _write_stamp(folder, view)
    return view


def _write_slices(seen: Seen, folder: Path) -> tuple[float, ...]:
    """The planes of a volume as one film, and where they are, um."""
    cuts = plane_sections(seen)
    film = _film(list(plane_pictures(seen, cuts, SLICE_SIDE_PX)))
    files.replace_file(folder / "slices.png", _png(film), flush=False)
    return tuple(cut.at_um for cut in cuts)


def make_figures(
    result: TransportResult,
    folder: Path,
    summary: bytes | None = None,
    profile: pd.DataFrame | None = None,
    *,
    frame_interval_min: float | None = None,
) -> View:
    """Write all pictures of a result: the light ones, and the drawn figures and the morph.

    Parameters
    ----------
    summary : bytes, optional
        Its summary figure (PNG) if drawn before: drawing it takes most of a second.
    profile : DataFrame, optional
        Its profile along the body axis, to be drawn too.
    frame_interval_min : float, optional
        Minutes between the frames.
    """
    view = make_pictures(result, folder)
    draw_summary = partial(summary_figure, frame_interval_min=frame_interval_min)
    drawn = summary or drawn_png(result, draw_summary, summary_size_in(result))
    files.replace_file(folder / "summary.png", drawn, flush=False)
    if result.work.trace:
        draw: Callable[..., Any] = lambda found, figure: convergence_plot(found, figure.add_subplot())  # noqa: E731
        files.replace_file(folder / "convergence.png", drawn_png(result, draw, (7.0, 3.4)), flush=False)
    has_morph = has_moved(result) and not result.transform.is_volume
    if has_morph:
        drawn = drawn_png(result, motion_figure, motion_size_in(result))
        files.replace_file(folder / "motion.png", drawn, flush=False)
        files.replace_file(folder / "morph.png", _png(morph_film(result)), flush=False)
    if result.transform.is_volume:
        write_movie(result, folder / "through_depth.gif")
    if result.work.strain is not None:
        files.replace_file(folder / "strain.png", drawn_png(result, strain_figure, strain_size_in(result)), flush=False)
    _draw_axis(result, folder, profile)
    n_morph = N_MORPH if has_morph else 0
    view = replace(
        view,
        has_figures=True,
        has_convergence=bool(result.work.trace),
        n_morph=n_morph,
        has_strain=result.work.strain is not None,
        axis=profile_hash(profile),
    )
    _write_stamp(folder, view)
    return view


def remake_axis(result: TransportResult, folder: Path, view: View, profile: pd.DataFrame | None) -> View:
    """Draw another profile along the body axis, or remove it; the other pictures of a result stay."""
    (folder / STAMP).unlink(missing_ok=True)
    _draw_axis(result, folder, profile)
    view = replace(view, axis=profile_hash(profile))
    _write_stamp(folder, view)
    return view


def profile_hash(profile: pd.DataFrame | None) -> str:
    """The same for equal profiles; empty without one."""
    return "" if profile is None else hashlib.sha256(profile.to_csv(index=False).encode()).hexdigest()[:16]


def _draw_axis(result: TransportResult, folder: Path, profile: pd.DataFrame | None) -> None:
    if profile is None:
        (folder / "axis.png").unlink(missing_ok=True)
        return
    axis = drawn_axis(result, profile)
    along: Callable[..., Any] = lambda found, figure: axis_figure(found, axis, profile, figure)  # noqa: E731
    files.replace_file(folder / "axis.png", drawn_png(result, along, AXIS_SIZE_IN), flush=False)


def make_flow_picture(table: pd.DataFrame, folder: Path) -> None:
    """Draw the flows between the labels of a pair; an old picture is removed if there are none."""
    (folder / "flows.png").unlink(missing_ok=True)
    if len(table):
        files.replace_file(folder / "flows.png", flow_png(table), flush=False)


def make_radial_picture(profile: pd.DataFrame, folder: Path, px_size: float, *, is_area: bool) -> None:
    """Draw the radial profile of a pair; an old picture is removed if there is none. See `radial_figure`."""
    (folder / "radial.png").unlink(missing_ok=True)
    if is_radial(profile):
        figure = radial_figure(profile, new_figure(*RADIAL_SIZE_IN), px_size=px_size, is_area=is_area)
        drawn = figure_png(figure, DPI)
        files.replace_file(folder / "radial.png", drawn, flush=False)


def flow_png(table: pd.DataFrame) -> bytes:
    """PNG of the flows between labels; see `flow_figure`."""
    return figure_png(flow_figure(table, new_figure(11.0, 5.0)), DPI)


def known_view(folder: Path) -> View | None:
    """The view of existing pictures if they are complete and of this version, otherwise None."""
    try:
        found = plain_json.parse((folder / STAMP).read_text())
        if found.pop("version") != PICTURES_VERSION or not (folder / "thumbnail.png").is_file():
            return None
        for name in ("frame_hw_px", "slices_um"):
            found[name] = tuple(found[name])
        for name in ("top_speed", "most_speed"):
            found[name] = float("nan") if found[name] is None else found[name]
        return View(**found)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


# --- parts -----------------------------------------------------------------------------------


def layers(seen: Seen, speed_um: Float, top_um: float) -> dict[str, Image.Image]:
    """Transparent pictures of the frame that lie over each other on the page, one pixel per canonical pixel at most.

    Parameters
    ----------
    speed_um : (H, W)
        Length of the displacement inside the frame, um; NaN where unknown.
    top_um : float
        The upper end of its colours; NaN when nothing is known.
    """
    from PIL import Image

    work, full = seen.work, full_pixel_mass(seen)
    one_colour = {
        "source": (work.mass_source, SOURCE_COLOUR),
        "target": (work.mass_target, TARGET_COLOUR),
        "created": (work.mass_created, CREATED_COLOUR),
        "destroyed": (work.mass_destroyed, DESTROYED_COLOUR),
    }
    found = {
        name: _smaller(_tinted(lifted(seen, mass) / (full or 1.0), colour))
        for name, (mass, colour) in one_colour.items()
    }
    known = np.isfinite(speed_um)
    share = np.divide(speed_um, top_um, out=np.zeros(speed_um.shape), where=known)
    coloured = np.array(colour_map(SPEED_MAP)(share, bytes=True))
    coloured[..., 3] = np.rint(255 * np.where(known, 0.15 + 0.85 * left_share(seen), 0.0))
    found["displacement"] = _smaller(Image.fromarray(coloured))
    return found


def morph_film(result: TransportResult) -> Image.Image:
    """The displacement interpolation as frames below each other: grey moves, green is created, orange destroyed."""
    way = Interpolation.of(result)
    full = full_pixel_mass(result) * result.transform.downsample_factor**2
    frames = [_smaller(to_image(compose(*way.parts(time), full)), MORPH_SIDE_PX) for time in frame_times(N_MORPH)]
    return _film(frames)


def _film(frames: list[Image.Image]) -> Image.Image:
    """Pictures of one size below each other, in few colours."""
    from PIL import Image

    film = Image.new("RGB", (frames[0].width, sum(frame.height for frame in frames)))
    for number, frame in enumerate(frames):
        film.paste(frame, (0, number * frame.height))
    return film.quantize(128, dither=Image.Dither.NONE)


def _tinted(strength: Float, colour: str) -> Image.Image:
    """One colour, as opaque as `strength` (H, W) in 0..1 says."""
    from PIL import Image

    image = Image.new("RGB", (strength.shape[1], strength.shape[0]), colour)
    image.putalpha(Image.fromarray(np.rint(255 * np.clip(strength, 0.0, 1.0)).astype(np.uint8)))
    return image


def _smaller(image: Image.Image, longest_px: int = LONGEST_SIDE_PX) -> Image.Image:
    return fitted(image, longest_px) if max(image.size) > longest_px else image


def drawn_png(result: TransportResult, draw: Callable[..., Any], size_in: tuple[float, float]) -> bytes:
    """PNG of a figure of that width and height in inches, drawn by ``draw(result, figure)``."""
    figure = new_figure(*size_in)
    draw(result, figure)
    return figure_png(figure, DPI)


def sweep_png(sweep: Sweep) -> bytes:
    """PNG of the figure of a sweep."""
    figure = new_figure(*sweep_size_in(sweep))
    sweep_figure(sweep, figure)
    return figure_png(figure, DPI)


def _png(image: Image.Image) -> bytes:
    content = io.BytesIO()
    image.save(content, format="PNG")
    return content.getvalue()


def _write_stamp(folder: Path, view: View) -> None:
    content = {"version": PICTURES_VERSION, **plain_json.plain(view.__dict__)}
    files.replace_file(folder / STAMP, json.dumps(content).encode(), flush=False)

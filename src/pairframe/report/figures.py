"""Pictures of frames and results: pure functions, colour-blind safe, in image coordinates, scale bars in um."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from pairframe.engines import Status
from pairframe.report.frame_figure import MAX_GRID_LINES, frame_overview
from pairframe.report.interpolation import Interpolation, frame_times, interpolation_frames
from pairframe.report.movie import write_movie
from pairframe.report.panels import (
    N_ARROWS,
    convergence_plot,
    cost_source_map,
    cost_target_map,
    created_map,
    destroyed_map,
    pair_overlay,
    speed_map,
    velocity_arrows,
)
from pairframe.report.style import (
    BUCKET_COLOUR,
    CREATED_COLOUR,
    CREATED_MAP,
    CROP_COLOUR,
    DESTROYED_COLOUR,
    DESTROYED_MAP,
    SMALL_SIZE,
    SOURCE_COLOUR,
    SPEED_MAP,
    TARGET_COLOUR,
    TITLE_SIZE,
    WARNING_COLOUR,
    add_scale_bar,
    in_words,
    minus,
    new_figure,
    percent,
)
from pairframe.report.thumbnail import thumbnail
from pairframe.report.view import UNFINISHED, compose, full_pixel_mass, is_area, length_word, outline, show
from pairframe.results import TransportResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "BUCKET_COLOUR",
    "CREATED_COLOUR",
    "CREATED_MAP",
    "CROP_COLOUR",
    "DESTROYED_COLOUR",
    "DESTROYED_MAP",
    "MAX_GRID_LINES",
    "N_ARROWS",
    "SOURCE_COLOUR",
    "SPEED_MAP",
    "TARGET_COLOUR",
    "Interpolation",
    "add_scale_bar",
    "convergence_plot",
    "cost_source_map",
    "cost_target_map",
    "created_map",
    "destroyed_map",
    "frame_overview",
    "interpolation_frames",
    "morph_strip",
    "new_figure",
    "pair_overlay",
    "result_overview",
    "speed_map",
    "summary_figure",
    "summary_size_in",
    "thumbnail",
    "velocity_arrows",
    "write_movie",
]

LONGEST_NOTICE = 160


def result_overview(result: TransportResult, figure: Figure) -> Figure:
    """Four panels: the pair, where mass was created and destroyed, and how the rest moved."""
    panels = (pair_overlay, velocity_arrows, created_map, destroyed_map)
    for panel, ax in zip(panels, figure.subplots(2, 2).ravel(), strict=True):
        panel(result, ax)
    _headline(result, figure)
    return figure


def summary_figure(result: TransportResult, figure: Figure) -> Figure:
    """Six panels: the pair, how it moved and how far, what was created and destroyed, and what the way cost."""
    rows, columns = _summary_grid(result)
    pairs = ((pair_overlay, velocity_arrows), (created_map, destroyed_map), (speed_map, cost_source_map))
    triples = ((pair_overlay, velocity_arrows, speed_map), (created_map, destroyed_map, cost_source_map))
    panels = chain.from_iterable(pairs if columns == 2 else triples)
    for panel, ax in zip(panels, figure.subplots(rows, columns).ravel(), strict=True):
        panel(result, ax)
    _headline(result, figure)
    return figure


def morph_strip(result: TransportResult, figure: Figure, n: int = 5) -> Figure:
    """The displacement interpolation as `n` still pictures: grey mass travels, green fades in, orange fades out."""
    times, way = frame_times(n), Interpolation.of(result)
    crop, s = result.transform.pair_crop_box_yx, result.transform.downsample_factor
    wide = crop.w > 1.8 * crop.h
    axes = figure.subplots(n, 1) if wide else figure.subplots(1, n)
    for time, ax in zip(times, axes, strict=True):
        picture = compose(*way.parts(time), full_pixel_mass(result) * s**2)
        show(result, picture, ax).set_extent((crop.x0, crop.x1, crop.y1, crop.y0))
        outline(result, result.work.mass_source, ax, SOURCE_COLOUR)
        outline(result, result.work.mass_target, ax, TARGET_COLOUR)
        ax.set_title(f"t = {time:.2f}", fontsize=TITLE_SIZE)
    return figure


def summary_size_in(result: TransportResult, width_in: float = 14.0) -> tuple[float, float]:
    """Width and height in inches of a figure that `summary_figure` fills well."""
    crop = result.transform.pair_crop_box_yx
    rows, columns = _summary_grid(result)
    # Beside its picture a panel has a colour bar and its label, above and below it a title and a scale bar.
    picture_in = width_in / columns - 1.0
    height_in = rows * (min(5.0, picture_in * crop.h / crop.w) + 0.85) + 0.6
    return width_in, min(30.0, height_in)


def _summary_grid(result: TransportResult) -> tuple[int, int]:
    """Rows and columns: wide frames get more of the width."""
    crop = result.transform.pair_crop_box_yx
    return (3, 2) if crop.w > 1.8 * crop.h else (2, 3)


def _headline(result: TransportResult, figure: Figure) -> None:
    unit, gap = length_word(result), minus(f"{result.relative_gap:.1e}")
    mass_unit = "px" if is_area(result) else "of mass"
    growth = "" if result.M_source == 0 else f" ({percent(result.M_target, result.M_source)} of the source)"
    lines = [
        f"source {in_words(result.M_source)}, target {in_words(result.M_target)} {mass_unit}{growth}; "
        f"blur {in_words(result.blur_um)} {unit}, reach {in_words(result.reach_um)} {unit}",
        f"{result.status}: certified, error at most {gap} of the total cost (relative gap); "
        f"noise floor {minus(f'{100 * result.noise_floor:.2g}')}%",
    ]
    if result.status in (Status.empty_source, Status.empty_target):
        lines[1] = f"{result.status}: nothing to solve"
    elif result.status in UNFINISHED:
        lines[1] = (
            f"NOT CONVERGED ({result.status}), error up to {gap} of the total cost (relative gap): {result.status.advice}"
        )
    lines += [f"notice: {_shortened(notice)}" for notice in result.notices]
    colour = WARNING_COLOUR if result.status in UNFINISHED else "black"
    figure.suptitle("\n".join(lines), fontsize=SMALL_SIZE + 2, color=colour, parse_math=False)


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_NOTICE else f"{text[: LONGEST_NOTICE - 1]}…"

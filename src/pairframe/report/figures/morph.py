"""The displacement interpolation as a row of still pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pairframe.report.interpolation import Interpolation, frame_times
from pairframe.report.style import SOURCE_COLOUR, TARGET_COLOUR, TITLE_SIZE
from pairframe.report.view import compose, full_pixel_mass, outline, show
from pairframe.results import TransportResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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

"""A result in one figure: four or six panels under a headline."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from pairframe.report.figures.arrows import velocity_arrows
from pairframe.report.figures.headline import headline
from pairframe.report.figures.panels import cost_source_map, created_map, destroyed_map, pair_overlay, speed_map
from pairframe.report.figures.volume import volume_figure, volume_size_in
from pairframe.results import TransportResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Panel = Callable[..., "Axes"]


def result_overview(result: TransportResult, figure: Figure) -> Figure:
    """Four panels: the pair, where mass was created and destroyed, and how the rest moved."""
    panels = (pair_overlay, velocity_arrows, created_map, destroyed_map)
    for panel, ax in zip(panels, figure.subplots(2, 2).ravel(), strict=True):
        panel(result, ax)
    headline(result, figure)
    return figure


def summary_figure(result: TransportResult, figure: Figure, *, frame_interval_min: float | None = None) -> Figure:
    """Six panels: the pair, how it moved and how far, what was created and destroyed, and the transport cost.

    The minutes between the frames, if given, add a speed. A volume has panels of its own, see `volume_figure`.
    """
    if result.transform.is_volume:
        return volume_figure(result, figure)
    speed: Panel = partial(speed_map, frame_interval_min=frame_interval_min)
    rows, columns = _summary_grid(result)
    pairs: tuple[tuple[Panel, ...], ...] = (
        (pair_overlay, velocity_arrows),
        (created_map, destroyed_map),
        (speed, cost_source_map),
    )
    triples: tuple[tuple[Panel, ...], ...] = (
        (pair_overlay, velocity_arrows, speed),
        (created_map, destroyed_map, cost_source_map),
    )
    panels = chain.from_iterable(pairs if columns == 2 else triples)
    for panel, ax in zip(panels, figure.subplots(rows, columns).ravel(), strict=True):
        panel(result, ax)
    headline(result, figure)
    return figure


def summary_size_in(result: TransportResult, width_in: float = 14.0) -> tuple[float, float]:
    """Width and height in inches of a figure that `summary_figure` fills well."""
    if result.transform.is_volume:
        return volume_size_in(result, width_in)
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

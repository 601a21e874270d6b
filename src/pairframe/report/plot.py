"""`plot_result`, which is `TransportResult.plot`: one figure of a result, for notebooks and scripts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pairframe import checks
from pairframe.report.figures import (
    convergence_plot,
    morph_strip,
    motion_figure,
    motion_size_in,
    new_figure,
    result_overview,
    strain_figure,
    strain_size_in,
    summary_figure,
    summary_size_in,
)
from pairframe.results import TransportResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH_IN = 11.0
OF_VOLUMES = ("summary", "convergence")


def plot_result(result: TransportResult, kind: str = "summary", *, width_in: float = WIDTH_IN) -> Figure:
    """Draw a result.

    Parameters
    ----------
    kind : str
        ``summary`` (six panels), ``overview`` (four of them), ``motion`` (shift, turn and what is left), ``strain`` (needs
        ``TransportConfig(strain=True)``), ``morph`` (from source to target), or ``convergence``; of volumes only ``summary``
        and ``convergence``.
    width_in : float
        Width of the figure in inches.

    Returns
    -------
    matplotlib Figure, which shows itself at the end of a notebook cell. It is not one of pyplot's, so it needs no closing;
    ``figure.savefig("pair.png")`` writes it.
    """
    draw, size_in = _KINDS[checks.choice(kind, "kind", OF_VOLUMES if result.transform.is_volume else list(_KINDS))]
    figure = new_figure(*size_in(result, width_in))
    draw(result, figure)
    return figure


def _overview_size_in(result: TransportResult, width_in: float) -> tuple[float, float]:
    crop = result.transform.pair_crop_box_yx
    return width_in, 2 * (min(5.0, (width_in / 2 - 1.0) * crop.h / crop.w) + 0.85) + 0.6


def _morph_size_in(result: TransportResult, width_in: float) -> tuple[float, float]:
    crop, n = result.transform.pair_crop_box_yx, 5
    if crop.w > 1.8 * crop.h:  # one below the other
        return 0.6 * width_in, min(24.0, n * (0.6 * width_in * crop.h / crop.w + 0.4))
    return width_in, min(10.0, width_in / n * crop.h / crop.w + 0.6)


def _convergence(result: TransportResult, figure: Figure) -> None:
    convergence_plot(result, figure.subplots())


_KINDS: dict[str, tuple[Callable[..., object], Callable[[TransportResult, float], tuple[float, float]]]] = {
    "summary": (summary_figure, summary_size_in),
    "overview": (result_overview, _overview_size_in),
    "motion": (motion_figure, motion_size_in),
    "strain": (strain_figure, strain_size_in),
    "morph": (morph_strip, _morph_size_in),
    "convergence": (_convergence, lambda _, width_in: (0.6 * width_in, 0.4 * width_in)),
}

"""Titles and colour bars that the figures of results share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pairframe.report.style import SMALL_SIZE, TITLE_SIZE
from pairframe.results.formatting import in_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

FLAT = 0.3  # height over width of a frame too low for a long label beside its colour bar


def title(ax: Axes, first: str, second: str = "") -> Axes:
    """A title of one or two lines."""
    ax.set_title(f"{first}\n{second}" if second else first, fontsize=TITLE_SIZE, parse_math=False)
    return ax


def colour_bar(
    image: AxesImage, ax: Axes, label: str, *, goes_on: bool = False, ticks: Sequence[float] | None = None
) -> None:
    """A bar as high as the picture beside it, of one thickness in wide and tall frames.

    `goes_on`: some values are above its upper end, which is then pointed. `ticks`: numbers beside it, instead of round ones.
    """
    from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

    (x0, x1), (y1, y0) = ax.get_xlim(), ax.get_ylim()
    thickness = 0.03 * max(1.0, (y1 - y0) / (x1 - x0))
    figure = ax.get_figure()
    assert figure is not None
    bar = figure.colorbar(
        image, cax=ax.inset_axes((1 + 0.6 * thickness, 0.0, thickness, 1.0)), extend="max" if goes_on else "neither"
    )
    bar.locator = MaxNLocator(2 if is_flat(ax) else 4) if ticks is None else FixedLocator(ticks)
    bar.formatter = FuncFormatter(lambda value, _: in_words(value))
    bar.update_ticks()
    bar.ax.tick_params(labelsize=SMALL_SIZE)
    bar.set_label(label, fontsize=SMALL_SIZE)


def is_flat(ax: Axes) -> bool:
    """Whether the axes show something much wider than high."""
    (x0, x1), (y1, y0) = ax.get_xlim(), ax.get_ylim()
    return y1 - y0 < FLAT * (x1 - x0)

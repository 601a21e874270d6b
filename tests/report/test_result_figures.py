"""Pictures of a result show its numbers, where they are."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import pairframe as pf
from pairframe.report import figures
from pairframe.testing import disc

SHAPE = (48, 80)


@pytest.fixture(scope="module")
def result() -> pf.TransportResult:
    source, target = disc(SHAPE, (20, 25), 9), disc(SHAPE, (26, 40), 12)
    return pf.compare(source, target, pf.TransportConfig(px_size_um=2.0))


def new_ax():
    figure = Figure(figsize=(6, 4))
    FigureCanvasAgg(figure)
    return figure.add_subplot()


@pytest.mark.parametrize("name", ["created", "destroyed"])
def test_a_mass_map_is_the_array_with_nothing_shown_as_nothing(result: pf.TransportResult, name: str) -> None:
    ax = getattr(figures, f"{name}_map")(result, new_ax())
    mass = getattr(result, f"mass_{name}")
    shown = np.ma.filled(ax.images[0].get_array(), 0.0)
    np.testing.assert_array_equal(shown, mass)
    assert np.ma.getmaskarray(ax.images[0].get_array())[mass == 0].all()
    assert f"{mass.sum():.4g} px" in ax.get_title()
    assert f"{mass.sum() * 4.0:.4g} µm²" in ax.get_title()
    assert ax.yaxis_inverted()


def test_arrows_start_on_the_source_and_are_as_long_as_the_field(result: pf.TransportResult) -> None:
    ax = figures.velocity_arrows(result, new_ax())
    arrows = next(child for child in ax.get_children() if type(child).__name__ == "Quiver")
    assert arrows.N > 20
    for x, y, dx, dy in zip(arrows.X, arrows.Y, arrows.U, arrows.V, strict=True):
        field_um = result.velocity_field[int(y), int(x)]
        np.testing.assert_allclose([dy, dx], field_um / 2.0)


def test_a_result_without_movement_still_has_a_picture() -> None:
    empty = pf.compare(disc(SHAPE, (20, 25), 9), np.zeros(SHAPE, bool))
    figure = Figure()
    FigureCanvasAgg(figure)
    figures.result_overview(empty, figure)
    figure.canvas.draw()
    assert "nothing" in figure.axes[1].get_title()


def test_the_overview_has_four_panels_with_scale_bars_and_colour_bars(result: pf.TransportResult) -> None:
    figure = Figure(figsize=(10, 6))
    FigureCanvasAgg(figure)
    figures.result_overview(result, figure)
    figure.canvas.draw()
    panels = [ax for ax in figure.axes if ax.get_title()]
    assert len(panels) == 4
    assert all(any("µm" in text.get_text() for text in ax.texts) for ax in panels)
    assert len(figure.axes) == 4 + 3

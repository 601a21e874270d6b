"""The figure of a sweep shows its numbers."""

from __future__ import annotations

import numpy as np
import pytest

import pairframe as pf
from pairframe.report import figures, style
from pairframe.testing import disc

PAIR = disc((48, 80), (20, 25), 9), disc((48, 80), (24, 38), 11)


def lines_of(ax, colour: str) -> list[np.ndarray]:
    return [
        np.asarray(line.get_ydata())
        for line in ax.get_lines()
        if line.get_color() == colour and len(line.get_xdata()) > 2
    ]


def test_created_destroyed_and_displacement_are_the_table() -> None:
    sweep = pf.sweep(*PAIR, reach_um=(5, 10, 20, 40))
    figure = figures.sweep_figure(sweep, figures.new_figure(*figures.sweep_size_in(sweep)))
    figure.canvas.draw()
    axes, table = figure.axes, sweep.table
    for ax, colour, name in (
        (axes[0], style.CREATED_COLOUR, "percent_created"),
        (axes[0], style.DESTROYED_COLOUR, "percent_destroyed"),
        (axes[1], style.MOVED_COLOUR, "percent_moved"),
        (axes[2], style.SOURCE_COLOUR, "mean_displacement_um"),
    ):
        (drawn,) = lines_of(ax, colour)
        np.testing.assert_allclose(drawn, table[name])
    net = 100 * (1 - PAIR[0].sum() / PAIR[1].sum())
    assert any(line.get_ydata()[0] == pytest.approx(net) for line in axes[0].get_lines())
    assert len(axes) == 3 + 4  # a map per reach


def test_a_sweep_over_both_has_a_line_per_blur() -> None:
    sweep = pf.sweep(*PAIR, reach_um=(5, 10, 20), blur_um=(1, 2))
    figure = figures.sweep_figure(sweep, figures.new_figure(*figures.sweep_size_in(sweep)))
    assert len(lines_of(figure.axes[0], style.CREATED_COLOUR)) == 2


def test_a_sweep_over_blurs_has_the_blur_below_it() -> None:
    sweep = pf.sweep(*PAIR, blur_um=(1, 2, 4))
    figure = figures.sweep_figure(sweep, figures.new_figure(*figures.sweep_size_in(sweep)))
    assert figure.axes[0].get_xlabel() == "blur (px)"

"""The frame picture shows what is there."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from pairframe import GridTransform
from pairframe.report import figures
from pairframe.testing import disc, tiny_and_huge_embryo
from pairframe.units import Units


def draw(transform: GridTransform, a: np.ndarray, b: np.ndarray):
    figure = Figure(figsize=(9, 5), dpi=80)
    ax = figures.frame_overview(transform, a, b, figure.add_subplot())
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return ax, np.asarray(canvas.buffer_rgba())


def test_masks_crop_grid_and_bucket_are_drawn_in_image_coordinates() -> None:
    tiny, huge = tiny_and_huge_embryo()
    t = GridTransform.from_pair(tiny, huge, s=4, crop_policy="bucketed", bucket_shapes=[(64, 160)])
    ax, picture = draw(t, tiny, huge)
    assert ax.yaxis_inverted()
    labels = {text.get_text() for text in ax.get_legend().get_texts()}
    assert labels == {"source", "target", "canvas", "pair crop", "work grid", "bucket 64 x 160"}
    crop = t.pair_crop_box_yx
    box = next(line for line in ax.lines if line.get_label() == "pair crop")
    assert (min(box.get_ydata()), max(box.get_ydata())) == (crop.y0, crop.y1)
    for colour in (figures.CROP_COLOUR, figures.BUCKET_COLOUR):
        distance = np.abs(picture[..., :3] / 255 - np.array(to_rgb(colour))).sum(axis=-1)
        assert (distance < 0.02).sum() > 50


def test_the_source_is_where_the_array_says() -> None:
    a, b = disc((40, 60), (10, 15), 6), disc((40, 60), (30, 45), 6)
    ax, _ = draw(GridTransform.from_pair(a, b, s=1), a, b)
    image = ax.images[0].get_array()
    np.testing.assert_allclose(image[10, 15], 0.4 + 0.6 * np.array(to_rgb(figures.SOURCE_COLOUR)))
    np.testing.assert_allclose(image[30, 45], 0.4 + 0.6 * np.array(to_rgb(figures.TARGET_COLOUR)))
    np.testing.assert_array_equal(image[0, 59], 1.0)


@pytest.mark.parametrize("buckets", [None, [(64, 160)]])
def test_no_line_runs_through_the_words_of_the_scale_bar(buckets: list[tuple[int, int]] | None) -> None:
    tiny, huge = tiny_and_huge_embryo()
    policy = "union" if buckets is None else "bucketed"
    ax, _ = draw(GridTransform.from_pair(tiny, huge, s=4, crop_policy=policy, bucket_shapes=buckets), tiny, huge)
    (words,) = ax.texts
    box = words.get_window_extent().transformed(ax.transData.inverted())
    lowest = max(max(line.get_ydata()) for line in ax.lines if not line.get_label().startswith("_"))
    assert min(box.y0, box.y1) > lowest


@pytest.mark.parametrize(("px_size_um", "width", "bar_um"), [(8.0, 576, 500), (0.65, 100, 10), (0.2, 125, 5)])
def test_the_scale_bar_is_round_and_as_long_as_it_says(px_size_um: float, width: int, bar_um: float) -> None:
    ax = figures.add_scale_bar(Figure().add_subplot(), Units(px_size_um), (50, width))
    (bar,) = ax.lines
    assert np.ptp(bar.get_xdata()) * px_size_um == pytest.approx(bar_um)
    assert ax.texts[0].get_text() == f"{bar_um:g} µm"


def test_without_a_pixel_size_the_scale_bar_counts_pixels() -> None:
    ax = figures.add_scale_bar(Figure().add_subplot(), Units(), (50, 9))
    assert ax.texts[0].get_text() == "1 px"


@pytest.mark.parametrize(("px_size_um", "unit"), [(None, "px"), (1.0, "µm"), (2.0, "µm")])
def test_the_unit_is_that_of_the_frame_also_for_one_micrometre(px_size_um: float | None, unit: str) -> None:
    mask = disc((40, 60), (10, 15), 6)
    ax, _ = draw(GridTransform.from_pair(mask, mask, s=1, px_size_um=px_size_um), mask, mask)
    assert ax.texts[0].get_text().split()[1] == unit
    assert ax.get_title().endswith(f" {unit}")

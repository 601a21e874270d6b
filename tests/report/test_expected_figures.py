"""Figures look as they did when a person last looked at them.

Pictures are compared after averaging blocks of 4 x 4 pixels: another version of the fonts moves letters a little, and
that is not what these tests are about. After a change on purpose, look at what this writes, and keep it:
``python tests/report/test_expected_figures.py``
"""

from __future__ import annotations

import io
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import pairframe as pf
from pairframe.report import figures
from pairframe.report.figures.movie import movie_frames
from pairframe.testing import growing_embryo, tiny_and_huge_embryo

EXPECTED = Path(__file__).parent / "expected"
BLOCK = 4
TOLERANCE = 5.0  # root mean square, of 255

PANELS = {
    name: getattr(figures, name)
    for name in (
        "pair_overlay",
        "created_map",
        "destroyed_map",
        "velocity_arrows",
        "speed_map",
        "cost_source_map",
        "cost_target_map",
        "convergence_plot",
    )
}
NAMES = [*PANELS, "frame_overview", "result_overview", "summary_figure", "morph_strip", "movie_frame", "thumbnail"]


@lru_cache(maxsize=1)
def result() -> pf.TransportResult:
    early, late = growing_embryo(6, (128, 288))[1:4:2]
    # Too short a reach for the tip of the tail: some mass is destroyed, so that every picture has something to show.
    return pf.compare(early, late, pf.TransportConfig(px_size_um=20.0, reach_um=300.0))


def draw(name: str) -> Image.Image:
    """One figure as an RGB image."""
    if name == "thumbnail":
        return Image.open(io.BytesIO(figures.thumbnail(result()))).convert("RGB")
    if name == "movie_frame":
        return list(movie_frames(result(), 5))[2]
    large = {"result_overview": (9.0, 5.0), "summary_figure": (9.0, 7.0), "morph_strip": (4.0, 10.0)}
    size = (9.0, 3.6) if name == "frame_overview" else large.get(name, (5.0, 3.2))
    figure = figures.new_figure(*size)
    if name == "frame_overview":
        tiny, huge = tiny_and_huge_embryo((128, 288))
        buckets = [(40, 80)]
        frame = pf.GridTransform.from_pair(tiny, huge, s=4, crop_policy="bucketed", bucket_shapes=buckets)
        figures.frame_overview(frame, tiny, huge, figure.add_subplot())
    elif name in large:
        getattr(figures, name)(result(), figure)
    else:
        PANELS[name](result(), figure.add_subplot())
    content = io.BytesIO()
    figure.savefig(content, dpi=60)
    return Image.open(content).convert("RGB")


def averaged(image: Image.Image) -> np.ndarray:
    """(h, w, 3) means of blocks; what does not fill a block is left out."""
    pixels = np.asarray(image.convert("RGB"), dtype=np.float64)
    h, w = (side // BLOCK for side in pixels.shape[:2])
    return pixels[: h * BLOCK, : w * BLOCK].reshape(h, BLOCK, w, BLOCK, 3).mean(axis=(1, 3))


def difference(one: Image.Image, other: Image.Image) -> float:
    """Root mean square of 255."""
    return float(np.sqrt(np.mean((averaged(one) - averaged(other)) ** 2)))


def expected(name: str) -> Image.Image:
    with Image.open(EXPECTED / f"{name}.png") as image:
        return image.convert("RGB")


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_looks_as_expected(name: str) -> None:
    now, before = draw(name), expected(name)
    assert now.size == before.size
    assert difference(now, before) < TOLERANCE


def test_the_tolerance_tells_any_two_panels_apart() -> None:
    pictures = {name: expected(name) for name in PANELS}
    for one, first in pictures.items():
        for other, second in pictures.items():
            if one < other:
                assert difference(first, second) > 1.5 * TOLERANCE, (one, other)


def test_the_tolerance_sees_a_picture_upside_down() -> None:
    for name in PANELS:
        picture = expected(name)
        assert difference(picture, picture.transpose(Image.Transpose.FLIP_TOP_BOTTOM)) > 1.5 * TOLERANCE


if __name__ == "__main__":
    EXPECTED.mkdir(exist_ok=True)
    for figure_name in NAMES:
        draw(figure_name).quantize(256, dither=Image.Dither.NONE).save(EXPECTED / f"{figure_name}.png", optimize=True)
        print(EXPECTED / f"{figure_name}.png")

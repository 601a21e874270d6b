"""The synthetic shapes are what they say."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage

from pairframe.testing import disc, embryo, growing_embryo, tiny_and_huge_embryo


def test_a_disc_has_its_area() -> None:
    assert disc((50, 60), (25, 30), 18).sum() == pytest.approx(np.pi * 18**2, rel=0.02)


@pytest.mark.parametrize("bend", [-1.0, 0.0, 0.6, 1.4])
@pytest.mark.parametrize("growth", [0.1, 0.5, 1.0])
def test_an_embryo_is_one_piece_without_holes_and_its_area_grows_with_growth_squared(
    bend: float, growth: float
) -> None:
    one = embryo((600, 800), bend=bend)
    grown = embryo((600, 800), bend=bend, growth=growth)
    assert ndimage.label(grown, np.ones((3, 3)))[1] == 1
    assert (ndimage.binary_fill_holes(grown) == grown).all()
    assert grown.sum() == pytest.approx(one.sum() * growth**2, rel=0.15)


def test_bend_bends_the_tail() -> None:
    up, down = (np.argwhere(embryo(bend=bend)) for bend in (0.8, -0.8))
    tail_up, tail_down = (points[points[:, 1].argmax(), 0] for points in (up, down))
    assert tail_up < 128 - 50
    assert tail_down > 128 + 50


@pytest.mark.parametrize("shape", [(256, 576), (1024, 1024)])
def test_tiny_and_huge_differ_fiftyfold(shape: tuple[int, int]) -> None:
    tiny, huge = tiny_and_huge_embryo(shape)
    assert huge.sum() / tiny.sum() == pytest.approx(50, rel=0.05)
    for edge in (huge[0], huge[-1], huge[:, 0], huge[:, -1]):
        assert not edge.any()


def test_a_growing_embryo_grows_longer_in_every_frame() -> None:
    widths = [np.ptp(np.nonzero(frame.any(axis=0))[0]) for frame in growing_embryo(6)]
    assert len(widths) == 6
    assert all(np.diff(widths) > 0)

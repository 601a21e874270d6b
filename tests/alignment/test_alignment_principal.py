"""The last fraction of a degree comes from the principal axes, and only where they are nearly met already."""

from __future__ import annotations

import numpy as np
import pytest

import pairframe as pf
from pairframe.types import Float


def turned_ellipse(angle_deg: float, semi_axes_yx: tuple[float, float] = (25.0, 60.0), side: int = 160) -> Float:
    """Coverage of each pixel (8 x 8 samples), with its centre off the middle of a pixel."""
    angle = np.radians(angle_deg)
    y, x = (np.indices((8 * side, 8 * side)) + 0.5) / 8 - (side / 2 + 0.3)
    along = np.cos(angle) * x + np.sin(angle) * y, np.cos(angle) * y - np.sin(angle) * x
    inside = (along[1] / semi_axes_yx[0]) ** 2 + (along[0] / semi_axes_yx[1]) ** 2 <= 1
    return inside.reshape(side, 8, side, 8).mean(axis=(1, 3))


@pytest.mark.parametrize("angle_deg", [5.0, 34.0, 71.0])
def test_a_turn_is_found_to_a_hundredth_of_a_degree_from_coverage(angle_deg: float) -> None:
    source, target = (pf.Mask(turned_ellipse(one), density=True) for one in (0.0, angle_deg))
    off = np.remainder(abs(pf.align(source, target).angle_deg), 180.0)
    assert min(abs(off - angle_deg), abs(180.0 - off - angle_deg)) < 0.01


def test_axes_of_a_body_that_changed_do_not_move_the_pose() -> None:
    source = turned_ellipse(0.0) > 0.5
    target = source.copy()
    target[:70, 110:] = False  # a corner is missing: its axes turn, the overlap does not
    assert pf.align(source, target).angle_deg == 0.0

"""The four parts of a motion add up to it, and each planted part is found."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairframe.errors import ArgumentError
from pairframe.maps import decompose_motion

NUMBERS = st.floats(-100, 100)


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 40), size=st.floats(1e-3, 1e3))
def test_the_parts_add_up_to_the_mean_squared_displacement(seed: int, n: int, size: float) -> None:
    rng = np.random.default_rng(seed)
    w, x, y = rng.random(n) + 0.01, rng.normal(size=(n, 2)) * size, rng.normal(size=(n, 2)) * size
    found = decompose_motion(w, x, y)
    shares = (found.shift_share, found.turn_share, found.scale_share, found.deformation_share)
    assert found.mean_square == pytest.approx(float(w @ ((y - x) ** 2).sum(axis=1) / w.sum()), rel=1e-10)
    assert math.fsum(shares) == pytest.approx(1.0, rel=1e-12)
    assert min(shares) >= 0
    rest = float(w @ ((y - found.fitted(x)) ** 2).sum(axis=1) / w.sum())
    assert rest == pytest.approx(found.deformation_share * found.mean_square, rel=1e-8, abs=1e-10 * found.mean_square)


@given(shift=st.tuples(NUMBERS, NUMBERS), turn=st.floats(-179, 179), scale=st.floats(0.2, 5))
def test_a_planted_similarity_is_found_without_deformation(
    shift: tuple[float, float], turn: float, scale: float
) -> None:
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(30, 2)) * 10, rng.random(30) + 0.1
    centre = w @ x / w.sum()
    c, s = math.cos(math.radians(turn)), math.sin(math.radians(turn))
    y = scale * (x - centre) @ np.array([[c, -s], [s, c]]).T + centre + np.array(shift)
    found = decompose_motion(w, x, y)
    assert found.shift_yx == pytest.approx(shift, abs=1e-9)
    assert found.turn_deg == pytest.approx(turn, abs=1e-9)
    assert found.scale == pytest.approx(scale, rel=1e-9)
    assert found.deformation_share * found.mean_square < 1e-16 * 1e4


def test_no_motion_has_no_shares_and_one_point_only_shifts() -> None:
    still = decompose_motion([1.0, 2.0], [[0, 0], [1, 1]], [[0, 0], [1, 1]])
    assert (still.mean_square, still.shift_share, still.deformation_share) == (0.0, 0.0, 0.0)
    one = decompose_motion([2.0], [[1, 1]], [[4, 5]])
    assert (one.shift_yx, one.turn_deg, one.scale, one.mean_square, one.shift_share) == (
        (3.0, 4.0),
        0.0,
        1.0,
        25.0,
        1.0,
    )


def test_without_mass_every_number_is_unknown() -> None:
    assert math.isnan(decompose_motion([0.0], [[1, 1]], [[4, 5]]).scale)


def test_wrong_points_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"weights \(n,\) and positions \(n, 2\)"):
        decompose_motion([1.0], [[1, 1]], [[4, 5], [1, 2]])
    with pytest.raises(ArgumentError, match="finite positions and weights"):
        decompose_motion([1.0], [[1, math.nan]], [[4, 5]])

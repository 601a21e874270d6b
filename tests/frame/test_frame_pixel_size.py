"""One pixel size for a pair: sizes that differ by a rounding error are one, others are not."""

from __future__ import annotations

import pytest

from pairframe.errors import PixelSizeError
from pairframe.frame.pixel_size import shared_pixel_size


def test_sizes_within_a_thousandth_are_one() -> None:
    assert shared_pixel_size(0.65, 0.6505, None) == (0.65, ())
    assert shared_pixel_size(0.65, 0.65, 0.6502) == (0.6502, ())


@pytest.mark.parametrize("target_um", [0.652, 0.7, 0.64])
def test_sizes_farther_apart_are_an_error_or_a_notice(target_um: float) -> None:
    with pytest.raises(PixelSizeError, match=r"0\.65 um in the source and"):
        shared_pixel_size(0.65, target_um, None)
    size, (notice,) = shared_pixel_size(0.65, target_um, 0.65)
    assert size == 0.65
    assert f"the target has {target_um:g} um" in str(notice)
    assert "source" not in str(notice)

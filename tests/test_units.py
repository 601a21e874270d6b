"""Units: one value answers every question about lengths, and an unknown pixel size is not 1 um."""

from __future__ import annotations

import pytest

import pairframe as pf
from pairframe.errors import PixelSizeError
from pairframe.units import Units, checked_px_size, pretty


def test_without_a_pixel_size_every_length_is_in_pixels() -> None:
    units = Units()
    assert units.in_px
    assert (units.length, units.length_text, units.area_text) == ("px", "px", "px²")
    assert (units.px_size, units.px_area) == (1.0, 1.0)
    assert units.of("pixel mass um^2") == "pixel mass px^2"


def test_with_a_pixel_size_every_length_is_in_micrometres() -> None:
    units = Units(0.5)
    assert not units.in_px
    assert (units.length, units.length_text, units.area_text) == ("um", "µm", "µm²")
    assert (units.px_size, units.px_area) == (0.5, 0.25)
    assert units.of("um/min") == "um/min"


def test_one_micrometre_is_a_pixel_size() -> None:
    assert Units(1.0).length == "um"
    assert Units(1.0) != Units()
    assert pretty("mass um^2") == "mass µm²"


@pytest.mark.parametrize("bad", [0, -1.0, float("nan"), float("inf"), 1e200, "0.65", True])
def test_a_pixel_size_is_a_positive_finite_number(bad: object) -> None:
    for check in (checked_px_size, Units):
        with pytest.raises(PixelSizeError, match="expected a finite, positive pixel size in um") as found:
            check(bad)  # type: ignore[operator]
        assert found.value.field == "px_size_um"


def test_an_unknown_pixel_size_makes_another_config_than_one_micrometre() -> None:
    unknown, one = pf.TransportConfig(), pf.TransportConfig(px_size_um=1.0)
    assert unknown != one
    assert hash(unknown) != hash(one)
    assert unknown.px_size_um is None
    assert (unknown.units, one.units) == (Units(), Units(1.0))
    assert pf.TransportConfig.from_json('{"px_size_um": null}') == unknown
    assert pf.TransportConfig.from_json('{"px_size_um": 1.0}') == one
    assert "px_size_um" not in unknown.to_toml()
    assert pf.TransportConfig.from_toml("px_size_um = 1.0") == one


def test_a_frame_knows_whether_its_pixel_size_is_known() -> None:
    mask = [[1, 0], [0, 1]]
    default, unknown, one = (
        pf.GridTransform.from_pair(mask, mask, 2),
        pf.GridTransform.from_pair(mask, mask, 2, px_size_um=None),
        pf.GridTransform.from_pair(mask, mask, 2, px_size_um=1.0),
    )
    assert default.px_size_um == 8.0
    assert unknown != one
    assert (unknown.units.length, one.units.length) == ("px", "um")
    assert (unknown.px_area_um2, unknown.work_px_size_um) == (one.px_area_um2, one.work_px_size_um) == (1.0, 2.0)
    assert pf.GridTransform.from_json(unknown.to_json()) == unknown
    assert " um" not in repr(unknown)
    assert "px of 2 um" in repr(one)

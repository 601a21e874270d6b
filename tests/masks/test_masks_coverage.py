"""A moved mask is a coverage: shares of pixels whose sum is an area, also after a file."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

import pairframe as pf
from pairframe.errors import GreyImageError
from pairframe.masks import mass_density
from pairframe.testing import embryo


@pytest.fixture(scope="module")
def moved() -> pf.Mask:
    mask = pf.Mask.from_array(embryo((96, 200), growth=0.4), px_size_um=2.0)
    return pf.canonical_pose(mask, (80, 150), px_size_um=3.0).apply(mask)


def test_it_survives_a_file_and_a_process(moved: pf.Mask, tmp_path: Path) -> None:
    pf.write_mask(moved, tmp_path / "moved.tif")
    for other in (pf.read_mask(tmp_path / "moved.tif"), pickle.loads(pickle.dumps(moved))):
        assert other.coverage
        assert other.is_area
        assert other.px_size_um == 3.0
        np.testing.assert_array_equal(other.values, moved.values)
    assert "coverage" in repr(moved)


def test_its_mass_is_its_area(moved: pf.Mask) -> None:
    assert mass_density(moved, "uniform").sum() == moved.values.sum()
    with pytest.raises(GreyImageError, match="got a coverage"):
        mass_density(moved, "distance_transform")


def test_another_grey_file_is_still_refused(moved: pf.Mask, tmp_path: Path) -> None:
    pf.write_mask(pf.Mask.from_array(moved.values, density=True), tmp_path / "grey.tif")
    with pytest.raises(GreyImageError):
        pf.read_mask(tmp_path / "grey.tif")
    assert not pf.read_mask(tmp_path / "grey.tif", density=True).is_area

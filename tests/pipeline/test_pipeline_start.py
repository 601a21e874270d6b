"""Values go from one work grid to another over the canvas they share."""

from __future__ import annotations

import numpy as np
import pytest

import pairframe as pf
from pairframe.frame import GridTransform
from pairframe.maps import carry_to_grid
from pairframe.pipeline.start import carried_potentials
from pairframe.testing import disc

CANVAS = (24, 30)


def some_grid(rng: np.random.Generator, factor: int) -> GridTransform:
    """Around two random boxes, which may lie anywhere."""
    masks = np.zeros((2, *CANVAS))
    for mask in masks:
        y, x = rng.integers(0, 20), rng.integers(0, 26)
        mask[y : y + rng.integers(1, 8), x : x + rng.integers(1, 8)] = 1
    return GridTransform.from_pair(*masks, factor, pad=int(rng.integers(0, 4)), px_size_um=1.0)


@pytest.mark.parametrize("old_factor", [1, 2, 3])
@pytest.mark.parametrize("new_factor", [1, 2, 3])
def test_every_pixel_gets_the_value_of_the_old_pixel_that_holds_its_centre(old_factor: int, new_factor: int) -> None:
    rng = np.random.default_rng(10 * old_factor + new_factor)
    n_known = []
    for _ in range(40):
        old, new = some_grid(rng, old_factor), some_grid(rng, new_factor)
        first, second = rng.random((2, *old.work_shape_hw))
        first[rng.random(first.shape) < 0.2] = np.nan
        expected = np.full((2, *new.work_shape_hw), np.nan)
        for y, x in np.ndindex(new.work_shape_hw):
            centre = new.work_to_canon_yx(np.array([[y + 0.5, x + 0.5]]))
            at_y, at_x = np.floor(old.canon_to_work_yx(centre)[0]).astype(int)
            if 0 <= at_y < old.work_shape_hw[0] and 0 <= at_x < old.work_shape_hw[1]:
                expected[:, y, x] = first[at_y, at_x], second[at_y, at_x]
        np.testing.assert_array_equal(carry_to_grid(old, new, first, second), expected)
        n_known.append(np.isfinite(expected[1]).sum() / expected[1].size)
    assert min(n_known) == 0, "some grids are apart"
    assert 0 < np.median(n_known) < 1, "most overlap in part"


@pytest.mark.parametrize(("metric", "power"), [("sqeuclidean", 2), ("euclidean", 1)])
@pytest.mark.parametrize(("old_factor", "new_factor"), [(4, 2), (2, 4), (3, 3)])
def test_carried_potentials_are_the_same_costs_in_canonical_pixels(
    metric: str, power: int, old_factor: int, new_factor: int
) -> None:
    a, b = disc((48, 48), (22, 24), 9), disc((48, 48), (26, 24), 9)
    config = pf.TransportConfig(metric=metric, backend="oracle", downsample_factor=old_factor, pad=4, reach_um=20.0)
    old = pf.compare(a, b, config)
    new = GridTransform.from_pair(a, b, new_factor, pad=4, px_size_um=1.0)
    carried = carried_potentials(old, new, metric, new.to_work(a))
    assert carried is not None
    work = old.work
    potentials = carry_to_grid(old.transform, new, work.potential_source, work.potential_target)
    for found, before in zip(carried, potentials, strict=True):
        assert np.isfinite(found).any()
        np.testing.assert_allclose(found * new_factor**power, before * old_factor**power, rtol=1e-12)

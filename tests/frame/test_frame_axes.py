"""Boxes, pooling and lifting do not count axes."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from pairframe import BoxYX, errors
from pairframe.frame import Box, tight_box
from pairframe.frame.pool import real_pixels_per_block, splat, sum_pool

SHAPES = [(7,), (5, 9), (5, 6, 7), (3, 2, 5, 4)]


@pytest.mark.parametrize("shape", SHAPES)
def test_the_tight_box_holds_all_mass_and_touches_it_on_every_side(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(len(shape))
    density = np.where(rng.random(shape) < 0.2, rng.random(shape), 0.0)
    density[tuple(side // 2 for side in shape)] = 1.0
    box = tight_box(density)
    assert box is not None
    places = np.argwhere(density)
    assert box.lo == tuple(places.min(axis=0))
    assert box.hi == tuple(places.max(axis=0) + 1)
    assert density[box.slices].shape == box.shape
    assert tight_box(density, density.max(axis=-1) > 0) == box
    assert tight_box(np.zeros(shape)) is None


def test_boxes_of_three_axes_unite_grow_and_are_cut_at_the_canvas() -> None:
    box, other = Box((1, 2, 3), (2, 4, 6)), Box((0, 3, 3), (1, 9, 4))
    both = box.union(other)
    assert both == Box((0, 2, 3), (2, 9, 6))
    assert both.contains(box)
    assert not box.contains(both)
    assert box.expand(2).clamp((5, 5, 7)) == Box((0, 0, 1), (4, 5, 7))
    assert str(box) == "z 1:2, y 2:4, x 3:6"
    with pytest.raises(errors.FrameError, match="touches the 5 x 2 x 9 canvas, got z 1:2, y 2:4, x 3:6"):
        box.clamp((5, 2, 9))
    with pytest.raises(errors.FrameError, match="at least one pixel along every axis, got z 1:1, y 2:4, x 3:6"):
        Box((1, 2, 3), (1, 4, 6))
    with pytest.raises(errors.FrameError, match="at least one pixel along every axis, got corners"):
        Box((1, 2), (3,))
    with pytest.raises(errors.FrameError, match=r"Box\.hi of integers, got \(2, 4\.5\)"):
        Box((1, 2), (2, 4.5))


def test_the_box_of_an_image_is_a_box_with_named_sides() -> None:
    box = BoxYX(np.int64(1), 4, 2, 7)
    assert (box.lo, box.hi) == ((1, 2), (4, 7))
    assert type(box.union(BoxYX(0, 1, 0, 1)).expand(1)) is BoxYX
    assert BoxYX(**box.to_dict()) == box == pickle.loads(pickle.dumps(box))
    assert len({box, BoxYX(1, 4, 2, 7)}) == 1
    assert repr(box) == "BoxYX(y0=1, y1=4, x0=2, x1=7)"


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("anisotropic", [False, True])
def test_pooled_blocks_are_sums_over_blocks(shape: tuple[int, ...], anisotropic: bool) -> None:
    rng = np.random.default_rng(1)
    mass = rng.integers(0, 9, shape).astype(np.int32)
    sides = tuple(1 + axis % 3 for axis in range(len(shape))) if anisotropic else (2,) * len(shape)
    blocks = tuple(-(-n // side) + 1 for n, side in zip(shape, sides, strict=True))  # the last one lies past the end
    expected = np.zeros(blocks)
    for place in np.ndindex(shape):
        expected[tuple(k // side for k, side in zip(place, sides, strict=True))] += mass[place]
    pooled = np.full(blocks, np.nan)
    sum_pool(mass, sides if anisotropic else 2, pooled)
    np.testing.assert_array_equal(pooled, expected)


@pytest.mark.parametrize("shape", SHAPES)
def test_lifting_keeps_the_mass_of_every_block_and_repeats_values(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(2)
    blocks = tuple(-(-n // 2) for n in shape)
    mass = rng.random(blocks)
    lifted = np.full(shape, np.nan)
    real = [real_pixels_per_block(n, 2, count) for n, count in zip(shape, blocks, strict=True)]
    splat(mass, 2, lifted, len(shape), real)
    again = np.empty(blocks)
    sum_pool(lifted, 2, again)
    np.testing.assert_allclose(again, mass, rtol=1e-14)
    vectors, repeated = rng.random((*blocks, 3)), np.full((*shape, 3), np.nan)
    splat(vectors, 2, repeated, len(shape))
    for place in np.ndindex(shape):
        np.testing.assert_array_equal(repeated[place], vectors[tuple(k // 2 for k in place)])

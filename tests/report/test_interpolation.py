"""Between source and target no mass is lost, invented or torn apart."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pairframe as pf
from pairframe.errors import InputError
from pairframe.report.figures import Interpolation, interpolation_frames
from pairframe.report.interpolation import splat
from pairframe.testing import disc, growing_embryo

SHAPE = (40, 60)


def work_masses(result: pf.TransportResult) -> tuple[np.ndarray, np.ndarray]:
    valid = result.transform.work_valid_box_yx.slices
    return result.work.mass_source[valid], result.work.mass_target[valid]


@st.composite
def pairs(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, pf.TransportConfig]:
    """Specks, holes, densities, empty sides; any downsample factor and bucket."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    masks = [rng.random((13, 17)) * (rng.random((13, 17)) < draw(st.sampled_from([0.02, 0.3, 1.0]))) for _ in "ab"]
    masks[0][draw(st.integers(0, 12)), draw(st.integers(0, 16))] = 1.0
    if draw(st.booleans()):
        masks = masks[::-1]
    bucketed = draw(st.booleans())
    config = pf.TransportConfig(
        mass_mode="intensity",
        blur_um=draw(st.sampled_from([0.5, 2.0])),
        reach_um=draw(st.sampled_from([2.0, 50.0])),
        downsample_factor=draw(st.integers(1, 4)),
        crop_policy="bucketed" if bucketed else "union",
        bucket_shapes=((20, 30),) if bucketed else None,
        debias=draw(st.booleans()),
        max_iterations=draw(st.sampled_from([2, 2000])),
    )
    return masks[0], masks[1], config


@given(pairs())
@settings(max_examples=25, deadline=None)
def test_mass_goes_from_source_to_target_in_even_steps(pair) -> None:
    result = pf.compare(*pair)
    frames = interpolation_frames(result, 5)
    expected = np.linspace(result.M_source, result.M_target, 5)
    np.testing.assert_allclose(frames.sum(axis=(1, 2)), expected, rtol=1e-12)
    assert (frames >= 0).all()
    source, target = work_masses(result)
    np.testing.assert_allclose(frames[0], source, atol=1e-12)
    np.testing.assert_allclose(frames[-1], target, atol=1e-12)


@given(
    at=st.lists(st.tuples(st.floats(-9, 19), st.floats(-9, 19)), min_size=1, max_size=30),
    shape=st.tuples(st.integers(1, 9), st.integers(1, 9)),
)
def test_a_splat_loses_nothing_and_keeps_centres(at: list[tuple[float, float]], shape: tuple[int, int]) -> None:
    points, mass = np.array(at), np.arange(1.0, len(at) + 1)
    grid = splat(points, mass, shape)
    assert grid.sum() == pytest.approx(mass.sum(), rel=1e-13)
    inside = np.clip(points, 0, np.array(shape) - 1)
    centre = [(grid * axis).sum() for axis in np.indices(shape)]
    np.testing.assert_allclose(centre, mass @ inside, rtol=1e-9, atol=1e-9)


def test_half_way_of_a_shift_is_the_mask_in_the_middle() -> None:
    a, b, middle = (disc(SHAPE, (20, x), 8) for x in (15, 41, 28))
    result = pf.compare(a, b, pf.TransportConfig(penalty="balanced"))
    half = interpolation_frames(result, 3)[1]
    expected = middle[result.transform.pair_crop_box_yx.slices]
    np.testing.assert_allclose(half, expected, atol=1e-3)


@pytest.mark.parametrize("swap", [False, True])
def test_an_expansion_leaves_no_holes_and_no_stripes(swap: bool) -> None:
    pair = [disc((90, 90), (45, 45), radius).astype(float) for radius in (10, 36)]
    pair[1] *= pair[0].sum() / pair[1].sum()  # equal masses: all of it moves
    config = pf.TransportConfig(mass_mode="intensity", penalty="balanced")
    way = Interpolation.of(pf.compare(*(pair[::-1] if swap else pair), config))
    for time in (0.15, 0.4, 0.5, 0.6, 0.85):
        frame = way.frame(time)
        near = 10 + 26 * ((1 - time) if swap else time)
        ys, xs = np.indices(frame.shape) - (np.array(frame.shape)[:, None, None] - 1) / 2
        inside = np.hypot(ys, xs) < 0.6 * near
        level = frame.sum() / (np.pi * near**2)
        assert frame[inside].min() > 0.75 * level
        assert frame[inside].std() < 0.08 * level


def test_a_mask_against_itself_stays() -> None:
    a = disc(SHAPE, (20, 30), 12)
    frames = interpolation_frames(pf.compare(a, a), 5)
    np.testing.assert_allclose(frames, np.broadcast_to(frames[0], frames.shape), atol=2e-3)


def test_what_is_destroyed_fades_out_where_it_is_and_what_is_created_fades_in() -> None:
    a, b = disc(SHAPE, (10, 10), 5), disc(SHAPE, (30, 50), 5)
    result = pf.compare(a, b, pf.TransportConfig(reach_um=3.0))  # much too far to travel
    source, target = work_masses(result)
    for k, frame in enumerate(interpolation_frames(result, 5)):
        np.testing.assert_allclose(frame, (1 - k / 4) * source + k / 4 * target, atol=0.01)


def test_a_real_pair_takes_no_detour() -> None:
    early, late = growing_embryo(4, (64, 144))[1:3]
    result = pf.compare(early, late)
    frames = interpolation_frames(result, 9)
    # Successive frames are nearer to each other than the ends are: no jump anywhere, also not next to the exact ends.
    steps = np.abs(np.diff(frames, axis=0)).sum(axis=(1, 2))
    assert steps.max() < 0.4 * np.abs(frames[-1] - frames[0]).sum()


@pytest.mark.parametrize("n", [1, 0, -3, 2.5, True, "5", None])
def test_a_movie_has_at_least_two_frames(n) -> None:
    result = pf.compare(disc(SHAPE, (20, 30), 5), disc(SHAPE, (20, 30), 5))
    with pytest.raises(InputError, match="n to be an integer >= 2"):
        interpolation_frames(result, n)

"""What the widget of napari does, without napari: layers in, layers out."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pairframe as pf
from pairframe.engines import TraceRecord
from pairframe.errors import ArgumentError
from pairframe.report.napari.compare_layers import (
    CancelledError,
    Job,
    as_masses,
    compare_pairs,
    frame_pairs,
    new_layers,
    notices_of,
    pixel_size_um,
    plane,
    voxel_size_um,
    words,
)
from pairframe.testing import ball, disc
from pairframe.testing.napari_samples import embryo_series, two_embryos

SHAPE = (40, 60)
FRAMES = np.stack([disc(SHAPE, (20, 20 + 3 * t), 9) for t in range(3)])


def layer(data: Any, scale: tuple[float, ...] | None = None, units: tuple[str, ...] | None = None) -> Any:
    n = np.ndim(data)
    made = SimpleNamespace(name="cells", data=data, scale=scale or (1.0,) * n, translate=(0.0,) * n)
    if units:
        made.units = units
    return made


def test_the_pixel_size_is_that_of_the_layer() -> None:
    assert pixel_size_um(layer(FRAMES[0])) is None
    assert pixel_size_um(layer(FRAMES[0], (0.65, 0.65))) == 0.65
    assert pixel_size_um(layer(FRAMES, (1.0, 65.0, 65.0), ("pixel", "nanometer", "nanometer"))) == pytest.approx(0.065)
    assert pixel_size_um(layer(FRAMES[0], (1.0, 1.0), ("micrometer", "micrometer"))) == 1.0
    with pytest.raises(ArgumentError, match="square pixels"):
        pixel_size_um(layer(FRAMES[0], (0.65, 2.0)))


def test_labels_are_masks_and_brightness_is_mass() -> None:
    labels = np.array([[0, 1], [2, 2]])
    ((all_a, _),), mode = as_masses([(labels, labels)], are_labels=True)
    assert (all_a.sum(), mode) == (3, "uniform")
    ((two, _),), _ = as_masses([(labels, labels)], are_labels=True, label=2)
    assert two.sum() == 2
    assert as_masses([(labels, labels)], are_labels=False)[1] == "intensity"
    ((mask, _),), mode = as_masses([(255 * (labels > 0), labels > 0)], are_labels=False)
    assert (mask.sum(), mode) == (3, "uniform")


def test_a_plane_is_taken_where_the_slider_is_and_colours_are_refused() -> None:
    np.testing.assert_array_equal(plane(layer(FRAMES), (2,)), FRAMES[2])
    np.testing.assert_array_equal(plane(layer(FRAMES), (9,)), FRAMES[2])
    np.testing.assert_array_equal(plane(layer(FRAMES[1]), (5,)), FRAMES[1])
    colour = layer(np.zeros((8, 8, 3)))
    colour.rgb = True
    with pytest.raises(ArgumentError, match="one channel"):
        plane(colour)
    with pytest.raises(ArgumentError, match="frames over time"):
        frame_pairs(layer(FRAMES[0]))


def test_a_series_gives_layers_with_its_axis_and_in_its_place() -> None:
    stack = layer(FRAMES, (1.0, 2.0, 2.0), ("pixel", "micrometer", "micrometer"))
    stack.translate = (0.0, 10.0, 20.0)
    job = Job(2, 1e-6)
    results = compare_pairs(frame_pairs(stack), pf.TransportConfig(px_size_um=2.0), job)
    assert job.fraction == 1.0
    layers = new_layers(results, stack)
    assert [look["name"] for _, look, _ in layers] == ["created", "destroyed", "displacement"]
    for data, look, _ in layers:
        assert look["translate"] == (0.0, 10.0, 20.0)
        assert look["scale"] == (1.0, 2.0, 2.0)
        assert len(look["units"]) == 3
        assert data.shape[-1] in (60, 3)
    np.testing.assert_allclose(layers[-1][1]["features"]["length_um"], 6.0, atol=0.1)
    assert words(results).count("moved by 6 um") == 2
    assert words(results[:1]).startswith("40 x 60 px: moved by 6 um")


def test_layers_of_an_extended_canvas_lie_over_the_source() -> None:
    small, large = disc(SHAPE, (20, 10), 6), disc(SHAPE, (20, 20), 14)
    config = pf.TransportConfig(align="shift")
    pairs = [(small, large), (large, large)]  # moved onto the small one, the large disc does not fit on the canvas
    results = compare_pairs(pairs, config, Job(2, 1e-6))
    assert results[0].pose is not None
    extended = results[0].pose.source_canvas
    assert extended.shape_hw != SHAPE
    stack = layer(np.stack([small, large]), (1.0, 2.0, 2.0))
    (created, look, _), _, (vectors, _, _) = new_layers(results, stack)
    assert created.shape[0] == 2
    top, left = np.array(look["translate"][1:]) / -2.0
    assert (top, left) == extended.origin_yx
    new = np.argwhere(created[0] > 0.5) - (top, left)  # in pixels of the source
    np.testing.assert_allclose(new.mean(axis=0), (20, 10), atol=0.7)
    starts = vectors[vectors[:, 0, 0] == 0, 0, 1:] - (top, left)
    assert small[tuple(starts.astype(int).T)].all()
    starts = vectors[vectors[:, 0, 0] == 1, 0, 1:] - (top, left)
    assert large[tuple(starts.astype(int).T)].all()


def test_cancelling_ends_at_the_next_iteration() -> None:
    job = Job(2, 1e-6)
    job.iterated(TraceRecord(1.0, 1.0, 1.0))
    job.iterated(TraceRecord(2.0, 1e-3, 1e-3))
    assert 0.2 < job.fraction < 0.3  # half of the digits of one of two pairs
    job.cancel()
    with pytest.raises(CancelledError):
        compare_pairs(list(itertools.pairwise(FRAMES)), pf.TransportConfig(), job)
    assert job.done == 0


def test_a_notice_of_many_pairs_is_shown_once() -> None:
    config = pf.TransportConfig(reach_um=4.0, blur_um=2.0)
    results = compare_pairs(frame_pairs(layer(FRAMES)), config, Job(2, 1e-6))
    found = {notice.code: sentence for notice, sentence in notices_of(results)}
    assert found["blur_too_long"].startswith("in 2 of 2 pairs: ")
    assert len(found) == len({notice.code for result in results for notice in result.notices})


def test_samples_are_layers_that_can_be_compared() -> None:
    (early, *_), (late, *_) = two_embryos()
    assert early.shape == late.shape == (256, 576)
    ((series, look, kind),) = embryo_series()
    assert (series.ndim, kind, look["scale"]) == (3, "labels", (1.0, 10.0, 10.0))


def test_volumes_are_compared_at_the_position_of_their_other_axes() -> None:
    voxel_um = (2.0, 1.0, 1.0)
    series = np.stack([ball((10, 24, 26), (5, 11, 11 + 2 * t), 7.0, voxel_um) for t in range(3)])
    cells = layer(series, (1.0, 4.0, 2.0, 2.0), ("pixel", *("micrometer",) * 3))
    assert voxel_size_um(cells, pixel_size_um(cells)) == (4.0, 2.0, 2.0)
    assert voxel_size_um(cells, None) is None
    np.testing.assert_array_equal(plane(cells, (1,), 3), series[1])
    pairs, mode = as_masses(frame_pairs(cells, 3), are_labels=True)
    results = compare_pairs(pairs, pf.TransportConfig(px_size_um=(4.0, 2.0, 2.0), mass_mode=mode), Job(2, 1e-6))
    assert [result.mean_displacement_um for result in results] == pytest.approx([4.0, 4.0], rel=1e-3)
    created = next(data for data, look, _ in new_layers(results, cells) if look["name"] == "created")
    assert created.shape == (2, 10, 24, 26)
    (vectors, look, _) = next(one for one in new_layers(results[:1], cells) if one[1]["name"] == "displacement")
    assert (look["scale"], vectors.shape[1:]) == ((4.0, 2.0, 2.0), (2, 3))
    np.testing.assert_allclose(np.median(vectors[:, 1], axis=0), (0.0, 0.0, 2.0), atol=0.01)


def test_layers_that_are_no_volumes_are_explained() -> None:
    with pytest.raises(ArgumentError, match="untick the box volume"):
        plane(layer(FRAMES[0]), (), 3)
    with pytest.raises(ArgumentError, match=r"volumes over time \(T, Z, Y, X\).*untick the box"):
        frame_pairs(layer(FRAMES), 3)
    with pytest.raises(ArgumentError, match=r"frames over time.*tick the box volume"):
        frame_pairs(layer(FRAMES[None]))

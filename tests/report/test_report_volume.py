"""Pictures of a volume: sections, projections, planes, a movie through depth, napari layers."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

import pairframe as pf
from pairframe.errors import ArgumentError
from pairframe.report.figures import (
    convergence_plot,
    new_figure,
    summary_figure,
    summary_size_in,
    thumbnail,
    write_movie,
)
from pairframe.report.html import write_report
from pairframe.report.html.light import read_light
from pairframe.report.html.pictures import known_view, make_figures, make_pictures
from pairframe.report.napari import displacement_vectors, result_layers
from pairframe.report.volume import changed_centre, depth_places, flattened, section
from pairframe.testing import ball

VOXEL_UM = (2.0, 1.0, 1.0)
SHAPE = (16, 40, 44)


@pytest.fixture(scope="module")
def grown() -> pf.TransportResult:
    """A ball that moved by (0, 3, 4) um, and a small one that is new, at (5, 33, 36)."""
    source = ball(SHAPE, (8, 15, 16), 10.0, VOXEL_UM)
    target = ball(SHAPE, (8, 18, 20), 10.0, VOXEL_UM) | ball(SHAPE, (5, 34, 37), 3.0, VOXEL_UM)
    return pf.compare(source, target, pf.TransportConfig(px_size_um=VOXEL_UM, reach_um=16.0))


def test_the_projection_keeps_all_mass_and_the_mean_displacement(grown: pf.TransportResult) -> None:
    flat = flattened(grown)
    assert flat.work.mass_source.sum() == grown.M_source
    assert flat.work.mass_created.sum() == pytest.approx(grown.total_mass_created)
    assert flat.transform.canon_shape_hw == (40, 44)
    known = np.isfinite(flat.work.velocity_px[..., 0])
    np.testing.assert_allclose(np.median(flat.work.velocity_px[known], axis=0), (3.0, 4.0), atol=0.3)


def test_sections_go_through_what_changed(grown: pf.TransportResult) -> None:
    z, y, x = changed_centre(grown.work)
    at = grown.transform.work_to_canon_yx(np.array([z, y, x]))
    assert abs(at - np.array([5, 34, 37])).max() <= 1
    for axis, (place, side) in enumerate(zip((z, y, x), VOXEL_UM, strict=True)):
        cut = section(grown, axis, place)
        assert cut.created.sum() > 0
        assert cut.at_um == pytest.approx((at[axis] + 0.5) * side)
        left, right, bottom, top = cut.extent_um
        shape = np.delete(np.array(grown.transform.work_shape_hw) * np.array(VOXEL_UM), axis)
        np.testing.assert_allclose((bottom - top, right - left), shape)
    middle = section(grown, 0, 8 - grown.transform.pair_crop_box_yx.lo[0])
    np.testing.assert_allclose(np.nanmedian(middle.velocity_um.reshape(-1, 2), axis=0), (3.0, 4.0), atol=0.3)


def test_sections_do_not_fall_between_two_pieces_that_changed() -> None:
    created = np.zeros((4, 6, 40))
    created[1:3, 2:4, 3:6] = 1.0
    created[1:3, 2:4, 33:37] = 1.0  # half of all planes of mass lie before the gap is over
    created[1:3, 2:4, 20] = 0.01
    nothing = np.zeros(created.shape)
    work = SimpleNamespace(mass_created=created, mass_destroyed=nothing, mass_source=created, mass_target=created)
    for axis, place in enumerate(changed_centre(work)):  # type: ignore[arg-type]
        profile = created.sum(axis=tuple(k for k in range(3) if k != axis))
        assert profile[place] == profile.max()
    created[1:3, 2:4, 33] = 0.0  # as much on both sides: the middle is in the gap
    assert changed_centre(work)[2] in (5, 34)  # type: ignore[arg-type]


def test_created_and_destroyed_mass_have_one_scale(grown: pf.TransportResult) -> None:
    figure = summary_figure(grown, new_figure(*summary_size_in(grown)))
    scales = [ax.images[0].get_clim() for ax in figure.axes if ax.get_title().startswith(("created", "destroyed"))]
    assert len(scales) == 2
    assert scales[0] == scales[1]
    assert scales[0][1] > 1.0


def test_planes_run_from_the_first_to_the_last_with_mass(grown: pf.TransportResult) -> None:
    places = depth_places(grown, 100)
    mass = (grown.work.mass_source + grown.work.mass_target).sum(axis=(1, 2))
    assert places == list(range(np.flatnonzero(mass)[0], np.flatnonzero(mass)[-1] + 1))
    assert len(depth_places(grown, 4)) == 4


def test_a_volume_has_a_figure_a_movie_and_pictures(grown: pf.TransportResult, tmp_path: Path) -> None:
    figure = summary_figure(grown, new_figure(*summary_size_in(grown)))
    titles = [ax.get_title() for ax in figure.axes if ax.get_title()]
    assert [title.split(" ")[0] for title in titles] == ["section"] * 3 + ["created:", "destroyed:", "over"]
    assert "z = 11 µm" in titles[0]
    movie = write_movie(grown, tmp_path / "movie.gif")
    with Image.open(movie) as film:
        assert film.n_frames == len(depth_places(grown, 41))
    view = make_figures(grown, tmp_path / "pair")
    assert known_view(tmp_path / "pair") == view
    assert len(view.slices_um) == len(depth_places(grown, 41))
    assert view.n_morph == 0
    names = {path.name for path in (tmp_path / "pair").iterdir()}
    assert {"slices.png", "summary.png", "source.png", "created.png", "thumbnail.png", "through_depth.gif"} <= names
    assert thumbnail(flattened(grown), 64).startswith(b"\x89PNG")
    assert "data:image/png" in grown._repr_html_()


def test_a_large_cohort_draws_volumes_from_their_work_maps(grown: pf.TransportResult, tmp_path: Path) -> None:
    grown.save(tmp_path / "store", pair_id="pair")
    (group,) = (tmp_path / "store" / "maps.zarr").glob("*.zip")
    view = make_pictures(read_light(group, "pair"), tmp_path / "pair")
    assert len(view.slices_um) == len(depth_places(grown, 41))
    assert not view.has_figures


def test_napari_layers_of_a_volume_have_the_shape_of_its_voxels(grown: pf.TransportResult) -> None:
    layers = result_layers(grown)
    assert {properties["scale"] for _, properties, _ in layers} == {VOXEL_UM}
    assert all(data.shape == SHAPE for data, _, kind in layers if kind != "vectors")
    vectors = displacement_vectors(grown)
    assert vectors.shape[1:] == (2, 3)
    np.testing.assert_allclose(np.median(vectors[:, 1], axis=0), (0.0, 3.0, 4.0), atol=0.3)
    look = layers[-1][1]
    assert (look["units"], look["axis_labels"]) == (("um",) * 3, ("z", "y", "x"))
    np.testing.assert_allclose(np.median(look["features"]["length_um"]), 5.0, atol=0.3)


def test_a_volume_in_a_notebook(grown: pf.TransportResult) -> None:
    pytest.importorskip("xarray")
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    assert grown.plot()._repr_png_().startswith(b"\x89PNG")
    with pytest.raises(ArgumentError, match="summary"):
        grown.plot("morph")
    axes = grown.to_xarray().plot()
    assert axes.flat[2].get_title() == "mass_created, summed over depth"
    assert all(ax.yaxis_inverted() for ax in axes.flat)
    pyplot.close("all")


def test_the_page_of_a_volume_names_what_it_shows(grown: pf.TransportResult, tmp_path: Path) -> None:
    grown.save(tmp_path / "store", pair_id="pair")
    write_report(tmp_path / "store")
    (page,) = (tmp_path / "store" / "pairs").glob("*.html")
    html = page.read_text()
    assert "displacement within the plane (y, x), mean along z" in html
    assert f'{page.stem}/through_depth.gif">As a movie' in html
    masses = re.findall(r'title="column (?:M_source|total_mass_\w+)".*?</td><td>(.*?)</td>', html)
    assert len(masses) >= 4
    assert set(masses) == {"voxels"}
    assert ">source volume</th>" in html
    assert "voxels per column" in html


def test_a_given_result_is_not_read_again(
    grown: pf.TransportResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grown.save(tmp_path / "store", pair_id="pair")
    monkeypatch.setattr("pairframe.report.html.write.read_group", lambda *_: pytest.fail("it was read"))
    assert write_report(tmp_path / "store", results={"pair": grown}).is_file()


def test_planes_with_oblong_pixels_are_drawn_to_scale(tmp_path: Path) -> None:
    voxel_um = (2.0, 1.0, 2.0)
    pair = [ball((12, 40, 20), (6, 20 + k, 10), 8.0, voxel_um) for k in range(2)]
    view = make_pictures(pf.compare(*pair, pf.TransportConfig(px_size_um=voxel_um)), tmp_path / "pair")
    height, width = view.frame_hw_px
    assert height == pytest.approx(width, abs=2)  # both sides are 40 um, cropped alike
    assert view.bar_percent == pytest.approx(100 * view.bar_length / (2.0 * width))


def test_the_curve_of_a_solve_says_which_iterations_it_counts(grown: pf.TransportResult) -> None:
    ax = convergence_plot(grown, new_figure(4, 3).add_subplot())
    assert f"after {grown.iterations} iterations at full resolution" in ax.get_title()
    assert "coarser grids" in ax.get_xlabel()

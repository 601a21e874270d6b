"""The figures of strain and body axis, and where the report shows them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import pairframe as pf
from pairframe.axis.table import axis_rows, drawn_axis, radial_rows, read_profiles, to_csv
from pairframe.report.figures import (
    AXIS_SIZE_IN,
    RADIAL_SIZE_IN,
    axis_figure,
    new_figure,
    radial_figure,
    strain_figure,
    strain_size_in,
)
from pairframe.report.figures.strain import LEAST_TICK
from pairframe.report.html import write_report
from pairframe.report.napari import result_layers
from pairframe.results.strain_maps import anisotropy, rim_of

ROD = np.pad(np.ones((12, 60), bool), 14)
ROD[14:30, 14:30] = True
LONGER = ROD | np.roll(ROD, 6, axis=1)


@pytest.fixture(scope="module")
def result() -> pf.TransportResult:
    return pf.compare(ROD, LONGER, pf.TransportConfig(strain=True, px_size_um=0.5))


def test_the_strain_figure_has_three_maps_and_names_the_hypothesis(result: pf.TransportResult) -> None:
    figure = strain_figure(result, new_figure(*strain_size_in(result)))
    titles = [ax.get_title().splitlines()[0] for ax in figure.axes if ax.get_title()]
    assert titles == ["areal expansion", "anisotropy of the stretch", "growth"]
    assert figure.get_suptitle().startswith("least motion")


def test_an_empty_pair_can_be_drawn() -> None:
    empty = pf.compare(ROD, np.zeros_like(ROD), pf.TransportConfig(strain=True))
    figure = strain_figure(empty, new_figure(*strain_size_in(empty)))
    figure.canvas.draw()


def test_the_axis_figure_names_head_and_tail(result: pf.TransportResult) -> None:
    axis = pf.body_axis(result)
    figure = axis_figure(result, axis, pf.axis_profile(result, axis), new_figure(*AXIS_SIZE_IN))
    words = {text.get_text() for text in figure.axes[0].texts}
    assert {"head", "tail"} <= words
    assert "head: assumed at the thicker end" in figure.axes[0].get_title()


def test_ends_that_cannot_be_told_apart_are_not_called_head_and_tail() -> None:
    rod, longer = np.zeros((2, 40, 100), bool)
    rod[14:26, 20:70], longer[14:26, 20:80] = True, True
    even = pf.compare(rod, longer)
    axis = pf.body_axis(even)
    assert axis.is_ambiguous
    figure = axis_figure(even, axis, pf.axis_profile(even, axis), new_figure(*AXIS_SIZE_IN))
    words = [text.get_text() for ax in figure.axes for text in ax.texts]
    labels = [ax.get_xlabel() for ax in figure.axes] + [
        text.get_text() for ax in figure.axes if ax.get_legend() for text in ax.get_legend().get_texts()
    ]
    assert {"end A", "end B", "beyond\nend A"} <= set(words)
    assert not any("head" in word or "tail" in word for word in words + labels)
    assert "which end is the head is not known" in figure.axes[0].get_title()


def test_ticks_are_drawn_where_a_stretch_is_more_than_steps_of_the_outline() -> None:
    ys, xs = np.indices((120, 180)) - np.array([60, 90])[:, None, None]
    narrow, wide = ((ys / 40) ** 2 + (xs / (50 * size)) ** 2 <= 1 for size in (1.0, 1.2))
    turned = (ys / 40) ** 2 + ((xs - 0.4) / 50.2) ** 2 <= 1  # other steps, nearly the same ellipse
    even = pf.TransportConfig(strain=True, penalty="balanced", normalization="each")
    n_ticks = []
    for target in (wide, turned):
        found = pf.compare(narrow, target, even)
        inside = ~rim_of(found) & found.work.velocity_valid
        # Steps alone exceed the least tick in many pixels.
        assert np.mean(anisotropy(found.work.strain)[inside] > LEAST_TICK) > 0.3
        ax = strain_figure(found, new_figure(*strain_size_in(found))).axes[1]
        n_ticks.append(sum(line.get_color() == "black" for line in ax.lines))
    assert n_ticks[0] > 70
    assert n_ticks[1] < 0.15 * n_ticks[0]


def test_growth_beyond_the_tail_has_a_bar_beside_the_bins(result: pf.TransportResult) -> None:
    axis = pf.body_axis(result)
    profile = pf.axis_profile(result, axis, n_bins=5)
    mass = axis_figure(result, axis, profile, new_figure(*AXIS_SIZE_IN)).axes[2]
    assert [text.get_text() for text in mass.texts] == ["beyond\nthe head", "beyond\nthe tail"]
    hatched = [bar for bar in mass.patches if bar.get_hatch()]
    (beyond,) = (bar for bar in hatched if bar.get_height() > 1.0)
    assert beyond.get_x() > 1.0
    bars = sum(bar.get_height() for bar in mass.patches if bar.get_height() > 0)
    assert bars == pytest.approx(result.total_mass_created * 0.25, rel=1e-6)
    same = pf.compare(ROD, ROD)
    rounding = pf.axis_profile(same).assign(mass_created=1e-8, mass_created_beyond=1e-9)
    still = axis_figure(same, axis, rounding, new_figure(*AXIS_SIZE_IN)).axes[2]
    assert not still.texts
    assert still.get_xlim() == (0.0, 1.0)


def test_the_head_is_drawn_where_the_table_has_it(result: pf.TransportResult) -> None:
    rows, axis = axis_rows(result, "pair")
    assert axis is not None
    swapped = rows.assign(head_y_um=axis.centreline_yx_um[-1, 0], head_x_um=axis.centreline_yx_um[-1, 1])
    assert drawn_axis(result, rows).head_yx_um == axis.head_yx_um
    assert drawn_axis(result, swapped).head_yx_um == pytest.approx(tuple(axis.centreline_yx_um[-1]))


def test_the_page_shows_both_and_a_profile_that_came_later(result: pf.TransportResult, tmp_path: Path) -> None:
    result.save(tmp_path)
    write_report(tmp_path)
    (page,) = (tmp_path / "pairs").glob("*.html")
    assert "strain.png" in page.read_text()
    assert "axis.png" not in page.read_text()
    (tmp_path / "axis_profile.csv").write_bytes(to_csv(axis_rows(result, "pair")[0]))
    write_report(tmp_path)
    assert "axis.png" in page.read_text()
    assert (tmp_path / "pairs" / page.stem / "axis.png").is_file()


def test_a_profile_that_changed_is_drawn_again_and_other_pictures_stay(
    result: pf.TransportResult, tmp_path: Path
) -> None:
    result.save(tmp_path)
    folder, seen = tmp_path / "pairs", []
    for n_bins in (20, 20, 5):
        (tmp_path / "axis_profile.csv").write_bytes(to_csv(axis_rows(result, "pair", n_bins=n_bins)[0]))
        write_report(tmp_path)
        (summary,) = folder.glob("*/summary.png")
        (drawn,) = folder.glob("*/axis.png")
        seen.append((summary.stat().st_mtime_ns, drawn.stat().st_mtime_ns, drawn.read_bytes()))
    assert seen[0] == seen[1]
    assert seen[2][0] == seen[0][0]
    assert seen[2][2] != seen[0][2]
    (tmp_path / "axis_profile.csv").unlink()
    write_report(tmp_path)
    assert not drawn.exists()
    (page,) = folder.glob("*.html")
    assert "axis.png" not in page.read_text()


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"pair_id,bin\n1,2\n", b'"'])
def test_a_damaged_profile_is_not_shown(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "axis_profile.csv").write_bytes(content)
    assert read_profiles(tmp_path) == {}


def test_other_programs_get_the_maps(result: pf.TransportResult, tmp_path: Path) -> None:
    dataset = result.to_xarray()
    np.testing.assert_array_equal(dataset["areal_expansion"], result.areal_expansion)
    assert dataset["local_growth_rate"].attrs["units"] == "1"
    assert dataset["strain_maps"].attrs["labels"].split()[0] == "ddy_dy"
    names = [properties["name"] for _, properties, _ in result_layers(result)]
    assert names[:3] == ["areal expansion", "anisotropy", "local growth rate"]
    result.save_csv(tmp_path / "maps.csv")
    header = (tmp_path / "maps.csv").read_text().splitlines()[0].split(",")
    assert header[-5:] == [*(f"dd{of}_d{by}" for of in "yx" for by in "yx"), "local_growth_rate"]


def test_a_radial_profile_is_drawn_and_shown(result: pf.TransportResult, tmp_path: Path) -> None:
    result.save(tmp_path)
    for by, words in (("centre", "from the centre"), ("outline", "inside is negative"), ("angle", "up 90")):
        rows = radial_rows(result, "pair", by, n_bins=6)
        figure = radial_figure(rows, new_figure(*RADIAL_SIZE_IN))
        assert words in figure.axes[1].get_xlabel()
        assert len(figure.axes[0].patches) == 12
    areas = radial_figure(rows, new_figure(*RADIAL_SIZE_IN), px_size=0.5, is_area=True).axes
    assert areas[0].get_ylabel() == "area\nµm²"
    drawn = sum(bar.get_height() for bar in areas[0].patches if bar.get_height() > 0)
    assert drawn == pytest.approx(result.total_mass_created * 0.25)
    still = rows.assign(displacement_outward_um=1e-9, displacement_clockwise_um=0.0)
    low, high = radial_figure(still, new_figure(*RADIAL_SIZE_IN), px_size=0.5).axes[1].get_ylim()
    assert high - low >= 0.05  # rounding errors do not fill it
    (tmp_path / "radial_profile.csv").write_bytes(to_csv(rows))
    write_report(tmp_path)
    (page,) = (tmp_path / "pairs").glob("*.html")
    assert "Around the centre" in page.read_text()
    (tmp_path / "radial_profile.csv").write_bytes(b"pair_id,bin\npair,2\n")
    write_report(tmp_path)
    assert "Around the centre" not in page.read_text()


def test_the_rim_is_pale_unless_the_object_is_thin() -> None:
    thin = np.pad(np.ones((9, 60), bool), 14)  # with a rim of 4 px on both sides, hardly anything lies deeper
    assert not rim_of(pf.compare(thin, thin, pf.TransportConfig(strain=True))).any()
    wide = np.pad(np.ones((40, 60), bool), 14)
    rim = rim_of(pf.compare(wide, wide, pf.TransportConfig(strain=True)))
    assert rim.sum() == 40 * 60 - 32 * 52

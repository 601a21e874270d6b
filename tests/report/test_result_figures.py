"""Pictures of a result show its numbers, where they are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.figure import Figure
from matplotlib.quiver import Quiver

import pairframe as pf
from pairframe.notices import Notice
from pairframe.report import figures, style
from pairframe.report.figures.arrows import Arrows, magnification, sample_objects
from pairframe.report.view import left_share
from pairframe.results import formatting
from pairframe.results.formatting import in_words
from pairframe.testing import disc

SHAPE = (48, 80)
PANELS = (
    figures.pair_overlay,
    figures.velocity_arrows,
    figures.speed_map,
    figures.created_map,
    figures.destroyed_map,
    figures.cost_source_map,
    figures.cost_target_map,
)


@pytest.fixture(scope="module")
def result() -> pf.TransportResult:
    source, target = disc(SHAPE, (20, 25), 9), disc(SHAPE, (26, 40), 12)
    return pf.compare(source, target, pf.TransportConfig(px_size_um=2.0, reach_um=20.0, penalty="kl"))


def new_ax():
    return figures.new_figure(6, 4).add_subplot()


def drawn(figure: Figure) -> np.ndarray:
    figure.canvas.draw()
    return np.asarray(figure.canvas.buffer_rgba())[..., :3]


def the(kind: type, ax):
    return next(child for child in ax.get_children() if isinstance(child, kind))


def in_crop(result: pf.TransportResult, canonical: np.ndarray) -> np.ndarray:
    return canonical[result.transform.pair_crop_box_yx.slices]


# --- maps ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["created", "destroyed"])
def test_a_mass_map_is_the_array_with_nothing_shown_as_nothing(result: pf.TransportResult, name: str) -> None:
    ax = getattr(figures, f"{name}_map")(result, new_ax())
    mass = in_crop(result, getattr(result, f"mass_{name}"))
    shown = ax.images[0].get_array()
    np.testing.assert_array_equal(np.ma.filled(shown, 0.0), mass)
    assert np.ma.getmaskarray(shown)[mass == 0].all()
    assert ax.images[0].cmap(np.ma.masked_invalid([np.nan]))[0, 3] == 0  # no number, no colour
    total = mass.sum()
    assert f"{total:.4g} px = {total * 4:.4g} µm²" in ax.get_title().replace(",", "")
    assert "1 px = 4 µm²" in ax.child_axes[0].get_ylabel()
    assert ax.yaxis_inverted()


def test_created_and_destroyed_share_one_colour_scale(result: pf.TransportResult) -> None:
    limits = [panel(result, new_ax()).images[0].get_clim() for panel in (figures.created_map, figures.destroyed_map)]
    assert limits == [(0.0, 1.0), (0.0, 1.0)]


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_cost_map_is_the_attributed_cost(result: pf.TransportResult, side: str) -> None:
    ax = getattr(figures, f"cost_{side}_map")(result, new_ax())
    cost = in_crop(result, getattr(result, f"cost_{side}"))
    np.testing.assert_array_equal(np.ma.filled(ax.images[0].get_array(), 0.0), cost)
    assert np.ma.sum(ax.images[0].get_array()) == pytest.approx(result.total_transport_cost_um2)
    assert "µm²" in ax.child_axes[0].get_ylabel()


def test_speed_is_the_length_of_the_field_only_where_it_is_known(result: pf.TransportResult) -> None:
    shown = figures.speed_map(result, new_ax()).images[0].get_array()
    known = in_crop(result, result.velocity_valid)
    np.testing.assert_array_equal(~np.ma.getmaskarray(shown), known)
    field = in_crop(result, result.velocity_field)
    np.testing.assert_allclose(shown.compressed(), np.linalg.norm(field[known], axis=-1), rtol=1e-14)


def test_every_map_is_drawn_where_the_frame_is(result: pf.TransportResult) -> None:
    crop = result.transform.pair_crop_box_yx
    for panel in PANELS:
        ax = panel(result, new_ax())
        assert ax.images[0].get_extent() == [crop.x0, crop.x1, crop.y1, crop.y0]
        assert (ax.get_xlim(), ax.get_ylim()) == ((crop.x0, crop.x1), (crop.y1, crop.y0))
        assert any(text.get_text().endswith(" µm") for text in ax.texts)


def test_a_rim_runs_along_the_edges_of_the_pixels() -> None:
    one = np.zeros(SHAPE, bool)
    one[20, 30] = True
    ax = figures.created_map(pf.compare(disc(SHAPE, (20, 25), 5), one), new_ax())
    corners = {tuple(point) for line in the(LineCollection, ax).get_segments() for point in line}
    assert corners == {(30, 20), (31, 20), (30, 21), (31, 21)}


# --- arrows ----------------------------------------------------------------------------------


def test_arrows_start_where_the_field_is_known_and_are_as_long_as_it_is_around_them(result: pf.TransportResult) -> None:
    arrows = the(Quiver, figures.velocity_arrows(result, new_ax()))
    assert arrows.N > 20
    for x, y, dx, dy in zip(arrows.X, arrows.Y, arrows.U, arrows.V, strict=True):
        assert result.velocity_valid[int(y), int(x)]
        around = result.velocity_field[max(0, int(y) - 3) : int(y) + 4, max(0, int(x) - 3) : int(x) + 4] / 2.0
        low, high = np.nanmin(around, axis=(0, 1)) - 0.1, np.nanmax(around, axis=(0, 1)) + 0.1
        assert (low <= [dy, dx]).all()
        assert (high >= [dy, dx]).all()


def test_every_object_has_an_arrow_however_small_it_is() -> None:
    field, weight = np.full((120, 160, 2), np.nan), np.zeros((120, 160))
    large, small, ring = disc((120, 160), (40, 40), 30), disc((120, 160), (100, 20), 1), np.zeros((120, 160), bool)
    ring |= disc((120, 160), (60, 120), 25) & ~disc((120, 160), (60, 120), 23)
    for mask, vector in ((large, (0.0, 2.0)), (small, (-3.0, 0.0)), (ring, (1.0, 1.0))):
        field[mask], weight[mask] = vector, 1.0
    arrows = sample_objects(field, weight, 12.0)
    seen: dict[tuple[float, ...], list[float]] = {}
    for (y, x), vector, mass in zip(arrows.starts_yx.astype(int), arrows.vectors_yx, arrows.mass, strict=True):
        assert weight[y, x] > 0  # the middle of a ring is empty
        seen.setdefault(tuple(np.round(vector, 12)), []).append(mass)
    assert {vector: len(found) for vector, found in seen.items()}.keys() == {(0.0, 2.0), (-3.0, 0.0), (1.0, 1.0)}
    assert (len(seen[0.0, 2.0]) > 10, len(seen[-3.0, 0.0]), len(seen[1.0, 1.0]) > 4) == (True, 1, True)


def test_arrows_are_magnified_no_more_than_fits() -> None:
    starts, mass = np.array([[50.0, 10.0], [50.0, 90.0], [20.0, 50.0]]), np.array([100.0, 100.0, 1.0])
    short = Arrows(starts, np.array([[0.0, 0.5], [0.0, 0.5], [0.5, 0.0]]), mass)
    assert magnification(short, 10.0, (100, 100)) == 20
    near_the_edge = Arrows(starts, np.array([[0.0, 0.5], [0.0, 0.5], [-8.0, 0.0]]), mass)
    assert magnification(near_the_edge, 10.0, (100, 100)) == 1  # that of little mass would leave the picture
    assert magnification(Arrows(starts, 20 * short.vectors_yx, mass), 10.0, (100, 100)) == 1


def test_a_few_pixels_do_not_rule_the_colours_and_the_maximum_is_named() -> None:
    still, away = disc((60, 200), (30, 40), 20), disc((60, 200), (30, 100), 1.5)
    found = pf.compare(
        still | away, disc((60, 200), (30, 41), 20) | np.roll(away, 30, 1), pf.TransportConfig(reach_um=60)
    )
    ax = figures.speed_map(found, new_ax(), frame_interval_min=2.0)
    assert ax.images[0].get_clim()[1] < 3
    assert "30 px at most" in ax.get_title()
    assert f"({in_words(found.mean_displacement_um / 2)} px/min)" in ax.get_title()


def test_mass_that_was_destroyed_makes_the_displacement_faint() -> None:
    found = pf.compare(disc(SHAPE, (20, 25), 9), disc(SHAPE, (20, 27), 6))
    alpha = np.asarray(figures.speed_map(found, new_ax()).images[0].get_alpha())
    share = left_share(found)
    known = in_crop(found, found.velocity_valid)
    assert alpha[~known].max() == 0
    np.testing.assert_allclose(alpha[known], 0.15 + 0.85 * share[known])
    assert share[known].min() < 0.5 < share.max()


def test_arrows_point_down_when_the_mass_goes_down() -> None:
    a, b = disc((80, 60), (20, 30), 8), disc((80, 60), (50, 30), 8)
    ax = figures.velocity_arrows(pf.compare(a, b, pf.TransportConfig(penalty="balanced")), new_ax())
    arrows = the(Quiver, ax)
    assert (arrows.V > 25).all()
    assert ax.yaxis_inverted()
    assert arrows.angles == "xy"  # in data coordinates, so that a positive dy is down in the picture too
    assert "to scale" in ax.get_title()


def test_short_arrows_are_magnified_by_a_factor_that_is_named() -> None:
    a, b = disc((80, 80), (40, 40), 30), disc((80, 80), (40, 41), 30)
    ax = figures.velocity_arrows(pf.compare(a, b, pf.TransportConfig(penalty="balanced")), new_ax())
    arrows = the(Quiver, ax)
    assert arrows.scale < 1
    assert f"arrows {1 / arrows.scale:g} times longer" in ax.get_title()
    np.testing.assert_allclose(arrows.U, 1.0, atol=1e-3)


def test_rounding_errors_are_never_magnified() -> None:
    a = disc((60, 60), (30, 30), 20)
    same = pf.compare(a, a)
    ax = figures.velocity_arrows(same, new_ax())
    assert not [child for child in ax.get_children() if isinstance(child, Quiver)]
    assert ax.get_title() == "stayed: 100% of the source\nno motion above 0.05 px"
    assert figures.speed_map(same, new_ax()).images[0].get_clim()[1] >= 0.05


def test_a_thin_ring_between_the_points_of_the_grid_still_has_arrows() -> None:
    ring = disc((120, 120), (60, 60), 50) & ~disc((120, 120), (60, 60), 49)
    ax = figures.velocity_arrows(pf.compare(ring, disc((120, 120), (60, 62), 50)), new_ax())
    assert the(Quiver, ax).N >= 1


def test_a_small_disc_is_not_buried_under_its_arrows() -> None:
    found = pf.compare(disc(SHAPE, (20, 25), 5), disc(SHAPE, (24, 33), 6))
    arrows = the(Quiver, figures.velocity_arrows(found, new_ax()))
    starts = np.stack([arrows.X, arrows.Y], axis=-1)
    apart = np.linalg.norm(starts[:, None] - starts, axis=-1)[~np.eye(arrows.N, dtype=bool)]
    longest = max(found.transform.pair_crop_box_yx.shape)
    assert apart.min() >= longest / 48
    assert 9 <= arrows.N <= 40


# --- convergence -----------------------------------------------------------------------------


def test_the_convergence_plot_is_the_trace_on_a_log_scale(result: pf.TransportResult) -> None:
    ax = figures.convergence_plot(result, new_ax())
    assert ax.get_yscale() == "log"
    gap, error, tolerance = ax.lines
    trace = result.work.trace
    np.testing.assert_array_equal(error.get_xdata(), [record.iterations for record in trace])
    np.testing.assert_array_equal(error.get_ydata(), [record.marginal_error for record in trace])
    shown = np.array(gap.get_ydata())
    expected = np.array([record.gap for record in trace]) / (result.gap / result.relative_gap)
    np.testing.assert_allclose(shown[np.isfinite(shown)], expected[expected > 0])
    assert set(tolerance.get_ydata()) == {result.config.tol}


def test_a_pair_without_a_solve_has_no_curve() -> None:
    ax = figures.convergence_plot(pf.compare(disc(SHAPE, (20, 25), 9), np.zeros(SHAPE, bool)), new_ax())
    assert not ax.lines
    assert ax.texts[0].get_text() == "no solve: empty_target"


def test_an_unconverged_result_says_so_in_every_panel() -> None:
    a, b = disc(SHAPE, (20, 25), 9), disc(SHAPE, (26, 40), 12)
    stopped = pf.compare(a, b, pf.TransportConfig(max_iterations=1))
    assert stopped.status == pf.Status.max_iterations
    for panel in (*PANELS, figures.convergence_plot):
        assert any("not converged" in text.get_text() for text in panel(stopped, new_ax()).texts)
    figure = figures.summary_figure(stopped, figures.new_figure(12, 8))
    assert "NOT CONVERGED" in figure.get_suptitle()
    assert stopped.status.advice in " ".join(figure.get_suptitle().split())  # it is wrapped


# --- whole figures ---------------------------------------------------------------------------


@pytest.mark.parametrize(("draw", "panels"), [(figures.result_overview, 4), (figures.summary_figure, 6)])
def test_an_overview_has_its_panels_with_titles_and_scale_bars(result: pf.TransportResult, draw, panels: int) -> None:
    figure = draw(result, figures.new_figure(12, 8))
    drawn(figure)
    axes = [ax for ax in figure.axes if ax.get_title()]
    assert len(axes) == panels
    assert len({ax.get_title() for ax in axes}) == panels
    assert all(any(text.get_text().endswith(" µm") for text in ax.texts) for ax in axes)


def one_pixel(y: int, x: int) -> np.ndarray:
    mask = np.zeros((300, 300), bool)
    mask[y, x] = True
    return mask


def rectangle(shape: tuple[int, int], y: slice, x: slice) -> np.ndarray:
    mask = np.zeros(shape, bool)
    mask[y, x] = True
    return mask


FULL = np.ones((24, 36), bool)
EDGE_CASES = {
    "empty target": (disc(SHAPE, (20, 25), 9), np.zeros(SHAPE, bool)),
    "empty source": (np.zeros(SHAPE, bool), disc(SHAPE, (20, 25), 9)),
    "one pixel": (one_pixel(150, 150), one_pixel(150, 153)),
    "one pixel canvas": (np.ones((1, 1), bool), np.ones((1, 1), bool)),
    "full canvas": (FULL, FULL),
    "full against part": (FULL, disc(FULL.shape, (12, 18), 8)),
    "tall": (
        rectangle((300, 20), slice(10, 200), slice(5, 12)),
        rectangle((300, 20), slice(60, 290), slice(7, 14)),
    ),
    "wide": (
        rectangle((20, 300), slice(5, 12), slice(10, 200)),
        rectangle((20, 300), slice(7, 14), slice(60, 290)),
    ),
    "disjoint": (disc(SHAPE, (8, 8), 4), disc(SHAPE, (40, 70), 4)),
}


@pytest.mark.parametrize(
    ("name", "factor"), [*((name, 1) for name in EDGE_CASES), ("one pixel canvas", 4), ("full against part", 5)]
)
def test_edge_cases_have_all_their_pictures(name: str, factor: int) -> None:
    found = pf.compare(*EDGE_CASES[name], pf.TransportConfig(downsample_factor=factor, px_size_um=0.65))
    figure = figures.summary_figure(found, figures.new_figure(*figures.summary_size_in(found, 9.0)))
    assert drawn(figure).min() < 128
    figures.convergence_plot(found, new_ax())
    figures.cost_target_map(found, new_ax())


def test_what_is_missing_is_called_nothing() -> None:
    lost = pf.compare(*EDGE_CASES["empty target"])
    assert figures.velocity_arrows(lost, new_ax()).get_title() == "moved: nothing"
    assert figures.created_map(lost, new_ax()).get_title().startswith("created: nothing")
    assert "100% of the source" in figures.destroyed_map(lost, new_ax()).get_title()


@pytest.mark.parametrize("name", ["empty target", "out of reach"])
def test_where_nothing_moved_nothing_is_painted_and_no_scale_is_shown(name: str) -> None:
    pairs = {"out of reach": EDGE_CASES["disjoint"], **EDGE_CASES}
    found = pf.compare(*pairs[name], pf.TransportConfig(reach_um=1.0, blur_um=0.5))
    ax = figures.velocity_arrows(found, new_ax())
    assert ax.get_title() == "moved: nothing"
    assert (ax.images[0].get_array() == 1).all()  # a rim, but no disc that looks as if it had moved
    assert any(child.get_segments() for child in ax.get_children() if isinstance(child, LineCollection))
    for panel in (figures.cost_source_map, figures.cost_target_map):
        ax = panel(found, new_ax())
        assert not ax.child_axes
        assert np.ma.getmaskarray(ax.images[0].get_array()).all()
        assert ax.get_title().endswith("none: nothing moved")


def test_what_is_too_small_to_see_has_a_circle_and_nothing_else_has() -> None:
    far = pf.compare(one_pixel(50, 50), one_pixel(50, 250))
    circles = [the(PathCollection, panel(far, new_ax())) for panel in PANELS]
    assert all(circle.get_offsets().tolist() in ([[50.5, 50.5]], [[250.5, 50.5]]) for circle in circles)
    labels = [text.get_text() for text in figures.pair_overlay(far, new_ax()).get_legend().get_texts()]
    assert "around tiny ones" in labels
    near = pf.compare(one_pixel(150, 150), one_pixel(150, 153))  # large in its frame
    for panel in PANELS:
        assert not any(isinstance(child, PathCollection) for child in panel(near, new_ax()).get_children())


def test_dust_has_no_circles_when_they_would_hide_the_picture() -> None:
    dust = np.random.default_rng(0).random((150, 150)) < 0.01
    ax = figures.created_map(pf.compare(dust, dust), new_ax())
    assert not any(isinstance(child, PathCollection) for child in ax.get_children())


def test_a_small_object_on_a_huge_canvas_is_seen_through_its_frame() -> None:
    shape = (1500, 2000)
    a, b = disc(shape, (700, 900), 5), disc(shape, (702, 903), 6)
    found = pf.compare(a, b, pf.TransportConfig(pad=4))
    for panel in PANELS:
        assert max(panel(found, new_ax()).images[0].get_array().shape) < 40


def test_no_picture_invents_micrometres() -> None:
    found = pf.compare(disc(SHAPE, (20, 25), 9), disc(SHAPE, (26, 40), 12))  # nobody said how large a pixel is
    for panel in PANELS:
        ax = panel(found, new_ax())
        words = [ax.get_title(), *(text.get_text() for text in ax.texts), *(bar.get_ylabel() for bar in ax.child_axes)]
        assert "µm" not in "".join(words)
        assert any(text.get_text().endswith(" px") for text in ax.texts)


def test_a_pixel_of_one_micrometre_is_believed() -> None:
    found = pf.compare(disc(SHAPE, (20, 25), 9), disc(SHAPE, (26, 40), 12), pf.TransportConfig(px_size_um=1.0))
    for panel in PANELS:
        assert any(text.get_text().endswith(" µm") for text in panel(found, new_ax()).texts)


def test_intensities_are_not_called_areas() -> None:
    grey = disc(SHAPE, (20, 25), 9) * 3.5
    found = pf.compare(grey, 0.5 * grey, pf.TransportConfig(mass_mode="intensity", px_size_um=2.0))
    ax = figures.destroyed_map(found, new_ax())
    assert "µm²" not in ax.get_title() + ax.child_axes[0].get_ylabel()
    assert "mass" in ax.get_title()


def test_a_notice_is_text_and_not_mathematics(result: pf.TransportResult) -> None:
    from dataclasses import replace

    odd = replace(result, notices=(Notice("odd", r"a $\frac{1}{ <b>file</b>" + 500 * "x"),))
    figure = figures.result_overview(odd, figures.new_figure(12, 8))
    drawn(figure)
    assert r"$\frac{1}{ <b>file</b>" in " ".join(figure.get_suptitle().split())
    assert len(figure.get_suptitle()) < 500


# --- numbers and colours ---------------------------------------------------------------------


@given(st.floats(1e-3, 1e11))
def test_numbers_in_words_are_right_to_four_digits(value: float) -> None:
    text = formatting.in_words(value)
    assert "e" not in text
    assert float(text.replace(",", "")) == pytest.approx(value, rel=6e-4)


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0"), (1e-13, "<0.001"), (267060.0, "267,100"), (75.531, "75.53"), (9999.6, "10,000")]
)
def test_numbers_in_words(value: float, text: str) -> None:
    assert formatting.in_words(value) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (1.0, "100%"),
        (0.9996, "99.96%"),
        (0.99996, "99.996%"),
        (1 - 2e-6, ">99.999%"),
        (1 - 1e-12, "100%"),
        (1.0004, "100.04%"),
        (1 + 2e-6, "<100.001%"),
        (0.4261, "42.6%"),
        (2e-6, "<0.001%"),
        (1e-9, "0%"),
        (0.0, "0%"),
        (53.0, "5,300%"),
    ],
)
def test_nearly_all_is_not_called_all_and_nearly_nothing_not_nothing(share: float, text: str) -> None:
    assert formatting.percent(share, 1.0) == text


@given(st.floats(0, 3))
def test_a_percentage_says_100_of_nothing_else(share: float) -> None:
    assert (formatting.percent(share, 1.0) == "100%") == (abs(share - 1) <= 1e-9)


@given(st.floats(1e-6, 1e6))
@settings(max_examples=50)
def test_a_round_length_is_round_and_fits(target: float) -> None:
    length = style.round_length(target)
    assert target / 2.5 * (1 - 1e-9) <= length <= target * (1 + 1e-8)
    assert f"{length:.6e}"[0] in "125"


@pytest.mark.parametrize("colours", [style.CREATED_MAP, style.DESTROYED_MAP, style.SPEED_MAP, style.COST_MAP])
def test_colour_maps_also_read_in_grey(colours) -> None:
    shades = style.colour_map(colours)(np.linspace(0, 1, 64))[:, :3] @ np.array([0.2126, 0.7152, 0.0722])
    steps = np.diff(shades)
    assert (steps >= 0).all() or (steps <= 0).all()


def test_created_and_destroyed_are_told_apart_by_the_colour_blind() -> None:
    # Vienot et al. 1999: what a protanope and a deuteranope see of linear RGB.
    blind = {
        "protanope": np.array([[0.11238, 0.88762, 0.0], [0.11238, 0.88762, 0.0], [0.00401, -0.00401, 1.0]]),
        "deuteranope": np.array([[0.29275, 0.70725, 0.0], [0.29275, 0.70725, 0.0], [-0.02234, 0.02234, 1.0]]),
    }
    for matrix in blind.values():
        pairs = (
            (style.CREATED_COLOUR, style.DESTROYED_COLOUR),
            (style.SOURCE_COLOUR, style.TARGET_COLOUR),
            (style.MOVED_COLOUR, style.DESTROYED_COLOUR),
        )
        for one, other in pairs:
            seen = [(matrix @ style.rgb(colour) ** 2.2).clip(0) ** (1 / 2.2) for colour in (one, other)]
            assert np.linalg.norm(seen[0] - seen[1]) > 0.15

"""Pose and motion in words, figures and on the page: what was planted is what they say."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.quiver import Quiver

import pairframe as pf
from pairframe.alignment import Canvas, Similarity, resample
from pairframe.report import figures
from pairframe.report.html import write_report
from pairframe.results.motion_words import motion_sentences, pose_sentences
from pairframe.results.rows import result_row
from pairframe.testing import disc, embryo
from pairframe.types import Bool

SMALL = embryo((96, 200), growth=0.4)
PX_UM = 2.0


def moved_by(change: Similarity, image: Bool = SMALL) -> Bool:
    return resample(image, 1.0, change, Canvas((140, 240), 1.0, (20, 20))) > 0.5


def placed(image: Bool) -> Bool:
    return np.pad(image, ((20, 24), (20, 20)))


def compare(source: Bool, target: Bool, **options: object) -> pf.TransportResult:
    masks = [pf.Mask.from_array(image, px_size_um=PX_UM) for image in (source, target)]
    return pf.compare(*masks, pf.TransportConfig(**options))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def turned() -> pf.TransportResult:
    """An embryo that turned by 30 degrees clockwise, 6 px down and 4 px to the right, and was aligned."""
    change = Similarity(-30.0, (6.0, 4.0), False, 1.0, (48.0, 100.0))
    return compare(placed(SMALL), moved_by(change), align="rigid")


@pytest.fixture(scope="module")
def shifted() -> pf.TransportResult:
    """The same embryo 5 px down and 12 px to the left, compared as given."""
    return compare(placed(SMALL), np.roll(placed(SMALL), (5, -12), (0, 1)))


def words_of(result: pf.TransportResult) -> str:
    row = result_row(result, "pair")
    return " ".join([*motion_sentences(row, result.units), *pose_sentences(row, result.units)])


def arrows_of(ax: Axes) -> tuple[np.ndarray, np.ndarray]:
    """Starts and vectors (n, 2), y and x in um, as drawn."""
    (quiver,) = [child for child in ax.get_children() if isinstance(child, Quiver)]
    starts = np.asarray(quiver.get_offsets())[:, ::-1]
    return starts, np.stack([quiver.V, quiver.U], axis=1)


def test_a_shift_is_all_of_the_motion_of_a_shifted_mask(shifted: pf.TransportResult) -> None:
    text = words_of(shifted)
    assert "100 % is a shift of the whole object" in text
    assert "shifted by 26 µm (24 to the left, 10 down)" in text
    assert "The masks were compared as given. If position and orientation are not the question, align" in text
    row = result_row(shifted, "pair")
    assert row["motion_shift_share"] == pytest.approx(1.0, abs=1e-6)
    assert (row["motion_shift_dy_um"], row["motion_shift_dx_um"]) == pytest.approx((10.0, -24.0), abs=1e-3)
    assert row["motion_rms_um"] == pytest.approx(26.0, abs=1e-3)


def test_a_turn_is_told_from_the_source_to_the_target_and_the_pose_back(turned: pf.TransportResult) -> None:
    text = words_of(turned)
    (degrees,) = re.findall(r"moved mass shifted by .*? turned by ([0-9.]+)° clockwise", text)
    assert float(degrees) == pytest.approx(30.0, abs=0.3)
    (degrees,) = re.findall(r"the target was .*turned by ([0-9.]+)° counter-clockwise, onto the source", text)
    assert float(degrees) == pytest.approx(30.0, abs=0.3)
    assert "The next best pose, turned by" in text
    row = result_row(turned, "pair")
    shares = [row[f"motion_{part}_share"] for part in ("shift", "turn", "scale", "deformation")]
    assert sum(shares) == pytest.approx(1.0)
    assert shares[3] < 0.01
    assert row["pose_runner_up_angle_deg"] is not None
    assert 0 < row["pose_margin"] < 0.1


def test_nothing_is_said_of_shares_where_nothing_moved() -> None:
    same = compare(SMALL, SMALL)
    assert words_of(same) == "Nothing moved by more than 0.1 µm (root mean square). The masks were compared as given."
    empty = compare(SMALL, np.zeros(SMALL.shape, bool))
    assert result_row(empty, "pair")["motion_rms_um"] is None
    assert motion_sentences(result_row(empty, "pair"), empty.units) == []


def test_a_pose_that_is_not_determined_comes_with_advice() -> None:
    found = compare(disc((90, 90), (40, 40), 20), disc((90, 90), (45, 48), 24), align="rigid")
    text = words_of(found)
    assert "give landmarks, or do not align." in text
    assert "shifted by 18.87 µm (16 to the left, 10 up)" in text


def test_whole_arrows_end_on_the_targets_own_image(turned: pf.TransportResult) -> None:
    ax = figures.whole_motion_arrows(turned, figures.new_figure(5, 4).add_subplot())
    starts, vectors = arrows_of(ax)
    assert "arrows to scale" in ax.get_title()
    change = Similarity(-30.0, (6.0 * PX_UM, 4.0 * PX_UM), False, 1.0, (68.0 * PX_UM, 120.0 * PX_UM))
    np.testing.assert_allclose(starts + vectors, change.of_points(starts), atol=0.6 * PX_UM)
    left = figures.deformation_arrows(turned, figures.new_figure(5, 4).add_subplot())
    (size,) = re.findall(r"what is left after the pose: ([0-9.<]+) µm", left.get_title())
    assert float(size.strip("<")) < 0.3 * PX_UM


def test_what_is_left_of_a_shift_is_nothing(shifted: pf.TransportResult) -> None:
    ax = figures.deformation_arrows(shifted, figures.new_figure(5, 4).add_subplot())
    assert "after the best shift, turn and scale" in ax.get_title()
    assert "nothing above 0.05 px" in ax.get_title()
    # The outline of the target lies on the source again.
    outline = max((line.get_xydata() for line in ax.get_lines()), key=len)[:, ::-1]
    rows, columns = np.nonzero(placed(SMALL))
    np.testing.assert_allclose(outline.min(axis=0), (rows.min() * PX_UM, columns.min() * PX_UM), atol=0.6 * PX_UM)


def test_created_mass_lies_on_the_targets_own_image() -> None:
    grown = SMALL.copy()
    grown[30:60, 150:190] = True
    target = np.rot90(placed(grown))
    found = compare(placed(SMALL), target, align="rigid")
    ax = figures.created_on_target_map(found, figures.new_figure(5, 4).add_subplot())
    image = ax.get_images()[0]
    shown = np.nan_to_num(np.asarray(image.get_array().filled(0.0)))
    assert shown.shape == target.shape
    new = np.rot90(placed(grown & ~SMALL))
    assert shown[new].sum() > 0.9 * found.total_mass_created
    assert "created: " in ax.get_title()


@pytest.mark.parametrize("case", ["empty", "one pixel", "px"])
def test_figures_are_drawn_of_any_pair(case: str) -> None:
    one = np.zeros((40, 50), bool)
    one[10, 20] = True
    pairs = {
        "empty": (SMALL, np.zeros(SMALL.shape, bool)),
        "one pixel": (one, np.roll(one, 3)),
        "px": (SMALL, SMALL[::-1]),
    }
    found = pf.compare(*pairs[case])
    figure = figures.new_figure(*figures.motion_size_in(found))
    figures.motion_figure(found, figure)
    figure.canvas.draw()
    assert len(figure.axes) >= 3


def test_the_page_has_sentences_bar_table_and_figure(turned: pf.TransportResult, tmp_path: Path) -> None:
    turned.save(tmp_path, pair_id="turned <b>")
    write_report(tmp_path)
    (path,) = (tmp_path / "pairs").glob("*.html")
    html = path.read_text()
    section = html[html.index('aria-label="pose and motion"') : html.index('aria-label="certificate"')]
    for words in ("turned by 30", '<span class="badge good">aligned</span>', "next best", "motion.png", "as given"):
        assert words in section
    widths = [float(width) for width in re.findall(r'<rect class="by-\w+" x="[^"]+" y="0" width="([^"]+)"', section)]
    assert len(widths) == 4
    assert math.fsum(widths) == pytest.approx(100.0)
    assert (path.with_suffix("") / "motion.png").stat().st_size > 5000

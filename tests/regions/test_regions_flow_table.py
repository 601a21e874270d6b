"""Flow tables: sums are the books, flows are planted motions, labels are checked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pairframe as pf
from pairframe.errors import ArgumentError, MaskError
from pairframe.maps import PlanOperator
from pairframe.regions import FLOW_COLUMNS
from pairframe.regions.flow_table import BLUR_EXCHANGE
from pairframe.testing import embryo

PENALTIES = ["partial", "tv", "kl", "balanced", ("partial", "kl")]


def two_cells() -> tuple[np.ndarray, np.ndarray]:
    """Cell 7 goes 3 px down, cell 9 goes 4 px to the right and grows by a column."""
    source, target = np.zeros((40, 60), np.uint16), np.zeros((40, 60), np.uint16)
    source[5:15, 5:17], source[22:34, 36:46] = 7, 9
    target[8:18, 5:17], target[22:34, 40:51] = 7, 9
    return source, target


def assert_books(table: pd.DataFrame, result: pf.TransportResult, source: np.ndarray, target: np.ndarray) -> None:
    by_source, by_target = table.groupby("source_label").mass.sum(), table.groupby("target_label").mass.sum()
    for label in np.unique(source[source > 0]):
        assert by_source[label] == pytest.approx((source == label).sum(), rel=1e-9)
    for label in np.unique(target[target > 0]):
        assert by_target[label] == pytest.approx((target == label).sum(), rel=1e-9)
    moved = table[(table.source_label != 0) & (table.target_label != 0)].mass.sum()
    assert moved == pytest.approx(result.total_mass_moved, rel=1e-9)
    assert by_source.get(0, 0.0) == pytest.approx(result.total_mass_created, abs=1e-9 * result.M_target)
    assert by_target.get(0, 0.0) == pytest.approx(result.total_mass_destroyed, abs=1e-9 * result.M_source)


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("factor", [1, 3])
def test_rows_and_columns_sum_to_the_books(penalty: str | tuple[str, str], factor: int) -> None:
    source, target = two_cells()
    normalization = "each" if penalty == "balanced" else "joint"
    config = pf.TransportConfig(penalty=penalty, reach_um=14, downsample_factor=factor, normalization=normalization)
    result = pf.compare(source > 0, target > 0, config)
    table = pf.flow_table(result, source, target)
    assert tuple(table.columns) == FLOW_COLUMNS
    assert_books(table, result, source, target)


def test_a_moved_cell_shows_its_motion_and_a_grown_one_its_growth() -> None:
    source, target = two_cells()
    result = pf.compare(source > 0, target > 0, pf.TransportConfig(reach_um=20, px_size_um=0.5))
    table = pf.flow_table(result, source, target).set_index(["source_label", "target_label"])
    seven = table.loc[7, 7]
    assert seven.mass == pytest.approx(120, rel=1e-6)
    assert (seven.dy_um, seven.dx_um, seven.distance_um) == pytest.approx((1.5, 0, 1.5), abs=0.01)
    assert table.loc[9, 9].dx_um == pytest.approx(2.0, abs=0.3)
    assert table.loc[0, 9].mass == pytest.approx(12, rel=0.01)
    assert (7, 9) not in table.index or table.loc[7, 9].mass < 1e-6
    assert np.isnan(table.loc[0, 9].distance_um)


def test_a_mask_against_itself_goes_nowhere() -> None:
    source, _ = two_cells()
    table = pf.flow_table(pf.compare(source > 0, source > 0), source, source)
    changed = (table.source_label == 0) | (table.target_label == 0)
    assert table[changed].mass.max() < 1e-5  # within the tolerance of the solve
    table = table[~changed]
    assert table[["source_label", "target_label"]].values.tolist() == [[7, 7], [9, 9]]
    np.testing.assert_allclose(table.distance_um, 0.0, atol=1e-12)


def test_mass_without_a_label_has_its_own_rows() -> None:
    source, target = two_cells()
    result = pf.compare(source > 0, target > 0, pf.TransportConfig(reach_um=14))
    only_seven = np.where(source == 7, source, 0)
    table = pf.flow_table(result, only_seven, target)
    unlabelled = table[table.source_label == -1]
    assert unlabelled.mass.sum() == pytest.approx(120, rel=1e-9)
    assert set(unlabelled.target_label) <= {9, 7, 0}


def test_a_work_pixel_of_two_labels_is_divided_by_their_mass() -> None:
    source = np.zeros((12, 12), np.uint8)
    source[2:10, 2:5], source[2:10, 5:10] = 1, 2  # columns 2..3 | 4..5 | ...: the second work column holds both
    result = pf.compare(source > 0, source > 0, pf.TransportConfig(downsample_factor=2, pad=0))
    table = pf.flow_table(result, source, source)
    by_source = table.groupby("source_label").mass.sum()
    assert by_source[[1, 2]].tolist() == pytest.approx([24.0, 40.0], rel=1e-9)
    heavy = pf.Mask(source.astype(float) * 3, density=True)
    config = pf.TransportConfig(mass_mode="intensity", downsample_factor=2, pad=0)
    result = pf.compare(heavy, heavy, config)
    with pytest.raises(ArgumentError, match="pass masks="):
        pf.flow_table(result, source, source)
    table = pf.flow_table(result, source, source, masks=(heavy, heavy))
    by_source = table.groupby("source_label").mass.sum()
    assert by_source[[1, 2]].tolist() == pytest.approx([72.0, 240.0], rel=1e-9)


def test_the_plan_is_that_of_the_stored_result(tmp_path: Path) -> None:
    source, target = two_cells()
    result = pf.compare(source > 0, target > 0, pf.TransportConfig(reach_um=14))
    result.save(tmp_path / "kept")
    again = pf.flow_table(pf.load(tmp_path / "kept"), source, target)
    pd.testing.assert_frame_equal(again, pf.flow_table(result, source, target))


def test_an_aligned_target_keeps_its_own_labels() -> None:
    mask = embryo(length_px=90)
    labels = np.where(mask, 1, 0)
    labels[:, mask.shape[1] // 2 :] *= 2
    turned = np.rot90(labels).copy()
    result = pf.compare(labels > 0, turned > 0, pf.TransportConfig(align="rigid"))
    assert result.pose is not None
    table = pf.flow_table(result, labels, turned).set_index(["source_label", "target_label"])
    for label in (1, 2):
        assert table.loc[label, label].mass == pytest.approx((labels == label).sum(), rel=0.08)
    assert table.mass.sum() == pytest.approx(mask.sum() + result.total_mass_created, rel=1e-6)
    assert table.loc[1, 1].distance_um > 5  # the quarter turn moved it, on its own image


@pytest.mark.parametrize("strain", [False, True])
def test_labels_of_a_turned_target_cover_all_of_its_mass(strain: bool) -> None:
    mask = embryo((120, 200), length_px=110)
    labels = np.where(mask, 1, 0)
    labels[:, 100:] *= 2
    ys, xs = np.indices((120, 200)) - np.array([60, 100])[:, None, None]
    turn = [np.rint(np.cos(0.4) * a + sign * np.sin(0.4) * b).astype(int) for a, sign, b in ((ys, 1, xs), (xs, -1, ys))]
    turned = labels[np.clip(turn[0] + 60, 0, 119), np.clip(turn[1] + 100, 0, 199)]
    result = pf.compare(labels > 0, turned > 0, pf.TransportConfig(align="rigid", strain=strain))
    table = pf.flow_table(result, labels, turned)
    assert (table[["source_label", "target_label"]] >= 0).all(axis=None)  # every bit of mass has a label
    assert_books(table, result, labels, turned)


@pytest.mark.parametrize("blur_um", [2.0, 4.0])
def test_touching_labels_exchange_what_the_page_says_if_nothing_moves(blur_um: float) -> None:
    labels = np.zeros((70, 90), np.uint8)
    labels[10:60, 15:45], labels[10:60, 45:75] = 1, 2
    result = pf.compare(labels > 0, labels > 0, pf.TransportConfig(blur_um=blur_um))
    table = pf.flow_table(result, labels, labels).set_index(["source_label", "target_label"])
    assert table.loc[(1, 2), "mass"] == pytest.approx(BLUR_EXCHANGE * blur_um * 50, rel=0.05)


def test_a_moved_mass_is_settled_again(tmp_path: Path) -> None:
    source, target = two_cells()
    result = pf.compare(source > 0, target > 0, pf.TransportConfig(moved_share=0.7))
    assert_books(pf.flow_table(result, source, target), result, source, target)


def test_an_empty_target_destroys_every_label() -> None:
    source, _ = two_cells()
    result = pf.compare(source > 0, np.zeros(source.shape, bool))
    table = pf.flow_table(result, source, np.zeros(source.shape, int))
    assert table[["source_label", "target_label", "mass"]].values.tolist() == [[7, 0, 120], [9, 0, 120]]


def test_bad_labels_are_refused() -> None:
    source, target = two_cells()
    result = pf.compare(source > 0, target > 0)
    with pytest.raises(MaskError, match="source_labels on the canvas of its mask, 40 x 60 px, got 39 x 60"):
        pf.flow_table(result, source[1:], target)
    with pytest.raises(MaskError, match="target_labels to hold integers, got float64"):
        pf.flow_table(result, source, target.astype(float))
    with pytest.raises(MaskError, match="labels >= 0"):
        pf.flow_table(result, source.astype(int) - 1, target)
    with pytest.raises(MaskError, match="one label image"):
        pf.flow_table(result, source[None], target)
    many = np.arange(300 * 300).reshape(300, 300)
    with pytest.raises(MaskError, match="at most 65000 labels in source_labels, got 89999"):
        pf.flow_table(result, many, target)
    with pytest.raises(ArgumentError, match="a TransportResult"):
        pf.flow_table(source, source, target)
    sampled = pf.compare(source > 0, target > 0, pf.TransportConfig(backend="oracle", max_support_points=50))
    with pytest.raises(ArgumentError, match="sampled to 50 points"):
        pf.flow_table(sampled, source, target)
    with pytest.raises(ArgumentError, match="with an answer"):
        pf.flow_table(replace(result, status=pf.Status.impossible), source, target)


def test_nothing_dense_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_plan: PlanOperator) -> np.ndarray:
        raise AssertionError("a dense plan")

    monkeypatch.setattr(PlanOperator, "dense", refuse)
    source, target = two_cells()
    assert len(pf.flow_table(pf.compare(source > 0, target > 0), source, target)) >= 3

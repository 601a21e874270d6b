"""Situations with a known truth get the right notices, and no wrong ones."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import ndimage

import pairframe as pf
from pairframe.notices import Notice, Severity
from pairframe.pipeline.plausibility import mass_between_pieces
from pairframe.results import ResultStore
from pairframe.results.words import status_kind, status_word
from pairframe.testing import disc, growing_embryo

EMBRYO = np.pad(growing_embryo(6, shape_hw=(96, 216))[3], 110)
SHAPE = (160, 200)
CELLS = [disc(SHAPE, (30 + 45 * i, 30 + 45 * j), 12) for i in range(3) for j in range(4)]
ALL = np.any(CELLS, axis=0)


def turned(angle_deg: float) -> np.ndarray:
    return np.asarray(ndimage.rotate(EMBRYO.astype(float), angle_deg, reshape=False, order=1) > 0.5)


SITUATIONS = {
    "still": (EMBRYO, EMBRYO, {}, set()),
    "shifted a little": (EMBRYO, np.roll(EMBRYO, 20, axis=1), {}, set()),
    "turned": (EMBRYO, turned(30), {}, set()),
    "drifted by half its length and more": (EMBRYO, np.roll(EMBRYO, 95, axis=1), {}, {"motion_called_growth"}),
    "grown at the rim": (EMBRYO, ndimage.binary_dilation(EMBRYO, iterations=3), {}, set()),
    "grown and straightened": (*(np.pad(m, 20) for m in growing_embryo(6, shape_hw=(96, 216))[::5]), {}, set()),
    "cells that moved a little": (ALL, np.roll(ALL, 3, axis=1), {}, set()),
    "a cell that died": (ALL, np.any(CELLS[1:], axis=0), {}, set()),
    "a cell that was born": (np.any(CELLS[1:], axis=0), ALL, {}, set()),
    "a cell that split": (disc(SHAPE, (80, 100), 20), disc(SHAPE, (80, 80), 14) | disc(SHAPE, (80, 120), 14), {}, set()),
    "a label that is another cell": (CELLS[0], CELLS[11], {}, {"motion_called_growth"}),
    "an inverted target": (ALL, ~ALL, {}, {"inverted_mask"}),
    "neighbours within a long reach": (
        np.any(CELLS[1:], axis=0),
        np.any(CELLS[:-1], axis=0),
        {"reach_um": 200.0},
        {"mass_between_pieces"},
    ),
    "kl on a large object": (EMBRYO, np.roll(EMBRYO, 10, axis=1), {"penalty": "kl", "reach_um": 40.0}, {"kl_response"}),
    "a speck": (disc(SHAPE, (30, 30), 2), disc(SHAPE, (31, 30), 2), {}, {"blur_too_long"}),
    "a reach about as short as the blur": (
        disc(SHAPE, (80, 80), 30), disc(SHAPE, (80, 80), 30), {"reach_um": 3.0, "penalty": "kl", "reference": "product"},
        {"kl_response", "blur_too_long", "noise_floor"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SITUATIONS)
def test_a_situation_gets_its_notices_and_no_others(name: str) -> None:
    source, target, config, codes = SITUATIONS[name]
    result = pf.compare(source, target, pf.TransportConfig(**config))
    assert {notice.code for notice in result.notices} == codes, result.notices


def test_alignment_is_advised_where_it_helps() -> None:
    drifted = np.roll(EMBRYO, 95, axis=1)
    (notice,) = pf.compare(EMBRYO, drifted).warnings
    assert notice.severity == "warning"
    assert "--align" in notice.fix
    aligned = pf.compare(EMBRYO, drifted, pf.TransportConfig(align="shift"))
    assert aligned.warnings == ()
    assert aligned.total_mass_created <= 1e-3 * aligned.M_target


def test_mass_between_pieces_counts_what_lands_on_another_object() -> None:
    source, target = np.zeros((20, 60), bool), np.zeros((20, 60), bool)
    source[5:10, 5:10] = source[5:10, 25:30] = target[5:10, 5:10] = target[5:10, 45:50] = True
    velocity = np.zeros((20, 60, 2))
    velocity[:, 25:30, 1] = 20.0
    left = source.astype(float)
    assert mass_between_pieces(source, target, left, velocity)[0] == 0.0, "it moved there as a whole"
    velocity[5:10, 5:7, 1] = 40.0
    mass, distance = mass_between_pieces(source, target, left, velocity)
    assert (mass, distance) == (10.0, 40.0)


def test_a_pair_with_a_warning_is_not_shown_as_good(tmp_path: Path) -> None:
    result = pf.compare(CELLS[0], CELLS[11])
    assert "warning    " in result.summary()
    result.save(tmp_path / "out")
    row = ResultStore(tmp_path / "out").table().iloc[0]
    assert row.warnings == "motion_called_growth"
    assert json.loads(row.notices_json)[0]["severity"] == "warning"
    assert pf.load(tmp_path / "out").notices == result.notices
    assert status_kind("converged", has_warnings=True) == "odd"
    assert status_word("converged", has_warnings=True) == "solved exactly, but read this"
    assert (status_kind("converged"), status_word("converged")) == ("good", "converged")


def test_notices_of_earlier_versions_are_sentences() -> None:
    assert Notice.from_plain("the frame cuts") == Notice("remark", "the frame cuts")
    notice = Notice("code", "seen", "do this", Severity.warning)
    assert Notice.from_plain(notice.to_plain()) == notice
    assert str(notice) == "seen; do this"
    assert str(Notice("code", "seen")) == "seen"

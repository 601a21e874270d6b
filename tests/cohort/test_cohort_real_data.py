"""Cohorts of real cells, when PAIRFRAME_DATA names the folder that has them."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tifffile
from numpy.typing import NDArray

from pairframe.cohort import run_cohort
from pairframe.results import ResultStore

DATA = os.environ.get("PAIRFRAME_DATA")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(DATA is None, reason="PAIRFRAME_DATA names no folder with the real data"),
]


def labels(name: str) -> NDArray[np.integer]:
    assert DATA is not None
    with np.load(Path(DATA) / name) as file:
        found: NDArray[np.integer] = file["labels"]
    return found


def check_books(table: pd.DataFrame) -> None:
    for side, lost in (("M_source", "total_mass_destroyed"), ("M_target", "total_mass_created")):
        np.testing.assert_allclose(table.total_mass_moved + table[lost], table[side], rtol=1e-12)


def test_a_growing_colony_of_bacteria(tmp_path: Path) -> None:
    frames = labels("ecoli_trpL_colony_20f.npz") > 0
    (tmp_path / "colony").mkdir()
    for number, frame in enumerate(frames):
        tifffile.imwrite(tmp_path / "colony" / f"f{number:02d}.tif", frame.astype(np.uint8), compression="zlib")
    summary = run_cohort(tmp_path / "colony", tmp_path / "out")
    assert (summary.done, summary.failed, summary.uncertified) == (19, 0, 0)
    table = ResultStore(tmp_path / "out").table()
    assert list(table.frame) == list(range(19))
    assert list(table.M_source) == [frame.sum() for frame in frames[:-1]]
    assert list(table.M_target) == [frame.sum() for frame in frames[1:]]
    check_books(table)


def test_tracked_cells_are_a_series_each(tmp_path: Path) -> None:
    stack = labels("usiigaci_t98g_tracked_37f.npz")
    ids = [int(label) for label in np.unique(stack) if 0 < label <= 12]
    stack = np.where(np.isin(stack, ids), stack, 0)
    tifffile.imwrite(tmp_path / "cells.tif", stack, photometric="minisblack", compression="zlib")
    there = {label: np.flatnonzero((stack == label).any(axis=(1, 2))) for label in ids}
    summary = run_cohort(tmp_path / "cells.tif", tmp_path / "out")
    assert summary.done == sum(len(frames) - 1 for frames in there.values())
    assert (summary.failed, summary.uncertified) == (0, 0)
    table = ResultStore(tmp_path / "out").table()
    check_books(table)
    for row in table.itertuples():
        assert row.M_source == (stack[row.frame] == int(row.series)).sum()
        assert row.M_target == (stack[row.frame_target] == int(row.series)).sum()

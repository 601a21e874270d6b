"""Links of real cells against the tracks that come with them, when PAIRFRAME_DATA names the folder that has them."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import pairframe as pf
from pairframe.regions import lineage

DATA = os.environ.get("PAIRFRAME_DATA")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(DATA is None, reason="PAIRFRAME_DATA names no folder with the real data"),
]


def frames(name: str, first: int, last: int) -> np.ndarray:
    with np.load(Path(str(DATA)) / name) as found:
        return np.asarray(found["labels"][first:last], dtype=np.int64)


def test_cells_keep_the_ids_of_their_tracks() -> None:
    labels = frames("usiigaci_t98g_tracked_37f.npz", 0, 3)
    links = lineage(labels, pf.TransportConfig(downsample_factor=4)).links
    found = set(zip(links["frame"], links["source_label"], links["target_label"], strict=True))
    truth = {
        (frame, label, label)
        for frame in range(2)
        for label in np.intersect1d(labels[frame][labels[frame] > 0], labels[frame + 1][labels[frame + 1] > 0])
    }
    assert 2 * len(found & truth) / (len(found) + len(truth)) > 0.97


def test_a_colony_on_a_drifting_stage_neither_loses_nor_gains_cells() -> None:
    found = lineage(frames("ecoli_trpL_colony_20f.npz", 6, 11), pf.TransportConfig(downsample_factor=4, align="shift"))
    assert found.events["appears"] == found.events["vanishes"] == found.events["merges"] == 0
    assert found.events["splits"] == 2
